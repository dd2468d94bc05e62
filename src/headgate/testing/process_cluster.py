"""An executor for tests whose workers are processes of this machine, which a test can kill.

What Spark's barrier stage does for a job, without Spark: all workers start together, the death of one ends
all others, and a cancelled gang gets no chance to do anything.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from headgate.api.jobs.executor_contract import JobResult, JobSpec
from headgate.common.settings.loader_options import LOADER_OPTIONS
from headgate.runtime.driver.driver import GangContext, run_job
from headgate.runtime.job.listener import JobListener
from headgate.runtime.worker.worker_process import EXIT_FENCED
from headgate.testing.mini_cluster import require_slots, too_few_slots
from headgate.testing.process_worker import EXIT_RAISED, FINISHED, REASON_SIZE_MAX, Order

_PROGRAM: Final = (
    "import sys; sys.path.append({root!r}); "
    "from headgate.common.process.freed_memory import keep_freed_memory; keep_freed_memory(); "
    "from headgate.testing.process_worker import main; main()"
)
_LEAVE_S: Final = 10.0


class ProcessCluster:
    """An executor whose workers are processes that it starts on this machine.

    They are fresh interpreters that do not run the program again, so a script needs no ``__main__`` guard.
    They find Headgate and all on this process's import path; their output appears on its standard error.

    Args:
        listener: called with the events of each job: deployments, checkpoints, failures, its end.
        slots: most workers that a job can have; None for no limit.

    Example:
        >>> import headgate as hg
        >>> env = hg.Environment(parallelism=2, executor=ProcessCluster())
        >>> doubled = env.from_collection([1, 2, 3]).map(lambda n: 2 * n)
        >>> sorted(doubled.collect())
        [2, 4, 6]
    """

    def __init__(self, listener: JobListener | None = None, slots: int | None = None) -> None:
        self._listener, self._slots = listener or JobListener(), slots
        self._gang: _ProcessGang | None = None

    def execute(self, job: JobSpec) -> JobResult:
        """Run a job to its end with workers as processes of this machine, and return its result.

        Raises:
            UsageError: the job needs more workers than the cluster has slots.
            HeadgateError: the job failed for good, such as by UserFunctionError, or was cancelled.
        """
        require_slots(job, self._slots, "process cluster")
        with ExitStack() as scope:

            def gang(context: GangContext) -> _ProcessGang:
                self._gang = _ProcessGang(context, self._slots, job)
                scope.callback(self._gang.close)
                return self._gang

            return run_job(job, gang, self._listener, answers_commands=False)

    @property
    def processes(self) -> dict[int, int]:
        """Process id of each running worker by its slot; empty while no job runs.

        Example:
            >>> ProcessCluster().processes
            {}
        """
        return {} if self._gang is None else self._gang.processes()

    def kill(self, slot: int, number: int = signal.SIGKILL) -> bool:
        """Send a signal to the worker process in a slot; return False if none runs there.

        Args:
            slot: the slot's number, from 0.
            number: the signal's number.

        Example:
            >>> ProcessCluster().kill(0)
            False
        """
        return self._gang is not None and self._gang.kill(slot, number)


@dataclass(slots=True)
class _Running:
    """The state of one gang of worker processes: the processes by slot, and why the gang ended."""

    workers: dict[int, _Process] = field(default_factory=dict)
    watchers: list[threading.Thread] = field(default_factory=list)
    cancelled: bool = False
    reason: str | None = None  # why it ended, None while it runs or if all workers finished


@dataclass(slots=True)
class _Process:
    """One worker process, and the driver's end of the socket on which it reports why it stops."""

    slot: int
    process: subprocess.Popen[bytes]
    connection: socket.socket

    def why(self) -> str | None:
        code = self.process.wait()
        try:
            message = self.connection.recv(REASON_SIZE_MAX, socket.MSG_DONTWAIT)
        except OSError:
            message = b""
        self.connection.close()
        if message == FINISHED:
            return None  # how the interpreter ended after that does not matter
        name, reason = f"the process of worker {self.slot}", message.decode(errors="replace")
        if reason and code in (EXIT_FENCED, EXIT_RAISED):
            return f"{name} {'stopped' if code == EXIT_FENCED else 'raised'}: {reason}"
        return f"{name} {_killed_by(-code) if code < 0 else f'ended with exit code {code}'}"


def _killed_by(number: int) -> str:
    try:
        return f"was killed by {signal.Signals(number).name}"
    except ValueError:  # a real-time signal has no name
        return f"was killed by signal {number}"


class _ProcessGang:
    """The gang of a process cluster: one process per worker; implements `common.ports.Gang`."""

    def __init__(self, context: GangContext, slots: int | None, job: JobSpec) -> None:
        self._context, self._slots, self._job = context, slots, job
        self._gangs: dict[int, _Running] = {}
        self._lock = threading.Lock()

    def submit(self, gang: int, slots: int) -> None:
        running = self._gangs[gang] = _Running()
        try:
            for slot in range(slots):
                running.workers[slot] = self._start(gang, slot)
        except OSError as error:
            running.reason = f"worker {len(running.workers)} could not be started: {error}"
            self._end(running)
        for worker in list(running.workers.values()):
            watcher = threading.Thread(
                target=self._watch,
                args=(gang, worker),
                name=f"headgate-gang-{gang}-{worker.slot}",
                daemon=True,
            )
            running.watchers.append(watcher)
            watcher.start()
        if not running.watchers:
            self._context.exited(gang, running.reason)

    def refusal(self, slots: int) -> str | None:
        return too_few_slots(slots, self._slots, "process cluster")

    def cancel(self, gang: int) -> None:
        running = self._gangs.get(gang)
        if running is not None:
            running.cancelled = True
            self._end(running)

    def processes(self) -> dict[int, int]:
        with self._lock:
            return {
                slot: worker.process.pid
                for running in self._gangs.values()
                for slot, worker in running.workers.items()
            }

    def kill(self, slot: int, number: int) -> bool:
        with self._lock:
            found = [running.workers[slot] for running in self._gangs.values() if slot in running.workers]
        for worker in found:
            worker.process.send_signal(number)
        return bool(found)

    def close(self) -> None:
        for gang in list(self._gangs):
            self.cancel(gang)
        for running in list(self._gangs.values()):
            for watcher in running.watchers:
                watcher.join(_LEAVE_S)

    def _end(self, running: _Running) -> None:
        with self._lock:
            left = list(running.workers.values())
        for worker in left:
            worker.process.kill()  # one that has exited is left alone, whichever process has its number now

    def _start(self, gang: int, slot: int) -> _Process:
        ours, its = socket.socketpair()
        program = _PROGRAM.format(root=str(Path(__file__).parents[2]))
        try:
            with its:
                # A session of its own: Ctrl-C in a terminal is the driver's, which ends its workers.
                process = subprocess.Popen(  # noqa: S603 - our own program
                    [sys.executable, "-P", "-c", program], stdin=its.fileno(), start_new_session=True
                )
        except BaseException:
            ours.close()
            raise
        with suppress(OSError):  # it died at once, as its watcher will report
            ours.sendall(msgspec.msgpack.encode(self._order(gang, slot)))
            ours.shutdown(socket.SHUT_WR)
        return _Process(slot, process, ours)

    def _order(self, gang: int, slot: int) -> Order:
        code, worker = self._job.user_code, self._context.worker
        if code is None:
            return Order(worker, gang, slot)
        texts = {key: text for key, text in self._job.config.texts().items() if key in LOADER_OPTIONS}
        return Order(worker, gang, slot, self._job.name, [str(path) for path in code.paths], texts)

    def _watch(self, gang: int, worker: _Process) -> None:
        why, running = worker.why(), self._gangs[gang]
        with self._lock:
            del running.workers[worker.slot]
            last = not running.workers
            if why is not None and running.reason is None:
                running.reason = "it was cancelled" if running.cancelled else why
        if why is not None:
            self._end(running)
        if last:
            self._context.exited(gang, running.reason)
