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
        """Append an event for the state machine, which gets it at the end of the loop's present turn."""
        self._events.append(event)

    def attempt_failed(self, attempt: int, error: Exception) -> None:
        """Append the event that attempt number `attempt` has failed with `error`."""
        self.put(v.AttemptFailed(attempt, failure_of(error)))

    def take(self) -> v.Event | None:
        """Remove and return the oldest event; None: there is none."""
        return self._events.popleft() if self._events else None


def failure_of(error: Exception) -> Failure:
    """Return `error`, wrapped unless Headgate's, with its fingerprint and whether a restart may help."""
    if not isinstance(error, HeadgateError):
        error = JobFailedError(f"{type(error).__name__}: {error}")
    return Failure(error, restart_may_help(error), fingerprint_of(error))
