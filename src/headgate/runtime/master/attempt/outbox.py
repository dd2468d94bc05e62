"""What the parts of a job master found out, as events for the job's machine."""

from __future__ import annotations

from collections import deque

from headgate.common.errors import HeadgateError, JobFailedError, restart_may_help
from headgate.core.job import events as v
from headgate.core.job.state import Failure
from headgate.runtime.master.attempt.repeated_failures import fingerprint_of


class Outbox:
    """Events in the order in which they happened; used by the job master's loop only."""

    def __init__(self) -> None:
        self._events: deque[v.Event] = deque()

    def put(self, event: v.Event) -> None:
        """Something happened."""
        self._events.append(event)

    def attempt_failed(self, attempt: int, error: Exception) -> None:
        """An attempt cannot go on."""
        self.put(v.AttemptFailed(attempt, failure_of(error)))

    def take(self) -> v.Event | None:
        """Return the oldest event; None: there is none."""
        return self._events.popleft() if self._events else None


def failure_of(error: Exception) -> Failure:
    """Return a failure of an error, as the machine knows it: an opaque id, and what decides on a restart."""
    if not isinstance(error, HeadgateError):
        error = JobFailedError(f"{type(error).__name__}: {error}")
    return Failure(error, restart_may_help(error), fingerprint_of(error))
