"""The state of an inner join without windows, of two tables or more, and what comes out as their rows come.

A row that comes is joined with the rows that all other tables have of its key: a row comes out for each way
to choose one of every table. Rows that came together are added table by table, so that each way is found
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.updating.joined_rows import Found, JoinedRows, Side
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class InnerRows(JoinedRows):
    """The rows of all sides of one subtask's keys, in memory. `sides` are the columns of each; where rows may
    be taken back, `WEIGHT` is the last.
    """

    def __init__(self, keys: pa.Schema, sides: Sequence[pa.Schema]) -> None:
        super().__init__("inner", keys, sides)

    def change(self, *came: Side) -> Iterator[Found]:
        for side, rows in enumerate(came):
            if len(rows.numbers):
                yield self.grow(side, rows)

    def grow(self, side: int, came: Side) -> Found:
        """Add rows of one side, and return what comes out by them."""
        found = self._joined(side, came)
        self._bags[side].add(came.numbers, came.rows)
        return found

    def put(self, side: int, came: Side) -> None:
        self._bags[side].add(came.numbers, came.rows)

    def _joined(self, side: int, came: Side) -> Found:
        rows, places = self._ways(side, came.numbers)
        tables: dict[int, pa.Table] = {}
        if places:
            # The rows of one table come out in the order in which they are found fastest; it is the widest.
            led = max(places, key=lambda other: self._bags[other].row_bytes)
            order, tables[led] = self._bags[led].take_together(np.arange(len(rows)), places.pop(led))
            rows = rows[order]
            tables |= {other: self._bags[other].take(found[order]) for other, found in places.items()}
        tables[side] = came.rows.take(pa.array(rows))
        sides = tuple(tables[each] for each in sorted(tables))
        return Found(came.numbers[rows], sides, _weights(sides, len(rows)))

    def _ways(self, side: int, numbers: Int64s) -> tuple[Int64s, dict[int, Int64s]]:
        """Return for each row that comes out the index in `numbers` of the row of this side, and of each
        other side the place of its row.
        """
        others = [each for each in range(len(self._bags)) if each != side]
        rows = np.arange(len(numbers))
        if len(others) > 1:
            for other in others:
                rows = rows[self._bags[other].there(numbers[rows])]
        places: dict[int, Int64s] = {}
        for other in others:
            index, found = self._bags[other].find(numbers[rows])
            rows, places = rows[index], {each: chosen[index] for each, chosen in places.items()}
            places[other] = found
        return rows, places


def _weights(sides: Sequence[pa.Table], count: int) -> Int64s:
    weights = np.ones(count, np.int64)
    for rows in sides:
        if WEIGHT in rows.column_names:
            weights = weights * rows.column(WEIGHT).to_numpy()
    return weights
