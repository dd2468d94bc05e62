"""Opens user code in a Python worker of Spark, which lives from task to task and from job to job.

Each task leases its job's namespace. Between tasks the process itself holds it, so that the next task of the
job finds its modules loaded; it releases them when a task, of any job, says that the job has ended.
Spark gives a worker one task at a time, so nothing here is locked.
"""

from __future__ import annotations

import importlib
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from headgate.common.process.same_interpreter import SameInterpreter
from headgate.common.process.search_path import framework_path
from headgate.deploy.spark.user_code import own_process
from headgate.deploy.spark.user_code.arriving import Arrived, arrived, cache_of_executor, check_framework
from headgate.deploy.spark.user_code.orders import LiveJobs, ShippedCode
from headgate.usercode.bundle.cache import ArtifactCache
from headgate.usercode.exhaustion import end_process, is_failed_import, on_load_failure
from headgate.usercode.leaked_modules import LeakedModules
from headgate.usercode.loaders import Artifacts, Lease, UserCodeLoaders
from headgate.usercode.loading_errors import NativeModuleConflictError, NoIsolationError, UserCodeLoadError
from headgate.usercode.namespaces.code import NamespaceCode
from headgate.usercode.namespaces.imports import install
from headgate.usercode.namespaces.loader import Namespace

R = TypeVar("R")
T = TypeVar("T")

_log = logging.getLogger("headgate.usercode")


class OpenedAlone(SameInterpreter):
    """A job's user code in a task, in a worker that only jobs with equal code share: no namespace needed.

    If memory runs out while code is loaded, the process ends, or UserCodeLoadError is raised
    (`limits.fatal`).
    """

    def __init__(self, code: ShippedCode) -> None:
        self.job, self._fatal = code.job, code.limits.fatal

    def import_module(self, name: str) -> Any:
        with loading(self.job, self._fatal):
            return importlib.import_module(name)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        try:
            return super().call(function, *args)
        except Exception as error:
            _out_of_memory(error, self.job, self._fatal)
            raise

    def load(self, payload: bytes) -> Any:
        with loading(self.job, self._fatal):
            return super().load(payload)


class OpenedCode(NamespaceCode):
    """A job's user code in a task, opened in an isolated namespace of the worker process.

    If memory runs out while code is loaded, the process ends, or UserCodeLoadError is raised
    (`limits.fatal`).
    """

    def __init__(self, code: ShippedCode, lease: Lease) -> None:
        super().__init__(lease.namespace, code.data_plane)
        self.job = code.job
        self._fatal = code.limits.fatal

    def import_module(self, name: str) -> Any:
        with loading(self.namespace.name, self._fatal):
            return self.namespace.import_module(name)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        try:
            return super().call(function, *args)
        except Exception as error:
            _out_of_memory(error, self.namespace.name, self._fatal)
            raise

    def load(self, payload: bytes) -> Any:
        with loading(self.namespace.name, self._fatal):
            return super().load(payload)


@contextmanager
def loading(job: str, fatal: bool) -> Iterator[None]:
    """Run the block; if memory runs out, end this process (`fatal`) or raise UserCodeLoadError for `job`."""
    try:
        yield
    except Exception as error:
        replaced = on_load_failure(error, job, fatal)
        if replaced is not None:
            raise replaced from None
        raise


def _out_of_memory(error: Exception, job: str, fatal: bool) -> None:
    if is_failed_import(error):
        replaced = on_load_failure(error, job, fatal)
        if replaced is not None:
            raise replaced from None


Body = Callable[[OpenedCode | OpenedAlone, Iterable[R]], Iterable[T]]
"""The framework's part of a task: called with the opened code and the partition's rows, returns new rows."""


@dataclass(slots=True)
class _Kept:
    """A job's lease and unpacked code that the process holds between the tasks of the job."""

    began: int
    lease: Lease
    arrived: Arrived | None


class Layers:
    """Dependency layers: packages that stay in this process after their jobs, as they cannot be unloaded.

    Compiled modules are neither unloaded nor loaded twice. So the installed packages of a job that has some
    lie in a namespace of their own below the job's, under a key of their content, and the next job with the
    same ones finds them loaded.
    """

    def __init__(self) -> None:
        self._namespaces: dict[str, tuple[Namespace, Arrived]] = {}

    def has(self, key: str) -> bool:
        return key in self._namespaces

    def of(self, code: ShippedCode, arrived: Arrived) -> Namespace | None:
        """Return the job's layer, kept for later jobs; None: needs none; NativeModuleConflictError: full."""
        if not code.layer:
            return None
        if code.layer in self._namespaces:
            return self._namespaces[code.layer][0]
        if len(self._namespaces) >= code.limits.layers:
            raise NativeModuleConflictError(
                f"job {code.job!r} needs a layer of compiled packages, and this process holds "
                f"{len(self._namespaces)} of other jobs, as many as classloader.max-layers-per-process "
                "allows; run it in a process of its own (classloader.native-modules=process)"
            )
        namespace = Namespace(f"layer {code.layer[:8]}", arrived.paths(code.last), code.settings)
        self._namespaces[code.layer] = (namespace, arrived)
        return namespace


class WorkerProcess:
    """All user code in this worker process; `leaked` counts modules of closed namespaces still in memory."""

    def __init__(self, cache: ArtifactCache) -> None:
        self._cache = cache
        self.leaked = LeakedModules()
        self._layers = Layers()
        self._loaders = UserCodeLoaders(self._open, self.leaked.ended)
        self._kept: dict[str, _Kept] = {}
        self._epoch = 0
        self._layer: Namespace | None = None

    @property
    def jobs(self) -> tuple[str, ...]:
        return self._loaders.jobs

    def lease(self, code: ShippedCode, live: LiveJobs) -> Lease:
        """Lease a job's namespace for one task, open it if need be; the caller releases the lease.

        Namespaces of ended jobs are closed first. Where too much of them stays in memory, exit, or log it.
        """
        self.leaked.release_s = code.limits.release_ms / 1000
        self._close_ended(live)
        if (full := self.leaked.exceeded(code.limits.leaks)) is not None:
            if code.limits.fatal:
                end_process(full)
            _log.error("%s", full)
        kept = self._kept.get(code.job)
        if kept is None:
            kept = self._kept[code.job] = self._first(code, live.epoch_of(code.job))
        return self._loaders.lease(code.job, Artifacts(code.key, (), code.settings))

    def alone(self, code: ShippedCode) -> OpenedAlone:
        """Put a job's code on this process's import path for good; return it. Only equal code may follow."""
        came = arrived(code, self._cache)
        stays = False
        try:
            stays = own_process.enter(code.environment, came, self._cache, code.settings)
            check_framework(code.framework, framework_path())
        finally:
            if not stays:
                came.release()
        return OpenedAlone(code)

    def _close_ended(self, live: LiveJobs) -> None:
        ended = live.over({job: kept.began for job, kept in self._kept.items()}, self._epoch)
        self._epoch = max(self._epoch, live.epoch)
        for job in ended:
            kept = self._kept.pop(job)
            kept.lease.release()
            if kept.arrived is not None:
                kept.arrived.release()

    def _first(self, code: ShippedCode, began: int) -> _Kept:
        came = arrived(code, self._cache)
        stays = False
        try:
            stays = own_process.enter(code.environment, came, self._cache, code.settings)
            check_framework(code.framework, framework_path())
            stays = stays or (code.layer != "" and not self._layers.has(code.layer))
            self._layer = self._layers.of(code, came)
            paths = came.paths(without=code.last if code.layer else ())
            lease = self._loaders.lease(code.job, Artifacts(code.key, paths, code.settings))
        except BaseException:
            if not stays:
                came.release()
            raise
        return _Kept(began, lease, None if stays else came)

    def _open(self, job: str, artifacts: Artifacts) -> Namespace:
        try:
            install()
        except NoIsolationError as error:
            raise UserCodeLoadError(
                f"{error}, and the driver's allows it; give executors the driver's Python, or set "
                "HEADGATE_NAMESPACES=off where the driver runs, too"
            ) from None
        namespace = Namespace(job, artifacts.paths, artifacts.settings, self._layer)
        self.leaked.opening(namespace)
        return namespace


_process: WorkerProcess | None = None


def this_process() -> WorkerProcess:
    # At first use, so after the fork by Spark's daemon.
    global _process
    if _process is None:
        _process = WorkerProcess(cache_of_executor())
    return _process


@contextmanager
def opened(code: ShippedCode, live: LiveJobs) -> Iterator[OpenedCode | OpenedAlone]:
    """Yield a job's user code for one task: in an isolated namespace, or in a process for equal code only."""
    if code.environment is not None and code.environment.whole:
        yield this_process().alone(code)
        return
    lease = this_process().lease(code, live)
    try:
        yield OpenedCode(code, lease)
    finally:
        lease.release()


def task_function(
    code: ShippedCode, live: LiveJobs, body: Body[R, T]
) -> Callable[[Iterable[R]], Iterator[T]]:
    """Return a function for `mapPartitions` that opens a job's code and runs `body` with it.

    It travels by value and knows only plain values: the import path, and in a worker of the job's own its
    packages, are in place before anything else is imported.
    """
    import cloudpickle

    order, payload, paths = pickle.dumps((code, live)), cloudpickle.dumps(body), tuple(framework_path())

    def headgate_user_task(rows: Iterable[R]) -> Iterator[T]:
        import sys

        sys.path.extend(path for path in paths if path not in sys.path)
        from headgate.deploy.spark.user_code.opening_code import run_task

        made: Iterator[T] = run_task(order, payload, rows)
        yield from made

    return headgate_user_task


def run_task(order: bytes, payload: bytes, rows: Iterable[R]) -> Iterator[T]:
    # Both were written by the driver and handed over by Spark, which ships code the same way.
    code, live = pickle.loads(order)  # noqa: S301
    with opened(code, live) as user_code:
        body: Body[R, T] = pickle.loads(payload)  # noqa: S301
        yield from body(user_code, rows)
