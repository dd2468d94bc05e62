"""Handles of jobs in the background of a program: take savepoints, stop or cancel, wait for the result."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Final

from typing_extensions import override

from headgate.api.checking.arguments import check_seconds
from headgate.api.jobs.executor_contract import Executor, JobControl, JobResult, JobSpec, JobStatus
from headgate.api.jobs.sigterm_of_handles import forget, tell_of_sigterm
from headgate.api.showing import html_facts
from headgate.common.errors import HeadgateError, OperatingError, TerminatedError, UsageError
from headgate.common.files.durable import clock
from headgate.common.plain_data import Json
from headgate.common.process.signal_handlers import signal_behind
from headgate.common.settings import options as o

END_WAIT_S: Final = 60.0  # how long a stop waits for the driver once the savepoint is there
CANCEL_WAIT_S: Final = 60.0
"""Default time that :meth:`JobHandle.cancel` waits for the end of the job; Spark may take some seconds."""


class JobRequests(ABC):
    """Base class of handles of running jobs: each request waits for the answer of the job's driver."""

    def checkpoint(self, timeout_s: float | None = None) -> str:
        """Take a checkpoint now; return its URI once it is complete and committed.

        Args:
            timeout_s: how long to wait for it; None: as long as it takes.

        Raises:
            OperatingError: it was not taken; the message says why.
            ConfigError: the job takes no checkpoints.
            TimeoutError: the checkpoint is not complete yet, but goes on.
        """
        return str(self._request("checkpoint", {}, timeout_s))

    def savepoint(
        self,
        target: str | None = None,
        format: str = "canonical",  # noqa: A002 - the name that users know
        timeout_s: float | None = None,
    ) -> str:
        """Take a savepoint and let the job continue; return its URI, which any later job can begin from.

        Args:
            target: folder or URI that gets the savepoint's own folder; by default
                ``execution.checkpointing.savepoint-dir``.
            format: "canonical" are Parquet tables that any backend and other tools read, "native" the files
                of the state backend, which are written and restored faster.
            timeout_s: how long to wait for the savepoint; None: as long as it takes.

        Raises:
            ConfigError: no such format, or no folder is given or configured.
            OperatingError: it was not taken; the message says why. The job continues all the same.
            TimeoutError: the savepoint is not complete yet, but goes on.
        """
        return str(self._request("savepoint", {"target": target, "format": format}, timeout_s))

    def stop(
        self,
        target: str | None = None,
        format: str = "canonical",  # noqa: A002 - the name that users know
        drain: bool = False,
        timeout_s: float | None = None,
    ) -> str:
        """End the job with a savepoint; its output up to there is committed. Return the savepoint's URI, once
        the driver has left the job's folders (or after a minute), so that the next job can begin from it.

        Args:
            target: as for :meth:`savepoint`.
            format: as for :meth:`savepoint`.
            drain: whether event time ends before, so that all event-time timers fire and their output is
                part of what was committed: for a job that is not to be continued.
            timeout_s: how long to wait for the end; None: as long as it takes.

        Raises:
            ConfigError: no such format, or no folder is given or configured.
            OperatingError: the job was not stopped; says why. If its sources had stopped, the job restarts.
            TimeoutError: the job has not stopped yet; the request stays in force.
        """
        began = clock.monotonic()
        uri = self._request("stop", {"target": target, "format": format, "drain": drain}, timeout_s)
        # The savepoint is there whatever becomes of the driver: no end that takes long loses its URI.
        left_s = END_WAIT_S if timeout_s is None else began + timeout_s - clock.monotonic()
        self._await_end(clock.monotonic() + min(left_s, END_WAIT_S))
        return str(uri)

    def rescale(self, parallelism: int, from_last: bool = False, timeout_s: float | None = None) -> None:
        """Continue the job at another parallelism, from a checkpoint that is taken for it.

        Args:
            parallelism: subtasks of every operator; one for which the program asks fewer keeps its own
                number.
            from_last: whether the last completed checkpoint will do where no new one can be taken, as when
                the job cannot start because slots were lost.
            timeout_s: how long to wait until all subtasks run; None: as long as it takes.

        Raises:
            UsageError: this is not possible, as with too few slots or key groups; the job was not touched.
            OperatingError: rescaling failed; says whether the job was not touched or is as it was before.
            TimeoutError: rescaling is not done yet, but goes on.
        """
        self._request("rescale", {"parallelism": parallelism, "from_last": from_last}, timeout_s)

    @abstractmethod
    def _request(self, what: str, arguments: Mapping[str, Json], timeout_s: float | None) -> Json:
        """Send a request to the job's driver, wait for its answer, and return it; raise the error that it
        gives. `what` is the method of :class:`JobControl` ("stop"), `arguments` are its arguments but for
        `then`. TimeoutError after `timeout_s` seconds (None: no limit), the wait for the job's start
        included.
        """

    @abstractmethod
    def _await_end(self, until: float) -> None:
        """Return when the job's driver has ended, or at the time `until` (monotonic seconds)."""


class JobHandle(JobRequests):
    """A job that :meth:`Environment.execute_async` started; usable from any thread.

    Each request waits for its answer. A job whose :meth:`result` is never asked for runs all the same, and
    the process lives until it has ended; what the job raises is then lost. As a context manager it is waited
    for at the end of the block, and cancelled first if the block raises.

    Example:
        >>> import headgate as hg
        >>> from headgate.testing import MiniCluster
        >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
        >>> numbers = env.from_collection([1, 2, 3]).collect_later()
        >>> job = env.execute_async("numbers")
        >>> job.result().restarts, job.status().state, sorted(numbers.records)
        (0, 'finished', [1, 2, 3])
    """

    def __init__(
        self,
        executor: Executor,
        job: JobSpec,
        finished: Callable[[JobResult], JobResult],
        refused: Callable[[], None],
    ) -> None:
        self.name = job.name
        self._control: Future[JobControl] = Future()
        self._result: Future[JobResult] = Future()
        self._given_up = threading.Event()
        self._survives = job.config.get(o.HIGH_AVAILABILITY) is not o.HighAvailabilityType.NONE
        spec = replace(job, begins=self._control.set_result, given_up=self._given_up.is_set)

        def run() -> None:
            try:
                code = spec.user_code
                ended = executor.execute(spec) if code is None else code.call(executor.execute, spec)
                self._result.set_result(finished(ended))
                self._refuse_questions(OperatingError("another driver has brought it to its end"))
            except BaseException as error:
                if isinstance(error, UsageError) and not self._control.done():
                    refused()
                self._result.set_exception(error)
                self._refuse_questions(error)
            finally:
                self._hear_no_more()

        self._thread = threading.Thread(target=run, name=f"headgate-job-{job.name}")
        self._saved = not self._survives and job.config.get(o.ON_SIGTERM) is o.OnSigterm.SAVEPOINT
        if self._saved:
            tell_of_sigterm(self)
        self._thread.start()

    def __enter__(self) -> JobHandle:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            self._leave(error)
        try:
            self._thread.join()
        except KeyboardInterrupt as interrupt:
            self._leave(interrupt)
            self._thread.join()
            raise
        finally:
            self._hear_no_more()

    def __repr__(self) -> str:
        state, status = self._seen()
        details = "" if status is None else f", attempt {status.attempt}, restarts {status.restarts}"
        return f"<JobHandle {self.name!r}: {state}{details}>"

    def _repr_html_(self) -> str:
        state, status = self._seen()
        return html_facts(f"job {self.name}", {"state": state}) if status is None else status._repr_html_()

    def _seen(self) -> tuple[str, JobStatus | None]:
        if not self._control.done():
            return "starting", None  # it is not waited for
        try:
            status = self._control.result().status()
        except HeadgateError:
            return "did not begin" if self._control.exception() else "does not answer", None
        return status.state, status

    def result(self, timeout_s: float | None = None) -> JobResult:
        """Wait until the job has ended, and return its result.

        Args:
            timeout_s: how long to wait; None: until the job has ended.

        Raises:
            UsageError: the job could not run; nothing was started.
            UserFunctionError: the program's code failed and the restart strategy gave up.
            JobFailedError: the job was cancelled, or failed otherwise and the restart strategy gave up.
            TimeoutError: the job has not ended within `timeout_s`, and goes on.
            KeyboardInterrupt: Ctrl-C while waiting; the job was cancelled first. Where a signal ends the
                process, the job was left to the next driver, if there can be one.
        """
        try:
            return self._result.result(timeout_s)
        except KeyboardInterrupt as error:
            self._leave(error)
            self._thread.join()
            raise
        finally:
            self._hear_no_more()

    @property
    def done(self) -> bool:
        """Whether the job has ended, in whatever way."""
        self._hear_no_more()
        return self._result.done()

    def status(self) -> JobStatus:
        """Return the job's status now, or when it ended; wait until it has begun.

        Raises:
            OperatingError: the job did not begin (UsageError if it was refused), or does not answer.
        """
        return self._control.result().status()

    def cancel(self, timeout_s: float | None = CANCEL_WAIT_S) -> None:
        """End the job now, or as soon as it begins, and wait for that: the next job finds its slots free.

        :meth:`result` then raises. While this driver stands by for another one that leads the job, only the
        waiting ends.

        Args:
            timeout_s: how long to wait; 0: not at all; None: until it has ended.

        Raises:
            PlanError: `timeout_s` is below 0; the job is not cancelled.
            TimeoutError: the job has not ended yet, but will.
        """
        check_seconds("cancel", timeout_s, zero=True)
        self._end(handed_over=False)
        if timeout_s == 0 or threading.current_thread() is self._thread:
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimeoutError(
                f"job {self.name!r} has not ended {timeout_s} s after it was cancelled; result() waits for it"
            )

    def hand_over(self) -> bool:
        """With high availability, end this driver and leave the job to the next one; otherwise cancel it.

        Returns:
            True with high availability, where another driver may go on with the job; False if cancelled.
        """
        self._end(handed_over=True)
        return self._survives

    def terminate(self) -> None:
        """Begin to end the job as ``headgate.on-sigterm`` has it, and do not wait for that: stop it with a
        savepoint, or do as :meth:`hand_over`. A job that has not begun is cancelled.
        """
        if self._saved and self._control.done() and self._control.exception() is None:
            self._control.result().terminate()
        else:
            self.hand_over()

    def leave(self, error: TerminatedError) -> None:
        """End the job for a signal that ends the process; `error` gets what became of it.

        Args:
            error: raised by the signal. After SIGTERM a job that is stopped with a savepoint is waited for;
                a second signal while it is cancels it.
        """
        if not self._saved or not error.by_sigterm:
            error.goes_on = self.hand_over()
            return
        self.terminate()
        try:
            self._thread.join()
        except KeyboardInterrupt:
            self._end(handed_over=False)
            return
        if self._result.exception() is None:
            error.savepoint = self._result.result().savepoint

    def _leave(self, error: BaseException) -> None:
        by_signal = signal_behind(error)
        if by_signal is not None:
            self.leave(by_signal)
        else:
            self._end(handed_over=False)

    def _hear_no_more(self) -> None:
        if self._saved and self._result.done():
            forget(self)

    def _end(self, *, handed_over: bool) -> None:
        def begun(control: Future[JobControl]) -> None:
            if control.exception() is None:  # else it has ended before it began
                control.result().cancel(handed_over)

        self._given_up.set()
        self._control.add_done_callback(begun)

    @override
    def _request(self, what: str, arguments: Mapping[str, Json], timeout_s: float | None) -> Json:
        answer: Future[Json] = Future()
        until = None if timeout_s is None else clock.monotonic() + timeout_s
        control = self._control.result(timeout_s)

        def then(found: Json, error: HeadgateError | None) -> None:
            if error is None:
                answer.set_result(found)
            else:
                answer.set_exception(error)

        getattr(control, what)(**arguments, then=then)
        return answer.result(None if until is None else max(0.0, until - clock.monotonic()))

    @override
    def _await_end(self, until: float) -> None:
        if threading.current_thread() is not self._thread:
            self._thread.join(max(0.0, until - clock.monotonic()))

    def _refuse_questions(self, cause: BaseException) -> None:
        if not self._control.done():
            kind = UsageError if isinstance(cause, UsageError) else OperatingError
            self._control.set_exception(
                kind(f"job {self.name!r} has ended before it could be asked for anything: {cause}")
            )
