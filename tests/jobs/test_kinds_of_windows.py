"""Sessions, growing windows and windows of windows in whole jobs, and across savepoints."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from mini_jobs import TINY, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it

NUMBERS = count(9800)
SCHEMA = pa.schema({"at": pa.int64(), "user": pa.string(), "price": pa.int64()})
GAP = 700
Row = dict[str, Any]
Answer = list[tuple[Any, ...]]


def record(n: int, split: int) -> Row:
    """Pauses of each user are of all lengths about the gap."""
    return {"at": 90 * n + 37 * (n * n % 11) + 20 * split, "user": f"u{(n * n + split) % 7}", "price": n % 50}


ROWS = [[record(n, split) for n in range(150)] for split in range(2)]
ALL = [row for split in ROWS for row in split]


def sessions() -> Answer:
    """User, start, end and number of rows of each session."""
    by_user: dict[str, list[int]] = defaultdict(list)
    for row in ALL:
        by_user[row["user"]].append(row["at"])
    found = []
    for user, times in by_user.items():
        times.sort()
        begins = [0, *(i for i in range(1, len(times)) if times[i] - times[i - 1] > GAP), len(times)]
        runs = [times[first:stop] for first, stop in pairwise(begins)]
        found += [(user, run[0], run[-1] + GAP, len(run)) for run in runs]
    return sorted(found)


def growing() -> Answer:
    """User, start, end and number of rows of windows that grow by 1 s up to 4 s."""
    found: Counter[tuple[str, int, int]] = Counter()
    for row in ALL:
        start = row["at"] // 4_000 * 4_000
        for end in range(start + 1_000, start + 5_000, 1_000):
            if row["at"] < end:
                found[row["user"], start, end] += 1
    return sorted((*key, n) for key, n in found.items())


def busiest() -> Answer:
    """Start, end and the number of rows of the busiest user, of windows of 2 s every 1 s."""
    found: Counter[tuple[str, int]] = Counter()
    for row in ALL:
        for start in (row["at"] // 1_000 * 1_000, row["at"] // 1_000 * 1_000 - 1_000):
            found[row["user"], start] += 1
    best: dict[int, int] = {}
    for (_, start), n in found.items():
        best[start] = max(n, best.get(start, 0))
    return sorted((start, start + 2_000, n) for start, n in best.items())


def by_session(table: Any) -> Any:
    """Rows by user and session."""
    return table.group_by("user", F.session_window("at", f"{GAP}ms")).agg(F.count("*").alias("n"), uid="w")


def by_growing(table: Any) -> Any:
    """Rows by user and windows that grow."""
    grouped = table.group_by("user", F.cumulate_window("at", "4s", "1s"))
    return grouped.agg(F.count("*").alias("n"), uid="w")


def by_window(table: Any) -> Any:
    """The highest of the users' numbers of rows, by window."""
    counted = table.group_by("user", F.window("at", "2s", "1s")).agg(F.count("*").alias("n"), uid="w")
    return counted.group_by("window").agg(F.max("n").alias("n"), uid="top")


def patient(grouped: Any) -> Any:
    """Rows in windows that take late ones, of which there are none."""
    windows = grouped.lateness("1s").late_to(hg.OutputTag("late"))
    return windows.agg(F.count("*").alias("n"), uid="w")


KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[], Answer]]] = {
    "sessions": (by_session, sessions),
    "growing": (by_growing, growing),
    "windows of windows": (by_window, busiest),
    "patient sessions": (
        lambda table: patient(table.group_by("user", F.session_window("at", f"{GAP}ms"))),
        sessions,
    ),
    "patient growing": (
        lambda table: patient(table.group_by("user", F.cumulate_window("at", "4s", "1s"))),
        growing,
    ),
}


class Job:
    """Windows over the rows, which come through a valve."""

    def __init__(self, folder: Path, kind: str, parallelism: int, limit: float = float("inf")) -> None:
        self.valve = Valve(next(NUMBERS), limit, *ROWS)
        self.env = environment(parallelism, {**TINY, "restart-strategy.type": "none"})
        self.env.checkpoints(every="20ms", storage=str(folder / "checkpoints"))
        stream = self.env.from_source(self.valve, uid="in").with_event_time("at", out_of_orderness="15s")
        KINDS[kind][0](stream.to_table(SCHEMA)).write_json(str(folder / "out"), uid="out")


def published(folder: Path) -> Answer:
    """What the sink has committed, in the form of the answers."""
    found = []
    for row in json_lines(folder / "out"):
        window = row["session_window"] if "session_window" in row else row["window"]
        user = (row["user"],) if "user" in row else ()
        found.append((*user, ms(window["start"]), ms(window["end"]), row["n"]))
    return sorted(found)


def ms(text: str) -> int:
    """A time as the sink writes it."""
    return round(dt.datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_windows_are_those_of_the_batch_answer(tmp_path: Path, kind: str, parallelism: int) -> None:
    """No row is late, whatever order the splits are read in."""
    Job(tmp_path, kind, parallelism).env.execute("windows")
    assert published(tmp_path) == KINDS[kind][1]()


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("form", ["canonical", "native"])
@pytest.mark.parametrize("kind", KINDS)
def test_windows_go_on_across_a_savepoint(tmp_path: Path, kind: str, form: str, parallelism: int) -> None:
    """With another parallelism; open windows are in the savepoint once."""
    job = Job(tmp_path, kind, 2, 90)
    with job.env.execute_async("windows") as handle:
        wait_until(lambda: handle.done or _read(handle) == 180, "the valve's records came")
        uri = handle.stop(str(tmp_path / "savepoints"), format=form)
        handle.result()
    Job(tmp_path, kind, parallelism).env.execute("windows", restore_from=unquote(urlsplit(uri).path))
    assert published(tmp_path) == KINDS[kind][1]()


def _read(handle: Any) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if "in" in vertex.uids)


def test_wrong_windows_are_refused() -> None:
    """Where they are written, with what was expected."""
    with pytest.raises(hg.PlanError, match=r"session_window\(\): gap is 0; expected a duration above 0"):
        F.session_window("at", 0)
    with pytest.raises(hg.PlanError, match=r"size is '1h' and step '7min'; expected a size that"):
        F.cumulate_window("at", "1h", "7min")
