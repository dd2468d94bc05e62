"""User code that lives among everything else in its process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")


class SameInterpreter:
    """Implements `common.ports.UserCode` where nothing keeps the program apart.

    Example:
        >>> SAME_INTERPRETER.load(SAME_INTERPRETER.pickler().dumps([1]))
        [1]
    """

    refuse_leaving = None

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call it."""
        return function(*args)

    def pickler(self) -> Any:
        """The framework's own; loaded when something is shipped, and not for a look at a plan."""
        import cloudpickle

        return cloudpickle

    def load(self, payload: bytes) -> Any:
        """Restored among everything else."""
        return self.pickler().loads(payload)


SAME_INTERPRETER: Final = SameInterpreter()
