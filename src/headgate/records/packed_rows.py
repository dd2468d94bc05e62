"""Rows of which parts can be kept and stored: numbers and times as bytes, other values as lists.

A part has the event times of its rows and then column after column, little-endian, in one piece of bytes, so
it costs little more than a slice to make, and its values become Python objects only if a function reads them.
Its shape, as text, says how it is read: stored parts stay readable, so what shapes mean does not change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headgate.records.row import Row, row_type

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from headgate.records.batch import Int64s
    from headgate.records.row import Columns

_TIME_BYTES: Final = 8
NOTHING: Final[list[Any]] = []
"""No lists, of as many parts as have none: the garbage collector looks at each list. It is never changed."""
_LISTED: Final = ""
"""The kind of a column whose values are in a list."""


class Part(NamedTuple):
    """Some packed rows of a shape: how many, their bytes, and the lists of columns that have no bytes."""

    size: int
    data: bytes
    lists: list[list[Any]]


class PackedRows:
    """Rows in an order, of which :meth:`part` takes those from one place to before another.

    Attributes:
        shape: names and kinds of the columns, as text.
    """

    def __init__(
        self, times: Int64s, names: Sequence[str], columns: Sequence[tuple[str, bytes | list[Any]]]
    ) -> None:
        self.shape = json.dumps([[name, kind] for name, (kind, _) in zip(names, columns, strict=True)])
        packed = [(values, _width(kind)) for kind, values in columns if kind != _LISTED]
        self._packed: list[tuple[Any, int]] = [(times.astype("<i8").tobytes(), _TIME_BYTES), *packed]
        self._lists: list[Any] = [values for kind, values in columns if kind == _LISTED]

    def part(self, start: int, stop: int) -> Part:
        """Return the rows from `start` to before `stop`."""
        return Part(stop - start, *self.cut(start, stop))

    def cut(self, start: int, stop: int) -> tuple[bytes, list[list[Any]]]:
        """Return bytes and lists of the part from `start` to before `stop`; the list is not to be changed."""
        data = b"".join([values[start * width : stop * width] for values, width in self._packed])
        return data, [values[start:stop] for values in self._lists] if self._lists else NOTHING


def packed_columns(batch: pa.RecordBatch, views: Columns, indices: Int64s, times: Int64s) -> PackedRows:
    """Return the rows of `batch`, whose columns are `views`, at `indices`; `times` (ms) are theirs."""
    columns: list[tuple[str, bytes | list[Any]]] = []
    places: list[int] = indices.tolist()
    for number, column in enumerate(batch.columns):
        kind = _kind_of(column)
        if kind == _LISTED:
            columns.append((kind, taken(views.column(number), places)))
        else:
            columns.append((kind, _numbers(column, kind)[indices].tobytes()))
    return PackedRows(times, batch.schema.names, columns)


def packed_lists(names: Sequence[str], lists: Sequence[list[Any]], times: Int64s) -> PackedRows:
    """Return rows whose values are in `lists`, one list for each name."""
    return PackedRows(times, names, [(_LISTED, values) for values in lists])


def taken(values: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """Return the `values` at `places`, one or more, in a list."""
    return list(itemgetter(*places)(values)) if len(places) > 1 else [values[places[0]]]


def rows_of_parts(shape: str, parts: Sequence[Part]) -> list[Row]:
    """Return the rows of `parts`, which are all of one shape, in order."""
    read = _shape_of(shape)
    cls, shared, rows = read.row, read.columns(), []
    shared.shape, shared.parts = read, parts
    count = parts[0].size if len(parts) == 1 else sum([part.size for part in parts])
    for index in range(count):
        row = cls()
        row._c, row._i = shared, index
        rows.append(row)
    return rows


def times_of(part: Part) -> list[int]:
    """Return the event times (ms) of a part's rows."""
    import numpy as np

    found: list[int] = np.frombuffer(part.data, "<i8", part.size).tolist()
    return found


class _Shape(NamedTuple):
    row: type[Row]
    columns: Callable[[], Any]
    kinds: tuple[str, ...]
    places: tuple[int, ...]  # of each column: among the lists, or after how many bytes of each row


@lru_cache(maxsize=1024)
def _shape_of(shape: str) -> _Shape:
    fields = json.loads(shape)
    kinds = tuple(kind for _, kind in fields)
    befores = accumulate((0 if kind == _LISTED else _width(kind) for kind in kinds), initial=_TIME_BYTES)
    lists = accumulate((kind == _LISTED for kind in kinds), initial=0)
    places = tuple(
        listed if kind == _LISTED else before
        for kind, before, listed in zip(kinds, befores, lists, strict=False)
    )
    slots = tuple(f"c{place}" for place in range(len(kinds)))
    columns = type("_PackedColumns", (_PackedColumns,), {"__slots__": slots})
    return _Shape(row_type(tuple(name for name, _ in fields)), columns, kinds, places)


class _PackedColumns:
    """Packed rows as their views read them: a column becomes a list when it is first read."""

    __slots__ = ("parts", "shape")
    shape: _Shape
    parts: Sequence[Part]

    def column(self, index: int) -> list[Any]:
        # shared by all rows: not to be changed
        found: list[Any] | None = getattr(self, f"c{index}", None)
        if found is None:
            found = self._read(self.shape.kinds[index], self.shape.places[index])
            setattr(self, f"c{index}", found)
        return found

    def _read(self, kind: str, place: int) -> list[Any]:
        if kind == _LISTED:
            return list(chain.from_iterable(part.lists[place] for part in self.parts))
        after = place + _width(kind)
        pieces = [part.data[part.size * place : part.size * after] for part in self.parts]
        return _values(kind, pieces[0] if len(pieces) == 1 else b"".join(pieces))


# -- kinds of columns


@lru_cache(maxsize=256)
def _width(kind: str) -> int:
    return _numpy_type(kind).itemsize


def _kind_of(column: pa.Array) -> str:
    import pyarrow as pa

    if column.null_count or not len(column):
        return _LISTED
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return str(kind)
    if pa.types.is_timestamp(kind) and kind.unit != "ns":
        return f"{kind.unit} {kind.tz or ''}".strip()
    return _LISTED


@lru_cache(maxsize=256)
def _arrow_type(kind: str) -> pa.DataType:
    import pyarrow as pa

    unit, _, zone = kind.partition(" ")
    if unit in ("s", "ms", "us"):
        return pa.timestamp(unit, zone or None)
    return pa.type_for_alias(kind)


@lru_cache(maxsize=256)
def _numpy_type(kind: str) -> np.dtype[Any]:
    import numpy as np
    import pyarrow as pa

    found = _arrow_type(kind)
    return np.dtype("<i8" if pa.types.is_timestamp(found) else found.to_pandas_dtype()).newbyteorder("<")


def _numbers(column: pa.Array, kind: str) -> Any:
    import numpy as np

    numpy_type = _numpy_type(kind)
    offset = column.offset * numpy_type.itemsize
    return np.frombuffer(column.buffers()[1], numpy_type, len(column), offset)


def _values(kind: str, data: bytes) -> list[Any]:
    import pyarrow as pa

    from headgate.records.column_values import python_values

    if kind == "int64":
        return list(memoryview(data).cast("q"))
    column = pa.Array.from_buffers(_arrow_type(kind), len(data) // _width(kind), [None, pa.py_buffer(data)])
    return python_values(column)
