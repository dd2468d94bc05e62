"""A small state machine: a table of legal moves, and a history that is shown with every illegal one.

Not a framework. A machine that needs more than "may this happen now?" keeps its other facts next to
its :class:`Machine` and returns effects from its own methods.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

from headgate.common.errors import InternalError

StateT = TypeVar("StateT", bound=Enum)
EventT = TypeVar("EventT", bound=Enum)


class Machine(Generic[StateT, EventT]):
    """A state machine: its current state, the `moves` that may change the state, and the last moves made.

    Example:
        >>> class Door(Enum):
        ...     OPEN, SHUT = "open", "shut"
        >>> class Hand(Enum):
        ...     PUSH, PULL = "push", "pull"
        >>> door = Machine("door", Door.SHUT, {(Door.SHUT, Hand.PULL): Door.OPEN})
        >>> door.can(Hand.PUSH), door.move(Hand.PULL)
        (False, <Door.OPEN: 'open'>)
        >>> door.move(Hand.PULL)
        Traceback (most recent call last):
            ...
        headgate.common.errors.InternalError: door cannot take pull while open; history: shut -pull-> open
    """

    __slots__ = ("_history", "_moves", "_state", "name")

    def __init__(
        self,
        name: str,
        initial: StateT,
        moves: Mapping[tuple[StateT, EventT], StateT],
        history_max: int = 32,
    ) -> None:
        self.name, self._state, self._moves = name, initial, moves
        self._history: deque[str] = deque(maxlen=history_max)

    @property
    def state(self) -> StateT:
        return self._state

    @property
    def history(self) -> tuple[str, ...]:
        return tuple(self._history)

    def can(self, event: EventT) -> bool:
        """Return whether :meth:`move` would accept `event` in the current state."""
        return (self._state, event) in self._moves

    def move(self, event: EventT, detail: str = "") -> StateT:
        """Change to the state that `event` leads to, and return it; `detail` is a text for the history. An
        InternalError that shows the last moves is raised if the current state has no such move.
        """
        following = self._moves.get((self._state, event))
        if following is None:
            raise InternalError(self.explain(f"cannot take {event.value} while {self._state.value}"))
        step = f"{self._state.value} -{event.value}-> {following.value}"
        self._history.append(f"{step} ({detail})" if detail else step)
        self._state = following
        return following

    def note(self, text: str) -> None:
        self._history.append(text)

    def explain(self, problem: str) -> str:
        """Return a text for an error: the machine's name, then `problem`, then the last moves and notes."""
        return f"{self.name} {problem}; history: {', '.join(self._history) or 'none'}"
