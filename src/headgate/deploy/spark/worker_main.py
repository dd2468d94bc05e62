"""What runs in a Python worker of Spark: a task of the barrier stage becomes one worker of the gang.

Spark's part is over once the worker runs: no `barrier()` and no `allGather()`, which take a second
each. Workers find each other through the job master. A task's one row is the number of its slot.
"""

from __future__ import annotations

import dataclasses
import os
import pickle
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from headgate.common.errors import OperatingError
from headgate.common.ports import UserCode
from headgate.common.process.children import hide_open_sockets
from headgate.common.process.limits import changes, limits_of, restore
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.runtime.transport.sockets import parse_address
from headgate.runtime.worker.worker_process import WorkerSpec, limit_threads, run_worker

if TYPE_CHECKING:
    from headgate.deploy.spark.user_code.opening_code import Body

SPARKS_OWN: Final = "PYSPARK_EXECUTOR_MEMORY_MB"
"""Where this is set, Spark itself limits the memory of each worker."""

_WILDCARDS: Final = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to


def gang_function(worker: WorkerSpec, gang: int, several_hosts: bool) -> Callable[[Iterable[int]], list[int]]:
    """Return the function that Spark runs in every task of the gang: it becomes one of the job's workers.

    It travels by value and knows only plain values, so that it can put the driver's import path in place
    before anything of Headgate is imported. With `several_hosts` workers may be on other machines than the
    driver.
    """
    payload, paths = pickle.dumps(worker), tuple(worker.sys_path)

    def headgate_worker(rows: Iterable[int]) -> list[int]:
        import socket
        import sys

        sys.path.extend(path for path in paths if path not in sys.path)
        try:
            from headgate.common.process.freed_memory import keep_freed_memory

            keep_freed_memory()  # nothing has loaded Arrow yet
            from headgate.deploy.spark.worker_main import serve
        except ImportError as error:
            raise RuntimeError(
                f"{sys.executable} on {socket.gethostname()} cannot load Headgate: {error}; executors need "
                "the packages that it depends on, by PYSPARK_PYTHON or by an archive (docs/clusters.md)"
            ) from None
        serve(next(iter(rows)), payload, gang, several_hosts)
        return []

    return headgate_worker


def gang_body(worker: WorkerSpec, gang: int, several_hosts: bool) -> Body[int, int]:
    """Return the function that a gang's task calls with an isolated program's opened code and its rows."""
    payload = pickle.dumps(worker)

    def headgate_worker(code: UserCode, rows: Iterable[int]) -> list[int]:
        from headgate.deploy.spark.worker_main import serve

        serve(next(iter(rows)), payload, gang, several_hosts, code)
        return []

    return headgate_worker


def serve(
    slot: int, payload: bytes, gang: int, several_hosts: bool, code: UserCode = SAME_INTERPRETER
) -> None:
    """Run this process as worker `slot` of gang number `gang` to its end; `payload`: a pickled WorkerSpec."""
    limit_threads()
    # Written by the driver and handed over by Spark, which ships code the same way.
    worker: WorkerSpec = pickle.loads(payload)  # noqa: S301
    if several_hosts and worker.bind_host not in _WILDCARDS:
        worker = dataclasses.replace(worker, bind_host=host_towards(worker.control_address))
    with limits_reverted():
        run_worker(worker, gang, slot, code=code)


def host_towards(address: str) -> str:
    """Return the address of this machine by which other machines reach it on the way to `address`.

    Example:
        >>> host_towards("unix:@hg#elsewhere,tcp:127.0.0.1:4711")
        '127.0.0.1'
    """
    host, port = next(e.target for e in parse_address(address) if isinstance(e.target, tuple))
    family, _, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(target)  # sends nothing; only the route is looked up
        found: str = probe.getsockname()[0]
    return found


class MessageReceiver(Protocol):
    """The object with which Spark's worker reads messages of the JVM; :func:`retire` replaces its method."""

    get_finish_signal_from_stream: Callable[[], None]


@contextmanager
def limits_reverted() -> Iterator[None]:
    """Run the block with the resource limits of Spark's daemon, and restore these after it.

    What user code does to its process must not affect the next job. Where an earlier job's limits stay, raise
    OperatingError; where the block's stay, Spark does not use the process again.
    """
    wanted = limits_of(os.getppid())  # no user code has run in the parent
    if os.environ.get(SPARKS_OWN):
        wanted.pop("RLIMIT_AS", None)
    changed = changes(limits_of(), wanted)
    if changed and (left := restore(wanted)):
        # What a task raises ends Spark's worker, so the next try is in another one.
        raise OperatingError(
            f"code of an earlier job has set limits of this Python worker ({', '.join(left)}); it ends, and "
            "Spark starts another one"
        )
    _warn(changed, "an earlier job's code had set limits of this Python worker", "they were reverted")
    sparks = hide_open_sockets()  # else a child that lives on keeps from the JVM that its worker has died
    try:
        yield
    finally:
        sparks.clear()
        changed = changes(limits_of(), wanted)
        if changed and restore(wanted):
            retire()
            _warn(changed, "user code has set limits of this Python worker", "it is not used for another job")
        else:
            _warn(changed, "user code has set limits of this Python worker", "they were reverted")


def _warn(changed: list[str], what: str, then: str) -> None:
    if changed:
        sys.stderr.write(f"headgate: {what} ({', '.join(changed)}); {then}\n")


def retire() -> bool:
    """Make Spark end this worker process after its task; return False if Spark's worker code is unknown.

    Spark's worker ends, and says so to the JVM, when the message that ends a task is not as expected.
    """
    frames = (frame.f_locals.get("message_receiver") for frame, _ in traceback.walk_stack(sys._getframe()))
    found = (each for each in frames if hasattr(each, "get_finish_signal_from_stream"))
    receiver: MessageReceiver | None = next(found, None)
    if receiver is None:
        return False
    take = receiver.get_finish_signal_from_stream

    def refuse() -> None:
        take()
        raise OperatingError("this Python worker is not to be used again")

    receiver.get_finish_signal_from_stream = refuse
    return True
