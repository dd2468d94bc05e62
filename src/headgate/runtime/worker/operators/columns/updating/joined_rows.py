"""The state of a join that has no windows: rows of its sides by key, and what changes of them join to.

What an inner join keeps is in `inner_rows`. Any other one has two sides:

    rows of both sides     changes of the left with the old right, and of the right with the new left
    rows without partner   of a key whose other side was empty and is not any more, or the other way round,
                           all rows of this side; of a key whose other side stays empty, the changes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.joins.equal_joins import SIDE
from headgate.relational.relations import JoinKind
from headgate.runtime.worker.operators.columns.updating.by_key.key_numbers import KeyNumbers
from headgate.runtime.worker.operators.columns.updating.by_key.keyed_bags import KeyedBags, Part
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

LEFT, RIGHT = 0, 1

ALONE: Final[dict[JoinKind, tuple[int, ...]]] = {
    "inner": (), "semi": (), "left": (LEFT,), "anti": (LEFT,), "right": (RIGHT,), "full": (LEFT, RIGHT),
}  # fmt: skip
"""The sides of which rows without a partner come out."""

PAIRS: Final = ("inner", "left", "right", "full")
"""Kinds of joins in which pairs of rows come out."""


class Side(NamedTuple):
    """What came of one side: rows with weights, and the numbers of their keys."""

    rows: pa.Table
    numbers: Int64s

    @property
    def weights(self) -> Int64s:
        weights: Int64s = self.rows.column(WEIGHT).to_numpy()
        return weights


class Found(NamedTuple):
    """Rows that come out: numbers of keys, the columns of each side (None: null), and weights."""

    numbers: Int64s
    sides: tuple[pa.Table | None, ...]
    weights: Int64s


class JoinedRows:
    """The rows of both sides of one subtask's keys, in memory. `sides` are the columns of each; where rows
    may be taken back or answers corrected, `WEIGHT` is the last.
    """

    def __init__(self, how: JoinKind, keys: pa.Schema, sides: Sequence[pa.Schema]) -> None:
        self._how, self.keys = how, KeyNumbers(keys)
        self._bags = [KeyedBags(each) for each in sides]
        self._counts = [np.zeros(1 << 10, np.int64) for _ in sides]

    @property
    def count(self) -> int:
        """How many rows all sides have."""
        return sum(each.count for each in self._bags)

    def put(self, side: int, came: Side) -> None:
        """Add rows of one side without joining them."""
        self._bags[side].add(came.numbers, came.rows)
        if WEIGHT in came.rows.column_names:
            np.add.at(self._room(side), came.numbers, came.weights)

    def _room(self, side: int) -> Int64s:
        counts = self._counts[side]
        if len(counts) < self.keys.count:
            grown = np.zeros(max(self.keys.count, 2 * len(counts)), np.int64)
            grown[: len(counts)] = counts
            self._counts[side] = grown
        return self._counts[side]

    def change(self, *came: Side) -> Iterator[Found]:
        """Add what came of all sides, and return what changes of the join thereby."""
        left, right = came
        keys = np.unique(np.concatenate([left.numbers, right.numbers]))
        empty = [self._room(side)[keys] == 0 for side in (LEFT, RIGHT)]
        becomes = [self._becomes_empty(side, keys, came[side]) for side in (LEFT, RIGHT)]
        pairs = self._how in PAIRS
        if pairs:
            yield self._pairs(LEFT, left)
        for side in ALONE[self._how]:
            other = 1 - side
            yield self._of_keys(side, keys[empty[other] & ~becomes[other]], -1)
            yield self._unpaired(side, came[side], keys[empty[other] & becomes[other]])
        if self._how == "semi":
            yield self._of_keys(LEFT, keys[~empty[RIGHT] & becomes[RIGHT]], -1)
            yield self._unpaired(LEFT, left, keys[~empty[RIGHT] & ~becomes[RIGHT]])
        self.put(LEFT, left)
        if pairs:
            yield self._pairs(RIGHT, right)
        self.put(RIGHT, right)
        for side in ALONE[self._how]:
            other = 1 - side
            yield self._of_keys(side, keys[~empty[other] & becomes[other]], 1)
        if self._how == "semi":
            yield self._of_keys(LEFT, keys[empty[RIGHT] & ~becomes[RIGHT]], 1)

    def _becomes_empty(self, side: int, keys: Int64s, came: Side) -> NDArray[np.bool_]:
        counts = self._room(side)[keys].copy()
        np.add.at(counts, np.searchsorted(keys, came.numbers), came.weights)
        empty: NDArray[np.bool_] = counts == 0
        return empty

    def _pairs(self, side: int, came: Side) -> Found:
        bag = self._bags[1 - side]
        rows, others = bag.take_together(*bag.find(came.numbers))
        mine = came.rows.take(pa.array(rows))
        weights = mine.column(WEIGHT).to_numpy() * others.column(WEIGHT).to_numpy()
        sides = (mine, others) if side == LEFT else (others, mine)
        return Found(came.numbers[rows], sides, weights)

    def _of_keys(self, side: int, keys: Int64s, sign: int) -> Found:
        rows, places = self._bags[side].find(keys)
        return alone(side, keys[rows], self._bags[side].take(places), sign)

    def _unpaired(self, side: int, came: Side, keys: Int64s) -> Found:
        wanted = np.isin(came.numbers, keys)
        return alone(side, came.numbers[wanted], came.rows.filter(pa.array(wanted)), 1)

    def view(self) -> list[tuple[int, Part]]:
        """Return the rows as they are now, in parts, each with its side."""
        return [(side, part) for side, bag in enumerate(self._bags) for part in bag.view()]


def alone(side: int, numbers: Int64s, rows: pa.Table, sign: int) -> Found:
    """Return rows of one side as rows that come out without a partner, or go, where `sign` is -1."""
    weights = rows.column(WEIGHT).to_numpy() * sign
    return Found(numbers, (rows, None) if side == LEFT else (None, rows), weights)


def sides_of(rows: pa.Table) -> Iterable[tuple[int, pa.Table]]:
    """Return the rows of each side that has some, by the column `SIDE`."""
    sides = rows.column(SIDE)
    least, most = pc.min_max(sides).values()
    if least == most:
        # A sender has one side, so most batches are of one.
        yield from [(least.as_py(), rows)] if rows.num_rows else []
        return
    for side in range(least.as_py(), most.as_py() + 1):
        mine = rows.filter(pc.equal(sides, side))
        if mine.num_rows:
            yield side, mine
