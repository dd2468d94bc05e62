"""Explains which copy of a module a name would mean in a job, from which file it would come, and why.

Nothing of the job is run, and no namespace is opened: what lies on the job's path is looked up by the table
that namespaces use (`resolution`), and packages with compiled parts by the policy of `native`. To find the
framework's `a.b`, Python imports its `a`, so a command asks for the `answer` in a process of its own.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Final, TypedDict

from headgate.common.errors import UsageError
from headgate.common.plain_data import Json
from headgate.common.process.search_path import framework_path
from headgate.common.settings.config import Config
from headgate.common.settings.loader_options import (
    USER_CODE_APART,
    USER_CODE_PATH,
    USER_CODE_REQUIREMENTS,
    Isolation,
    NativeModules,
)
from headgate.usercode.bundle.artifacts import inside_of
from headgate.usercode.bundle.layouts import searched
from headgate.usercode.bundle.requirements import wheels_of
from headgate.usercode.bundle.unpacking import unpack
from headgate.usercode.isolation import why_isolated
from headgate.usercode.loading_errors import NoIsolationError
from headgate.usercode.namespaces.context import pinned_to_framework
from headgate.usercode.namespaces.imports import install
from headgate.usercode.namespaces.places import Lookup, Places, spec_of_framework
from headgate.usercode.native.distributions import Installed, holds_packages, installed_in
from headgate.usercode.native.policy import NativePlan, Place, Placement, plan, with_requirements
from headgate.usercode.resolution import Origin
from headgate.usercode.settings import UserCodeSettings

LINKED: Final = "in worker processes of the job's own, the user's copy in the framework's place"
ANSWER: Final = "headgate-usercode: "
"""Begins the one line that a child process answers with; packages may print others."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One folder on a job's module search path, and the path by which the user knows it (`shown`)."""

    folder: Path
    shown: str  # what the user calls it


@dataclass(frozen=True, slots=True)
class ModuleExplained:
    """Which copy of one module a job would get, from which file, and why."""

    module: str
    copy: Origin
    file: str | None  # from which it would be loaded; the folders of a namespace package
    reason: str
    native: tuple[Placement, ...] = ()  # where the job's native packages of that name would run


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to `headgate usercode`: which copies modules are of, where native packages run, warnings."""

    modules: tuple[ModuleExplained, ...]
    placements: tuple[Placement, ...]
    warnings: tuple[str, ...]
    alone: bool = False  # whether all of the job has processes of its own, for want of namespaces
    isolated: str | None = (
        None  # why `headgate run` isolates the program; None: it is plain, with equal copies
    )

    def facts(self) -> dict[str, Json]:
        return {
            "modules": [
                {
                    "module": one.module,
                    "copy": one.copy.value,
                    "file": one.file,
                    "reason": one.reason,
                    "native": [_placed(placement) for placement in one.native],
                }
                for one in self.modules
            ],
            "native_packages": [_placed(placement) for placement in self.placements],
            "isolated": self.isolated,
            "own_processes": self.alone or any(one.place is Place.PROCESS for one in self.placements),
            "warnings": list(self.warnings),
        }


def _placed(placement: Placement) -> dict[str, Json]:
    return {
        "package": placement.name,
        "version": placement.version,
        "runs": placement.place.value,
        "reason": placement.reason,
    }


class _View:
    """Looks up which copy of a module a job's code would get, without opening an isolated namespace.

    `layered`: entries of `path` that go into the dependency layer; `identical`: top-level modules of native
    packages that are the framework's; `linked`: modules that the job's own workers replace by its copies.
    """

    def __init__(
        self,
        path: Sequence[Entry],
        layered: Sequence[Entry],
        settings: UserCodeSettings,
        identical: frozenset[str],
        linked: frozenset[str],
    ) -> None:
        self._entries, self._linked = path, linked
        self._everything = Places({}, lambda: [str(one.folder) for one in path], None)
        own = [str(one.folder) for one in path if one not in layered]
        below = [str(one.folder) for one in layered]
        table = settings.patterns, settings.resolve_order, identical
        self._layer = Lookup(*table, {}, lambda: below)
        self._lookup = Lookup(*table, {}, lambda: own, self._layer)

    def module(self, name: str) -> ModuleExplained:
        if name.partition(".")[0] in self._linked:
            return ModuleExplained(name, Origin.CHILD, self._file(self._everything.spec(name)), LINKED)
        decision = self._lookup.decide(name)
        file = self._file(self._spec(name, decision.origin))
        return ModuleExplained(name, decision.origin, file, decision.reason)

    def _file(self, spec: ModuleSpec | None) -> str | None:
        if spec is None:
            return None
        files = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
        return os.pathsep.join(self._shown(file) for file in files) or None

    def _spec(self, name: str, origin: Origin) -> ModuleSpec | None:
        if origin is Origin.PARENT:
            with pinned_to_framework():
                return spec_of_framework(name)
        return (self._layer if origin is Origin.LAYER else self._lookup).places.spec(name)

    def _shown(self, file: str) -> str:
        for one in self._entries:
            if Path(file).is_relative_to(one.folder):
                return str(Path(one.shown, Path(file).relative_to(one.folder)))
        return file


def explain(
    names: Sequence[str], path: Sequence[Entry], settings: UserCodeSettings, alone: bool = False
) -> Explanation:
    """Return which copy each module of `names` means in a job with search path `path`, and why.
    `alone`: the program has processes of its own, as there are no namespaces. UserCodeLoadError: refused.
    """
    mode = without_namespaces(settings.native_modules) if alone else settings.native_modules
    job_packages = installed_in(str(one.folder) for one in path)
    native = any(one.is_native for one in job_packages.values())
    framework = installed_in(framework_path()) if native else {}
    decided = plan(job_packages, framework, mode, settings.data_plane)
    is_layered = decided.is_layered(settings.dependency_layer)
    if decided.packages_last and not alone:
        path = sorted(path, key=lambda one: holds_packages(str(one.folder)))
    layered = [one for one in path if is_layered and holds_packages(str(one.folder))]
    view = _View(path, layered, settings, decided.identical, _linked(decided, job_packages, settings))
    return Explanation(
        tuple(_with_native(view.module(name), job_packages, decided) for name in names),
        decided.placements,
        (*settings.warnings, *decided.warnings),
    )


def _linked(
    decided: NativePlan, job_packages: Mapping[str, Installed], settings: UserCodeSettings
) -> frozenset[str]:
    own = [one.name for one in decided.placements if one.place is Place.PROCESS]
    modules = [job_packages[name].modules for name in with_requirements(own, job_packages)]
    match = settings.patterns.match
    return frozenset(top for tops in modules if not all(map(match, tops)) for top in tops)


def _with_native(
    module: ModuleExplained, job_packages: Mapping[str, Installed], decided: NativePlan
) -> ModuleExplained:
    top = module.module.partition(".")[0]
    native = tuple(one for one in decided.placements if top in job_packages[one.name].modules)
    return replace(module, native=native)


def entries(program: Path, others: Sequence[Path], wheels: Sequence[Path], scratch: Path) -> Iterator[Entry]:
    """Yield the folders of a job's search path in order: `program`'s, then those of `others` and `wheels`.
    Archives are unpacked into the folder `scratch`. UsageError: there is no program, or a path is refused.
    """
    if not program.is_file():
        raise UsageError(f"there is no program {str(program)!r}; give the path of a Python file")
    yield Entry(program.resolve().parent, str(program.resolve().parent))
    for number, path in enumerate((*others, *wheels)):
        inside, top = inside_of(path), path
        if not path.is_dir():
            top = scratch / str(number)
            top.mkdir()
            unpack(path, top)
        folder = (top / inside).resolve()
        for entry in map(Path, searched(folder)):
            yield Entry(entry, str(path / inside / entry.relative_to(folder)))


def without_namespaces(mode: NativeModules) -> NativeModules:
    """Return the mode to use without namespaces: PROCESS instead of AUTO and IN_PROCESS, else `mode`."""
    return NativeModules.PROCESS if mode in (NativeModules.AUTO, NativeModules.IN_PROCESS) else mode


def _no_namespaces() -> str | None:
    try:
        install()
    except NoIsolationError as error:
        return f"{error}; every program has a driver process and Python workers of its own"
    return None


class Question(TypedDict):
    """The request to the child process that explains; `requirements` is a file, or None."""

    program: str
    modules: list[str]
    others: list[str]
    requirements: str | None
    settings: dict[str, str]


def answer(asked: Question) -> dict[str, Json]:
    """Return the explanation asked for, as JSON values; call it in a child process, as it changes `sys`."""
    texts = dict(asked["settings"])
    chosen = texts.pop(USER_CODE_APART.key, Isolation.AUTO.value)
    settings = UserCodeSettings.from_texts(texts)
    with tempfile.TemporaryDirectory(prefix="headgate-explain-") as made:
        scratch, unpacked = Path(made), Path(made, "unpacked")
        unpacked.mkdir()
        locked = asked["requirements"]
        wheels = wheels_of(Path(locked), scratch / "wheels") if locked is not None else ()
        others = [Path(path) for path in asked["others"]]
        path = list(entries(Path(asked["program"]), others, wheels, unpacked))
        isolated = _why_isolated(asked, chosen)
        why = None if isolated is None else _no_namespaces()
        found = explain(asked["modules"], path, settings, alone=why is not None)
        warnings = found.warnings if why is None else (*found.warnings, why)
        return replace(found, isolated=isolated, warnings=warnings, alone=why is not None).facts()


def _why_isolated(asked: Question, chosen: str) -> str | None:
    options: dict[str, str | tuple[str, ...]] = {USER_CODE_APART.key: chosen}
    if asked["others"]:
        options[USER_CODE_PATH.key] = tuple(asked["others"])
    if asked["requirements"] is not None:
        options[USER_CODE_REQUIREMENTS.key] = asked["requirements"]
    return why_isolated(Path(asked["program"]), Config().with_program(options), shared=False)


def child_main() -> None:
    """Read a :class:`Question` on standard input, write answer or refusal as a line: main of the child."""
    result: dict[str, Json]
    try:
        result = {"explanation": answer(json.load(sys.stdin))}
    except UsageError as error:
        result = {"refused": str(error)}
    sys.stdout.write(f"\n{ANSWER}{json.dumps(result)}\n")
