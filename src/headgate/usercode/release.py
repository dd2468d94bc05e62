"""What a job's code wants done when its loader closes: caches of native libraries, handles, registrations."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from headgate.common.children import at_exit
from headgate.common.errors import UsageError
from headgate.usercode.realm import context
from headgate.usercode.realm.loader import Realm

_lock: Final = threading.Lock()
_of_process: Final[set[str]] = set()
"""Names of hooks of code that has a process to itself, or lives among everything else."""


def register(name: str, hook: Callable[[], Any]) -> None:
    """See `headgate.register_release_hook`."""
    realm = context.current()
    if realm is None:
        with _lock:
            if name not in _of_process:
                _of_process.add(name)
                at_exit(hook)
        return
    if not isinstance(realm, Realm) or realm.closed:
        raise UsageError(f"release hook {name!r} came after its job has ended; register it in open()")
    realm.release_hooks.setdefault(name, hook)
