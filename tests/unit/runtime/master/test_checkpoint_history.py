"""What the checkpoint master notes of each checkpoint, and when the notes are written."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

import pytest

import headgate as hg
from headgate.checkpoint.history_file import RECORDS_MAX, CheckpointStatus, HistoryFile, SubtaskRecord
from headgate.common.ids import AttemptId, CheckpointId, JobId
from headgate.connectors.collection import collection_source
from headgate.core.checkpoint import effects as e
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.history import EdgeFacts, StuckLoop
from headgate.core.checkpoint.slowest import FORWARD
from headgate.graph.partitioners import Forward
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.master.checkpoints.recording import (
    WRITE_AT_LATEST_MS,
    WRITE_EVERY_MS,
    CheckpointHistory,
    record_of,
    topology_of,
)
from headgate.state.snapshots import Inline, KeyedStateHandle, OperatorSubtaskState, SubtaskSnapshot
from headgate.testing.manual_clock import ManualClock
from headgate.testing.simulation.virtual_disk import SimDisk, SimFiles, Verdict

TASKS = [(0, 0), (1, 0)]
EXPIRED = CheckpointFailureReason.CHECKPOINT_EXPIRED


def plan() -> PhysicalPlan:
    """A source and a chain of two operators, two subtasks each."""
    env = hg.Environment(parallelism=2)
    numbers = env.from_source(collection_source(range(3)), uid="in")
    numbers.rebalance().map(lambda n: n, uid="map").write_json("out", uid="out")
    return env.plan()


class Rig:
    """A history with a clock moved by hand and background work that waits."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.work: deque[Any] = deque()
        self.verdict: Verdict = "works"
        self.disk = SimDisk(SimFiles(), lambda *_: self.verdict)
        self.history = CheckpointHistory(
            plan(), HistoryFile(self.disk, JobId("job"), "job"), self.clock, self
        )
        self.history.deployed(TASKS)

    def submit(self, work: Any, done: Any) -> None:
        """See `common.ports.Background`."""
        self.work.append((work, done))

    def run(self) -> int:
        """Do what was submitted; how much that was."""
        count = len(self.work)
        while self.work:
            work, done = self.work.popleft()
            try:
                done(work(), None)
            except Exception as error:
                done(None, error)
        return count

    def trigger(self, checkpoint: int) -> None:
        """A checkpoint begins."""
        kind = e.RequestKind.PERIODIC
        self.history.begun(e.RunHooks(CheckpointId(checkpoint), AttemptId(1), kind, ("enumerators",)))

    def complete(self, checkpoint: int, after_ms: int = 0) -> None:
        """A checkpoint begins and, later, is committed."""
        self.trigger(checkpoint)
        self.clock.advance(after_ms)
        for task in TASKS:
            self.history.acknowledged(checkpoint, SubtaskSnapshot(*task, operators=[]))
        self.history.stored(checkpoint)
        self.history.committed(checkpoint)


def test_a_checkpoint_from_trigger_to_commit() -> None:
    """Latencies, the moment of completion and the end are counted from the trigger."""
    rig = Rig()
    rig.trigger(1)
    rig.clock.advance(30)
    rig.history.acknowledged(1, SubtaskSnapshot(1, 0, []))
    rig.clock.advance(20)
    (record,) = rig.history.records
    assert (record.status, record.duration_ms, record.missing) == (
        CheckpointStatus.IN_PROGRESS,
        50,
        ((0, 0),),
    )
    rig.history.acknowledged(1, SubtaskSnapshot(0, 0, []))
    rig.clock.advance(5)
    rig.history.stored(1)
    rig.clock.advance(7)
    rig.history.committed(1)
    (record,) = rig.history.records
    assert (record.status, record.stored_ms, record.duration_ms) == (CheckpointStatus.COMPLETED, 55, 62)
    assert [(seen.task, seen.ack_latency_ms) for seen in record.subtasks] == [((0, 0), 50), ((1, 0), 30)]
    assert (record.missing, record.kind, record.attempt) == ((), "periodic", 1)


def test_a_failed_checkpoint_keeps_what_had_come() -> None:
    """With reason, detail, and who was missing; a second reason and a late word change nothing."""
    rig = Rig()
    rig.trigger(1)
    rig.history.acknowledged(1, SubtaskSnapshot(0, 0, []))
    rig.history.stuck(0, 12_000)
    rig.history.stuck(0, 9_000)
    rig.clock.advance(60_000)
    rig.history.failed(1, EXPIRED, "no acknowledgement")
    rig.history.failed(1, CheckpointFailureReason.CHECKPOINT_COORDINATOR_SUSPEND, "")
    rig.history.acknowledged(1, SubtaskSnapshot(1, 0, []))
    rig.history.committed(1)
    (record,) = rig.history.records
    assert (record.status, record.reason, record.detail) == (
        CheckpointStatus.FAILED, "CHECKPOINT_EXPIRED", "no acknowledgement",
    )  # fmt: skip
    assert (record.duration_ms, record.missing, len(record.subtasks)) == (60_000, ((1, 0),), 1)
    assert record.stuck == (StuckLoop(0, 12_000),)


def test_all_figures_of_an_acknowledgement_are_kept() -> None:
    """Also the size of state that stands in the metadata itself."""
    keyed = KeyedStateHandle(0, 127, Inline(b"abc"), 3)
    snapshot = SubtaskSnapshot(
        1, 2, [OperatorSubtaskState("a", keyed), OperatorSubtaskState("b")],
        start_delay_ms=1.0, alignment_ms=2.0, sync_ms=3.0, async_ms=4.0, bytes_written=5, finished=True,
        unaligned=True, bytes_processed=6, bytes_persisted=7, slowest_channel="in[0]",
    )  # fmt: skip
    assert record_of(snapshot, 9) == SubtaskRecord(
        1, 2, 9, 1.0, 2.0, 3.0, 4.0, 6, 7, 5, 3, True, True, "in[0]"
    )


def test_the_graph_is_kept_as_names() -> None:
    """Uids in order of flow, and the exchanges by the name of their partitioner."""
    topology = topology_of(plan())
    assert [(vertex.uids, vertex.parallelism) for vertex in topology.vertices] == [
        (("in",), 2),
        (("map", "out"), 2),
    ]
    assert topology.edges == (EdgeFacts(0, 1, "Rebalance"),)
    assert Forward.__name__ == FORWARD


def test_nothing_is_written_while_a_checkpoint_could_wait_for_it() -> None:
    """Storing and committing use the same thread: the notes wait until the sinks are committed."""
    rig = Rig()
    rig.trigger(1)
    rig.history.acknowledged(1, SubtaskSnapshot(0, 0, []))
    rig.history.stored(1)
    assert rig.run() == 0
    rig.history.committed(1)
    assert rig.run() == 1
    assert rig.disk.list("job") == ["job/history/checkpoints.json"]


def test_writes_keep_their_distance() -> None:
    """However many checkpoints there are, and none where nothing changed."""
    rig = Rig()
    rig.complete(1)
    assert rig.run() == 1
    for checkpoint in range(2, 6):
        rig.complete(checkpoint)
    assert rig.run() == 0
    rig.clock.advance(WRITE_EVERY_MS)
    rig.history.write_if_due()
    rig.history.write_if_due()
    assert rig.run() == 1
    rig.clock.advance(WRITE_EVERY_MS)
    rig.history.write_if_due()
    rig.history.write()
    assert rig.run() == 0


def test_a_slow_checkpoint_is_written_while_it_is_under_way() -> None:
    """Somebody may want to see who has not acknowledged."""
    rig = Rig()
    rig.trigger(1)
    rig.clock.advance(WRITE_EVERY_MS)
    rig.history.write_if_due()
    assert rig.run() == 1


def test_checkpoints_without_a_pause_do_not_keep_the_notes_from_the_disk() -> None:
    """With several at a time there may never be a moment between two."""
    rig = Rig()
    for checkpoint in range(1, 1 + WRITE_AT_LATEST_MS // 500):
        rig.trigger(checkpoint)
        rig.clock.advance(500)
        rig.trigger(100 + checkpoint)
        rig.history.failed(checkpoint, EXPIRED, "")
        rig.history.failed(100 + checkpoint - 1, EXPIRED, "")
    assert 1 <= rig.run() <= 2


def test_only_so_many_are_held_in_memory() -> None:
    """The oldest go."""
    rig = Rig()
    for checkpoint in range(1, RECORDS_MAX + 11):
        rig.complete(checkpoint)
    assert [record.checkpoint for record in rig.history.records] == list(range(11, RECORDS_MAX + 11))


def test_a_disk_that_refuses_costs_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The next write holds everything again."""
    rig = Rig()
    rig.verdict = "fails"
    with caplog.at_level(logging.WARNING):
        rig.complete(1)
        rig.run()
    assert "the history of checkpoints could not be written: cannot read" in caplog.text
    rig.verdict = "works"
    rig.clock.advance(WRITE_EVERY_MS)
    rig.complete(2)
    rig.run()
    assert b'"checkpoint":1' in rig.disk.read("job/history/checkpoints.json")


def test_a_fenced_job_master_leaves_the_history_alone() -> None:
    """It belongs to the one that took over."""
    rig = Rig()
    rig.history.fenced()
    rig.complete(1)
    rig.history.write()
    assert rig.run() == 0


def test_without_checkpoint_storage_there_is_no_file() -> None:
    """What happens is noted in memory only."""
    rig = Rig()
    history = CheckpointHistory(plan(), None, rig.clock, rig)
    history.begun(e.RunHooks(CheckpointId(1), AttemptId(1), e.RequestKind.FINAL, ("enumerators",)))
    history.failed(1, EXPIRED, "")
    history.write()
    assert (rig.run(), [record.kind for record in history.records]) == (0, ["final"])
