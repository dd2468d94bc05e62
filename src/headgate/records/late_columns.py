"""Columns of a record batch that are made when somebody asks for them, of the rows that are left then.

A filter that reads two columns of seven, and keeps one row of a hundred, costs two columns then, not seven.
Whoever makes such a batch has checked its values: to make a column never fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Lines(Protocol):
    """What the columns of some rows are made of; rows can be picked without that."""

    def __len__(self) -> int: ...

    def slice(self, start: int, stop: int) -> Self: ...

    def take(self, places: NDArray[np.int64]) -> Self: ...

    def joined(self, others: Sequence[Self]) -> Self:
        """Return these rows and then those of others, which came from the same maker."""


MakeColumn: TypeAlias = "Callable[[Any, int], pa.Array]"  # of the lines that its maker knows


class LateColumns:
    """Stands for a ``pyarrow.RecordBatch``, with those of its methods that pick columns or rows.

    Arguments:
        schema: of all columns.
        lines: what the rows are made of; not changed.
        make: called with lines and the index of a column, it returns the column for these lines.
        made: index -> column that was made already, for all lines.
    """

    __slots__ = ("_lines", "_made", "_make", "schema")

    def __init__(
        self, schema: pa.Schema, lines: Lines, make: MakeColumn, made: Mapping[int, pa.Array]
    ) -> None:
        self.schema, self._lines, self._make, self._made = schema, lines, make, dict(made)

    @property
    def num_rows(self) -> int:
        return len(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, rows: slice) -> LateColumns:
        start, stop, _ = rows.indices(len(self._lines))
        return self.slice(start, stop - start)

    def column(self, index: int) -> pa.Array:
        found = self._made.get(index)
        if found is None:
            found = self._made[index] = self._make(self._lines, index)
        return found

    def slice(self, offset: int, length: int) -> LateColumns:
        made = {index: column.slice(offset, length) for index, column in self._made.items()}
        return LateColumns(self.schema, self._lines.slice(offset, offset + length), self._make, made)

    def take(self, places: pa.Array) -> LateColumns:
        made = {index: column.take(places) for index, column in self._made.items()}
        lines = self._lines.take(places.to_numpy())
        return LateColumns(self.schema, lines, self._make, made)

    def select(self, indices: Sequence[int], schema: pa.Schema) -> LateColumns:
        """Return the columns at some indices, under a schema with the same types."""
        made = {at: self._made[index] for at, index in enumerate(indices) if index in self._made}
        return LateColumns(schema, self._lines, partial(_make_one_of, self._make, indices), made)

    def complete(self) -> pa.RecordBatch:
        """Return all columns."""
        return pa.RecordBatch.from_arrays(
            [self.column(index) for index in range(len(self.schema))], schema=self.schema
        )

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self.complete().__arrow_c_array__(requested_schema)

    def joined(self, others: Sequence[LateColumns]) -> LateColumns:
        """Return the rows of this batch and then of others, which came from the same maker."""
        parts = [self, *others]
        everywhere = set(self._made).intersection(*(part._made for part in parts))
        made = {index: pa.concat_arrays([part._made[index] for part in parts]) for index in everywhere}
        lines = self._lines.joined([part._lines for part in others])
        return LateColumns(self.schema, lines, self._make, made)


def _make_one_of(make: MakeColumn, indices: Sequence[int], lines: Lines, index: int) -> pa.Array:
    return make(lines, indices[index])


def concat_late(pieces: Sequence[pa.RecordBatch | LateColumns]) -> pa.RecordBatch | LateColumns:
    """Return the rows of one or more batches of one schema and one maker; late ones stay so if all are."""
    if len(pieces) == 1:
        return pieces[0]
    late = [piece for piece in pieces if isinstance(piece, LateColumns)]
    if len(late) == len(pieces):
        return late[0].joined(late[1:])
    return pa.concat_batches(
        [piece.complete() if isinstance(piece, LateColumns) else piece for piece in pieces]
    )
