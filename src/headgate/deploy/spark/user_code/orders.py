"""Plain values that the driver sends to tasks to describe a job's user code, without any code in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headgate.common.settings.loader_options import DATA_PLANE, DependencyLayer, NativeModules
from headgate.usercode.bundle.artifacts import UserBundle
from headgate.usercode.exhaustion import LoaderBounds
from headgate.usercode.namespaces.loader import NamespaceSettings
from headgate.usercode.settings import UserCodeSettings

VARIABLE: Final = "HEADGATE_USER_ENVIRONMENT"
"""Environment variable of workers of a job's own: the key of its `ProcessEnvironment`."""

LAYERS_MAX: Final = 2
ENVIRONMENTS_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a worker process: on leaked namespaces and layers; `fatal`: running out of memory ends it."""

    fatal: bool = True  # `classloader.fail-on-metaspace-oom-error`: exhaustion ends the process, not the task
    leaks: LoaderBounds = field(default_factory=LoaderBounds)  # how much of closed namespaces may stay
    layers: int = LAYERS_MAX  # how many dependency layers a process may keep
    release_ms: int = 0  # from the end of a namespace to the verdict that it has leaked


@dataclass(frozen=True, slots=True)
class UserCodeOptions:
    """A job's options for user code in Spark's workers, as its settings ``classloader.*`` say."""

    namespace: NamespaceSettings = field(default_factory=NamespaceSettings)
    native: NativeModules = NativeModules.AUTO
    data_plane: tuple[str, ...] = DATA_PLANE
    limits: Limits = field(default_factory=Limits)
    environments: int = ENVIRONMENTS_MAX  # how many sets of packages may have workers of their own
    layer: DependencyLayer = DependencyLayer.NATIVE
    namespaces: bool = True  # whether the interpreter allows them; else every job has workers of its own


def options_of(settings: UserCodeSettings, namespaces: bool = True) -> UserCodeOptions:
    """Return the options for workers by a job's settings; `namespaces`: if this Python allows namespaces."""
    return UserCodeOptions(
        NamespaceSettings(settings.patterns, settings.resolve_order, check_leaked=settings.check_leaked),
        settings.native_modules,
        settings.data_plane,
        Limits(
            settings.fail_on_exhaustion, settings.bounds, settings.layers_max, settings.release_timeout_ms
        ),
        settings.environments_max,
        settings.dependency_layer,
        namespaces,
    )


@dataclass(frozen=True, slots=True)
class Linked:
    """A job's distribution that replaces the framework's: `entries` below `inside` of artifact `digest`."""

    name: str
    version: str
    contents: str  # hash of its record
    digest: str  # of the artifact that holds it
    inside: str  # the folder of that artifact in which it lies
    entries: tuple[str, ...]  # its files and folders there
    modules: tuple[str, ...]
    compiled: bool  # whether it has compiled parts; others are there because such a one needs them


@dataclass(frozen=True, slots=True)
class ProcessEnvironment:
    """A job's packages in Python workers that only jobs of equal packages share; `whole`: all its code."""

    key: str  # hash of what is linked: jobs with equal packages share workers
    linked: tuple[Linked, ...]
    whole: bool = False  # all of the job's code is in the framework's process, and no namespace is opened

    @property
    def modules(self) -> frozenset[str]:
        return frozenset(module for one in self.linked for module in one.modules)


@dataclass(frozen=True, slots=True)
class FrameworkPackage:
    """A package that a job brings, but of which the framework's equal copy (hash `contents`) is used."""

    name: str
    version: str
    contents: str


@dataclass(frozen=True, slots=True)
class ShippedCode:
    """The description of a job's user code that workers get: its files, settings, and where packages run.
    `key`: hash of all that makes its namespace; `layer`: that of its dependency layer, or "" without one.
    """

    job: str
    key: str  # hash of all that makes its loader: equal keys, equal loaders
    bundle: UserBundle
    files: tuple[str, ...]  # their names in Spark's folder of files, in the bundle's order
    settings: NamespaceSettings
    last: frozenset[str] = frozenset()  # digests of artifacts searched last: all in the layer if there is one
    layer: str = ""  # hash of all that makes that layer, which jobs share; empty when there is none
    framework: tuple[FrameworkPackage, ...] = ()  # those that the worker must have as the driver has them
    environment: ProcessEnvironment | None = None  # of workers of the job's own; None: Spark's ordinary ones
    limits: Limits = field(default_factory=Limits)
    warnings: tuple[str, ...] = ()
    data_plane: tuple[str, ...] = DATA_PLANE


@dataclass(frozen=True, slots=True)
class LiveJobs:
    """The running jobs with user code of an application; workers learn only from it that a job has ended.

    `epoch` grows with each job that begins or ends; a set that is older than one seen before has no meaning.
    `begun` has each job that runs and the epoch in which it began: one of the same id may come again.

    Example:
        >>> live = LiveJobs(7, (("a", 2), ("b", 7)))
        >>> live.over({"a": 2, "b": 3, "c": 1}, 6), live.over({"c": 1}, 8)
        (('b', 'c'), ())
    """

    epoch: int
    begun: tuple[tuple[str, int], ...]

    def over(self, open_: dict[str, int], seen: int) -> tuple[str, ...]:
        """Return the jobs of `open_` (job -> epoch of its begin) that ended; none if `seen` is newer."""
        if self.epoch < seen:
            return ()
        return tuple(job for job, epoch in open_.items() if (job, epoch) not in self.begun)

    def epoch_of(self, job: str) -> int:
        """Return the epoch in which a job began; for an unknown job, the epoch of this set."""
        return next((epoch for name, epoch in self.begun if name == job), self.epoch)
