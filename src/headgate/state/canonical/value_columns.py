"""Converts entries of canonical tables to columns and record batches, and back, for each layout of values.

A list is one row for each element, a map one for each entry, with its place in the order; one that is empty
is a row without a place. Values are plain ones, or marked as beyond what msgpack holds; see
:mod:`headgate.serde.arrow.stored_values`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from headgate.common.errors import StorageError
from headgate.common.plain_data import Description, mappings_in
from headgate.serde.arrow.arrow_columns import RAW, ArrowColumn
from headgate.serde.arrow.stored_values import Beyond, settling, within
from headgate.serde.codecs.containers import DIRECT_KEYS
from headgate.serde.codecs.type_codec import Convert
from headgate.state.canonical.key_columns import KeyColumns
from headgate.state.canonical.table_layout import BYTES, ELEMENT, ENTRY, TIMER, TableInfo

V = TypeVar("V")
K = TypeVar("K", bound=Hashable)
Columns = Mapping[str, pa.Array]

TIME_DOMAIN: Final = "time_domain"
TIMESTAMP: Final = "timestamp"
POSITION: Final = "position"
MAP_KEY: Final = "map_key"
VALUE: Final = "value"


class ValueColumns(ABC, Generic[V]):
    """Base of the layouts of values in canonical tables: converts them to Arrow columns `fields` and back."""

    fields: Sequence[pa.Field]

    def sizes(self, values: Sequence[V]) -> list[int] | None:
        """Return how many table rows each value takes; None: one row each."""
        return None

    @abstractmethod
    def arrays(self, values: Sequence[V]) -> list[pa.Array]:
        """Return the rows of `values`, as many as :meth:`sizes` says, as one Arrow array for each of
        `fields`.
        """

    def starts(self, columns: Columns) -> list[int] | None:
        """Return the indexes of the rows in which a value begins; None: one begins in each row."""
        return None

    @abstractmethod
    def values(self, columns: Columns) -> list[V]:
        """Return the values of a table's rows, out of its Arrow columns by name; StorageError: damaged."""


def values_of(rows_are: str, schema: Description) -> ValueColumns[Any]:
    # by what the rows of the table are, such as ELEMENT
    if rows_are == TIMER:
        return _Timers()
    if rows_are == BYTES:
        return _Cells()
    of = mappings_in(schema, "of")
    if rows_are == ELEMENT:
        return _Elements(of[0])
    return _MapEntries(*of) if rows_are == ENTRY else _Single(of[0])


class _Single(ValueColumns[V]):
    """Layout of single values: a typed column, and one of bytes for values that do not fit it."""

    def __init__(self, stored: Description) -> None:
        self._column = ArrowColumn(VALUE, stored)
        self.fields = self._column.fields

    def arrays(self, values: Sequence[V]) -> list[pa.Array]:
        return self._column.arrays(values)

    def values(self, columns: Columns) -> list[V]:
        return self._column.values(columns)


class _Cells(ValueColumns[bytes]):
    """Layout of values of a program's own serializer: the bytes of each value, encoded by itself."""

    fields = (pa.field(VALUE + RAW, pa.binary()),)

    def arrays(self, values: Sequence[bytes]) -> list[pa.Array]:
        return [pa.array(values, pa.binary())]

    def values(self, columns: Columns) -> list[bytes]:
        cells = columns[VALUE + RAW]
        if cells.null_count:
            raise StorageError("a table of state has a row without a value")
        return cells.to_pylist()  # type: ignore[no-any-return]


class _Timers(ValueColumns[tuple[str, int]]):
    """Layout of timers: time domain and timestamp in ms."""

    fields = (
        pa.field(TIME_DOMAIN, pa.string(), nullable=False),
        pa.field(TIMESTAMP, pa.int64(), nullable=False),
    )

    def arrays(self, values: Sequence[tuple[str, int]]) -> list[pa.Array]:
        domains, timestamps = zip(*values, strict=True)
        return [pa.array(domains, pa.string()), pa.array(timestamps, pa.int64())]

    def values(self, columns: Columns) -> list[tuple[str, int]]:
        return list(zip(columns[TIME_DOMAIN].to_pylist(), columns[TIMESTAMP].to_pylist(), strict=True))


class _Spread(ValueColumns[V]):
    """Base of the layouts in which a value takes a row for each of its parts, and one if it is empty."""

    def __init__(self, columns: list[ArrowColumn]) -> None:
        self._columns = columns
        self.fields = [pa.field(POSITION, pa.int64()), *(f for column in columns for f in column.fields)]

    def sizes(self, values: Sequence[V]) -> list[int]:
        return [max(1, len(_plain(value))) for value in values]

    def _spread(self, values: Sequence[V], parts: Sequence[Sequence[Any]]) -> list[pa.Array]:
        lengths = [len(_plain(value)) for value in values]
        positions = list(chain.from_iterable(range(length) if length else (None,) for length in lengths))
        places = accumulate((position is not None for position in positions), initial=-1)
        take = pa.array(
            [None if at is None else place for at, place in zip(positions, list(places)[1:], strict=True)],
            pa.int64(),
        )
        arrays = [
            array.take(take)
            for column, of_column in zip(self._columns, parts, strict=True)
            for array in column.arrays(of_column)
        ]
        return [pa.array(positions, pa.int64()), *arrays]

    def starts(self, columns: Columns) -> list[int]:
        positions = columns[POSITION]
        places = positions.fill_null(0).to_numpy()
        starts = np.flatnonzero(places == 0)
        sizes = np.diff(starts, append=len(places))
        begun = len(starts) and not starts[0]
        expected = np.arange(len(places)) - np.repeat(starts, sizes) if begun else places + 1
        empty = positions.is_null().to_numpy(zero_copy_only=False)
        if (places != expected).any() or (len(starts) and (sizes[empty[starts]] != 1).any()):
            raise StorageError("a table of state has a list or map whose positions are not in order")
        return starts.tolist()

    def _parts(self, columns: Columns) -> tuple[list[list[Any]], list[tuple[int, int]]]:
        # by column, and the (start, stop) range of each value's parts
        there = columns[POSITION].is_valid()
        parts = [
            column.values({name: a.filter(there) for name, a in columns.items()}) for column in self._columns
        ]
        before = [0, *accumulate(there.to_pylist())]
        borders = [*self.starts(columns), len(there)]
        return parts, [(before[start], before[end]) for start, end in pairwise(borders)]


class _Elements(_Spread[list[V] | Beyond]):
    """Layout of lists: a row for each element."""

    def __init__(self, element: Description) -> None:
        super().__init__([ArrowColumn(VALUE, element)])
        self._settle = settling(element)

    def arrays(self, values: Sequence[list[V] | Beyond]) -> list[pa.Array]:
        elements = (list(map(within, v.plain)) if isinstance(v, Beyond) else v for v in values)
        return self._spread(values, [list(chain.from_iterable(elements))])

    def values(self, columns: Columns) -> list[list[V] | Beyond]:
        (elements,), places = self._parts(columns)
        return [self._list(elements[start:end]) for start, end in places]

    def _list(self, elements: list[V]) -> list[V] | Beyond:
        if not any(isinstance(element, Beyond) for element in elements):
            return elements
        return Beyond(_settled(elements, self._settle))


_Pairs = dict[K, V] | list[tuple[K, V]] | Beyond
"""A plain map: a dict, or a list of pairs where msgpack cannot hold the keys of a dict."""


class _MapEntries(_Spread[_Pairs[K, V]]):
    """Layout of maps: a row for each entry, in the order of the entries."""

    def __init__(self, key: Description, value: Description) -> None:
        super().__init__([ArrowColumn(MAP_KEY, key), ArrowColumn(VALUE, value)])
        self._settle = settling(key), settling(value)
        self._direct = key["kind"] in DIRECT_KEYS

    def arrays(self, values: Sequence[_Pairs[K, V]]) -> list[pa.Array]:
        pairs = [self._pairs(value) for value in values]
        return self._spread(values, [[pair[side] for of_one in pairs for pair in of_one] for side in (0, 1)])

    def _pairs(self, value: _Pairs[K, V]) -> Sequence[tuple[K | Beyond, V | Beyond]]:
        plain = _plain(value)
        pairs: list[tuple[K, V]] = list(plain.items()) if self._direct else plain
        return [(within(k), within(v)) for k, v in pairs] if isinstance(value, Beyond) else pairs

    def values(self, columns: Columns) -> list[_Pairs[K, V]]:
        (keys, values), places = self._parts(columns)
        return [self._map(keys[start:end], values[start:end]) for start, end in places]

    def _map(self, keys: list[K], values: list[V]) -> _Pairs[K, V]:
        make = dict if self._direct else list
        if not any(isinstance(part, Beyond) for part in chain[K | V](keys, values)):
            return make(zip(keys, values, strict=True))
        to_key, to_value = self._settle
        return Beyond(make(zip(_settled(keys, to_key), _settled(values, to_value), strict=True)))


def _plain(value: V | Beyond) -> Any:
    return value.plain if isinstance(value, Beyond) else value


def _settled(parts: list[V], settle: Convert | None) -> list[V]:
    return [
        part.plain if isinstance(part, Beyond) else part if settle is None else settle(part) for part in parts
    ]


class TableRows:
    """Converts entries to the rows of one canonical table, keys and values together, and back."""

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
        sizes = self._values.sizes(values)
        return len(values) if sizes is None else sum(sizes)

    def pieces(self, values: Sequence[Any], rows: int) -> Iterator[slice]:
        """Yield slices of `values` that take at most `rows` rows each; a larger value is a slice alone."""
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
        """Return entries of key group `group`, a value for each key, as rows of the table's `schema`."""
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
        """Return the key groups, keys and values of a batch's entries, in lists; StorageError: damaged."""
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
