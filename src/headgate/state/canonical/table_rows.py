"""Entries of one table as record batches, and back: key group, key, namespace, and what the key has."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.common.errors import StorageError
from headgate.state.canonical.key_columns import KeyColumns
from headgate.state.canonical.table_layout import TableInfo
from headgate.state.canonical.value_columns import values_of


class TableRows:
    """The rows of one table."""

    def __init__(self, info: TableInfo) -> None:
        self._keys, self._values = KeyColumns(info.key), values_of(info.rows_are, info.schema)
        self.schema = pa.schema(
            [
                pa.field("key_group", pa.int32(), nullable=False),
                *self._keys.fields,
                # Kept for windows, whose state is told apart by it.
                pa.field("namespace", pa.string()),
                *self._values.fields,
            ]
        )

    def count(self, values: Sequence[Any]) -> int:
        """How many rows values take."""
        sizes = self._values.sizes(values)
        return len(values) if sizes is None else sum(sizes)

    def pieces(self, values: Sequence[Any], rows: int) -> Iterator[slice]:
        """Cuts between entries, such that each piece has about so many rows."""
        sizes = self._values.sizes(values)
        if sizes is None:
            yield from (slice(start, start + rows) for start in range(0, len(values), rows))
            return
        start = taken = 0
        for place, size in enumerate(sizes):
            if taken and taken + size > rows:
                yield slice(start, place)
                start, taken = place, 0
            taken += size
        yield slice(start, len(values))

    def batch(self, group: int, keys: Sequence[Hashable], values: Sequence[Any]) -> pa.RecordBatch:
        """Entries of one key group as a record batch."""
        of_keys = self._keys.arrays(keys)
        sizes = self._values.sizes(values)
        if sizes is not None:
            repeat = pa.array(np.repeat(np.arange(len(keys)), sizes))
            of_keys = [array.take(repeat) for array in of_keys]
        rows = len(of_keys[0])
        arrays = [
            pa.array(np.full(rows, group, np.int32)),
            *of_keys,
            pa.nulls(rows, pa.string()),
            *self._values.arrays(values),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def entries(self, batch: pa.RecordBatch) -> tuple[list[int], list[Any], list[Any]]:
        """Key group, key and value of each entry of a record batch."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        if columns["namespace"].null_count != len(batch):
            raise StorageError("a table of state has rows with a namespace; this Headgate reads none")
        values = self._values.values(columns)
        starts = self._values.starts(columns)
        if starts is not None:
            take = pa.array(starts, pa.int64())
            columns = {name: columns[name].take(take) for name in ("key_group", *_names(self._keys.fields))}
        return columns["key_group"].to_pylist(), self._keys.keys(columns), values


def _names(fields: list[pa.Field]) -> list[str]:
    return [field.name for field in fields]
