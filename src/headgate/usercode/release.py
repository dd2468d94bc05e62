"""What a job's code wants done when its loader closes: caches of native libraries, handles, registrations."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any, Final

from headgate.common.errors import UsageError
from headgate.usercode.realm import context
from headgate.usercode.realm.loader import Realm

_lock: Final = threading.Lock()
_of_process: Final[set[str]] = set()
"""Names of hooks of code that has a process to itself, or lives among everything else."""


def register_release_hook(name: str, hook: Callable[[], Any]) -> None:
    """Have a function called once when the job's code is let go of in this process.

    That is when the last task of the job, or the program on the driver, has ended. Where code is not loaded
    apart it is the end of the process, which Spark's workers may be denied. A hook that raises is logged, and
    the others are called all the same.

    Args:
        name: of the hook; one that is registered is left as it is, so that every subtask may register it.
        hook: called without arguments, in the job's realm.

    Raises:
        UsageError: the job has ended.

    Example:
        >>> register_release_hook("connections", lambda: None)
    """
    realm = context.current()
    if realm is None:
        with _lock:
            if name not in _of_process:
                _of_process.add(name)
                atexit.register(hook)
        return
    if not isinstance(realm, Realm) or realm.closed:
        raise UsageError(f"release hook {name!r} came after its job has ended; register it in open()")
    realm.release_hooks.setdefault(name, hook)
