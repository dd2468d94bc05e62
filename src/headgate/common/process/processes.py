"""Processes of this machine."""

from __future__ import annotations

import os
from typing import Final

from headgate.common.files.durable import read_bytes

_ENDED: Final = (b"Z", b"X")
"""States of a process that has ended and that its parent has not waited for."""


def process_lives(pid: int) -> bool:
    """Return whether a process of this number can still act, whichever user owns it.

    A process that has ended but that nobody has waited for (a zombie) does not live. In a container whose
    first process waits for no orphans, the workers of a killed driver stay zombies for ever.

    Example:
        >>> process_lives(os.getpid()), process_lives(2**22 + 1)
        (True, False)
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # another user's, so not ours to judge
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Return whether the kernel calls the process ended; False where it has no /proc that says so."""
    try:
        facts = read_bytes(f"/proc/{pid}/stat")
    except OSError:
        return False
    _, _, after_name = facts.rpartition(b")")  # the name may hold anything, a parenthesis included
    return after_name.strip()[:1] in _ENDED
