"""What a job's code wants done when it is let go of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headgate.api.site import user_site
from headgate.common.errors import UsageError


def register_release_hook(name: str, hook: Callable[[], Any]) -> None:
    """Have a function called once when the job's code is let go of in this process.

    That is when the last task of the job, or the program on the driver, has ended: the place to stop what a
    library keeps in threads, caches and handles. Where code is not loaded apart it is the end of the process,
    which Spark's workers may be denied. A hook that raises is logged, and the others are called all the same.

    Args:
        name: of the hook; one that is registered is left as it is, so that every subtask may register it.
        hook: called without arguments, among the job's own modules.

    Raises:
        UsageError: the job has ended, or the hook cannot be called.

    Example:
        >>> import headgate as hg
        >>> hg.register_release_hook("connections", lambda: None)
    """
    from headgate.usercode.code_release import register

    if not callable(hook):
        raise UsageError(
            f"register_release_hook() ({user_site()}) got {hook!r} of type {type(hook).__name__} as hook "
            f"{name!r}; expected a function without arguments"
        )
    register(name, hook)
