"""What a partial match remembers of its rows: as few as the conditions refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

Memory: TypeAlias = "tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]"
"""Of each remembered variable: numbers of its first rows, and of its last ones."""

NO_ROW: Final = -1
"""In place of a row's number: there is none."""


class Wanted(NamedTuple):
    """How many of a variable's first and last rows are referred to; `all`: of all of them."""

    first: int = 0
    last: int = 0
    all: bool = False

    def and_also(self, other: Wanted) -> Wanted:
        """Return what suffices for both."""
        return Wanted(max(self.first, other.first), max(self.last, other.last), self.all or other.all)


class Memories:
    """Makes and reads memories. `wanted`: variable -> what of its rows; `anything`: which variable stands for
    all rows, whatever they were matched to.
    """

    def __init__(self, wanted: Mapping[int, Wanted], anything: int) -> None:
        self._slots = {variable: slot for slot, variable in enumerate(sorted(wanted))}
        self._wanted = [wanted[variable] for variable in sorted(wanted)]
        self._anything = self._slots.get(anything)
        self.empty: Memory = (((), ()),) * len(self._slots)

    def with_row(self, memory: Memory, variable: int, row: int) -> Memory:
        """Return `memory` after `row` was matched to `variable`."""
        slot = self._slots.get(variable)
        if slot is None and self._anything is None:
            return memory
        changed = list(memory)
        for each in {slot, self._anything} - {None}:
            assert each is not None
            changed[each] = _added(memory[each], row, self._wanted[each])
        return tuple(changed)

    def first(self, memory: Memory, variable: int, offset: int) -> int:
        """Return the number of a variable's first row, or of that `offset` rows after it; `NO_ROW`: none."""
        rows = memory[self._slots[variable]][0]
        return rows[offset] if offset < len(rows) else NO_ROW

    def last(self, memory: Memory, variable: int, offset: int) -> int:
        """Return the number of a variable's last row, or of that `offset` rows before it; `NO_ROW`: none."""
        slot = self._slots[variable]
        rows = memory[slot][0 if self._wanted[slot].all else 1]
        return rows[-1 - offset] if offset < len(rows) else NO_ROW

    def rows(self, memory: Memory, variable: int) -> Sequence[int]:
        """Return the numbers of all rows of a variable, of which all are remembered."""
        return memory[self._slots[variable]][0]


def _added(
    known: tuple[tuple[int, ...], tuple[int, ...]], row: int, wanted: Wanted
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    first, last = known
    if wanted.all:
        return (*first, row), ()
    if len(first) < wanted.first:
        first = (*first, row)
    return first, ((*last, row)[-wanted.last :] if wanted.last else ())
