"""User code that is not isolated: its modules are among all others of the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")


class SameInterpreter:
    """Implements `common.ports.UserCode` where the program is not isolated.

    Example:
        >>> SAME_INTERPRETER.load(SAME_INTERPRETER.pickler().dumps([1]))
        [1]
    """

    refuse_leaving = None

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call it."""
        return function(*args)

    def pickler(self) -> Any:
        """Return the framework's own; loaded when something is shipped, and not for a look at a plan."""
        import cloudpickle

        return cloudpickle

    def load(self, payload: bytes) -> Any:
        """Restore an object, whose modules are found as any other."""
        return self.pickler().loads(payload)


SAME_INTERPRETER: Final = SameInterpreter()
