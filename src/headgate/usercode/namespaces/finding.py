"""How an import in a namespace finds its module, and in which view the module is executed."""

from __future__ import annotations

import contextlib
import importlib
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol, TypeVar

from headgate.usercode.errors import NativeModuleConflictError
from headgate.usercode.namespaces.context import FRAMEWORK, Handle, Modules, enter, leave
from headgate.usercode.namespaces.dispatch import ModuleTable, framework_table
from headgate.usercode.namespaces.imports import Importing
from headgate.usercode.namespaces.interpreter import find_spec
from headgate.usercode.namespaces.places import Places
from headgate.usercode.resolution import Decision, Origin, ParentFirst

A = TypeVar("A")
R = TypeVar("R")

_ABSENT = object()


class Searched(Importing, Protocol):
    """A namespace, for the finder of its modules."""

    name: str
    artifacts: frozenset[str]
    places: Places

    @property
    def layer(self) -> Searched | None:
        """The namespace below, with packages that stay."""

    def decide(self, name: str) -> Decision:
        """Whose copy of a module a name means."""

    def store(self, name: str, module: ModuleType) -> None:
        """Enter a module, for this namespace alone."""


class NativeModules:
    """The shared objects that namespaces of a process have loaded, by the file itself and not by its name.

    Each is loaded once: CPython can neither unload an extension module nor load it twice. A second namespace
    that loads the same file gets, without a word, the first one's C state: exceptions that are never caught,
    recursion errors, crashes. So the file is refused, with the ways out.

    Example:
        >>> import tempfile
        >>> file = tempfile.NamedTemporaryFile()
        >>> seen = NativeModules()
        >>> seen.claim(1, "job a", "yaml._yaml", file.name)
        >>> seen.claim(1, "job a", "yaml._yaml", file.name)
        >>> seen.claim(2, "job b", "yaml._yaml", file.name)
        Traceback (most recent call last):
            ...
        headgate.usercode.errors.NativeModuleConflictError: extension module 'yaml._yaml' ...
    """

    def __init__(self) -> None:
        self._loaded: dict[tuple[int, int], tuple[int, str]] = {}
        self._lock = threading.Lock()

    def claim(self, loader: int, of: str, name: str, file: str) -> None:
        """Note that the namespace `of`, with the token `loader`, is about to load a shared object."""
        status = Path(file).stat()
        with self._lock:
            first, of_first = self._loaded.setdefault((status.st_dev, status.st_ino), (loader, of))
        if first == loader:
            return
        raise NativeModuleConflictError(
            f"extension module {name!r} ({file}) was already loaded in this process by user code loader "
            f"{of_first!r}, and CPython cannot load one shared object twice; run the job in a process of its "
            "own (classloader.native-modules=process), let its packages lie in a layer that jobs share "
            "(classloader.dependency-layer=native), or take the framework's copy "
            f"('{name.partition('.')[0]}.' in classloader.parent-first-patterns.additional)",
            name=name,
            path=file,
        )


NATIVE_MODULES: Final = NativeModules()
"""Of this process."""


class NamespaceFinder:
    """The one entry of a namespace's `sys.meta_path`, before those that the user adds."""

    def __init__(self, namespace: Searched, patterns: ParentFirst) -> None:
        self._namespace, self._patterns = weakref.ref(namespace), patterns

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As every finder's."""
        namespace = self._namespace()
        if namespace is None:
            return None
        origin = namespace.decide(name).origin
        if origin is Origin.PARENT:
            return _in_view_of(FRAMEWORK, name, _path_of_package(name, None))
        if origin is Origin.LAYER and namespace.layer is not None:
            return _in_view_of(namespace.layer.handle, name, _path_of_package(name, namespace.layer.modules))
        spec = namespace.places.spec(name)
        if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
            NATIVE_MODULES.claim(id(namespace.handle), namespace.name, name, str(spec.origin))
            spec.loader = ExtensionGuard(spec, namespace)  # type: ignore[assignment]
        return spec

    def find_distributions(
        self,
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008 - it is constant
    ) -> Iterable[Distribution]:
        """Distributions on the namespace's path; of the framework's modules the framework's own only."""
        namespace = self._namespace()
        if namespace is None:
            return
        brought = [entry for entry in context.path if entry in namespace.artifacts]
        for found in PathFinder.find_distributions(_within(context, brought)):
            if not self._is_frameworks(found):
                yield found
        others = [entry for entry in context.path if entry not in namespace.artifacts]
        yield from PathFinder.find_distributions(_within(context, others))

    def invalidate_caches(self) -> None:
        """As every finder's."""
        PathFinder.invalidate_caches()

    def _is_frameworks(self, found: Distribution) -> bool:
        tops = (found.read_text("top_level.txt") or "").split() or [found.metadata["Name"].replace("-", "_")]
        return all(self._patterns.match(top) is not None for top in tops)


def _within(context: DistributionFinder.Context, path: list[str]) -> DistributionFinder.Context:
    return DistributionFinder.Context(name=context.name, path=path)


def _path_of_package(name: str, modules: Modules | None) -> Callable[[], Sequence[str] | None]:
    """Gives the path below which a module is to be found, once the right view is on."""

    def path() -> Sequence[str] | None:
        package, _, _ = name.rpartition(".")
        if not package:
            return None
        loaded = importlib.import_module(package) if modules is None else modules[package]
        return getattr(loaded, "__path__", ())

    return path


def _in_view_of(handle: Handle, name: str, path: Callable[[], Sequence[str] | None]) -> ModuleSpec | None:
    token = enter(handle)
    try:
        spec: ModuleSpec | None = find_spec(name, path())
    finally:
        leave(token)
    if spec is not None and hasattr(spec.loader, "exec_module"):
        spec.loader = InViewOf(handle, spec)  # type: ignore[assignment]
    return spec


class _LoaderAround:
    """A loader around another one: for the first execution only, after which the module has its own."""

    def __init__(self, spec: ModuleSpec) -> None:
        self._spec, self._loader = spec, spec.loader

    def _hand_back(self, module: ModuleType) -> None:
        self._spec.loader = self._loader
        with contextlib.suppress(AttributeError):  # an object that has put itself in the module's place
            module.__loader__ = self._loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class InViewOf(_LoaderAround):
    """Executes a module that user code is the first to import, once, as its owner would.

    Importing it while it is looked for, and handing the result back, would execute it twice.
    """

    def __init__(self, handle: Handle, spec: ModuleSpec) -> None:
        super().__init__(spec)
        self._handle = handle

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As every loader's."""
        create = getattr(self._loader, "create_module", None)
        token = enter(self._handle)
        try:
            return None if create is None else create(spec)
        finally:
            leave(token)

    def exec_module(self, module: ModuleType) -> None:
        """As every loader's."""
        self._hand_back(module)
        token = enter(self._handle)
        try:
            self._loader.exec_module(module)  # type: ignore[union-attr]
        finally:
            leave(token)


class ExtensionGuard(_LoaderAround):
    """Loads an extension module, and takes back what its C code wrote into the framework's table of modules.

    Compilers such as mypyc and Cython enter modules there themselves, past every override.
    """

    def __init__(self, spec: ModuleSpec, namespace: Searched) -> None:
        super().__init__(spec)
        self._namespace = weakref.ref(namespace)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As every loader's."""
        return self._guarded(self._loader.create_module, spec)  # type: ignore[union-attr,no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        """As every loader's."""
        self._hand_back(module)
        self._guarded(self._loader.exec_module, module)  # type: ignore[union-attr]

    def _guarded(self, step: Callable[[A], R], argument: A) -> R:
        table = framework_table()
        before = table.of_framework()
        try:
            return step(argument)
        finally:
            namespace = self._namespace()
            if namespace is not None:
                _take_back(table, before, namespace)


def _take_back(table: ModuleTable, before: Modules, namespace: Searched) -> None:
    for name, module in table.of_framework().items():
        if before.get(name, _ABSENT) is module or namespace.decide(name).origin is not Origin.CHILD:
            continue
        if name not in namespace.modules:
            namespace.store(name, module)
        if name in before:
            dict.__setitem__(table, name, before[name])
        else:
            dict.pop(table, name, None)
