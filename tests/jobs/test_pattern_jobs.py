"""Patterns in whole jobs: out of order, across savepoints at another parallelism, after crashes."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
import headgate.patterns as P  # noqa: N812
from headgate.nexmark.all_ways import Match, all_ways_matches
from headgate.relational.patterns.parsing import parsed
from headgate.relational.patterns.shapes import Pattern

NUMBERS = count(9700)
SCHEMA = pa.schema({"at": pa.int64(), "user": pa.string(), "price": pa.int64()})
Row = dict[str, Any]
SPLITS: list[list[Row]] = [
    [
        # Event times of both splits differ, so the order of a user's rows is certain.
        {"at": 70 * (n ^ 3) + split, "user": f"u{n * n % 7}", "price": n * n * 31 % 50}
        for n in range(split, 240, 2)
    ]
    for split in range(2)
]
ONE_SPLIT = [sorted((row for split in SPLITS for row in split), key=lambda row: row["at"] // 500)]
"""All rows, at most half a second out of order. A reader may take both of two splits, one after the other, so
that rows come later than this; from one split partial matches are found while the job runs.
"""
WITHIN = 3_000


def answer(splits: list[list[Row]]) -> list[tuple[Any, ...]]:
    """(user, start, low, end) of all falls of a price, with the rise after each."""
    rows, found = [row for split in splits for row in split], []
    for user in sorted({row["user"] for row in rows}):
        mine = sorted((row for row in rows if row["user"] == user), key=lambda row: row["at"])

        def holds(name: str, at: int, before: Match, mine: list[Row] = mine) -> bool:
            if name == "TOP":
                return True
            price, last = mine[at]["price"], mine[before[-1][1]]["price"]
            return bool(price < last if name == "DOWN" else price > last)

        times = [row["at"] for row in mine]
        for match in all_ways_matches(Pattern(parsed("TOP DOWN+ UP"), WITHIN), times, holds):
            first, low, last = (mine[match[place][1]] for place in (0, -2, -1))
            found.append((user, first["at"], low["price"], last["at"]))
    return sorted(found)


def test_null_is_a_key_where_the_program_says_so() -> None:
    """Its rows match as those of any key, and else fail the job with what to do."""
    rows = [
        {"at": at, "user": user, "price": price}
        for at, (user, price) in enumerate(
            [("ada", 5), (None, 7), (None, 3), ("ada", 2), ("ada", 4), (None, 9)]
        )
    ]
    table = environment(2).from_collection(rows).to_table(SCHEMA).with_watermark("at", "1s")
    low = {"DOWN": F.col("price") < F.col("TOP.price"), "UP": F.col("price") > F.col("DOWN.price")}
    asked = "user", "TOP DOWN UP", low, {"low": F.col("DOWN.price"), "end": F.col("UP.price")}
    found = table.match(*asked, uid="falls", null_keys=True)
    assert found.columns == ["user", "low", "end"]
    assert sorted(found.collect(), key=str) == [
        {"user": "ada", "low": 2, "end": 4}, {"user": None, "low": 3, "end": 9}
    ]  # fmt: skip
    with pytest.raises(
        hg.UsageError, match=r"key 'user' is null in a record .*null_keys=True of .*match\(\)"
    ):
        table.match(*asked, uid="falls").collect()


class Job:
    """Rows, matched; `step` sees the results on their way to the files."""

    def __init__(
        self,
        folder: Path,
        parallelism: int,
        limit: float = float("inf"),
        step: Any = None,
        splits: list[list[Row]] = ONE_SPLIT,
        delay: str = "1s",
        **more: Any,
    ) -> None:
        self.env = environment(parallelism, {**TINY, "restart-strategy.type": "none", **more})
        self.env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
        self.valve = Valve(next(NUMBERS), limit, *splits)
        table = self.env.from_source(self.valve, uid="ticks").to_table(SCHEMA).with_watermark("at", delay)
        stream = dips(table).to_stream()
        stream = stream if step is None else stream.map(step, uid="step")
        stream.write_json(str(folder / "out"), uid="out")


def dips(table: hg.Table) -> hg.Table:
    """Where prices fall and rise again."""
    last = P.last("DOWN.price", 1)
    before = F.when(last.isNull(), F.col("TOP.price")).otherwise(last)
    return table.match(
        "user",
        "TOP DOWN+ UP",
        define={"DOWN": F.col("price") < before, "UP": F.col("price") > F.col("DOWN.price")},
        measures={"start": F.col("TOP.at"), "low": F.min("DOWN.price"), "end": F.col("UP.at")},
        within=WITHIN,
        uid="dips",
    )


def published(folder: Path) -> list[tuple[Any, ...]]:
    """What the sink has committed."""
    rows = json_lines(folder / "out")
    return sorted((row["user"], row["start"], row["low"], row["end"]) for row in rows)


def test_matches_are_those_of_sorted_rows(tmp_path: Path) -> None:
    """Whatever order the rows of both splits come in; and there are some."""
    Job(tmp_path, 2, splits=SPLITS, delay="20s").env.execute("dips")
    assert published(tmp_path) == answer(SPLITS)
    assert len(answer(SPLITS)) > 20


@pytest.mark.parametrize(("form", "parallelism"), [("canonical", 3), ("native", 1)])
def test_partial_matches_are_in_a_savepoint(tmp_path: Path, form: str, parallelism: int) -> None:
    """Half of the rows before it, half after it, at another parallelism."""
    job = Job(tmp_path, 2, 120)
    with job.env.execute_async("dips") as handle:
        wait_until(lambda: handle.done or _read(handle) == 120, "the valve's records came")
        uri = handle.stop(str(tmp_path / "savepoints"), format=form)
        handle.result()
    Job(tmp_path, parallelism).env.execute("dips", restore_from=unquote(urlsplit(uri).path))
    assert published(tmp_path) == answer(SPLITS)


def _read(handle: Any) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if "ticks" in vertex.uids)


def test_matches_are_whole_after_a_crash(tmp_path: Path) -> None:
    """A result fails once, the job restarts from its last checkpoint, and no match is there twice."""
    crash = _Once(tmp_path / "crashed")
    Job(tmp_path, 2, step=crash, **RESTART_AT_ONCE).env.execute("dips")
    assert (tmp_path / "crashed").exists()
    assert published(tmp_path) == answer(SPLITS)


class _Once:
    """Fails for the tenth result, the first time."""

    def __init__(self, mark: Path) -> None:
        self._mark, self._seen = mark, 0

    def __call__(self, row: Any) -> Any:
        self._seen += 1
        if self._seen == 10 and not self._mark.exists():
            self._mark.touch()
            raise ValueError("once")
        return row


def test_windows_of_matches_lose_none(tmp_path: Path) -> None:
    """A match has the event time at which it was decided, so none is late for a window after it."""
    env = environment(2, TINY)
    rows = sorted((row for split in SPLITS for row in split), key=lambda row: row["at"])
    table = env.from_collection(rows).to_table(SCHEMA).with_watermark("at", "1s")
    counted = dips(table).to_stream().map(lambda row: ("all", 1)).key_by(lambda pair: pair[0])
    found = counted.window(hg.tumbling("1s")).reduce(lambda one, other: ("all", one[1] + other[1])).collect()
    assert sum(each[1] for each in found) == len(answer(SPLITS))
