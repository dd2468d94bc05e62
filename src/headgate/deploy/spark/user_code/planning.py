"""Decides on the driver, before a job's code is shipped, where each of its packages will run.

Packages without compiled parts run in the job's namespace in ordinary workers. Where a bundle has compiled
ones, `usercode.native.policy` chooses for each distribution: the framework's copy, the same process, or
workers that only jobs of equal packages share. With namespaces off, all of a job's code runs in such workers.
If there is a dependency layer, which outlives the job, installed packages go there; the user's program ends
with its job.
"""

from __future__ import annotations

import functools
import importlib.metadata
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from headgate.common.errors import UsageError
from headgate.common.files.durable import sha256
from headgate.common.process.search_path import framework_path
from headgate.common.settings.loader_options import DependencyLayer, NativeModules
from headgate.deploy.spark.user_code.orders import (
    FrameworkPackage,
    Linked,
    ProcessEnvironment,
    UserCodeOptions,
)
from headgate.usercode.bundle.artifacts import Artifact
from headgate.usercode.bundle.layouts import searched
from headgate.usercode.native.distributions import Installed, holds_packages, installed_in, normal
from headgate.usercode.native.policy import NativePlan, Place, plan, with_requirements

_BOUND: Final = re.compile(r"(>=|<)\s*(\d+(?:\.\d+)*)")
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class UserCodePlan:
    """Where a job's packages run; `stays`: artifacts with compiled parts, which only one layer may load."""

    identical: frozenset[str] = frozenset()  # top-level modules of which the framework's copy is used
    layered: frozenset[str] = frozenset()  # digests of the artifacts in the dependency layer
    stays: frozenset[str] = frozenset()
    framework: tuple[FrameworkPackage, ...] = ()  # packages that each worker must have as the driver has them
    environment: ProcessEnvironment | None = None
    warnings: tuple[str, ...] = ()
    last: frozenset[str] = frozenset()  # digests of the artifacts that are searched behind the rest


Located = Sequence[tuple[Artifact, Path]]
"""Artifacts, and the folders on this machine that are their entries of the path."""


def planned(located: Located, options: UserCodeOptions, crowded: bool = False) -> UserCodePlan:
    """Return where the packages of an unpacked bundle run, on the driver, before the job's code is shipped.

    `located` are the bundle's artifacts with their folders here; `crowded`: workers have no room for another
    layer. UsageError: the options exclude it, or a package is of a version that Headgate cannot use.
    """
    job_packages, home, first = _job_packages(located)
    if not options.namespaces:
        return _whole(job_packages, home, located, options)
    native = any(one.is_native for one in job_packages.values())
    if not native and options.layer is not DependencyLayer.ALWAYS:
        return UserCodePlan()
    found = plan(job_packages, framework_packages(), options.native, options.data_plane)
    if crowded and options.native is NativeModules.AUTO:
        found = _without_layer(found)
    environment = _environment(found, job_packages, home, options)
    own = () if environment is None else environment.linked
    check_supported({one.name: one.version for one in own}, _requirements())
    holding = frozenset(artifact.digest for artifact, folder in located if holds_packages(str(folder)))
    return UserCodePlan(
        found.identical | {top for one in own for top in one.modules if first.get(top) in (None, one.digest)},
        holding if found.is_layered(options.layer) else frozenset(),
        frozenset(home[one.name].digest for one in found.placements if one.place is Place.LAYER),
        tuple(_of_framework(found)),
        environment,
        found.warnings,
        holding if found.packages_last or found.is_layered(options.layer) else frozenset(),
    )


def _whole(
    job_packages: Mapping[str, Installed],
    home: Mapping[str, Artifact],
    located: Located,
    options: UserCodeOptions,
) -> UserCodePlan:
    # Without namespaces: all of the job's code runs in workers for jobs with equal code.
    chosen = options.native
    mode = chosen if chosen in (NativeModules.PARENT, NativeModules.FAIL) else NativeModules.PROCESS
    found = plan(job_packages, framework_packages(), mode, options.data_plane)
    match = options.namespace.patterns.match
    used = [
        one
        for one in job_packages.values()
        if not found.identical.issuperset(one.modules) and not any(match(module) for module in one.modules)
    ]
    own = {one.name for one in found.placements if one.place is Place.PROCESS}
    linked = tuple(_linked(one, home[one.name]) for one in used if one.name in own)
    check_supported({one.name: one.version for one in used}, _requirements())
    patterns, artifacts = options.namespace.patterns.patterns, (artifact.digest for artifact, _ in located)
    parts = [*artifacts, options.namespace.order.value, *patterns, "identical", *sorted(found.identical)]
    key = sha256("\n".join(parts).encode()).hexdigest()[:32]
    return UserCodePlan(
        found.identical,
        framework=tuple(_of_framework(found)),
        environment=ProcessEnvironment(key, linked, whole=True),
        warnings=found.warnings,
    )


def _without_layer(found: NativePlan) -> NativePlan:
    placements = tuple(
        replace(one, place=Place.PROCESS, reason="ordinary workers have no room for another layer")
        if one.place is Place.LAYER
        else one
        for one in found.placements
    )
    return replace(found, placements=placements)


@functools.cache
def framework_packages() -> Mapping[str, Installed]:
    return installed_in(framework_path())


def _job_packages(located: Located) -> tuple[dict[str, Installed], dict[str, Artifact], dict[str, str]]:
    # Of two with one name the first counts; artifacts that hold packages are looked through last.
    job_packages: dict[str, Installed] = {}
    home: dict[str, Artifact] = {}
    first: dict[str, str] = {}
    for artifact, folder in sorted(located, key=lambda place: holds_packages(str(place[1]))):
        first = {one.name: artifact.digest for one in pkgutil.iter_modules(searched(folder))} | first
        for name, one in sorted(installed_in([str(folder)]).items()):
            if name not in job_packages:
                job_packages[name], home[name] = one, artifact
    return job_packages, home, first


def _of_framework(found: NativePlan) -> Iterator[FrameworkPackage]:
    for one in found.placements:
        if one.place is Place.PARENT:
            ours = framework_packages()[one.name]
            yield FrameworkPackage(ours.name, ours.version, ours.contents)


def _environment(
    found: NativePlan,
    job_packages: Mapping[str, Installed],
    home: Mapping[str, Artifact],
    options: UserCodeOptions,
) -> ProcessEnvironment | None:
    own = [one.name for one in found.placements if one.place is Place.PROCESS]
    if not own:
        return None
    patterns = options.namespace.patterns
    linked = tuple(
        _linked(job_packages[name], home[name])
        for name in sorted(with_requirements(own, job_packages), key=list(job_packages).index)
        if not any(patterns.match(module) for module in job_packages[name].modules)
    )
    entries = {entry: one for one in reversed(linked) for entry in one.entries}  # as `own_process` links them
    text = "\n".join(f"{entry} {one.name} {one.contents}" for entry, one in sorted(entries.items()))
    return ProcessEnvironment(sha256(text.encode()).hexdigest()[:32], linked)


def _linked(one: Installed, home: Artifact) -> Linked:
    return Linked(
        one.name, one.version, one.contents, home.digest, home.inside, one.entries, one.modules, one.is_native
    )


def check_supported(versions: Mapping[str, str], requirements: Iterable[str]) -> None:
    """Raise UsageError if a job brings a package in a version that Headgate's `requirements` exclude.

    Example:
        >>> check_supported({"typing-extensions": "4.12"}, ["typing_extensions>=4.12"])
        >>> check_supported({"numpy": "1.26.4"}, ["numpy>=2", 'x>=3; extra == "y"'])
        Traceback (most recent call last):
            ...
        headgate.common.errors.UsageError: the job brings numpy 1.26.4, which its workers would use for ...
    """
    for requirement in requirements:
        name = _NAME.match(requirement)
        version = None if name is None or "extra ==" in requirement else versions.get(normal(name.group()))
        if version is None:
            continue
        for sign, bound in _BOUND.findall(requirement):
            if (_release(version) < _release(bound)) == (sign == ">="):
                raise UsageError(
                    f"the job brings {requirement.split('>')[0].split('<')[0].strip()} {version}, which its "
                    f"workers would use for Headgate, too, and Headgate needs {requirement.strip()}; bring a "
                    "version in that range, or leave these packages to the framework "
                    "(classloader.native-modules=parent)"
                )


def _release(version: str) -> tuple[int, ...]:
    digits = re.match(r"\d+(?:\.\d+)*", version)
    parts = [int(part) for part in digits.group().split(".")] if digits else []
    return tuple([*parts, 0, 0, 0, 0][:4])


def _requirements() -> list[str]:
    try:
        return importlib.metadata.requires("headgate") or []
    except importlib.metadata.PackageNotFoundError:
        return []
