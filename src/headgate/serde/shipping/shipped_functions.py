"""Functions of a script on their way to the workers: closures that share a variable go on sharing it.

cloudpickle gives each function variables of its own. A decorator whose wrapper counts calls, and whose other
function tells the count, would tell nothing but the count of the driver.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TypeVar

from headgate.serde.shipping.shipped_classes import State, Usual

V = TypeVar("V")


class Cells:
    """The variables of closures that one pickler has met; each travels once, and empty.

    A variable may hold the function that it belongs to, so what it holds comes after the function.
    """

    def __init__(self) -> None:
        self._known: dict[int, types.CellType] = {}

    def __contains__(self, cell: types.CellType) -> bool:
        return id(cell) in self._known

    def reduced(self, function: types.FunctionType, usual: Usual) -> Usual:
        """Reduce a function for a pickler, with the variables that it shares."""
        closure = function.__closure__
        if closure is None or not isinstance(usual, tuple):
            return usual
        make, (*arguments, _), (state, slots), *_, set_state = usual
        self._known.update((id(cell), cell) for cell in closure)
        held: list[tuple[types.CellType, ...]] = [_held(cell) for cell in closure]
        whole = (state, {**slots, "__closure__": None}), held, set_state
        return make, (*arguments, closure), whole, None, None, set_function


def empty_cell() -> types.CellType:
    """A variable that holds nothing yet."""
    return types.CellType()


def set_function(
    function: types.FunctionType,
    state: tuple[State, list[tuple[V, ...]], Callable[[types.FunctionType, State], None]],
) -> None:
    """Give a made function its globals and attributes, and its variables what they hold."""
    usual, held, set_usual = state
    set_usual(function, usual)
    for cell, contents in zip(function.__closure__ or (), held, strict=True):
        if contents:
            (cell.cell_contents,) = contents


def _held(cell: types.CellType) -> tuple[V, ...]:
    """What a variable holds, if anything."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()
