"""Why checkpoints fail, and how many failures a job puts up with."""

from __future__ import annotations

from headgate.common.ids import CheckpointId
from headgate.core.checkpoint.failures import CheckpointFailureReason as Reason
from headgate.core.checkpoint.failures import FailureBudget


def test_budget_counts_once_per_id_and_ignores_the_uncounted() -> None:
    """1.J: once per id, without id always, ids at or below the last success never, uncounted never."""
    budget = FailureBudget(tolerable=2)
    budget.succeeded(CheckpointId(4))
    assert not budget.exceeded_by(CheckpointId(4), Reason.CHECKPOINT_EXPIRED)
    assert not budget.exceeded_by(CheckpointId(5), Reason.CHECKPOINT_SUBSUMED)
    assert budget.failures == 0
    assert not budget.exceeded_by(None, Reason.IO_EXCEPTION)
    assert not budget.exceeded_by(None, Reason.IO_EXCEPTION)
    assert budget.exceeded_by(CheckpointId(6), Reason.CHECKPOINT_DECLINED)
    assert budget.failures == 0


def test_counted_reasons_are_exactly_these() -> None:
    """1.J: only these use up a tolerable failure."""
    assert {reason.name for reason in Reason if reason.counted} == {
        "IO_EXCEPTION",
        "CHECKPOINT_ASYNC_EXCEPTION",
        "CHECKPOINT_DECLINED",
        "CHECKPOINT_EXPIRED",
        "FINALIZE_CHECKPOINT_FAILURE",
    }


def test_pre_flight_reasons_are_exactly_these() -> None:
    """1.J: no task is involved in these, nor in the two that say why a request waits."""
    assert {reason.name for reason in Reason if reason.pre_flight} == {
        "PERIODIC_SCHEDULER_SHUTDOWN",
        "TOO_MANY_CHECKPOINT_REQUESTS",
        "MINIMUM_TIME_BETWEEN_CHECKPOINTS",
        "NOT_ALL_REQUIRED_TASKS_RUNNING",
        "IO_EXCEPTION",
        "BLOCKING_OUTPUT_EXIST",
        "ALREADY_QUEUED",
        "TOO_MANY_CONCURRENT_CHECKPOINTS",
    }


def test_never_counted_reasons_are_all_the_others() -> None:
    """1.J: the set is closed; each reason has a text of its own."""
    assert {reason.name for reason in Reason if not (reason.counted or reason.pre_flight)} == {
        "CHECKPOINT_SUBSUMED",
        "CHECKPOINT_DECLINED_TASK_NOT_READY",
        "CHECKPOINT_DECLINED_TASK_CLOSING",
        "CHECKPOINT_DECLINED_SUBSUMED",
        "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER",
        "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM",
        "CHANNEL_STATE_SHARED_STREAM_EXCEPTION",
        "CHECKPOINT_COORDINATOR_SHUTDOWN",
        "CHECKPOINT_COORDINATOR_SUSPEND",
        "JOB_FAILOVER_REGION",
        "TASK_FAILURE",
        "TASK_CHECKPOINT_FAILURE",
        "UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE",
        "TRIGGER_CHECKPOINT_FAILURE",
    }
    assert len({reason.text for reason in Reason}) == len(Reason)
