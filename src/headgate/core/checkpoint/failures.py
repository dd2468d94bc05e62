"""Why a checkpoint fails, and how many failures a job tolerates.

The reasons are a closed set under Flink's names; each carries its text and two policy flags.
"""

from __future__ import annotations

from enum import Enum

from headgate.common.ids import CheckpointId


class CheckpointFailureReason(Enum):
    """Why a request was turned down or a pending checkpoint was aborted.

    Each member has a `text` for people, `pre_flight` (no task was involved yet) and `counted`
    (it uses up one of the tolerable failures).
    """

    CHECKPOINT_COORDINATOR_SHUTDOWN = ("the checkpoint coordinator has shut down", False, False)
    CHECKPOINT_COORDINATOR_SUSPEND = ("the checkpoint coordinator is suspended", False, False)
    PERIODIC_SCHEDULER_SHUTDOWN = ("periodic checkpoints are switched off", True, False)
    ALREADY_QUEUED = ("another checkpoint waits or is being set up", True, False)
    TOO_MANY_CONCURRENT_CHECKPOINTS = ("as many checkpoints as allowed are in progress", True, False)
    TOO_MANY_CHECKPOINT_REQUESTS = ("too many checkpoint requests are waiting", True, False)
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = (
        "the minimum pause since the last completed checkpoint has not passed",
        True,
        False,
    )
    NOT_ALL_REQUIRED_TASKS_RUNNING = ("not all tasks of the job are running", True, False)
    BLOCKING_OUTPUT_EXIST = ("an exchange of the job cannot be checkpointed", True, False)
    IO_EXCEPTION = ("the storage location could not be prepared", True, True)
    TRIGGER_CHECKPOINT_FAILURE = ("the job master could not start the checkpoint", False, False)
    CHECKPOINT_ASYNC_EXCEPTION = ("a task failed to write its snapshot", False, True)
    CHECKPOINT_DECLINED = ("a task declined the checkpoint", False, True)
    CHECKPOINT_DECLINED_TASK_NOT_READY = ("a task was not ready for the checkpoint", False, False)
    CHECKPOINT_DECLINED_TASK_CLOSING = ("a task is closing", False, False)
    CHECKPOINT_DECLINED_SUBSUMED = ("a task saw the barrier of a newer checkpoint first", False, False)
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = (
        "a task received the cancellation of this checkpoint from upstream",
        False,
        False,
    )
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = ("the input ended before the checkpoint", False, False)
    CHANNEL_STATE_SHARED_STREAM_EXCEPTION = ("records in flight cannot be stored", False, False)
    CHECKPOINT_EXPIRED = ("the checkpoint was not complete within its timeout", False, True)
    CHECKPOINT_SUBSUMED = ("a newer checkpoint completed first", False, False)
    FINALIZE_CHECKPOINT_FAILURE = ("the completed checkpoint could not be stored", False, True)
    TASK_FAILURE = ("a task failed", False, False)
    TASK_CHECKPOINT_FAILURE = ("a task failed in its part of the checkpoint", False, False)
    UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE = (
        "a notice about the checkpoint reached no known task",
        False,
        False,
    )
    JOB_FAILOVER_REGION = ("the job restarts", False, False)

    def __init__(self, text: str, pre_flight: bool, counted: bool) -> None:
        self.text = text
        self.pre_flight = pre_flight
        self.counted = counted


class FailureBudget:
    """Counts failed checkpoints since the last completed one (each id once); reports when they are too many.

    Up to `tolerable` counted failures in a row are accepted; the next one fails the job.

    Example:
        >>> budget = FailureBudget(tolerable=1)
        >>> expired = CheckpointFailureReason.CHECKPOINT_EXPIRED
        >>> [budget.exceeded_by(CheckpointId(n), expired) for n in (1, 1, 2)]
        [False, False, True]
    """

    __slots__ = ("_counted", "_last_success", "_unnamed", "tolerable")

    def __init__(self, tolerable: int) -> None:
        self.tolerable = tolerable
        self._counted: set[CheckpointId] = set()
        self._unnamed = 0
        self._last_success = 0

    @property
    def failures(self) -> int:
        return len(self._counted) + self._unnamed

    def succeeded(self, checkpoint: CheckpointId) -> None:
        """Set the count to zero: `checkpoint` completed. Later failures of older ones do not count."""
        self._last_success = max(self._last_success, checkpoint)
        self.clear()

    def clear(self) -> None:
        self._counted.clear()
        self._unnamed = 0

    def exceeded_by(self, checkpoint: CheckpointId | None, reason: CheckpointFailureReason) -> bool:
        """Count one failure, if `reason` is counted; return True, and clear the count, if there are too many.
        A failure of a checkpoint that had no id yet (None) always counts; one of a checkpoint older than the
        last completed one never does, nor a second one of the same id.
        """
        if not reason.counted:
            return False
        if checkpoint is None:
            self._unnamed += 1
        elif checkpoint > self._last_success:
            self._counted.add(checkpoint)
        if self.failures <= self.tolerable:
            return False
        self.clear()
        return True
