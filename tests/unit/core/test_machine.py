"""The idiom of state machines."""

from __future__ import annotations

import pickle
from enum import Enum

import pytest

from headgate.common.errors import InternalError
from headgate.core.machine import Machine


class Lamp(Enum):
    OFF = "off"
    ON = "on"


class Switch(Enum):
    PRESS = "press"
    BREAK = "break"


MOVES = {(Lamp.OFF, Switch.PRESS): Lamp.ON, (Lamp.ON, Switch.PRESS): Lamp.OFF}


def test_listed_moves_change_the_state() -> None:
    """A listed move is made, and only then is the state another."""
    lamp = Machine("lamp", Lamp.OFF, MOVES)
    assert lamp.can(Switch.PRESS)
    assert lamp.move(Switch.PRESS) is Lamp.ON
    assert lamp.state is Lamp.ON


def test_unlisted_move_raises_with_history_and_changes_nothing() -> None:
    """An unlisted move is an internal error that tells the story, and leaves the state alone."""
    lamp = Machine("lamp", Lamp.OFF, MOVES)
    lamp.move(Switch.PRESS, "evening")
    lamp.note("flickers")
    with pytest.raises(InternalError) as caught:
        lamp.move(Switch.BREAK)
    expected = "lamp cannot take break while on; history: off -press-> on (evening), flickers"
    assert str(caught.value) == expected
    assert str(pickle.loads(pickle.dumps(caught.value))) == expected
    assert lamp.state is Lamp.ON


def test_history_is_bounded() -> None:
    """The story keeps the last entries only."""
    lamp = Machine("lamp", Lamp.OFF, MOVES, history_max=2)
    for _ in range(5):
        lamp.move(Switch.PRESS)
    assert lamp.history == ("on -press-> off", "off -press-> on")
