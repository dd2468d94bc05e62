"""Late rows of windows of columns in whole jobs: after crashes, at another parallelism, after upgrades."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.checkpoint.opening import open_checkpoint
from headgate.offline.judging import Judgement
from headgate.offline.upgrade import Verdict

NUMBERS = count(9900)
SCHEMA = pa.schema({"at": pa.int64(), "user": pa.string(), "price": pa.int64()})
LATE = hg.OutputTag[dict[str, Any]]("late")
ROWS = [
    {"at": 100 * n - (n * n % 7 == 1) * 700 - (n % 13 == 5) * 4_000, "user": f"u{n * n % 5}", "price": n}
    for n in range(160)
]
"""One user's rows come every few 100 ms; some are 0.7 s late, some four seconds."""
WINDOWS: dict[str, Callable[[], Any]] = {
    "sliding": lambda: F.window("at", "2s", "1s"),
    "sessions": lambda: F.session_window("at", 333),
}


def add_job(env: hg.Environment, folder: Path, kind: str, source: hg.Source[Any]) -> None:
    """Windows over a source, into files; late rows into files of their own."""
    stream = env.from_source(source, uid="in").with_event_time("at", out_of_orderness=200)
    windows = stream.to_table(SCHEMA).group_by("user", WINDOWS[kind]()).lateness("1s").late_to(LATE)
    counted = windows.agg(F.count("*").alias("n"), F.sum("price").alias("total"), uid="w")
    counted.write_json(str(folder / "out"), uid="out")
    counted.side_output(LATE).write_json(str(folder / "late"), uid="late")


def published(folder: Path) -> tuple[list[Any], list[Any]]:
    """What both sinks have committed."""
    results = [(row["user"], *edges(row), row["n"], row["total"]) for row in json_lines(folder / "out")]
    return sorted(results), sorted(
        (row["at"], row["user"], row["price"]) for row in json_lines(folder / "late")
    )


def edges(row: dict[str, Any]) -> tuple[int, int]:
    """Start and end of a result's window in ms."""
    window = row["window"] if "window" in row else row["session_window"]
    start, end = (dt.datetime.fromisoformat(window[edge]).timestamp() for edge in ("start", "end"))
    return round(start * 1000), round(end * 1000)


def of_rows(kind: str) -> tuple[list[Any], list[Any]]:
    """What windows of rows give for the same input."""
    env = environment(1)
    stream = env.from_collection(ROWS).with_event_time("at", out_of_orderness=200)
    assigner = hg.sliding("2s", "1s") if kind == "sliding" else hg.session(333)
    windows = stream.key_by("user").window(assigner).lateness("1s").late_to(LATE)
    counted = windows.aggregate(n=hg.count(), total=hg.sum("price"), uid="w")
    late = counted.side_output(LATE).collect_later()
    results = counted.collect_later()
    env.execute("rows")
    found = []
    for row in results.records:
        start, end = (round(row["window"][edge].timestamp() * 1000) for edge in ("start", "end"))
        found.append((row["user"], start, end, row["n"], row["total"]))
    return sorted(found), sorted((row["at"], row["user"], row["price"]) for row in late.records)


@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_emit_again_as_those_of_rows_do_also_after_a_crash(tmp_path: Path, kind: str) -> None:
    """Every result and every late row once; the job goes on from a checkpoint in the middle."""
    env = environment(1, {**TINY, **RESTART_AT_ONCE})
    env.checkpoints(every="10ms", storage=str(tmp_path / "checkpoints"))
    add_job(env, tmp_path, kind, Halting(next(NUMBERS), 80, ROWS))
    assert env.execute("windows").restarts > 0
    answer = of_rows(kind)
    assert len(answer[1]) > 5
    assert len({row[:2] for row in answer[0]}) < len(answer[0])  # windows begin where they did
    assert published(tmp_path) == answer


@pytest.mark.parametrize("form", ["canonical", "native"])
@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_emit_again_after_a_savepoint(tmp_path: Path, kind: str, form: str) -> None:
    """Windows that have emitted are in the savepoint too, and do not emit without a late row."""
    folder = stopped(tmp_path, lambda env, folder, source: add_job(env, folder, kind, source), form)
    env = environment(1, {**TINY, "restart-strategy.type": "none"})
    env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
    add_job(env, tmp_path, kind, Valve(next(NUMBERS), float("inf"), ROWS))
    env.execute("windows", restore_from=str(folder))
    assert published(tmp_path) == of_rows(kind)


def stopped(folder: Path, add: Callable[[hg.Environment, Path, hg.Source[Any]], None], form: str) -> Path:
    """The folder of a savepoint that a job with half of the input was stopped with."""
    env = environment(1, {**TINY, "restart-strategy.type": "none"})
    env.checkpoints(every="20ms", storage=str(folder / "checkpoints"))
    add(env, folder, Valve(next(NUMBERS), 80, ROWS))
    with env.execute_async("windows") as handle:
        wait_until(lambda: handle.done or _read(handle) == 80, "the valve's records came")
        uri = handle.stop(str(folder / "savepoints"), format=form)
        handle.result()
    return Path(unquote(urlsplit(uri).path))


def _read(handle: Any) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if "in" in vertex.uids)


def plain(grouped: Any) -> Any:
    """A count of rows."""
    return grouped.agg(F.count("*").alias("n"), uid="w")


EARLY = hg.after_watermark(early="1min")
CHANGES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "the same": (lambda table: plain(table.group_by("user", F.window("at", "2s"))), True),
    "lateness, late rows and early results": (
        lambda table: plain(
            table.group_by("user", F.window("at", "2s")).lateness("5s").late_to(LATE).trigger(EARLY)
        ),
        True,
    ),
    "the other clock": (lambda table: plain(table.group_by("user", F.window(F.proctime(), "2s"))), False),
}


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A savepoint with open windows, of a program that says nothing of late rows."""

    def add(env: hg.Environment, folder: Path, source: hg.Source[Any]) -> None:
        stream = env.from_source(source, uid="in").with_event_time("at", out_of_orderness="20s")
        CHANGES["the same"][0](stream.to_table(SCHEMA)).write_json(str(folder / "out"), uid="out")

    return str(stopped(tmp_path_factory.mktemp("old"), add, "canonical"))


@pytest.mark.parametrize("change", CHANGES)
def test_the_verdict_on_a_change_is_what_a_restore_does(change: str, savepoint: str, tmp_path: Path) -> None:
    """When windows emit may change; which time they are of may not."""
    results, allowed = CHANGES[change]
    env = environment(1, {**TINY, "restart-strategy.type": "none"})
    env.checkpoints(every="20ms", storage=str(tmp_path / "checkpoints"))
    stream = env.from_source(Valve(next(NUMBERS), float("inf"), ROWS), uid="in")
    table = results(stream.with_event_time("at", out_of_orderness="20s").to_table(SCHEMA))
    table.write_json(str(tmp_path / "out"), uid="out")
    disk, metadata = open_checkpoint(savepoint)
    judgement = Judgement(disk, metadata, env.program.nodes(), env.plan("windows"), False)
    report = judgement.report(savepoint, "windows")
    found = {item.verdict for each in report.operators if each.uid == "w" for item in each.items}
    assert report.restorable is allowed
    if allowed:
        assert found == {Verdict.AS_IS}
        env.execute("windows", restore_from=savepoint)
        return
    assert Verdict.INCOMPATIBLE in found
    with pytest.raises(hg.HeadgateError, match=r"checkpoint|savepoint"):
        env.execute("windows", restore_from=savepoint)
