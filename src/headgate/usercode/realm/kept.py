"""The containers in `sys` stay where they are: `sys.path = [...]` means the path of whoever says it.

Nobody is told of an assignment to a module, so it is looked for wherever the next import begins, and before
the framework takes over from a realm's code.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, Protocol


class Container(Protocol):
    """One of them."""

    def replace(self, value: Any) -> None:
        """Show the running code the contents of `value`."""
        ...


_kept: Final[list[tuple[str, Container]]] = []


def keep_in_sys(containers: Mapping[str, Container]) -> None:
    """Have attributes of `sys` be these containers for good."""
    for name, container in containers.items():
        setattr(sys, name, container)
    _kept[:] = containers.items()


def put_back() -> None:
    """Containers that somebody has replaced are there again, with the contents that were wanted."""
    for name, container in _kept:
        found = getattr(sys, name)
        if found is not container and found is not None:  # it is None when the interpreter ends
            setattr(sys, name, container)
            container.replace(found)
