"""Single values of rows: of those that have just come, and of older ones that partial matches remember."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.relational.patterns.looked_up_columns import Take
    from headgate.relational.patterns.single_rows import Value


class RowCells:
    """Values of rows by column and number. A column is converted to Python when it is first asked for."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self.begin(np.zeros(0, np.int64), [])

    def begin(self, numbers: Int64s, older: list[int]) -> None:
        """Note the numbers of new rows, which follow each other, and of `older` ones that may be read."""
        self._first, self._numbers = int(numbers[0]) if len(numbers) else 0, numbers
        self._older = {row: place for place, row in enumerate(older)}
        self._new_values: dict[int, list[Value]] = {}
        self._old_values: dict[int, list[Value]] = {}
        self._new_rows: pa.RecordBatch | None = None
        self._old_rows: pa.RecordBatch | None = None

    def value(self, column: int, row: int) -> Value:
        """Return the value of a column in a row."""
        if row >= self._first:
            values = self._new_values.get(column)
            if values is None:
                if self._new_rows is None:
                    self._new_rows = self._take(self._numbers)
                values = self._new_values[column] = _listed(self._new_rows.column(column))
            return values[row - self._first]
        values = self._old_values.get(column)
        if values is None:
            if self._old_rows is None:
                self._old_rows = self._take(np.array(list(self._older), np.int64))
            values = self._old_values[column] = _listed(self._old_rows.column(column))
        return values[self._older[row]]


def _listed(column: pa.Array) -> list[Value]:
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.int64())
    elif pa.types.is_date32(column.type):
        column = pc.cast(column, pa.int32())
    values: list[Value] = column.to_pylist()
    return values
