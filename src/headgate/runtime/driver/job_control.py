"""Lets other threads control a running job: hands each request to the job master's loop, and the reply back.

Every callback `then` is called exactly once: by the job master, or with an error when the job ends before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from headgate.api.jobs.executor_contract import JobStatus, Then
from headgate.common.errors import HeadgateError, OperatingError
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.execution import JobState
from headgate.runtime.master.checkpoints.running_savepoints import SavepointRequest
from headgate.runtime.master.job_master import JobMaster
from headgate.runtime.master.job_status import status_of

STATUS_WAIT_S: Final = 10.0


class JobControl:
    """Controls a running job, from any thread; implements the interface in `api.jobs.executor_contract`."""

    def __init__(
        self, master: JobMaster, post: Callable[[Callable[[], None]], None], started_ms: int
    ) -> None:
        self._master, self._post, self._started_ms = master, post, started_ms
        self._lock = threading.Lock()
        self._waiting: set[_Requester] = set()
        self._last: JobStatus | None = None

    def status(self) -> JobStatus:
        """Return the job's present or final status; OperatingError if its loop is silent for 10 seconds."""
        answer: Future[JobStatus] = Future()

        def then(status: JobStatus, error: HeadgateError | None) -> None:
            if error is None:
                answer.set_result(status)
            elif self._last is not None:
                answer.set_result(self._last)
            else:
                answer.set_exception(error)

        self._ask(lambda reply_to: reply_to(status_of(self._master, self._started_ms), None), then)
        try:
            return answer.result(STATUS_WAIT_S)
        except TimeoutError:
            raise OperatingError(
                f"the loop of job {self._master.name!r} did not answer within {STATUS_WAIT_S:.0f} s; "
                "the driver is overloaded, or stands still"
            ) from None

    def checkpoint(self, then: Then) -> None:
        """Request a checkpoint now; `then` gets its URI once its output is committed, or the error."""
        self._ask(self._master.take_checkpoint, then)

    def savepoint(self, target: str | None, format: str, then: Then) -> None:  # noqa: A002 - users know it
        """Request a savepoint below folder `target` (None: as configured); `then` gets its URI, or the error.
        `format` is "canonical" or "native". `then` is called once the savepoint is complete.
        """
        request = SavepointRequest(target, format)
        self._ask(lambda reply_to: request_savepoint(self._master, request, reply_to), then)

    def stop(self, target: str | None, format: str, drain: bool, then: Then) -> None:  # noqa: A002
        """Stop the job with a savepoint, as in :meth:`savepoint`; `then` gets the URI, or the error.
        With `drain` event time ends before the savepoint, so that all event-time timers fire.
        """
        request = SavepointRequest(target, format, stop=True, drain=drain)
        self._ask(lambda reply_to: request_savepoint(self._master, request, reply_to), then)

    def cancel(self, handed_over: bool = False) -> None:
        """Request to end the job now, without a wait; `handed_over`: another driver may go on (with HA)."""
        self._post(lambda: self._master.cancel(handed_over))

    def rescale(self, parallelism: int, then: Then, from_last: bool = False) -> None:
        """Request another parallelism; `then` gets it once all subtasks run, or the error.
        With `from_last` the last completed checkpoint is used where no new one can be taken.
        """
        self._ask(lambda reply_to: self._master.rescale(parallelism, from_last, reply_to), then)

    def close(self) -> None:
        """Keep the last status; waiting and later requests get OperatingError, as the loop runs no more."""
        with self._lock:
            self._last = status_of(self._master, self._started_ms)
            left, self._waiting = self._waiting, set()
        for requester in left:
            requester(None, self._has_ended())

    def _ask(self, act: Callable[[Then], None], then: Then) -> None:
        requester = _Requester(then, self._answered)
        with self._lock:
            ended = self._last is not None
            if not ended:
                self._waiting.add(requester)
        if ended:
            then(None, self._has_ended())
        else:
            self._post(lambda: act(requester))

    def _answered(self, requester: _Requester) -> None:
        with self._lock:
            self._waiting.discard(requester)

    def _has_ended(self) -> OperatingError:
        return OperatingError(
            f"job {self._master.name!r} is {self._master.state.value}, so nothing can be asked of it any more"
        )


class _Requester:
    """A callback for the reply to one request: it passes the first reply on and ignores any further one."""

    def __init__(self, then: Then, answered: Callable[[_Requester], None]) -> None:
        self._then: Then | None = then
        self._answered = answered

    def __call__(self, answer: Any, error: HeadgateError | None) -> None:
        then, self._then = self._then, None
        if then is not None:
            self._answered(self)
            then(answer, error)


def request_savepoint(master: JobMaster, request: SavepointRequest, then: Then) -> None:
    """Take a savepoint, or stop the job with one; `then` gets its URI. Call it in the job master's loop.
    While not all subtasks run, `then` gets an OperatingError: the requester may rather wait, or cancel.
    """
    if master.state is JobState.RUNNING:
        master.take_savepoint(request, then)
        return
    reason = CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
    what = "the job was not stopped" if request.stop else "the savepoint was not taken"
    why = f"{reason.text} ({reason.name}: the job is {master.state.value})"
    then(None, OperatingError(f"{what}: {why}; ask again once it is running"))
