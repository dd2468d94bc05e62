"""Jobs with operator state: records that wait for a full batch survive failures and other parallelism."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment, json_lines

import headgate as hg
from headgate.api.declared.operator_state import declared_operator_state
from headgate.checkpoint.data_files import read_handle
from headgate.checkpoint.opening import open_checkpoint, verify_files
from headgate.state.operator_state import OperatorStateBackend
from headgate.stateprocessor.writing.savepoint_writer import SavepointWriter

SIZE = 40
SPLITS = [list(range(500)), list(range(500, 1000))]
STOP, CRASH = 130, 310
"""How many records of each split the first job has read when it ends, and the second when it restarts."""
NAMES = itertools.count(127_000)
"""Of sources that crash once in the life of this process."""
UNALIGNED = "execution.checkpointing.unaligned.enabled"


class Batches(hg.ProcessFunction[int, dict[str, list[int]]]):
    """Emits records in batches; counts all records of the job."""

    waiting: hg.OperatorListState[int] = hg.operator_list_state()
    counts: hg.OperatorListState[int] = hg.operator_list_state(redistribution="union")

    def open(self, context: hg.RuntimeContext) -> None:
        # Every subtask is given all counts; one goes on from their sum.
        self.counts.update([sum(self.counts.get()) if context.subtask == 0 else 0])

    def process(self, record: int, ctx: Any) -> Iterator[dict[str, list[int]]]:
        self.counts.update([self.counts.get()[0] + 1])
        self.waiting.add(record)
        if len(self.waiting) >= SIZE:
            yield {"batch": self.waiting.get()}
            self.waiting.clear()


def job(folder: Path, at: int, parallelism: int, config: dict[str, Any]) -> hg.Environment:
    """Two splits of numbers into batches; a reader crashes once it has halted at `at`."""
    env = environment(parallelism, {**TINY, **config})
    env.checkpoints(every="5ms", storage=str(folder / "checkpoints"))
    numbers = env.from_source(Halting(next(NAMES), at, *SPLITS), uid="numbers")
    batches = numbers.rebalance().process(Batches(), uid="batches")
    batches.write_json(str(folder / "out"), uid="out")
    return env


class Plain(hg.ProcessFunction[int, dict[str, int]]):
    """Has no state."""

    def process(self, record: int, ctx: Any) -> Iterator[dict[str, int]]:
        yield {"n": record}


def plain_job(folder: Path) -> hg.Environment:
    """The same splits, in whose batches' place is an operator without state."""
    env = environment(2)
    env.checkpoints(every="5ms", storage=str(folder / "checkpoints"))
    numbers = env.from_source(Halting(next(NAMES), 0, *SPLITS), uid="numbers")
    numbers.process(Plain(), uid="batches").write_json(str(folder / "out"), uid="out")
    return env


def last_checkpoint(folder: Path) -> str:
    """Where the newest one is."""
    found = (folder / "checkpoints").rglob("_metadata")
    return str(max(found, key=lambda file: file.stat().st_mtime_ns).parent)


def kept(uri: str, name: str) -> list[list[int]]:
    """The elements of a list in a checkpoint, by subtask."""
    disk, cut = open_checkpoint(uri)
    lists = []
    for subtask in cut.operators["batches"]:
        backend = OperatorStateBackend(declared_operator_state(Batches()))
        backend.restore((held, read_handle(disk, held.handle)) for held in subtask.operator_state)
        lists.append(backend.handles[name].get())
    return lists


@pytest.mark.parametrize("unaligned", [False, True], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_no_waiting_record_is_lost_or_doubled(tmp_path: Path, parallelism: int, unaligned: bool) -> None:
    """A job ends by a failure; another goes on from its checkpoint at its own parallelism, and fails, too."""
    with pytest.raises(hg.HeadgateError):
        job(tmp_path, STOP, 2, {"restart-strategy.type": "none", UNALIGNED: unaligned}).execute("first")
    stopped = last_checkpoint(tmp_path)
    assert any(kept(stopped, "waiting"))
    second = job(tmp_path, CRASH, parallelism, {**RESTART_AT_ONCE, UNALIGNED: unaligned})
    assert second.execute("second", restore_from=stopped).restarts >= 1
    last = last_checkpoint(tmp_path)
    emitted = [number for line in json_lines(tmp_path / "out") for number in line["batch"]]
    still = kept(last, "waiting")
    assert sorted(emitted + [number for waiting in still for number in waiting]) == list(range(1000))
    assert len(still) == parallelism
    assert max(map(len, still)) < SIZE
    assert sum(count for counts in kept(last, "counts") for count in counts) == 1000


def test_state_that_the_program_does_not_declare_any_more_ends_the_job(tmp_path: Path) -> None:
    """Before a worker starts: the waiting records would be lost."""
    with pytest.raises(hg.HeadgateError):
        job(tmp_path, STOP, 2, {"restart-strategy.type": "none"}).execute("first")
    with pytest.raises(hg.HeadgateError, match=r"operator state .*'waiting' of 'batches'"):
        plain_job(tmp_path).execute("second", restore_from=last_checkpoint(tmp_path))


def test_a_savepoint_writer_takes_operator_state_out(tmp_path: Path) -> None:
    """The other list stays, in restored subtasks too; without both, a program that declares none goes on."""
    with pytest.raises(hg.HeadgateError):
        job(tmp_path, STOP, 2, {"restart-strategy.type": "none"}).execute("first")
    stopped = last_checkpoint(tmp_path)
    assert any(kept(stopped, "waiting"))
    writer = SavepointWriter.from_existing(stopped).remove("batches", "waiting")
    one = writer.write(str(tmp_path / "one")).uri
    verify_files(*open_checkpoint(one))
    assert [*open_checkpoint(one)[1].state_types["batches"]] == ["counts"]
    assert kept(one, "waiting") == [[], []]
    assert kept(one, "counts") == kept(stopped, "counts")
    none = writer.remove("batches", "counts").write(str(tmp_path / "none")).uri
    plain_job(tmp_path).execute("second", restore_from=none)
    assert len([line for line in json_lines(tmp_path / "out") if "n" in line]) > 0


def test_a_savepoint_writer_refuses_to_transform_operator_state(tmp_path: Path) -> None:
    """It has no keys; nothing is written."""
    with pytest.raises(hg.HeadgateError):
        job(tmp_path, STOP, 2, {"restart-strategy.type": "none"}).execute("first")
    writer = SavepointWriter.from_existing(last_checkpoint(tmp_path))
    writer = writer.transform("batches", "waiting", lambda value: value, declared=hg.ListState[int])
    with pytest.raises(hg.UsageError, match="operator state 'waiting' of 'batches' has no keys"):
        writer.write(str(tmp_path / "no"))
    assert not [file for file in (tmp_path / "no").rglob("*") if file.is_file()]
