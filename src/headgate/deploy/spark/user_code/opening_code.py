"""User code opened in a worker of Spark, which lives from task to task and from job to job.

Each task leases its job's namespace. Between tasks the process itself holds it, so that the next task of the
job finds its modules loaded; it releases them when a task says that the job has ended; nothing else does.
Spark gives a worker one task at a time, so nothing here is locked.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from headgate.common.process.same_interpreter import SameInterpreter
from headgate.common.process.search_path import framework_path
from headgate.deploy.spark.user_code import own_process
from headgate.deploy.spark.user_code.arriving import Arrived, arrived, cache_of_executor, check_framework
from headgate.deploy.spark.user_code.layers import Layers
from headgate.deploy.spark.user_code.orders import LiveJobs, ShippedCode
from headgate.usercode.bundle.cache import ArtifactCache
from headgate.usercode.errors import NoIsolationError, UserCodeLoadError
from headgate.usercode.exhaustion import end_process, is_failed_import, on_load_failure
from headgate.usercode.leaked_modules import LeakedModules
from headgate.usercode.loaders import Artifacts, Lease, UserCodeLoaders
from headgate.usercode.namespaces.code import NamespaceCode
from headgate.usercode.namespaces.loader import Namespace
from headgate.usercode.namespaces.process_setup import install

T = TypeVar("T")

_log = logging.getLogger("headgate.usercode")


class OpenedAlone(SameInterpreter):
    """A job's user code within a task of a process that is the job's."""

    def __init__(self, code: ShippedCode) -> None:
        self.job, self._fatal = code.job, code.limits.fatal

    def import_module(self, name: str) -> Any:
        """See :meth:`OpenedCode.import_module`."""
        with loading(self.job, self._fatal):
            return importlib.import_module(name)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """See :meth:`OpenedCode.call`."""
        try:
            return super().call(function, *args)
        except Exception as error:
            _out_of_memory(error, self.job, self._fatal)
            raise

    def load(self, payload: bytes) -> Any:
        """See :meth:`OpenedCode.load`."""
        with loading(self.job, self._fatal):
            return super().load(payload)


class OpenedCode(NamespaceCode):
    """A job's user code within a task."""

    def __init__(self, code: ShippedCode, lease: Lease) -> None:
        super().__init__(lease.namespace, code.data_plane)
        self.job = code.job
        self._fatal = code.limits.fatal

    def import_module(self, name: str) -> Any:
        """A module as the job's code would import it."""
        with loading(self.namespace.name, self._fatal):
            return self.namespace.import_module(name)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """A function called in the namespace; see :func:`loading` for what it imports meanwhile."""
        try:
            return super().call(function, *args)
        except Exception as error:
            _out_of_memory(error, self.namespace.name, self._fatal)
            raise

    def load(self, payload: bytes) -> Any:
        """What the job's driver has pickled, restored in the namespace; see `namespaces.pickling`."""
        with loading(self.namespace.name, self._fatal):
            return super().load(payload)


@contextmanager
def loading(job: str, fatal: bool) -> Iterator[None]:
    """Within it, memory that runs out ends this process if `fatal`, else it is a `UserCodeLoadError`."""
    try:
        yield
    except Exception as error:
        replaced = on_load_failure(error, job, fatal)
        if replaced is not None:
            raise replaced from None
        raise


def _out_of_memory(error: Exception, job: str, fatal: bool) -> None:
    """The same for what a function of the job's has raised, if it was an import that failed."""
    if is_failed_import(error):
        replaced = on_load_failure(error, job, fatal)
        if replaced is not None:
            raise replaced from None


@dataclass(slots=True)
class _Kept:
    """What the process holds of a job between its tasks."""

    began: int
    lease: Lease
    arrived: Arrived | None


class WorkerProcess:
    """What this process has of user code.

    Attributes:
        leaked: modules of closed namespaces that are still in memory.
    """

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
        """Those whose namespace is open."""
        return self._loaders.jobs

    def lease(self, code: ShippedCode, live: LiveJobs) -> Lease:
        """A job's namespace for one task; namespaces of jobs that have ended are closed first."""
        self.leaked.release_s = code.limits.release_ms / 1000
        self._close_over(live)
        self._end_if_full(code)
        kept = self._kept.get(code.job)
        if kept is None:
            kept = self._kept[code.job] = self._first(code, live.epoch_of(code.job))
        return self._loaders.lease(code.job, Artifacts(code.key, (), code.settings))

    def alone(self, code: ShippedCode) -> OpenedAlone:
        """A job's code in a process that is the job's; it stays as long as the process does."""
        came = arrived(code, self._cache)
        stays = False
        try:
            stays = own_process.enter(code.environment, came, self._cache, code.settings)
            check_framework(code.framework, framework_path())
        finally:
            if not stays:
                came.release()
        return OpenedAlone(code)

    def _close_over(self, live: LiveJobs) -> None:
        over = live.over({job: kept.began for job, kept in self._kept.items()}, self._epoch)
        self._epoch = max(self._epoch, live.epoch)
        for job in over:
            kept = self._kept.pop(job)
            kept.lease.release()
            if kept.arrived is not None:
                kept.arrived.release()

    def _end_if_full(self, code: ShippedCode) -> None:
        why = self.leaked.exceeded(code.limits.leaks)
        if why is None:
            return
        if code.limits.fatal:
            end_process(why)
        _log.error("%s", why)

    def _first(self, code: ShippedCode, began: int) -> _Kept:
        came = arrived(code, self._cache)
        stays = False
        try:
            stays = own_process.enter(code.environment, came, self._cache, code.settings)
            check_framework(code.framework, framework_path())
            stays = stays or (code.layer != "" and not self._layers.has(code.layer))
            self._layer = self._layers.of(code, came)
            paths = came.paths(without=code.layered)
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
    """Give the one of this process, made after the fork of Spark's daemon."""
    global _process
    if _process is None:
        _process = WorkerProcess(cache_of_executor())
    return _process


@contextmanager
def opened(code: ShippedCode, live: LiveJobs) -> Iterator[OpenedCode | OpenedAlone]:
    """A job's user code for the length of a task."""
    if code.environment is not None and code.environment.whole:
        yield this_process().alone(code)
        return
    lease = this_process().lease(code, live)
    try:
        yield OpenedCode(code, lease)
    finally:
        lease.release()
