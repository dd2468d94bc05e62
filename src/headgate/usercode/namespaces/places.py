"""Finds which modules are on which path, for the decision whose copy of a module a name means."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from headgate.common.settings.loader_options import ResolveOrder
from headgate.usercode.namespaces.context import Modules, pinned_to_framework
from headgate.usercode.resolution import Origin, ParentFirst, Resolver


class Portions(list[str]):
    """The folders of the user's parts of a namespace package, without the framework's.

    Python's own list of portions looks at `sys.path` again whenever it is asked, and would find the
    framework's. Readers of resources take a list for portions by its text.
    """

    def __repr__(self) -> str:
        return f"IsolatedNamespacePath({list(self)})"


class Places:
    """Tells which owner has which module, by a namespace's loaded modules and the files on its path."""

    def __init__(self, modules: Modules, path: Callable[[], Sequence[str]], layer: Lookup | None) -> None:
        self._modules, self._path, self._layer = modules, path, layer

    def has(self, origin: Origin, name: str) -> bool:
        if origin is Origin.PARENT:
            return framework_has(name)
        if origin is Origin.LAYER:
            return self._layer is not None and self._layer.owns(name)
        return name in self._modules or self.spec(name) is not None

    def is_namespace(self, origin: Origin, name: str) -> bool:
        if origin is Origin.LAYER:
            return self._layer is not None and self._layer.places.is_namespace(Origin.CHILD, name)
        if origin is Origin.PARENT:
            with pinned_to_framework():
                return _is_namespace(spec_of_framework(name))
        loaded = self._modules.get(name)
        return _is_namespace(self.spec(name) if loaded is None else getattr(loaded, "__spec__", None))

    def spec(self, name: str) -> ModuleSpec | None:
        """Return the spec of the user's copy of a module, by the files on its path; None if it has none."""
        package, _, _ = name.rpartition(".")
        path = self._portions(package) if package else self._path()
        if path is None:
            return None
        spec = PathFinder.find_spec(name, list(path))
        if spec is not None and _is_namespace(spec):
            spec.submodule_search_locations = Portions(spec.submodule_search_locations or ())
        return spec

    def _portions(self, package: str) -> Sequence[str] | None:
        loaded = self._modules.get(package)
        if loaded is not None:
            return getattr(loaded, "__path__", None)
        spec = self.spec(package)
        return None if spec is None else spec.submodule_search_locations


class Lookup(Resolver):
    """Decides whose copy of a module a name means, for one path of user code or of a dependency layer."""

    def __init__(
        self,
        patterns: ParentFirst,
        order: ResolveOrder,
        identical: frozenset[str],
        modules: Modules,
        path: Callable[[], Sequence[str]],
        layer: Lookup | None = None,
    ) -> None:
        self.places = Places(modules, path, layer)
        super().__init__(patterns, order, self.places, identical)

    def owns(self, name: str) -> bool:
        """Return whether a module of this name is on this path, and is the copy that the name means."""
        return self.decide(name).origin is Origin.CHILD and self.places.has(Origin.CHILD, name)


def framework_has(name: str) -> bool:
    """Return whether the framework has module `name`, loaded or as a file on its path.
    False too if the package of a submodule cannot be imported, which this tries.
    """
    with pinned_to_framework():
        if name in sys.modules:
            return True
        return spec_of_framework(name) is not None


def spec_of_framework(name: str) -> ModuleSpec | None:
    """Return the spec of the framework's copy, None without one; of a submodule the package is imported."""
    loaded: ModuleType | None = sys.modules.get(name)
    if loaded is not None:
        return getattr(loaded, "__spec__", None)
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None  # its package cannot be imported: the name means the user's copy


def _is_namespace(spec: ModuleSpec | None) -> bool:
    if spec is None or spec.submodule_search_locations is None or spec.origin is not None:
        return False
    return spec.loader is None or type(spec.loader).__name__ == "NamespaceLoader"
