"""The state of a join whose partners have to meet a condition besides equal columns.

Which rows come out alone depends on all pairs of a key, so it is computed of the keys that changed, before
and after: what is alone both times cancels out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from headgate.relational.relations import JoinKind
from headgate.runtime.worker.operators.columns.updating.joined_rows import (
    ALONE,
    LEFT,
    PAIRS,
    RIGHT,
    Found,
    JoinedRows,
    Side,
    alone,
)
from headgate.runtime.worker.operators.columns.updating.weights import net_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

TrueOf: TypeAlias = "Callable[[Found], NDArray[np.bool_]]"
"""Says of which pairs the condition is true."""

_NUMBER: Final = "__number"


class _Pairs(NamedTuple):
    """Indices of rows of both sides that are of one key."""

    left: Int64s
    right: Int64s


class ConditionalRows(JoinedRows):
    """Rows of both sides; partners are those of a key of which the condition `true_of` is true."""

    def __init__(self, how: JoinKind, keys: pa.Schema, sides: Sequence[pa.Schema], true_of: TrueOf) -> None:
        super().__init__(how, keys, sides)
        self._true_of = true_of

    def change(self, *came: Side) -> Iterator[Found]:
        keys = np.unique(np.concatenate([each.numbers for each in came]))
        yield from self._by_partners(keys, -1)
        for side, rows in enumerate(came):
            if self._how in PAIRS:
                yield self._true(self._pairs(side, rows))
            self.put(side, rows)
        yield from self._by_partners(keys, 1)

    def _true(self, pairs: Found) -> Found:
        keep = self._true_of(pairs)
        left, right = (None if rows is None else rows.filter(pa.array(keep)) for rows in pairs.sides)
        return Found(pairs.numbers[keep], (left, right), pairs.weights[keep])

    def _by_partners(self, keys: Int64s, sign: int) -> Iterator[Found]:
        """Yield the rows of some keys that come out because they have no partner ("semi": one)."""
        sides = left, right = [self._net_of(side, keys) for side in (LEFT, RIGHT)]
        pairs = _of_one_key(left.numbers, right.numbers)
        found = left.rows.take(pa.array(pairs.left)), right.rows.take(pa.array(pairs.right))
        true = self._true_of(Found(left.numbers[pairs.left], found, np.ones(len(pairs.left), np.int64)))
        for side in (LEFT,) if self._how == "semi" else ALONE[self._how]:
            wanted = np.full(len(sides[side].numbers), self._how != "semi")
            wanted[pairs[side][true]] = self._how == "semi"
            rows = sides[side].rows.filter(pa.array(wanted))
            yield alone(side, sides[side].numbers[wanted], rows, sign)

    def _net_of(self, side: int, keys: Int64s) -> Side:
        indices, places = self._bags[side].find(keys)
        rows = self._bags[side].take(places).append_column(_NUMBER, pa.array(keys[indices]))
        rows = net_rows(rows)
        return Side(rows.drop_columns(_NUMBER), rows.column(_NUMBER).to_numpy())


def _of_one_key(left: Int64s, right: Int64s) -> _Pairs:
    order = np.argsort(right, kind="stable")
    first, end = (np.searchsorted(right[order], left, where) for where in ("left", "right"))
    counts = end - first
    mine = np.repeat(np.arange(len(left)), counts)
    within = np.arange(len(mine)) - np.repeat(np.cumsum(counts) - counts, counts)
    return _Pairs(mine, order[np.repeat(first, counts) + within])
