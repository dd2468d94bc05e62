"""What a job's code wants done when it is let go of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def register_release_hook(name: str, hook: Callable[[], Any]) -> None:
    """Have a function called once when the job's code is let go of in this process.

    That is when the last task of the job, or the program on the driver, has ended: the place to stop what a
    library keeps in threads, caches and handles. Where code is not loaded apart it is the end of the process,
    which Spark's workers may be denied. A hook that raises is logged, and the others are called all the same.

    Args:
        name: of the hook; one that is registered is left as it is, so that every subtask may register it.
        hook: called without arguments, among the job's own modules.

    Raises:
        UsageError: the job has ended.

    Example:
        >>> import headgate as hg
        >>> hg.register_release_hook("connections", lambda: None)
    """
    from headgate.usercode.release import register

    register(name, hook)
