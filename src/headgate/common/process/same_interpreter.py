"""User code that is not isolated: its modules are imported like all others of the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")


class SameInterpreter:
    """Access to user code that is not isolated: its modules are those of the process (`ports.UserCode`).

    `call` calls directly, `pickler` is cloudpickle (imported at its first use), all records may leave.

    Example:
        >>> SAME_INTERPRETER.load(SAME_INTERPRETER.pickler().dumps([1]))
        [1]
    """

    refuse_leaving = None

    def call(self, function: Callable[..., T], *args: Any) -> T:
        return function(*args)

    def pickler(self) -> Any:
        import cloudpickle

        return cloudpickle

    def load(self, payload: bytes) -> Any:
        return self.pickler().loads(payload)


SAME_INTERPRETER: Final = SameInterpreter()
