"""Isolates a program by a process of its own instead of a namespace, in the driver and in its workers.

It serves interpreters that allow no two tables of modules (`namespaces.interpreter`). One process runs one
isolated program in its life, and Spark's workers run one program's packages. Names are resolved in the order
of namespaces, as far as one table allows: a module that the framework has loaded before is there once, for
both.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
import sys
import sysconfig
import threading
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from headgate.common.process.same_interpreter import SameInterpreter
from headgate.common.process.search_path import framework_path
from headgate.common.settings.loader_options import ResolveOrder
from headgate.usercode.bundle.program_artifacts import ProgramArtifacts
from headgate.usercode.loading_errors import UserCodeLoadError
from headgate.usercode.namespaces.loader import NamespaceSettings
from headgate.usercode.resolution import STANDARD_LIBRARY

T = TypeVar("T")
_log = logging.getLogger("headgate.usercode")
_lock: Final = threading.Lock()
_program: ProcessCode | None = None
"""The program of this process, also after its end."""


class SharedPath(list[str]):
    """The list in `sys.path` of a process for one isolated program; it tells the program's entries apart."""

    def __init__(self, entries: Iterable[str], artifacts: Iterable[str]) -> None:
        super().__init__(entries)
        self._artifacts = frozenset(artifacts)

    def of_framework(self) -> list[str]:
        """Return the entries that are not the program's, for `common.process.search_path.framework_path`."""
        return [entry for entry in self if entry not in self._artifacts]


class ProcessOrder:
    """A finder in `sys.meta_path` that decides if the user's or framework's copy of a module comes first.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> for name in ("msgspec", "json", "of_user_only"):
        ...     _ = Path(folder, f"{name}.py").write_text("")
        >>> def whose(order, name):
        ...     spec = ProcessOrder([folder], NamespaceSettings(order=order)).find_spec(name)
        ...     return spec and ("user" if spec.origin.startswith(folder) else "framework")
        >>> [whose(ResolveOrder.CHILD_FIRST, name) for name in ("msgspec", "json", "of_user_only")]
        ['user', None, 'user']
        >>> [whose(ResolveOrder.PARENT_FIRST, name) for name in ("msgspec", "json", "of_user_only")]
        ['framework', None, 'user']
    """

    def __init__(self, folders: Sequence[str], settings: NamespaceSettings) -> None:
        self._folders, self._settings = tuple(folders), settings

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the copy that comes first; None (as for most submodules): ask other finders."""
        if not isinstance(sys.path, SharedPath):  # `sys.path = [...]` by the program
            sys.path = SharedPath(sys.path, self._folders)
        if name.partition(".")[0] in STANDARD_LIBRARY:
            return None
        if path is not None:
            return self._portion(name, list(path))
        of_framework = framework_path()
        if self._is_frameworks(name):
            return PathFinder.find_spec(name, [*of_framework, *self._folders])
        return PathFinder.find_spec(name, [*self._folders, *of_framework])

    def _portion(self, name: str, path: list[str]) -> ModuleSpec | None:
        if len(path) < 2 or not self._is_frameworks(name):
            return None
        return PathFinder.find_spec(name, sorted(path, key=self._is_brought))

    def _is_brought(self, place: str) -> bool:
        return any(place == folder or place.startswith(f"{folder}/") for folder in self._folders)

    def put_in_place(self) -> tuple[str, ...]:
        """Install this finder and the program's folders in `sys.meta_path` and `sys.path`.

        Returns the program's modules of which the framework's copy is used, as it is loaded already.
        """
        at = after_standard_library(sys.path)
        sys.path = SharedPath([*sys.path[:at], *self._folders, *sys.path[at:]], self._folders)
        sys.meta_path.insert(0, self)
        importlib.invalidate_caches()
        names = {one.name for one in pkgutil.iter_modules(self._folders)} & sys.modules.keys()
        names -= {*STANDARD_LIBRARY, "__main__"}
        return tuple(sorted(name for name in names if not self._is_frameworks(name)))

    def _is_frameworks(self, name: str) -> bool:
        settings = self._settings
        return (
            settings.order is ResolveOrder.PARENT_FIRST
            or name in settings.identical
            or settings.patterns.match(name) is not None
        )


def after_standard_library(path: Sequence[str], standard: Sequence[str] | None = None) -> int:
    """Return the index for a job's folders in a path: after the standard library, so before all the rest.

    Example:
        >>> after_standard_library(["", "/py/lib", "/py/lib/lib-dynload", "/venv/site"], ["/py/lib"])
        3
    """
    roots = [sysconfig.get_path("stdlib")] if standard is None else list(standard)
    own = {*roots, *(f"{root}/lib-dynload" for root in roots)}
    return max((index + 1 for index, entry in enumerate(path) if entry in own), default=0)


class ProcessCode(SameInterpreter):
    """The code (`IsolatedCode`) of a program alone in its process; UserCodeLoadError for a second program.

    `close` releases the program's folders and puts back `__main__`; its modules and the path stay.
    """

    def __init__(self, artifacts: ProgramArtifacts, settings: NamespaceSettings) -> None:
        self.artifacts = artifacts
        self.main = ModuleType("__main__")
        self.is_open = True
        _take_process(self)
        self._before = sys.modules["__main__"]
        sys.modules["__main__"] = self.main
        self._order = ProcessOrder(artifacts.folders, settings)
        both = self._order.put_in_place()
        if both:
            _log.warning(
                "the framework has loaded %s before the program's copy was in place, and a process has a "
                "module once: in the driver the program uses the framework's",
                ", ".join(both),
            )

    @property
    def paths(self) -> tuple[Path, ...]:
        return self.artifacts.paths

    def close(self) -> None:
        self.is_open = False
        sys.modules["__main__"] = self._before
        self.artifacts.release()


def _take_process(code: ProcessCode) -> None:
    global _program
    with _lock:
        if _program is not None:
            raise UserCodeLoadError(
                f"program {str(code.artifacts.program)!r} cannot be loaded: this process has run "
                f"{str(_program.artifacts.program)!r}, and on this interpreter only processes isolate "
                "programs; run it in another one (headgate run)"
            )
        _program = code


def running_alone() -> ProcessCode | None:
    """Return the code of the program that has this process to itself; None without one and after its end."""
    return _program if _program is not None and _program.is_open else None
