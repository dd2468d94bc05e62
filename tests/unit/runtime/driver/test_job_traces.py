"""Checkpoints and recoveries as stretches of time: which parts there are, and which facts."""

from __future__ import annotations

from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.checkpoint.history import (
    CheckpointRecord,
    CheckpointStatus,
    SubtaskRecord,
    Topology,
    VertexFacts,
)
from headgate.runtime.driver.telemetry.job_traces import SUBTASKS_MAX, Recoveries, checkpoint_stretch

TOPOLOGY = Topology((VertexFacts(0, "Count", ("count",), 100),), ())


def test_a_failed_checkpoint_says_why_and_has_no_commit() -> None:
    """Also one that no subtask has acknowledged."""
    reason = CheckpointFailureReason.CHECKPOINT_EXPIRED
    record = CheckpointRecord(
        *(7, 2, "periodic", CheckpointStatus.FAILED, 5_000, TOPOLOGY, 900),
        reason=reason.name,
        detail="slow",
    )
    found = checkpoint_stretch(record)
    assert (found.begin_ms, found.end_ms, found.parts) == (5_000, 5_900, ())
    assert found.error == f"{reason.text}; slow"
    assert (found.facts["headgate.checkpoint.id"], found.facts["headgate.attempt"]) == (7, 2)


def test_of_many_subtasks_the_slowest_are_told() -> None:
    """The last one with its phases."""
    subtasks = tuple(SubtaskRecord(0, n, 10 + n, sync_ms=1) for n in range(100))
    record = CheckpointRecord(7, 1, "periodic", CheckpointStatus.COMPLETED, 0, TOPOLOGY, 150, 120, subtasks)
    found = checkpoint_stretch(record)
    acknowledged, rest = found.parts[:SUBTASKS_MAX], found.parts[SUBTASKS_MAX:]
    assert [part.facts["headgate.subtask"] for part in acknowledged] == list(range(99, 99 - SUBTASKS_MAX, -1))
    assert {(part.name, part.facts["headgate.operator"]) for part in acknowledged} == {
        ("acknowledge", "count")
    }
    assert [part.name for part in rest] == ["store", "commit"]
    assert [len(part.parts) for part in found.parts[:3]] == [4, 0, 0]
    assert found.error is None


def test_a_recovery_lasts_from_the_first_failure_until_the_job_runs() -> None:
    """Of several failures in a row there is one; a job that ends before has one that failed."""
    seen = Recoveries()
    assert seen.running(1, 10) is None
    seen.failed(1, "ValueError", "first", 1_000)
    seen.deploying(2, None, 1_100)
    seen.failed(2, "OSError", "second", 1_200)
    seen.deploying(3, 4, 1_500)
    found = seen.running(3, 2_000)
    assert found is not None
    assert (found.begin_ms, found.end_ms, found.error) == (1_000, 2_000, None)
    assert found.facts["exception.message"] == "first"
    assert found.facts["headgate.failures"] == 2
    assert found.facts["headgate.checkpoint.restored"] == 4
    assert seen.running(3, 2_100) is None
    seen.failed(3, "ValueError", "last", 3_000)
    ended = seen.ended(3_001)
    assert ended is not None
    assert ended.error == "the job ended before it ran again"
    assert seen.ended(3_002) is None
