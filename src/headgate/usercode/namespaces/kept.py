"""The containers in `sys` stay where they are: `sys.path = [...]` means the path of whoever says it.

An assignment to an attribute of a module calls no code, so it is looked for wherever an import begins, and
before the framework continues after a namespace's code.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from _typeshed.importlib import MetaPathFinderProtocol as MetaPathFinder

C = TypeVar("C")
T = TypeVar("T", contravariant=True)


class Container(Protocol[T]):
    """One of them, which takes assignments of type `T`."""

    def replace(self, value: T) -> None:
        """Show the running code the contents of `value`."""
        ...


_path: Any = None
_meta_path: Any = None
_modules: Any = None


def keep_in_sys(
    path: Container[list[str]],
    meta_path: Container[list[MetaPathFinder]],
    modules: Container[dict[str, ModuleType]],
) -> None:
    """Have these attributes of `sys` be these containers for good."""
    global _path, _meta_path, _modules
    _path, _meta_path, _modules = path, meta_path, modules
    for name, container in (("path", path), ("meta_path", meta_path), ("modules", modules)):
        setattr(sys, name, container)


def restore_containers() -> None:
    """Have the containers in `sys` again that were replaced there, with the contents that were assigned.

    An import asks this as often as it looks for a module, so it must cost next to nothing.
    """
    if sys.path is _path and sys.meta_path is _meta_path and sys.modules is _modules:
        return
    _restore("path", _path)
    _restore("meta_path", _meta_path)
    _restore("modules", _modules)


def _restore(name: str, container: Container[C] | None) -> None:
    found = getattr(sys, name)
    if container is not None and found is not container and found is not None:  # None: Python ends
        setattr(sys, name, container)
        container.replace(found)
