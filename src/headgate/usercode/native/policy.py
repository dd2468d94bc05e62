"""Decides where a job's packages with compiled parts run, from what it brings and what the framework has.

`classloader.native-modules`::

    any mode    equal to the framework's, file by file: the framework's copy
    auto        a data-plane package of both, a library of a name that another file has: a process of its own
                else: in this process, in the dependency layer, each file once
    process     any other native package: a process of its own
    in-process  all others in this process; the user vouches that no native object crosses
    parent      the framework's copy of all that it has; others as in auto
    fail        any that is not the framework's own: refused
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from headgate.common.settings.loader_options import DATA_PLANE, DependencyLayer, NativeModules
from headgate.usercode.loading_errors import UserCodeLoadError
from headgate.usercode.native.distributions import Installed, are_equal
from headgate.usercode.resolution import ParentFirst


class Place(Enum):
    """Where a package with compiled parts runs."""

    PARENT = "the framework's copy"
    LAYER = "in this process, in the dependency layer"
    PROCESS = "a process of its own"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one distribution of a job runs, and why."""

    name: str
    version: str
    place: Place
    reason: str


@dataclass(frozen=True, slots=True)
class NativePlan:
    """Where each native package of a job runs; `identical`: modules of which the framework's copy is used."""

    placements: tuple[Placement, ...]
    identical: frozenset[str]  # top-level modules that are the framework's
    warnings: tuple[str, ...] = ()
    packages_last: bool = False  # searched behind the job's own code, as the driver has them in a layer

    def is_layered(self, layer: DependencyLayer) -> bool:
        """Return whether, by the option `layer`, all packages of the job go into a layer that outlives it."""
        if layer is DependencyLayer.NATIVE:
            return any(one.place is Place.LAYER for one in self.placements)
        return layer is DependencyLayer.ALWAYS


def plan(
    job_packages: Mapping[str, Installed],
    framework: Mapping[str, Installed],
    mode: NativeModules,
    data_plane: tuple[str, ...] = DATA_PLANE,
) -> NativePlan:
    """Return where those of a job's packages run that have compiled parts, next to the framework's.

    UserCodeLoadError in the mode `fail` for any that does not equal the framework's, and for a job that
    brings some data-plane packages (NumPy, pandas, pyarrow) of its own but not all that the framework has.
    """
    group = ParentFirst(data_plane)
    taken = _libraries(framework)
    native = sorted((one for one in job_packages.values() if one.is_native), key=lambda one: one.name)
    placements = [_place(one, framework, mode, group, taken) for one in native]
    _check_group(placements, job_packages, framework, group)
    identical = {
        module for one in placements if one.place is Place.PARENT for module in job_packages[one.name].modules
    }
    warnings = tuple(
        f"{one.name} {one.version} of the job is not used: the framework's {framework[one.name].version} is"
        for one in placements
        if one.place is Place.PARENT and framework[one.name].version != one.version
    )
    last = any(one.place is not Place.PARENT for one in placements)
    return NativePlan(tuple(placements), frozenset(identical), warnings, last)


def with_requirements(names: Iterable[str], job_packages: Mapping[str, Installed]) -> frozenset[str]:
    """Return those of `names` that the job brings, and all that they require, directly or not, and it brings.

    Example:
        >>> def package(name, *needs):
        ...     return Installed(name, "1", "c", "/x", (name,), (), needs)
        >>> found = with_requirements(["pandas"], {"pandas": package("pandas", "pytz", "six"),
        ...                                        "pytz": package("pytz")})
        >>> sorted(found)
        ['pandas', 'pytz']
    """
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in job_packages and name not in found:
            found.add(name)
            todo.extend(job_packages[name].requires)
    return frozenset(found)


Libraries = Mapping[str, list[tuple[Installed, str]]]
"""Shared libraries by the name that the linker knows: whose they are, and their files."""


def _libraries(framework: Mapping[str, Installed]) -> Libraries:
    found: dict[str, list[tuple[Installed, str]]] = {}
    for one in framework.values():
        for name, file in one.libraries():
            found.setdefault(name, []).append((one, file))
    return found


def _place(
    one: Installed,
    framework: Mapping[str, Installed],
    mode: NativeModules,
    group: ParentFirst,
    taken: Libraries,
) -> Placement:
    ours = framework.get(one.name)
    if ours is not None and ours.contents == one.contents:
        return Placement(one.name, one.version, Place.PARENT, "file by file the framework's own")
    if mode is NativeModules.FAIL:
        wanted = "" if ours is None else f" {ours.version}"
        raise UserCodeLoadError(
            f"the job brings {one.name} {one.version} with compiled parts, and "
            f"classloader.native-modules=fail allows only the framework's own{wanted}; "
            "take that version, or another mode"
        )
    if mode is NativeModules.PARENT and ours is not None:
        return Placement(one.name, one.version, Place.PARENT, "classloader.native-modules=parent")
    if mode is NativeModules.PROCESS:
        return Placement(one.name, one.version, Place.PROCESS, "classloader.native-modules=process")
    reason = None if mode is NativeModules.IN_PROCESS else _conflict(one, ours, group, taken)
    if reason is not None:
        return Placement(one.name, one.version, Place.PROCESS, reason)
    return Placement(one.name, one.version, Place.LAYER, "nothing of it clashes with what is loaded")


def _conflict(one: Installed, ours: Installed | None, group: ParentFirst, taken: Libraries) -> str | None:
    if ours is not None and _is_in(group, one):
        return f"its objects meet those of the framework's {ours.version}"
    for name, file in one.libraries():
        for owner, loaded in taken.get(name, ()):
            if not are_equal(file, loaded):  # the linker takes the one for the other, which must not show
                return (
                    f"its library {name} ({file}) has the name of another one of the framework's {owner.name}"
                )
    return None


def _check_group(
    placements: list[Placement],
    job_packages: Mapping[str, Installed],
    framework: Mapping[str, Installed],
    group: ParentFirst,
) -> None:
    alone = [one for one in placements if one.place is Place.PROCESS]
    own = [f"{one.name} {one.version}" for one in alone if _is_in(group, job_packages[one.name])]
    missing = [name for name, one in framework.items() if name not in job_packages and _is_in(group, one)]
    if own and missing:
        raise UserCodeLoadError(
            f"the job brings {', '.join(own)} and not {', '.join(missing)}, whose objects meet; bring all "
            "packages of classloader.data-plane-packages, or none"
        )


def _is_in(group: ParentFirst, one: Installed) -> bool:
    return any(group.match(module) for module in one.modules)
