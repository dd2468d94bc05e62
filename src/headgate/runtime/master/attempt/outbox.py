"""A queue of events for the job's state machine, which the parts of a job master fill."""

from __future__ import annotations

from collections import deque

from headgate.common.errors import HeadgateError, JobFailedError, restart_may_help
from headgate.core.job import events as v
from headgate.core.job.state import Failure
from headgate.runtime.master.attempt.repeated_failures import fingerprint_of


class Outbox:
    """A queue of events for the job's state machine, oldest first; used by the job master's loop only."""

    def __init__(self) -> None:
        self._events: deque[v.Event] = deque()

    def put(self, event: v.Event) -> None:
        self._events.append(event)

    def attempt_failed(self, attempt: int, error: Exception) -> None:
        self.put(v.AttemptFailed(attempt, failure_of(error)))

    def take(self) -> v.Event | None:
        return self._events.popleft() if self._events else None


def failure_of(error: Exception) -> Failure:
    """Return `error` as the state machine takes failures: with its fingerprint, and whether a restart may
    help. Errors that are not Headgate's are wrapped in a JobFailedError. The fingerprint is the same for
    failures of the same kind and place; None: it cannot be compared with others.
    """
    if not isinstance(error, HeadgateError):
        error = JobFailedError(f"{type(error).__name__}: {error}")
    return Failure(error, restart_may_help(error), fingerprint_of(error))
