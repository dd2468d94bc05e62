"""The containers in `sys` stay where they are: `sys.path = [...]` means the path of whoever says it.

An assignment to an attribute of a module calls no code, so it is looked for wherever an import begins, and
before the framework continues after a namespace's code.
"""

from __future__ import annotations

import sys
from typing import Any, Protocol


class Container(Protocol):
    """One of them."""

    def replace(self, value: Any) -> None:
        """Show the running code the contents of `value`."""
        ...


_path: Any = None
_meta_path: Any = None
_modules: Any = None


def keep_in_sys(path: Container, meta_path: Container, modules: Container) -> None:
    """Have these attributes of `sys` be these containers for good."""
    global _path, _meta_path, _modules
    _path, _meta_path, _modules = path, meta_path, modules
    for name, container in _containers():
        setattr(sys, name, container)


def restore_containers() -> None:
    """Have the containers in `sys` again that were replaced there, with the contents that were assigned.

    An import asks this as often as it looks for a module, so it must cost next to nothing.
    """
    if sys.path is _path and sys.meta_path is _meta_path and sys.modules is _modules:
        return
    for name, container in _containers():
        found = getattr(sys, name)
        if container is not None and found is not container and found is not None:  # None: Python ends
            setattr(sys, name, container)
            container.replace(found)


def _containers() -> tuple[tuple[str, Any], ...]:
    return ("path", _path), ("meta_path", _meta_path), ("modules", _modules)
