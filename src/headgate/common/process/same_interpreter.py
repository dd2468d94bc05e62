"""User code that is not isolated: its modules are imported like all others of the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")


class SameInterpreter:
    """Calls and unpickles user code that is not isolated, in the process's ordinary modules (a `UserCode`).

    Example:
        >>> SAME_INTERPRETER.load(SAME_INTERPRETER.pickler().dumps([1]))
        [1]
    """

    refuse_leaving = None

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call `function` directly and return its result, as its modules are found like any other."""
        return function(*args)

    def pickler(self) -> Any:
        """Return the module `cloudpickle`, which is imported only when an object is first shipped."""
        import cloudpickle

        return cloudpickle

    def load(self, payload: bytes) -> Any:
        """Return the object pickled in `payload`; its modules are found like any other."""
        return self.pickler().loads(payload)


SAME_INTERPRETER: Final = SameInterpreter()
