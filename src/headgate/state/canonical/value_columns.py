"""What the keys of a state have, as columns, for each way in which it is laid out.

A list is one row for each element, a map one for each entry, with its place in the order; one that is empty
is a row without a place. Values are plain ones, or marked as beyond what msgpack holds; see
:mod:`headgate.serde.arrow.stored_values`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from headgate.common.errors import StorageError
from headgate.common.plain_data import Description, mappings_in
from headgate.serde.arrow.arrow_columns import RAW, ArrowColumn
from headgate.serde.arrow.stored_values import Beyond, settling, within
from headgate.serde.codecs.containers import DIRECT_KEYS
from headgate.serde.codecs.type_codec import Convert
from headgate.state.canonical.table_layout import BYTES, ELEMENT, ENTRY, TIMER

Columns = Mapping[str, pa.Array]

TIME_DOMAIN: Final = "time_domain"
TIMESTAMP: Final = "timestamp"
POSITION: Final = "position"
MAP_KEY: Final = "map_key"
VALUE: Final = "value"


class Values(Protocol):
    """One layout."""

    @property
    def fields(self) -> list[pa.Field]:
        """See the class."""
        ...

    def sizes(self, values: Sequence[Any]) -> list[int] | None:
        """How many rows each value takes; None: one."""
        ...

    def arrays(self, values: Sequence[Any]) -> list[pa.Array]:
        """Values as one array for each field."""
        ...

    def starts(self, columns: Columns) -> list[int] | None:
        """The rows in which a value begins; None: each."""
        ...

    def values(self, columns: Columns) -> list[Any]:
        """The values of arrays by name."""
        ...


def values_of(rows_are: str, schema: Description) -> Values:
    """The layout of a table."""
    if rows_are == TIMER:
        return Timers()
    if rows_are == BYTES:
        return Cells()
    of = mappings_in(schema, "of")
    if rows_are == ELEMENT:
        return Elements(of[0])
    return Entries(*of) if rows_are == ENTRY else Single(of[0])


class _OneRow:
    """A value is one row."""

    def sizes(self, values: Sequence[Any]) -> None:
        """Each one."""

    def starts(self, columns: Columns) -> None:
        """Each row."""


class Single(_OneRow):
    """A value in typed column and bytes."""

    def __init__(self, stored: Description) -> None:
        self._column = ArrowColumn(VALUE, stored)
        self.fields, self.arrays, self.values = self._column.fields, self._column.arrays, self._column.values


class Cells(_OneRow):
    """A value as the bytes of its batch of one."""

    fields: Final = [pa.field(VALUE + RAW, pa.binary())]

    def arrays(self, values: Sequence[Any]) -> list[pa.Array]:
        """The cells."""
        return [pa.array(values, pa.binary())]

    def values(self, columns: Columns) -> list[Any]:
        """The cells."""
        cells = columns[VALUE + RAW]
        if cells.null_count:
            raise StorageError("a table of state has a row without a value")
        return cells.to_pylist()  # type: ignore[no-any-return]


class Timers(_OneRow):
    """A timer: its time domain and its timestamp in ms."""

    fields: Final = [
        pa.field(TIME_DOMAIN, pa.string(), nullable=False),
        pa.field(TIMESTAMP, pa.int64(), nullable=False),
    ]

    def arrays(self, values: Sequence[tuple[str, int]]) -> list[pa.Array]:
        """Domains and timestamps."""
        domains, timestamps = zip(*values, strict=True)
        return [pa.array(domains, pa.string()), pa.array(timestamps, pa.int64())]

    def values(self, columns: Columns) -> list[tuple[str, int]]:
        """Pairs of domain and timestamp."""
        return list(zip(columns[TIME_DOMAIN].to_pylist(), columns[TIMESTAMP].to_pylist(), strict=True))


class _Spread:
    """A value is as many rows as it has parts, and one if it has none."""

    def __init__(self, columns: list[ArrowColumn]) -> None:
        self._columns = columns
        self.fields = [pa.field(POSITION, pa.int64()), *(f for column in columns for f in column.fields)]

    def sizes(self, values: Sequence[Any]) -> list[int]:
        """As many as it has parts."""
        return [max(1, len(_plain(value))) for value in values]

    def _spread(self, values: Sequence[Any], parts: Sequence[Sequence[Any]]) -> list[pa.Array]:
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
        """The rows of place 0, and those of what is empty."""
        positions = columns[POSITION]
        places = positions.fill_null(0).to_numpy()
        starts = np.flatnonzero(places == 0)
        sizes = np.diff(starts, append=len(places))
        expected = np.arange(len(places)) - np.repeat(starts, sizes) if len(starts) else places + 1
        empty = positions.is_null().to_numpy(zero_copy_only=False)
        if (places != expected).any() or (len(starts) and (sizes[empty[starts]] != 1).any()):
            raise StorageError("a table of state has a list or map whose positions are not in order")
        return starts.tolist()

    def _parts(self, columns: Columns) -> tuple[list[list[Any]], list[tuple[int, int]]]:
        """The plain values of each column, and from where to where each value's parts are."""
        there = columns[POSITION].is_valid()
        parts = [
            column.values({name: a.filter(there) for name, a in columns.items()}) for column in self._columns
        ]
        before = [0, *accumulate(there.to_pylist())]
        borders = [*self.starts(columns), len(there)]
        return parts, [(before[start], before[end]) for start, end in pairwise(borders)]


class Elements(_Spread):
    """A list."""

    def __init__(self, element: Description) -> None:
        super().__init__([ArrowColumn(VALUE, element)])
        self._settle = settling(element)

    def arrays(self, values: Sequence[Any]) -> list[pa.Array]:
        """Positions and elements."""
        return self._spread(values, [list(chain.from_iterable(map(_elements, values)))])

    def values(self, columns: Columns) -> list[Any]:
        """Lists."""
        (elements,), places = self._parts(columns)
        return [_list(elements[start:end], self._settle) for start, end in places]


class Entries(_Spread):
    """A map in the order of its entries."""

    def __init__(self, key: Description, value: Description) -> None:
        super().__init__([ArrowColumn(MAP_KEY, key), ArrowColumn(VALUE, value)])
        self._settle = settling(key), settling(value)
        self._direct = key["kind"] in DIRECT_KEYS

    def arrays(self, values: Sequence[Any]) -> list[pa.Array]:
        """Positions, keys and values."""
        pairs = [self._pairs(value) for value in values]
        return self._spread(values, [[pair[side] for of_one in pairs for pair in of_one] for side in (0, 1)])

    def _pairs(self, value: Any) -> list[Any]:
        plain = _plain(value)
        pairs = list(plain.items()) if self._direct else plain
        return [(within(k), within(v)) for k, v in pairs] if value.__class__ is Beyond else pairs

    def values(self, columns: Columns) -> list[Any]:
        """Dicts, or lists of pairs where msgpack cannot hold the keys."""
        (keys, values), places = self._parts(columns)
        return [self._map(keys[start:end], values[start:end]) for start, end in places]

    def _map(self, keys: list[Hashable], values: list[Any]) -> Any:
        make = dict if self._direct else list
        if not any(part.__class__ is Beyond for part in chain(keys, values)):
            return make(zip(keys, values, strict=True))
        to_key, to_value = self._settle
        return Beyond(make(zip(_settled(keys, to_key), _settled(values, to_value), strict=True)))


def _plain(value: Any) -> Any:
    return value.plain if value.__class__ is Beyond else value


def _elements(value: Any) -> list[Any]:
    return list(map(within, value.plain)) if value.__class__ is Beyond else value


def _list(elements: list[Any], settle: Convert | None) -> Any:
    if not any(element.__class__ is Beyond for element in elements):
        return elements
    return Beyond(_settled(elements, settle))


def _settled(parts: list[Any], settle: Convert | None) -> list[Any]:
    return [
        part.plain if part.__class__ is Beyond else part if settle is None else settle(part) for part in parts
    ]
