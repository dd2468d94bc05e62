"""The containers in `sys` stay where they are: `sys.path = [...]` means the path of whoever says it.

Nobody is told of an assignment to a module, so it is looked for wherever the next import begins, and before
the framework takes over from a realm's code.
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


def put_back() -> None:
    """Containers that somebody has replaced are there again, with the contents that were wanted.

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
