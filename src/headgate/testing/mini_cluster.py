"""A whole job in one process: real sockets, real checkpoints, workers as threads. For tests.

Not for measuring: the workers share one interpreter lock.
"""

from __future__ import annotations

import functools
import threading

from headgate.api.jobs.executor_contract import JobResult, JobSpec
from headgate.common.ports import UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.runtime.driver.driver import GangContext, run_job
from headgate.runtime.job.listener import JobListener
from headgate.runtime.worker.worker_process import run_worker
from headgate.testing.thread_children import children_of, make_root, noting_children


class MiniCluster:
    """An executor whose workers are threads of this process.

    Args:
        listener: is told what happens.
        slots: how many workers it can have at most.

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
        """Run a job to its end; see `api.executor.Executor`."""

        def gang(context: GangContext) -> _ThreadGang:
            return _ThreadGang(context, self._slots, job.user_code or SAME_INTERPRETER)

        with noting_children():
            return run_job(job, gang, self._listener, dies_with_parent=False, answers_commands=False)


class _ThreadGang:
    """Implements `common.ports.Gang`."""

    def __init__(self, context: GangContext, slots: int | None, code: UserCode) -> None:
        self._context, self._slots, self._code = context, slots, code
        self._running: dict[int, int] = {}
        self._errors: dict[int, str] = {}
        self._lock = threading.Lock()

    def submit(self, gang: int, slots: int) -> None:
        """Start one thread per slot."""
        self._running[gang] = slots
        for slot in range(slots):
            thread = threading.Thread(
                target=self._work, args=(gang, slot), name=f"headgate-worker-{gang}-{slot}", daemon=True
            )
            make_root(thread, self)
            thread.start()

    def refusal(self, slots: int) -> str | None:
        """See `runtime.rescaling.KnowsSlots`."""
        if self._slots is None or slots <= self._slots:
            return None
        return f"it needs {slots} workers, and the mini cluster has {self._slots} slots"

    def cancel(self, gang: int) -> None:
        """Threads cannot be killed; the job master has closed their links, which ends them."""

    def _work(self, gang: int, slot: int) -> None:
        try:
            leave = functools.partial(self._note, gang)
            mine = functools.partial(children_of, self)
            run_worker(self._context.worker, gang, slot, leave, self._code, mine)
        except Exception as error:
            self._note(gang, f"{type(error).__name__}: {error}")
        with self._lock:
            self._running[gang] -= 1
            last = self._running[gang] == 0
        if last:
            self._context.exited(gang, self._errors.get(gang))

    def _note(self, gang: int, reason: str) -> None:
        self._errors.setdefault(gang, reason)
