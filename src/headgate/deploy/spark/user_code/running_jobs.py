"""Keeps, on the driver, which jobs of a Spark application with user code run, and ships their code."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headgate.common.errors import UsageError
from headgate.common.files.durable import sha256
from headgate.deploy.spark.user_code.orders import LiveJobs, ProcessEnvironment, ShippedCode, UserCodeOptions
from headgate.deploy.spark.user_code.planning import UserCodePlan, planned
from headgate.deploy.spark.user_code.shipped_files import folder_of, ship_files
from headgate.usercode.bundle.artifacts import UserBundle, made_from, unpacked
from headgate.usercode.bundle.cache import ArtifactCache
from headgate.usercode.loading_errors import DifferentUserCodeError
from headgate.usercode.namespaces.loader import NamespaceSettings

if TYPE_CHECKING:
    from pyspark import SparkContext


STANDARD: Final = UserCodeOptions()


class UserCodeJobs:
    """The running jobs with user code of one Spark application; methods may be called from any thread."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._one_at_a_time = threading.Lock()  # begins: files are packed, unpacked and looked through
        self._lock = threading.Lock()  # of the two below
        self._epoch = 0
        self._begun: dict[str, tuple[int, str]] = {}
        self._environments: set[str] = set()
        self._layers: dict[str, frozenset[str]] = {}
        self._plans: dict[tuple[str, UserCodeOptions, bool], UserCodePlan] = {}

    def begin(self, job: str, paths: Sequence[Path], options: UserCodeOptions = STANDARD) -> ShippedCode:
        """Ship a job's code and return its description; the job counts as running until :meth:`end`.

        Raises UsageError if it would need one set of packages too many, DifferentUserCodeError if it runs
        already with other code.
        """
        with self._one_at_a_time:
            bundle, files = made_from(paths, folder_of(self._context))
            code = self._code(job, bundle, files, options)
            self._check(code, options)
            names = ship_files(self._context, bundle, files)
            with self._lock:
                if job not in self._begun:
                    self._epoch += 1
                    self._begun[job] = (self._epoch, code.key)
            return dataclasses.replace(code, files=names)

    def live(self) -> LiveJobs:
        """Return the running jobs, to be sent along with the next task: workers learn thereby who ended."""
        with self._lock:
            begun = [(job, epoch) for job, (epoch, _) in self._begun.items()]
            return LiveJobs(self._epoch, tuple(sorted(begun)))  # equal sets are equal bytes

    def end(self, job: str) -> None:
        """Record that a job has ended; workers close its isolated namespace when they get a later task."""
        with self._lock:
            if self._begun.pop(job, None) is not None:
                self._epoch += 1

    def _code(
        self, job: str, bundle: UserBundle, files: Sequence[Path], options: UserCodeOptions
    ) -> ShippedCode:
        plan = self._planned(bundle, files, options)
        code = _ordered(job, bundle, plan, options)
        if code.layer and code.environment is None:
            if self._is_crowded(code, plan):
                plan = self._planned(bundle, files, options, crowded=True)
                return _ordered(job, bundle, plan, options)
            self._layers[code.layer] = plan.stays
        return code

    def _is_crowded(self, code: ShippedCode, plan: UserCodePlan) -> bool:
        others = [stays for layer, stays in self._layers.items() if layer != code.layer]
        return len(others) >= code.limits.layers or any(stays & plan.stays for stays in others)

    def _check(self, code: ShippedCode, options: UserCodeOptions) -> None:
        _, key = self._begun.get(code.job, (0, code.key))
        if key != code.key:
            raise DifferentUserCodeError(
                f"job {code.job!r} runs with user code {key} and was begun again with {code.key}; end it "
                "first, or give the changed program another job"
            )
        if code.environment is not None:
            self._admit(code.job, code.environment, options.environments)

    def _admit(self, job: str, environment: ProcessEnvironment, most: int) -> None:
        if environment.key not in self._environments and len(self._environments) >= most:
            names = ", ".join(f"{one.name} {one.version}" for one in environment.linked)
            packages = (
                "all its code, as this interpreter allows no namespaces" if environment.whole else names
            )
            raise UsageError(
                f"job {job!r} needs Python workers of its own for {packages}, and this application has "
                f"workers for {len(self._environments)} sets of packages already, as many as "
                f"classloader.max-process-environments={most} allows, which stay until it ends; take the "
                "packages of another job or the framework's, raise the option, or open another application"
            )
        self._environments.add(environment.key)

    def _planned(
        self, bundle: UserBundle, files: Sequence[Path], options: UserCodeOptions, crowded: bool = False
    ) -> UserCodePlan:
        known = self._plans.get((bundle.key, options, crowded))
        if known is None:
            located = unpacked(bundle, files, ArtifactCache(folder_of(self._context) / "unpacked"))
            try:
                folders = [one.folder / artifact.inside for one, artifact in zip(located, bundle.artifacts)]
                known = planned(list(zip(bundle.artifacts, folders)), options, crowded)
            finally:
                for one in located:
                    one.release()
            self._plans[bundle.key, options, crowded] = known
        return known


def _ordered(job: str, bundle: UserBundle, plan: UserCodePlan, options: UserCodeOptions) -> ShippedCode:
    settings = dataclasses.replace(options.namespace, identical=options.namespace.identical | plan.identical)
    return ShippedCode(
        job=job,
        key=key_of(bundle, settings, plan.last),
        bundle=bundle,
        files=(),
        settings=settings,
        last=plan.last,
        layer=key_of(bundle, settings, plan.layered, of_layer=True) if plan.layered else "",
        framework=plan.framework,
        environment=plan.environment,
        limits=options.limits,
        warnings=plan.warnings,
        data_plane=options.data_plane,
    )


def key_of(
    bundle: UserBundle, settings: NamespaceSettings, layered: frozenset[str], of_layer: bool = False
) -> str:
    """Return the hash of all that makes a job's namespace or (`of_layer`) its layer of artifacts `layered`.

    Example:
        >>> from headgate.usercode.bundle.artifacts import Artifact
        >>> one, other = Artifact("a.whl", "aa" * 32), Artifact("b.zip", "bb" * 32)
        >>> layered = frozenset([one.digest])
        >>> def key(*artifacts, of_layer):
        ...     return key_of(UserBundle(artifacts, "cp311"), NamespaceSettings(), layered, of_layer)
        >>> key(one, other, of_layer=True) == key(one, of_layer=True)
        True
        >>> key(one, other, of_layer=False) == key(one, of_layer=False)
        False
    """
    artifacts = tuple(one for one in bundle.artifacts if not of_layer or one.digest in layered)
    parts = [UserBundle(artifacts, bundle.abi).key, settings.order.value, str(settings.check_leaked)]
    parts += [*settings.patterns.patterns, "identical", *sorted(settings.identical)]
    parts += ["layered", *sorted(layered)]
    return sha256("\n".join(parts).encode()).hexdigest()[:32]


_of_application: Final[dict[str, UserCodeJobs]] = {}
_lock: Final = threading.Lock()


def jobs_of(context: SparkContext) -> UserCodeJobs:
    """Return the jobs with user code of a Spark application; always the same object for one application."""
    with _lock:
        return _of_application.setdefault(context.applicationId, UserCodeJobs(context))
