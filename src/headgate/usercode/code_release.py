"""What a job's code wants done when its loader closes: caches of native libraries, handles, registrations."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from headgate.common.errors import UsageError
from headgate.common.process.children import at_exit

Hook = Callable[[], Any]
"""Called without arguments; what it gives is dropped."""


class HookOwner(Protocol):
    """An isolated namespace, or what is left of one that has closed and takes no hooks."""

    @property
    def release_hooks(self) -> dict[str, Hook]:
        """The hooks by their names."""

    @property
    def closed(self) -> bool:
        """Whether it takes none any more."""


_lock: Final = threading.Lock()
_of_process: Final[set[str]] = set()
"""Names of hooks of code that has a process to itself, or lives among everything else."""
_owner: Callable[[], HookOwner | None] | None = None
"""Gives the namespace of the calling code; None where this process has no namespaces."""


def ask_for_owner(owner: Callable[[], HookOwner | None]) -> None:
    """This process has isolated namespaces from now on: `owner` gives that of the calling code."""
    global _owner
    _owner = owner


def register(name: str, hook: Hook) -> None:
    """See `headgate.register_release_hook`."""
    owner = None if _owner is None else _owner()
    if owner is None:
        with _lock:
            if name not in _of_process:
                _of_process.add(name)
                at_exit(hook)
        return
    if owner.closed:
        raise UsageError(f"release hook {name!r} came after its job has ended; register it in open()")
    owner.release_hooks.setdefault(name, hook)
