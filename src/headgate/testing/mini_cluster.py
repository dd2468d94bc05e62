"""An executor for tests: a complete job in one process, with sockets, checkpoints, and workers as threads.

Not for measuring: the workers share one interpreter lock.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from headgate.api.jobs.executor_contract import JobResult, JobSpec
from headgate.common.errors import UsageError
from headgate.common.ports import UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.runtime.driver.driver import GangContext, run_job
from headgate.runtime.job.listener import JobListener
from headgate.runtime.worker.worker_process import run_worker

_OWNER: Final = "_headgate_owner"
"""Name of the attribute of a thread with the gang whose worker has started it, directly or not."""

_Start = Callable[[threading.Thread], None]
_lock: Final = threading.Lock()
_jobs = 0
_patch: tuple[_Start, _Start] | None = None
"""The original `Thread.start`, and the one that replaces it while a job runs; None while none runs."""


class MiniCluster:
    """An executor whose workers are threads of this process.

    Args:
        listener: called with the events of each job: deployments, checkpoints, failures, its end.
        slots: most workers that a job can have; None for no limit.

    Example:
        >>> import headgate as hg
        >>> env = hg.Environment(parallelism=2, executor=MiniCluster())
        >>> doubled = env.from_collection([1, 2, 3]).map(lambda n: 2 * n)
        >>> sorted(doubled.collect())
        [2, 4, 6]
    """

    def __init__(self, listener: JobListener | None = None, slots: int | None = None) -> None:
        self._listener, self._slots = listener or JobListener(), slots

    def execute(self, job: JobSpec) -> JobResult:
        """Run a job to its end with threads as workers; UsageError for too few slots, or the job's error."""
        require_slots(job, self._slots, "mini cluster")

        def gang(context: GangContext) -> _ThreadGang:
            return _ThreadGang(context, self._slots, job.user_code or SAME_INTERPRETER)

        with _inherited_owners():
            return run_job(job, gang, self._listener, dies_with_parent=False, answers_commands=False)


class _ThreadGang:
    """The gang of a mini cluster: starts one thread per worker; implements `common.ports.Gang`."""

    def __init__(self, context: GangContext, slots: int | None, code: UserCode) -> None:
        self._context, self._slots, self._code = context, slots, code
        self._running: dict[int, int] = {}
        self._errors: dict[int, str] = {}
        self._lock = threading.Lock()

    def submit(self, gang: int, slots: int) -> None:
        self._running[gang] = slots
        for slot in range(slots):
            thread = threading.Thread(
                target=self._work, args=(gang, slot), name=f"headgate-worker-{gang}-{slot}", daemon=True
            )
            setattr(thread, _OWNER, self)
            thread.start()

    def refusal(self, slots: int) -> str | None:
        return too_few_slots(slots, self._slots, "mini cluster")

    def cancel(self, gang: int) -> None:
        """Do nothing: threads cannot be killed; they end because the job master has closed their links."""

    def _work(self, gang: int, slot: int) -> None:
        try:
            leave = functools.partial(self._failed, gang)
            run_worker(self._context.worker, gang, slot, leave, self._code, self._threads)
        except Exception as error:
            self._failed(gang, f"{type(error).__name__}: {error}")
        with self._lock:
            self._running[gang] -= 1
            last = self._running[gang] == 0
        if last:
            self._context.exited(gang, self._errors.get(gang))

    def _threads(self) -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if getattr(thread, _OWNER, None) is self]

    def _failed(self, gang: int, reason: str) -> None:
        self._errors.setdefault(gang, reason)


def too_few_slots(needed: int, there: int | None, cluster: str) -> str | None:
    """Return why `needed` workers cannot run in `there` slots (None: no limit); None if they can."""
    fits = there is None or needed <= there
    return None if fits else f"it needs {needed} workers, and the {cluster} has {there} slots"


def require_slots(job: JobSpec, there: int | None, cluster: str) -> None:
    """Raise UsageError, which names `cluster`, if a job needs more than `there` slots (None: no limit)."""
    if refused := too_few_slots(job.plan.slots, there, cluster):
        raise UsageError(f"job {job.name!r} cannot run: {refused}; lower its parallelism or give it more")


@contextmanager
def _inherited_owners() -> Iterator[None]:
    """Patch `Thread.start` for the block: a new thread inherits the gang mark of the thread starting it."""
    global _jobs, _patch
    with _lock:
        _jobs += 1
        if _patch is None:
            _patch = threading.Thread.start, _inheriting(threading.Thread.start)
            threading.Thread.start = _patch[1]  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        with _lock:
            _jobs -= 1
            if not _jobs and _patch is not None:
                (before, ours), _patch = _patch, None
                # A patch that was put over ours goes on calling it, which does no harm.
                if threading.Thread.start is ours:
                    threading.Thread.start = before  # type: ignore[method-assign,assignment]


def _inheriting(before: _Start) -> _Start:
    def start(thread: threading.Thread) -> None:
        owner = getattr(threading.current_thread(), _OWNER, None)
        if owner is not None:
            setattr(thread, _OWNER, owner)
        before(thread)

    return start
