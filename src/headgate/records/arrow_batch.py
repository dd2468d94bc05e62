"""Batches of records as Arrow columns, for column expressions and for exchanges that route whole columns.

A per-record function gets the records as :class:`headgate.records.row.Row` views, which convert a column to
Python objects when it is first read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headgate.common.errors import UsageError
from headgate.common.keys import keygroups_vectorised as vectorised
from headgate.records.batch import join_times, slice_times, take_times
from headgate.records.late_columns import LateColumns
from headgate.records.row import Columns, Row, columns_of, row_type
from headgate.records.row_batch import each_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s, Objects
    from headgate.records.selectors import KeySelector


class ArrowBatch:
    """A `Batch` of records as columns of a ``pyarrow.RecordBatch``, which are never changed.

    Attributes:
        parts: the columns, of which each is asked for by its index; a RecordBatch, or :class:`LateColumns`.

    `rows()` gives Row views, whose columns are converted to Python lists when one is first read.
    """

    __slots__ = ("_nbytes", "_views", "parts", "timestamps", "watermarks")

    def __init__(
        self,
        columns: pa.RecordBatch | LateColumns,
        timestamps: Int64s | None = None,
        watermarks: Int64s | None = None,
    ) -> None:
        self.parts, self.timestamps, self.watermarks = columns, timestamps, watermarks
        self._views: Columns | None = None
        self._nbytes: int | None = None

    @property
    def columns(self) -> pa.RecordBatch:
        """All columns. Who needs few of them, or few rows, uses `parts`, which may be late columns."""
        if isinstance(self.parts, LateColumns):
            self.parts = self.parts.complete()
        return self.parts

    def __len__(self) -> int:
        return int(self.parts.num_rows)

    def __repr__(self) -> str:
        return f"ArrowBatch({self.parts.num_rows} records of {self.parts.schema.names})"

    def slice(self, start: int, stop: int) -> ArrowBatch:
        if start == 0 and stop >= self.parts.num_rows:
            return self
        return ArrowBatch(
            self.parts.slice(start, stop - start),
            slice_times(self.timestamps, start, stop),
            slice_times(self.watermarks, start, stop),
        )

    def take(self, indices: NDArray[np.int64]) -> ArrowBatch:
        picked = self.parts.take(pa.array(indices))
        return ArrowBatch(picked, take_times(self.timestamps, indices), take_times(self.watermarks, indices))

    def with_times(self, timestamps: Int64s, watermarks: Int64s) -> ArrowBatch:
        batch = ArrowBatch(self.parts, timestamps, watermarks)
        batch._views = self._views
        return batch

    def row_class(self) -> type[Row]:
        return row_type(tuple(self.parts.schema.names))

    def views(self) -> Columns:
        """Return the columns that this batch's row views share; each becomes a Python list at first read."""
        if self._views is None:
            self._views = columns_of(self.columns)
        return self._views

    def rows(self) -> Objects:
        cls, shared, rows = self.row_class(), self.views(), []
        for index in range(self.columns.num_rows):
            row = cls()
            row._c, row._i = shared, index
            rows.append(row)
        return rows

    def keys(self, selector: KeySelector) -> Objects:
        if isinstance(selector, str):
            return self.views().column(self.field(selector))
        if isinstance(selector, tuple):
            return list(zip(*[self.views().column(self.field(name)) for name in selector], strict=True))
        return each_of(selector, self.rows())

    def key_groups(self, selector: KeySelector, max_parallelism: int) -> NDArray[np.int32]:
        if callable(selector):
            hashes = vectorised.hashes_of_keys(self.keys(selector))
        elif isinstance(selector, str):
            hashes = vectorised.hashes_of_arrow(self.columns.column(self.field(selector)))
        else:
            parts = [vectorised.hashes_of_arrow(self.columns.column(self.field(n))) for n in selector]
            hashes = vectorised.hashes_of_columns(parts, len(self))
        return vectorised.groups_of_hashes(hashes, max_parallelism)

    def field(self, name: str) -> int:
        """Return the index of column `name`; raise a UsageError that lists the columns if there is none."""
        index = self.parts.schema.get_field_index(name)
        if index < 0:
            names = ", ".join(self.parts.schema.names)
            raise UsageError(f"the program names column {name!r}, but the records have {names}")
        return int(index)

    def nbytes(self) -> int:
        # not the rest of buffers that they share
        if self._nbytes is None:
            self._nbytes = int(self.columns.nbytes)
        return self._nbytes


def concat_columns(batches: Sequence[ArrowBatch]) -> ArrowBatch:
    """Return one batch with the records of all `batches` (one or more), in order. Their schemas must be
    equal, else pyarrow.ArrowInvalid; it has timestamps and watermarks only if all of them have.
    """
    merged = pa.concat_batches([batch.columns for batch in batches])
    return ArrowBatch(
        merged, join_times([b.timestamps for b in batches]), join_times([b.watermarks for b in batches])
    )
