"""Finds the module that an import in a namespace means, and loads it as its owner (user, framework) would."""

from __future__ import annotations

import contextlib
import importlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

from headgate.usercode.loading_errors import NativeModuleConflictError
from headgate.usercode.namespaces.context import FRAMEWORK, Handle, Modules, in_view_of
from headgate.usercode.namespaces.dispatch import framework_table
from headgate.usercode.namespaces.imports import Importing
from headgate.usercode.namespaces.interpreter import find_spec
from headgate.usercode.namespaces.places import Places
from headgate.usercode.resolution import Decision, Origin, ParentFirst

_ABSENT = object()


class Searched(Importing, Protocol):
    """An isolated namespace as the finder of its modules sees it."""

    name: str
    artifacts: frozenset[str]
    places: Places

    @property
    def layer(self) -> Searched | None:
        """The isolated namespace below, whose packages stay loaded for later jobs; None if there is none."""

    def decide(self, name: str) -> Decision:
        """Return whose copy of a module a name means, and why; the same at every call."""

    def store(self, name: str, module: ModuleType) -> None:
        """Enter a module into the namespace's table, or its layer's for a name of the layer's."""


class NativeModules:
    """Records which namespace of the process has loaded which shared object, by its file, not its name.

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
        headgate.usercode.loading_errors.NativeModuleConflictError: extension module 'yaml._yaml' ...
    """

    def __init__(self) -> None:
        self._loaded: dict[tuple[int, int], tuple[int, str]] = {}
        self._lock = threading.Lock()

    def claim(self, loader: int, of: str, name: str, file: str) -> None:
        """Record that namespace `of` (id `loader`) loads `file`; NativeModuleConflictError if another did."""
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
    """Finder of modules in one isolated namespace: the first entry of the namespace's `sys.meta_path`."""

    def __init__(self, namespace: Searched, patterns: ParentFirst) -> None:
        self._namespace, self._patterns = weakref.ref(namespace), patterns

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the copy a name means, or None; NativeModuleConflictError: loaded elsewhere."""
        namespace = self._namespace()
        if namespace is None:
            return None
        origin = namespace.decide(name).origin
        if origin is Origin.PARENT:
            return _found_elsewhere(FRAMEWORK, name, None)
        if origin is Origin.LAYER and namespace.layer is not None:
            return _found_elsewhere(namespace.layer.handle, name, namespace.layer.modules)
        spec = namespace.places.spec(name)
        if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
            NATIVE_MODULES.claim(id(namespace.handle), namespace.name, name, str(spec.origin))
            spec.loader = _LoaderAround(spec, partial(_taken_back, self._namespace))  # type: ignore[assignment]
        return spec

    def find_distributions(
        self,
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008 - it is constant
    ) -> Iterable[Distribution]:
        """Yield the distributions that the namespace's code sees, without its copies of parent-first ones."""
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
        """Invalidate the caches of the path finder, as `importlib.invalidate_caches` asks."""
        PathFinder.invalidate_caches()

    def _is_frameworks(self, found: Distribution) -> bool:
        tops = (found.read_text("top_level.txt") or "").split() or [found.metadata["Name"].replace("-", "_")]
        return all(self._patterns.match(top) is not None for top in tops)


def _within(context: DistributionFinder.Context, path: list[str]) -> DistributionFinder.Context:
    return DistributionFinder.Context(name=context.name, path=path)


def _found_elsewhere(handle: Handle, name: str, modules: Modules | None) -> ModuleSpec | None:
    """Return the spec of another owner's module, found in its view; `modules`: its table, None: framework's.

    Importing the module here and handing back the result would execute it twice.
    """
    package, _, _ = name.rpartition(".")
    path: Sequence[str] | None = None
    with in_view_of(handle):
        if package:
            loaded = importlib.import_module(package) if modules is None else modules[package]
            path = getattr(loaded, "__path__", ())
        spec = find_spec(name, path)
    if spec is not None and hasattr(spec.loader, "exec_module"):
        spec.loader = _LoaderAround(spec, partial(in_view_of, handle))  # type: ignore[assignment]
    return spec


class _LoaderAround:
    """Loader that executes one module within a context, and then gives the module its own loader back."""

    def __init__(self, spec: ModuleSpec, around: Callable[[], AbstractContextManager[None]]) -> None:
        self._spec, self._loader, self._around = spec, spec.loader, around

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        create = getattr(self._loader, "create_module", None)
        with self._around():
            return None if create is None else create(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._spec.loader = self._loader
        with contextlib.suppress(AttributeError):  # an object that has put itself in the module's place
            module.__loader__ = self._loader
        with self._around():
            self._loader.exec_module(module)  # type: ignore[union-attr]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


@contextmanager
def _taken_back(reference: weakref.ref[Searched]) -> Iterator[None]:
    """Move modules that C code in the block enters into the framework's table to the namespace's own.

    Compilers such as mypyc and Cython enter modules there themselves, past every override.
    """
    before = framework_table().of_framework()
    try:
        yield
    finally:
        namespace = reference()
        if namespace is not None:
            _take_back(before, namespace)


def _take_back(before: Modules, namespace: Searched) -> None:
    table = framework_table()
    for name, module in table.of_framework().items():
        if before.get(name, _ABSENT) is module or namespace.decide(name).origin is not Origin.CHILD:
            continue
        if name not in namespace.modules:
            namespace.store(name, module)
        if name in before:
            dict.__setitem__(table, name, before[name])
        else:
            dict.pop(table, name, None)
