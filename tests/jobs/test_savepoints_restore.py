"""Whole jobs stopped with a savepoint and gone on from it: another backend, parallelism, place or program."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from mini_jobs import TINY, environment, json_lines
from running_jobs import Valve, wait_until

import headgate as hg
from headgate.checkpoint.opening import open_checkpoint, verify_files

WORDS = [[f"w{(n + 3 * split) % 7}" for n in range(40)] for split in range(2)]
ALL = [word for split in WORDS for word in split]
NUMBERS = count(4500)

BACKENDS: dict[str, dict[str, Any]] = {
    "heap": {},
    "changelog": {"state.changelog.enabled": True},
    "rocksdb": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True},
}


class Counting(hg.KeyedProcessFunction[str, str, Any]):
    """Counts in every kind of state, and by a timer at the end."""

    value: Any
    seen: Any
    by_length: Any
    total: Any

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.value.value += 1
        self.seen.add(self.value.value)
        self.by_length.put(len(record), (self.by_length.get(len(record)) or 0) + 1)
        self.total.add(1)
        ctx.timers.register_event_time(10**12)
        n = self.value.value
        same = len(self.seen.get()) == self.by_length.get(len(record)) == self.total.get() == n
        yield [ctx.key, n, same]

    def on_timer(self, timestamp: int, ctx: hg.TimerContext[str]) -> Iterator[Any]:
        yield [ctx.key, -self.value.value, True]


class Tally(Counting):
    """As it began."""

    value: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[int] = hg.list_state()
    by_length: hg.MapState[int, int] = hg.map_state()
    total: hg.ReducingState[int] = hg.reducing_state(lambda left, right: left + right)


class Wider(Counting):
    """With other types."""

    value: hg.ValueState[float] = hg.value_state(default=0.0)
    seen: hg.ListState[float] = hg.list_state()
    by_length: hg.MapState[int, float] = hg.map_state()
    total: hg.ReducingState[float] = hg.reducing_state(lambda left, right: left + right)


def expected() -> list[tuple[Any, ...]]:
    """The batch answer."""
    found: list[tuple[Any, ...]] = []
    for word in sorted(set(ALL)):
        times = ALL.count(word)
        found += [(word, n, True) for n in range(1, times + 1)] + [(word, -times, True)]
    return sorted(found)


def published(folder: Path) -> list[tuple[Any, ...]]:
    """What the sink has committed."""
    return sorted(tuple(line) for line in json_lines(folder / "out"))


class Job:
    """The program, with its state in one of :data:`BACKENDS`."""

    def __init__(
        self,
        folder: Path,
        backend: str,
        parallelism: int = 2,
        function: Any = Tally,
        limit: float = 20,
        **more: Any,
    ) -> None:
        self.valve = Valve(next(NUMBERS), limit, *WORDS)
        config = {**TINY, "restart-strategy.type": "none", **BACKENDS[backend], **more}
        if backend == "rocksdb":
            config["state.backend.rocksdb.localdir"] = str(folder / "local")
            config["state.backend.rocksdb.memory.fixed-per-slot"] = "16mb"
        self.env = environment(parallelism, config)
        self.env.checkpoints(every="20ms", storage=str(folder / "checkpoints"))
        timed = self.env.from_source(self.valve, uid="in").with_event_time(
            lambda _: 5, out_of_orderness="0ms"
        )
        tally: Any = timed.key_by(lambda word: word).process(function(), uid="tally")
        tally.write_json(str(folder / "out"), uid="out")


def stopped(folder: Path, backend: str, form: str = "canonical", **more: Any) -> Path:
    """The folder of a savepoint that a job with half of the input was stopped with."""
    job = Job(folder, backend, **more)
    with job.env.execute_async("tally") as handle:
        wait_until(lambda: handle.done or handle.status().checkpoints_completed > 1, "checkpoints complete")
        wait_until(lambda: handle.done or _read(handle) == 40, "the valve's records came")
        uri = handle.stop(str(folder / "savepoints"), format=form)
        handle.result()
    return Path(unquote(urlsplit(uri).path))


def _read(handle: Any) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if "in" in vertex.uids)


@pytest.mark.parametrize(
    ("before", "form", "after", "parallelism"),
    [
        ("heap", "canonical", "rocksdb", 3),
        ("rocksdb", "canonical", "changelog", 1),
        ("changelog", "native", "changelog", 2),
        pytest.param("changelog", "canonical", "heap", 2, marks=pytest.mark.ci),
        pytest.param("heap", "native", "heap", 3, marks=pytest.mark.ci),
        pytest.param("rocksdb", "native", "rocksdb", 1, marks=pytest.mark.ci),
        pytest.param("rocksdb", "native", "heap", 3, marks=pytest.mark.ci),
        pytest.param("heap", "canonical", "heap", 1, marks=pytest.mark.ci),
        pytest.param("rocksdb", "canonical", "rocksdb", 3, marks=pytest.mark.ci),
    ],
)
def test_every_record_counts_once_across_a_savepoint(
    tmp_path: Path, before: str, form: str, after: str, parallelism: int
) -> None:
    """Both jobs together give the batch answer, timers included; the folder was moved in between."""
    folder = stopped(tmp_path, before, form)
    moved = tmp_path / "moved here" / folder.name
    shutil.move(folder, moved)
    shutil.rmtree(tmp_path / "checkpoints")
    verify_files(*open_checkpoint(str(moved)))
    Job(tmp_path, after, parallelism, limit=float("inf")).env.execute("tally", restore_from=str(moved))
    assert published(tmp_path) == expected()


def test_types_evolve_through_a_canonical_savepoint(tmp_path: Path) -> None:
    """Ints became floats: what goes on counts in floats, from where the ints were."""
    folder = stopped(tmp_path, "rocksdb")
    Job(tmp_path, "heap", 3, Wider, float("inf")).env.execute("tally", restore_from=str(folder))
    assert published(tmp_path) == expected()
    assert {type(n) for _, n, _ in published(tmp_path)} == {int, float}


@pytest.mark.ci
def test_a_damaged_table_is_refused_by_its_name(tmp_path: Path) -> None:
    """Before anything of it is decoded; the job does not begin."""
    folder = stopped(tmp_path, "heap")
    file = next(path for path in sorted((folder / "state/tally/seen").iterdir()))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(hg.HeadgateError, match=rf"seen/{file.name} is damaged"):
        Job(tmp_path, "heap", limit=float("inf")).env.execute("tally", restore_from=str(folder))


class Less(hg.KeyedProcessFunction[str, str, Any]):
    """Only one of the states is left."""

    value: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: str, ctx: hg.KeyedContext[str]) -> Iterator[Any]:
        self.value.value += 1
        yield [ctx.key, self.value.value, True]

    def on_timer(self, timestamp: int, ctx: hg.TimerContext[str]) -> Iterator[Any]:
        yield [ctx.key, -self.value.value, True]


@pytest.mark.parametrize("form", [pytest.param("canonical", marks=pytest.mark.ci), "native"])
def test_unclaimed_state_needs_leave_and_is_named(
    tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without leave the restore is refused; with leave the log says what is left behind."""
    folder = stopped(tmp_path, "rocksdb", form)
    with pytest.raises(hg.UsageError, match=r"holds state '.*ignore-unclaimed-state"):
        Job(tmp_path, "heap", 2, Less, float("inf")).env.execute("tally", restore_from=str(folder))
    leave = {"execution.state-recovery.ignore-unclaimed-state": True}
    with caplog.at_level(logging.INFO):
        job = Job(tmp_path, "heap", 2, Less, float("inf"), **leave)
        job.env.execute("tally", restore_from=str(folder))
    assert any("'by_length', 'seen', 'total'" in line and "skipped" in line for line in caplog.messages)
    assert published(tmp_path) == expected()


def test_an_operator_that_is_gone_needs_leave_and_a_new_one_starts_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """State of a uid that nobody has any more; and a uid that the savepoint does not know."""
    folder = stopped(tmp_path, "heap")

    def renamed(**more: Any) -> Any:
        env = environment(2, {**TINY, **more})
        counted = env.from_source(Valve(next(NUMBERS), float("inf"), *WORDS), uid="in").key_by(
            lambda word: word
        )
        counted.process(Less(), uid="fresh").write_json(str(tmp_path / "other"), uid="out")
        return env

    with pytest.raises(hg.UsageError, match=r"holds state of 'tally'.*ignore-unclaimed-state"):
        renamed().execute("renamed", restore_from=str(folder))
    with caplog.at_level(logging.INFO):
        leave = {"execution.state-recovery.ignore-unclaimed-state": True}
        renamed(**leave).execute("renamed", restore_from=str(folder))
    assert any("state of 'tally'" in line and "skipped" in line for line in caplog.messages)
    assert any("operator 'fresh': it starts without state" in line for line in caplog.messages)
    counts = [n for _, n, _ in json_lines(tmp_path / "other")]
    assert len(counts) == len(ALL) - 40
    assert min(counts) == 1
