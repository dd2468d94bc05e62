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
    """Controls a running job, from any thread; implements the interface in `api.jobs.executor_contract`.
    Made by the driver, which closes it when the job has ended. `post` has the job master's loop run a
    callback; `started_ms` (ms since the epoch) is when the job started, for its status; `terminates` does in
    that loop what SIGTERM is to do.
    """

    def __init__(
        self,
        master: JobMaster,
        post: Callable[[Callable[[], None]], None],
        started_ms: int,
        terminates: Callable[[], None] | None = None,
    ) -> None:
        self._terminates = terminates
        self._master, self._post, self._started_ms = master, post, started_ms
        self._lock = threading.Lock()
        self._waiting: set[_Requester] = set()
        self._last: JobStatus | None = None

    def status(self) -> JobStatus:
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
        self._ask(self._master.take_checkpoint, then)

    def savepoint(self, target: str | None, format: str, then: Then) -> None:  # noqa: A002 - users know it
        request = SavepointRequest(target, format)
        self._ask(lambda reply_to: request_savepoint(self._master, request, reply_to), then)

    def stop(self, target: str | None, format: str, drain: bool, then: Then) -> None:  # noqa: A002
        request = SavepointRequest(target, format, stop=True, drain=drain)
        self._ask(lambda reply_to: request_savepoint(self._master, request, reply_to), then)

    def cancel(self, handed_over: bool = False) -> None:
        self._post(lambda: self._master.cancel(handed_over))

    def terminate(self) -> None:
        if self._terminates is None:
            self.cancel(handed_over=True)
        else:
            self._post(self._terminates)

    def rescale(self, parallelism: int, then: Then, from_last: bool = False) -> None:
        self._ask(lambda reply_to: self._master.rescale(parallelism, from_last, reply_to), then)

    def close(self) -> None:
        """End the control: the job's loop runs no more. The driver calls this once, in the loop's thread.

        The last status is kept for :meth:`status`. Requests that wait get OperatingError now; later ones get
        it at once, in their caller's thread.
        """
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
    """The callback for the reply to one request: passes the first reply on and ignores any further one.

    It tells the job's control first (`answered`), so that the end of the job does not answer the request
    again.
    """

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
