"""Processes of this machine."""

from __future__ import annotations

import os


def process_lives(pid: int) -> bool:
    """Whether there is a process of this number, whoever's it is.

    Example:
        >>> process_lives(os.getpid()), process_lives(2**22 + 1)
        (True, False)
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # somebody else's, so not ours to judge
    return True
