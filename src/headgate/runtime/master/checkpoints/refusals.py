"""Texts of the errors with which a job master reports a failed checkpoint, savepoint or stop."""

from __future__ import annotations

from headgate.common.errors import OperatingError, StorageError
from headgate.core.checkpoint.effects import FailJob, RequestFailed, RequestKind

_WHAT = {
    RequestKind.MANUAL: "the checkpoint was not taken",
    RequestKind.SAVEPOINT: "the savepoint was not taken",
    RequestKind.STOP: "the job was not stopped",
}


def request_error(failed: RequestFailed) -> OperatingError:
    """Return the error that answers a failed request for a checkpoint, a savepoint or a stop.

    Example:
        >>> from headgate.core.checkpoint.failures import CheckpointFailureReason
        >>> reason = CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        >>> str(request_error(RequestFailed(1, RequestKind.SAVEPOINT, reason, "it is recovering")))
        'the savepoint was not taken: not all tasks of the job are running \
    (NOT_ALL_REQUIRED_TASKS_RUNNING: it is recovering)'
    """
    what = _WHAT.get(failed.kind, f"the {failed.kind.value} checkpoint was not taken")
    which = "" if failed.checkpoint is None else f"checkpoint {failed.checkpoint}, "
    detail = f": {failed.detail}" if failed.detail else ""
    return OperatingError(f"{what}: {failed.reason.text} ({which}{failed.reason.name}{detail})")


def checkpoints_failed(effect: FailJob) -> StorageError:
    """Return the error by which the attempt fails: too many checkpoints failed, or that of a stop did."""
    which = "a checkpoint" if effect.checkpoint is None else f"checkpoint {effect.checkpoint}"
    detail = f": {effect.detail}" if effect.detail else ""
    if effect.stopping:
        return StorageError(
            f"the job was not stopped: {which} failed ({effect.reason.name}{detail}) when its sources had "
            "stopped already; it goes on from the last checkpoint"
        )
    return StorageError(
        f"{which} failed ({effect.reason.name}{detail}), which is more than "
        "execution.checkpointing.tolerable-failed-checkpoints allows"
    )
