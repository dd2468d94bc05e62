"""What runs in a Python worker of Spark: becomes one slot of the gang.

Spark's part is over once the worker runs: no `barrier()` and no `allGather()`, which take a second
each. Workers find each other through the job master. A task's one row is the number of its slot.
"""

from __future__ import annotations

import dataclasses
import pickle
import socket
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from headgate.common.ports import UserCode
from headgate.common.process.same_interpreter import SAME_INTERPRETER
from headgate.deploy.spark.spoiled import unspoiled
from headgate.runtime.transport.sockets import parse_address
from headgate.runtime.worker.worker_process import WorkerSpec, limit_threads, run_worker

if TYPE_CHECKING:
    from headgate.deploy.spark.user_code.tasks import Body

_WILDCARDS: Final = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to


def gang_function(worker: WorkerSpec, gang: int, several_hosts: bool) -> Callable[[Iterable[int]], list[int]]:
    """The function that Spark runs in every task of the gang.

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
    """The same for a job with code of its own, which is opened before this is called."""
    payload = pickle.dumps(worker)

    def headgate_worker(code: UserCode, rows: Iterable[int]) -> list[int]:
        from headgate.deploy.spark.worker_main import serve

        serve(next(iter(rows)), payload, gang, several_hosts, code)
        return []

    return headgate_worker


def serve(
    slot: int, payload: bytes, gang: int, several_hosts: bool, code: UserCode = SAME_INTERPRETER
) -> None:
    """Be a worker until the job lets it go."""
    limit_threads()
    # Written by the driver and handed over by Spark, which ships code the same way.
    worker: WorkerSpec = pickle.loads(payload)  # noqa: S301
    if several_hosts and worker.bind_host not in _WILDCARDS:
        worker = dataclasses.replace(worker, bind_host=host_towards(worker.control_address))
    with unspoiled():
        run_worker(worker, gang, slot, code=code)


def host_towards(address: str) -> str:
    """The address of this machine's interface that leads to `address`; other machines reach it there.

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
