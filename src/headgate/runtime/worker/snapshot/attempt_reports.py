"""What the subtasks of one attempt report to the job master."""

from __future__ import annotations

from headgate.common.ids import SubtaskId
from headgate.common.ports import Link, Probe
from headgate.core.subtask_checkpoints import SubtaskCheckpoints
from headgate.runtime.protocol import messages as m
from headgate.runtime.worker.in_flight.stored_parts import NotStorableError
from headgate.state.snapshots import SubtaskSnapshot


class AttemptReports:
    """Sends the job master what happens to the subtasks of one attempt in this worker; used by the loop."""

    def __init__(self, attempt: int, link: Link, probe: Probe) -> None:
        self.attempt, self.link, self.probe = attempt, link, probe
        # which checkpoints of each subtask are being written
        self.checkpoints: dict[SubtaskId, SubtaskCheckpoints] = {}
        # whether the attempt has ended, so that the end of a snapshot is no longer reported
        self.over = False

    def acknowledge(self, subtask: SubtaskId, checkpoint: int, snapshot: SubtaskSnapshot) -> None:
        """Report a snapshot that is durable."""
        if self._is_awaited(subtask, checkpoint):
            self.probe.reached("ack.before")
            self.link.send(m.Acknowledge(self.attempt, checkpoint, snapshot))
            self.probe.reached("ack.after")

    def could_not_finish(self, subtask: SubtaskId, checkpoint: int, error: BaseException) -> None:
        """Report a snapshot that could not be written."""
        if self._is_awaited(subtask, checkpoint):
            unfit = isinstance(error, NotStorableError)
            reason = "CHANNEL_STATE_SHARED_STREAM_EXCEPTION" if unfit else "CHECKPOINT_ASYNC_EXCEPTION"
            detail = f"{type(error).__name__}: {error}"
            self.link.send(m.Decline(self.attempt, checkpoint, *subtask, reason, detail))

    def _is_awaited(self, subtask: SubtaskId, checkpoint: int) -> bool:
        """Whether the job master still waits for the snapshot, which has come to its end."""
        return not self.over and self.checkpoints[subtask].finished(checkpoint)

    def checkpoint_declined(self, subtask: SubtaskId, checkpoint: int, reason: str) -> None:
        """Report that a subtask takes no snapshot for `checkpoint`."""
        self.link.send(m.Decline(self.attempt, checkpoint, *subtask, reason, ""))

    def recovered(self, subtask: SubtaskId) -> None:
        """Report that a subtask has processed what the restored checkpoint had in flight."""
        self.link.send(m.Recovered(self.attempt, *subtask))

    def request_splits(self, subtask: SubtaskId) -> None:
        """Ask for splits, of which a reader has none left."""
        self.link.send(m.RequestSplits(self.attempt, *subtask))

    def data_ended(self, subtask: SubtaskId, counters: m.Counters) -> None:
        """Report that all input of a subtask is processed, with its final totals."""
        self.link.send(m.DataEnded(self.attempt, *subtask, counters))
