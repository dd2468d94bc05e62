"""Snapshots beside the loop: acknowledged when all of it is durable, given up without a trace."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
from operator_samples import rows
from snapshot_samples import INPUT, STATE, Bench, Blob, Stateful, over
from task_samples import TASK

from headgate.checkpoint.data_files import read_handle
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import StorageError
from headgate.core.alignment.barriers import Barrier, SavepointOrder
from headgate.core.alignment.handler_contract import SUBSUMED
from headgate.core.alignment.settings import AlignmentSettings
from headgate.runtime.protocol.elements import CancelMarker
from headgate.runtime.worker.in_flight.gathering import CaptureLimits, TooMuchInFlightError


class Record:
    """A record that can be watched."""


def stuck(root: Path) -> Bench:
    """A bench with one record, "out", that has no credit to leave."""
    bench = Bench(root, credit=1)
    bench.emit("gone")
    bench.emit("out")
    bench.lane.elements.clear()
    return bench


class Broken(Stateful):
    """Cannot be serialised."""

    def snapshot(self, checkpoint: int) -> Any:
        return self

    def finish(self, files: Any) -> Any:
        raise StorageError("this operator cannot be written")

    def release(self) -> None:
        self.released.append(0)


def test_all_of_an_unaligned_snapshot_is_durable_before_it_is_acknowledged(tmp_path: Path) -> None:
    """State and records may come in either order; one alone is not enough."""
    bench = stuck(tmp_path)
    bench.draw(over(1), rows([1, 2]), open_inputs=True)
    bench.job()
    assert bench.acknowledged == {}, "the state is durable, the records in flight are not"
    bench.snapshots.capture.add(INPUT, rows([3]))  # type: ignore[union-attr]
    bench.snapshots.inputs_complete(1)
    bench.run()
    snapshot = bench.acknowledged[1]
    keyed = snapshot.operators[0].keyed
    assert keyed is not None
    assert read_handle(bench.disk, keyed.handle) == STATE
    assert bench.in_flight(1) == [1, 2, 3]
    assert bench.in_flight(1, output=True) == ["out"]
    stored = sum(part.size for stream in snapshot.in_flight for part in stream.parts)
    assert snapshot.bytes_persisted == stored > 0
    assert (snapshot.unaligned, bench.failed, bench.declined) == (True, [], [])


@pytest.mark.parametrize("heard", [True, False], ids=["heard", "unheard"])
@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "open"])
@pytest.mark.parametrize("jobs", [0, 1, 2])
def test_sk2_an_abort_during_the_asynchronous_part_cancels_it(
    tmp_path: Path, jobs: int, sealed: bool, heard: bool
) -> None:
    """sK2: what is written already goes, what is not is not written; nothing is remembered or reported.

    It makes no difference whether the loop has heard of what was written beside it.
    """
    bench = stuck(tmp_path)
    bench.draw(over(1), rows([1]), open_inputs=not sealed)
    for _ in range(min(jobs, len(bench.background.jobs))):
        if heard and len(bench.background.jobs) > 1:
            bench.job()
        else:
            bench.background.run()
    assert bench.acknowledged == {}
    bench.snapshots.aborted(1)
    bench.run()
    while bench.posted:
        bench.posted.popleft()()
    bench.run()
    assert (bench.acknowledged, bench.failed, bench.declined, bench.files) == ({}, [], [], [])
    assert (bench.snapshots.machine.remembered, bench.snapshots.machine.running) == (set(), set())
    assert bench.snapshots.capture is None


def test_sk2_what_was_not_begun_is_not_even_written(tmp_path: Path) -> None:
    """sK2: a large table costs nothing once nobody wants it."""
    bench = Bench(tmp_path)
    written: list[str] = []
    original = bench.disk.create
    bench.disk.create = lambda name, parts: (written.append(name), original(name, parts))[1]  # type: ignore[method-assign]
    bench.draw(over(1), rows([1]))
    bench.snapshots.aborted(1)
    bench.run()
    assert written == []


def test_sk2_a_snapshot_is_let_go_whatever_becomes_of_it(tmp_path: Path) -> None:
    """sK2: written, given up before its turn, or refused by the storage: its tables are held no longer."""
    last = Stateful("last")
    bench = Bench(tmp_path, Stateful("first"), last)
    bench.draw(over(1))
    bench.run()
    bench.draw(over(2))
    bench.snapshots.aborted(2)
    bench.run()
    bench.disk.full = True
    bench.draw(over(3))
    bench.run()
    assert last.released == [1, 2, 3]
    assert [number for number, _ in bench.failed] == [3]


def test_sk2_a_savepoint_whose_place_cannot_be_opened_is_let_go_too(tmp_path: Path) -> None:
    """sK2: the error comes before anything is written."""
    last = Stateful("last")
    bench = Bench(tmp_path, last)
    order = SavepointOrder("no-such-scheme://anywhere")
    bench.draw(AlignmentSettings().barrier(1, 1_000, savepoint=order))
    bench.run()
    assert [number for number, _ in bench.failed] == [1]
    assert last.released == [1]


def test_sk2_an_abort_after_the_asynchronous_part_leaves_the_files_to_the_job_master(tmp_path: Path) -> None:
    """sK2: they were acknowledged: it discards them. Nothing is remembered; the next checkpoint is drawn."""
    bench = Bench(tmp_path)
    bench.draw(over(1), rows([1]))
    bench.run()
    kept = bench.files
    assert len(kept) == 2
    bench.snapshots.aborted(1)
    bench.run()
    assert bench.files == kept
    assert bench.snapshots.machine.remembered == set()
    bench.draw(over(2))
    bench.run()
    assert list(bench.acknowledged) == [1, 2]


def test_sk3_a_savepoint_does_not_overtake_and_takes_nothing_along(tmp_path: Path) -> None:
    """sK3: testSavepointNotResultingInPriorityEvents, testSkipChannelStateForSavepoints."""
    bench = stuck(tmp_path)
    bench.draw(
        AlignmentSettings(unaligned=True).barrier(1, 1_000, savepoint=SavepointOrder(str(tmp_path))),
        rows([1]),
    )
    assert bench.lane.elements == [], "it waits behind the record that has no credit"
    assert bench.snapshots.next_timeout() is None, "for good"
    bench.run()
    assert bench.acknowledged[1].in_flight == []
    bench.edge.channels[0].grant(1)
    assert [type(element).__name__ for element in bench.lane.elements] == ["RowBatch", "Watermark", "Barrier"]


def test_sk3_a_barrier_with_a_timeout_is_not_urgent_until_it_is_too_old(tmp_path: Path) -> None:
    """sK3: testTimeoutableAlignedBarrierNotPriority: it queues; what it overtakes later is stored then."""
    bench = stuck(tmp_path)
    bench.draw(AlignmentSettings(unaligned=True, timeout_ms=50).barrier(1, 1_000))
    bench.run()
    assert (bench.lane.elements, bench.acknowledged) == ([], {})
    assert bench.snapshots.next_timeout() == 1_051
    assert not bench.snapshots.poll_held_barrier(1_050)
    assert bench.snapshots.poll_held_barrier(1_051)
    bench.run()
    (barrier,) = bench.lane.elements
    assert isinstance(barrier, Barrier)
    assert barrier.overtakes
    assert bench.in_flight(1, output=True) == ["out"]
    assert bench.acknowledged[1].unaligned


@pytest.mark.parametrize("jobs", [0, 1])
def test_sk3_an_abort_before_records_are_written_leaks_nothing(tmp_path: Path, jobs: int) -> None:
    """sK3: testChannelStateWriteResultLeak: batches are let go at once, and no failure comes of it later."""
    bench = Bench(tmp_path)
    record = Record()
    batch = rows([record])
    bench.draw(over(1), batch, open_inputs=True)
    for _ in range(jobs):
        bench.job()
    assert bench.snapshots.unstored(batch)
    seen = weakref.ref(record)
    bench.snapshots.aborted(1)
    assert not bench.snapshots.unstored(batch)
    del batch, record
    gc.collect()
    assert seen() is None, "its records are in memory although nobody wants them"
    bench.run()
    assert (bench.failed, bench.files) == ([], [])


def test_sk3_an_old_checkpoint_is_aborted_and_a_new_one_completes(tmp_path: Path) -> None:
    """sK3: testAbortOldAndStartNewCheckpoint: 42 ends without a result, 43 with its own records only."""
    bench = Bench(tmp_path)
    bench.draw(over(42), rows(["old"]), open_inputs=True)
    bench.snapshots.aborted(42)
    bench.draw(over(43), rows(["new"]))
    bench.snapshots.inputs_complete(42)
    bench.run()
    assert list(bench.acknowledged) == [43]
    assert bench.in_flight(43) == ["new"]
    assert (bench.failed, bench.declined) == ([], [])
    assert all("chk-43" in name for name in bench.files)


def test_a_newer_barrier_subsumes_what_is_still_open(tmp_path: Path) -> None:
    """The job master and those downstream hear of it, once, before the newer barrier's snapshot."""
    bench = Bench(tmp_path)
    bench.draw(over(42), rows(["old"]), open_inputs=True)
    bench.draw(over(43), rows(["new"]))
    bench.run()
    assert bench.declined == [(42, SUBSUMED)]
    assert [e for e in bench.lane.elements if isinstance(e, CancelMarker)] == [CancelMarker(42)]
    assert list(bench.acknowledged) == [43]
    assert all("chk-43" in name for name in bench.files)


def test_an_abort_that_comes_before_the_barrier_is_answered_with_a_cancellation(tmp_path: Path) -> None:
    """Nothing is drawn, and those downstream do not wait."""
    bench = Bench(tmp_path)
    bench.snapshots.aborted(1)
    bench.draw(over(1), rows([1]))
    bench.run()
    assert bench.lane.elements == [CancelMarker(1)]
    assert (bench.operators[0].drawn, bench.files, bench.acknowledged) == ([], [], {})


@pytest.mark.parametrize("state_first", [True, False])
def test_a_full_disk_fails_one_checkpoint_once_and_leaves_no_file(tmp_path: Path, state_first: bool) -> None:
    """Whichever part hits it, before or after the other is durable; the next checkpoint works."""
    bench = Bench(tmp_path)
    bench.draw(over(1), rows([1]), open_inputs=True)
    if state_first:
        bench.job()  # the state is durable
    bench.disk.full = True
    bench.snapshots.inputs_complete(1)
    bench.run()
    ((checkpoint, error),) = bench.failed
    assert (checkpoint, bench.acknowledged, bench.files) == (1, {}, [])
    assert "no space left" in str(error)
    bench.disk.full = False
    bench.snapshots.aborted(1)  # the job master's answer
    bench.draw(over(2), rows([2]))
    bench.run()
    assert bench.in_flight(2) == [2]


def test_records_that_come_after_the_failure_are_not_taken_along(tmp_path: Path) -> None:
    """The subtask learns of the failure by the abort; until then it goes on adding."""
    bench = Bench(tmp_path, limits=CaptureLimits(part_bytes=1))
    bench.disk.full = True
    bench.draw(over(1), rows([1]), open_inputs=True)
    bench.run()
    capture = bench.snapshots.capture
    assert capture is not None
    capture.add(INPUT, rows([2]))
    assert capture.bytes_waiting == 0
    bench.snapshots.inputs_complete(1)
    bench.run()
    assert len(bench.failed) == 1


def test_more_than_may_be_taken_along_fails_the_checkpoint_with_its_reason(tmp_path: Path) -> None:
    """Once, although state and records are reported apart; everything that was stored goes."""
    bench = Bench(tmp_path, limits=CaptureLimits(part_bytes=100, total_bytes=2_000))
    bench.draw(over(1), open_inputs=True)
    bench.run()
    for number in range(40):
        bench.snapshots.capture.add(INPUT, rows([f"record {number}"] * 10))  # type: ignore[union-attr]
    bench.snapshots.inputs_complete(1)
    bench.run()
    ((_, error),) = bench.failed
    assert isinstance(error, TooMuchInFlightError)
    assert "max-in-flight-size" in str(error)
    assert (bench.acknowledged, bench.files) == ({}, [])


def test_an_operator_that_fails_takes_the_files_of_those_before_it_along(tmp_path: Path) -> None:
    """They are of a snapshot that nobody will refer to."""
    bench = Bench(tmp_path, Stateful("first"), Broken("second"))
    bench.draw(over(1), rows([1]))
    bench.run()
    assert len(bench.failed) == 1
    assert bench.files == []


def test_one_file_that_cannot_be_deleted_does_not_keep_the_others(tmp_path: Path) -> None:
    """A sweep finds it later."""
    bench = Bench(tmp_path, Stateful("first"), Stateful("second"), Stateful("third"))
    original = bench.disk.delete

    def delete(name: str) -> None:
        if name.endswith("-0"):
            raise StorageError("busy")
        original(name)

    bench.disk.delete = delete  # type: ignore[method-assign]
    bench.draw(over(1), rows([1]), open_inputs=True)
    bench.job()
    assert len(bench.files) == 3
    bench.snapshots.aborted(1)
    bench.run()
    assert [name.rpartition("-")[2] for name in bench.files] == ["0"]


@pytest.mark.parametrize("when", ["written", "acknowledged", "aborted"])
def test_no_table_outlives_its_writing(tmp_path: Path, when: str) -> None:
    """The copy of an operator's table is memory twice: neither an open capture nor the last one keeps it."""
    operator = Stateful()
    bench = Bench(tmp_path, operator)
    seen: list[Any] = []

    class Watched(Blob):
        """A blob that can be watched."""

    def snapshot(checkpoint: int) -> Any:
        blob = Watched("op", STATE, lambda: None)
        seen.append(weakref.ref(blob))
        return blob

    operator.snapshot = snapshot  # type: ignore[method-assign]
    bench.draw(over(1), rows([1]), open_inputs=True)
    if when == "aborted":
        bench.snapshots.aborted(1)
    bench.job()
    if when == "acknowledged":
        bench.snapshots.inputs_complete(1)
    bench.run()
    gc.collect()
    assert seen[0]() is None


@pytest.mark.parametrize("jobs", [0, 1])
def test_after_the_attempt_nothing_is_reported(tmp_path: Path, jobs: int) -> None:
    """What comes in later belongs to nobody: records in flight and state are deleted."""
    bench = Bench(tmp_path)
    bench.draw(over(1), rows([1]))
    for _ in range(jobs):
        bench.background.run()
    bench.finishing.close()
    bench.run()
    while bench.posted:
        bench.posted.popleft()()
    bench.run()
    assert (bench.acknowledged, bench.failed, bench.files) == ({}, [], [])


def test_what_is_being_written_when_the_attempt_ends_goes(tmp_path: Path) -> None:
    """The job master may have swept before the last byte is there."""
    bench = Bench(tmp_path)
    create = LocalDisk.create

    def late(name: str, parts: Any) -> Any:
        created = create(bench.disk, name, parts)
        bench.finishing.close()
        return created

    bench.disk.create = late  # type: ignore[method-assign]
    bench.draw(Barrier(1, 0))
    bench.run()
    while bench.posted:
        bench.posted.popleft()()
    bench.run()
    assert (bench.acknowledged, bench.files) == ({}, [])


def test_an_abort_of_another_checkpoint_changes_nothing(tmp_path: Path) -> None:
    """Late or early ones: only what they name is given up."""
    bench = Bench(tmp_path)
    bench.draw(over(5), rows([1]), open_inputs=True)
    bench.snapshots.aborted(4)
    bench.snapshots.aborted(6)
    bench.finishing.abandon(TASK, 4)
    bench.snapshots.inputs_complete(5)
    bench.run()
    assert list(bench.acknowledged) == [5]
    assert bench.snapshots.machine.remembered == {6}


@pytest.mark.parametrize("when", ["written", "being-written"])
def test_what_an_ended_attempt_writes_for_a_savepoint_goes(tmp_path: Path, when: str) -> None:
    """Nobody sweeps the folders of savepoints, and the job master may have emptied this one already."""
    bench, target = Bench(tmp_path / "checkpoints"), tmp_path / "sp"
    bench.disk.root.mkdir(exist_ok=True)
    create, ended = LocalDisk.create, when == "written"

    def late(disk: LocalDisk, name: str, parts: Any) -> Any:
        created = create(disk, name, parts)
        if not ended:
            bench.finishing.close()
        return created

    disk = LocalDisk(target)
    disk.create = lambda name, parts: late(disk, name, parts)  # type: ignore[method-assign]
    bench.finishing._writer._disks = lambda uri: disk
    order = SavepointOrder(disk.describe(), "native", stop=False, drain=False)
    bench.draw(AlignmentSettings().barrier(1, 0, order))
    bench.background.run()
    if ended:
        bench.finishing.close()
    while bench.posted:
        bench.posted.popleft()()
    bench.run()
    assert [file for file in target.rglob("*") if file.is_file()] == []
    assert bench.acknowledged == {}
