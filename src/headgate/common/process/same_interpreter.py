"""User code that is not isolated: its modules are imported like all others of the process."""

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
        """Call `function` directly, as its modules are found like any other."""
        return function(*args)

    def pickler(self) -> Any:
        """Return the framework's cloudpickle, which is imported only once something is shipped."""
        import cloudpickle

        return cloudpickle

    def load(self, payload: bytes) -> Any:
        """Return the object pickled in `payload`; its modules are found like any other."""
        return self.pickler().loads(payload)


SAME_INTERPRETER: Final = SameInterpreter()
