"""Release hooks: functions that a job's code registers to be called when its namespace closes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from headgate.common.errors import UsageError
from headgate.common.process.children import at_exit

Hook = Callable[[], Any]  # called without arguments; its result is ignored


class HookOwner(Protocol):
    """An isolated namespace that takes release hooks, or the remains of a closed one that refuses them."""

    @property
    def release_hooks(self) -> dict[str, Hook]:
        """The registered hooks by their names."""

    @property
    def closed(self) -> bool:
        """Whether the isolated namespace is closed, so that it takes no more hooks."""


_lock: Final = threading.Lock()
_of_process: Final[set[str]] = set()
"""Names of hooks of code without a namespace: not isolated, or in a process of its own."""
_owner: Callable[[], HookOwner | None] | None = None
"""Gives the namespace of the calling code; None where this process has no namespaces."""


def ask_for_owner(owner: Callable[[], HookOwner | None]) -> None:
    global _owner
    _owner = owner


def register(name: str, hook: Hook) -> None:
    """Have `hook` called once, when the namespace of the calling code closes; without one, when Python exits.
    A second hook of one `name` is ignored. UsageError if the namespace has closed already.
    """
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
