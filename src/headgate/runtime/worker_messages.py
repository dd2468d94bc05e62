"""What the workers of the present attempt say, and what each word sets in motion."""

from __future__ import annotations

from typing import Any, Protocol

from headgate.common.errors import DamagedFileError, HeadgateError
from headgate.common.ports import Clock
from headgate.core.execution import JobState
from headgate.runtime.attempts import Attempts
from headgate.runtime.checkpoint_master import CheckpointMaster
from headgate.runtime.control import messages as m
from headgate.runtime.events import JobListener
from headgate.runtime.worker import rebuild_error

CAUSE_WAIT_MS = 500
"""How long a lost connection between workers waits for the failure that caused it."""


class WorkerMessagesHost(Protocol):
    """What is asked of the job master."""

    @property
    def state(self) -> JobState:
        """Where the job is in its life."""
        ...

    def deployed(self, slot: int) -> None:
        """A worker's subtasks run."""
        ...

    def data_ended(self, slot: int, message: m.DataEnded) -> None:
        """A subtask has processed all its input."""
        ...

    def attempt_failed(self, error: Exception) -> None:
        """The attempt cannot go on."""
        ...


class WorkerMessages:
    """Used by the job master's loop.

    Args:
        host: the job master.
        attempts: its deployments.
        checkpoints: its checkpoints.
        clock: time.
        listener: hears what sinks tell.
    """

    def __init__(
        self,
        host: WorkerMessagesHost,
        attempts: Attempts,
        checkpoints: CheckpointMaster,
        clock: Clock,
        listener: JobListener,
    ) -> None:
        self._host, self._attempts, self._checkpoints, self._clock = host, attempts, checkpoints, clock
        self._listener = listener
        self._suspicion: tuple[HeadgateError, int] | None = None

    def obey(self, slot: int, message: Any) -> None:
        """A message of the present attempt."""
        if isinstance(message, m.TaskFailed):
            self._task_failed(message)
        elif isinstance(message, m.Deployed):
            self._host.deployed(slot)
        elif isinstance(message, m.StateAnswer):
            self._attempts.queries.answered(message)
        elif self._host.state not in (JobState.DEPLOYING, JobState.RUNNING):
            return
        elif isinstance(message, m.RequestSplits):
            # Workers do not wait for each other: one may read, or be done, before the last is deployed.
            self._assign_splits(slot, message)
        elif isinstance(message, m.Told):
            self._listener.told(message.uid, message.subtask, message.data)
        elif isinstance(message, m.Recovered):
            self._checkpoints.recovered(message.vertex, message.subtask)
        elif isinstance(message, m.DataEnded):
            self._host.data_ended(slot, message)
        elif isinstance(message, m.Acknowledge):
            self._checkpoints.acknowledged(message)
        elif isinstance(message, m.Decline):
            self._checkpoints.declined(message)

    def tick(self) -> None:
        """Time passed: a suspicion that nothing explained is the cause itself."""
        suspicion = self._suspicion
        if suspicion is not None and self._clock.monotonic_ms() >= suspicion[1]:
            self._host.attempt_failed(suspicion[0])

    def next_wakeup(self) -> int | None:
        """When :meth:`tick` has something to do (monotonic ms)."""
        return None if self._suspicion is None else self._suspicion[1]

    def forget_suspicion(self) -> None:
        """The cause is known, or the attempt that the suspicion is about is over."""
        self._suspicion = None

    def _assign_splits(self, slot: int, request: m.RequestSplits) -> None:
        try:
            self._attempts.assign_splits(slot, request)
        except Exception as error:
            self._host.attempt_failed(error)

    def _task_failed(self, failure: m.TaskFailed) -> None:
        error = rebuild_error(failure.kind, failure.arguments)
        point, attempt = self._attempts.point, self._attempts.number
        if isinstance(error, DamagedFileError) and point is not None:
            self._checkpoints.explain(error, point, lambda told: self._explained(attempt, told))
        elif failure.lost_peer is None:
            self._host.attempt_failed(error)
        elif not self._host.state.between_attempts and self._suspicion is None:
            # A consequence, most likely: the peer, or its end, will soon tell the cause.
            self._suspicion = error, self._clock.monotonic_ms() + CAUSE_WAIT_MS

    def _explained(self, attempt: int, error: HeadgateError) -> None:
        if attempt == self._attempts.number:
            self._host.attempt_failed(error)
