"""A record of a columnar batch as a per-record function gets it: a view, not a copy.

A column is turned into Python objects when the first row of the batch reads it, so a function that reads two
of twenty columns pays for two. A view keeps its batch's columns alive, so a program may keep rows; pickling
or sending one copies its values.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

Values: TypeAlias = tuple[Any, ...]
"""The values of one row, of the types that its columns have."""


class Row:
    """A record with named fields: ``row.author``, ``row["author"]``, ``row.as_dict()``.

    Rows of equal field names and values are equal. No such field: AttributeError, KeyError or IndexError.

    Example:
        >>> row = Row.of(author="ada", lines=3)
        >>> row.author, row["lines"], row.as_dict()
        ('ada', 3, {'author': 'ada', 'lines': 3})
    """

    __slots__ = ("_c", "_i")
    _names: ClassVar[tuple[str, ...]] = ()
    _index: ClassVar[Mapping[str, int]] = {}
    _c: Any
    _i: int

    @staticmethod
    def of(**fields: Any) -> Row:
        """Return a row with these fields that holds its values itself, so it is no view of a batch."""
        return make_row(tuple(fields), tuple(fields.values()))

    def __getitem__(self, field: str | int) -> Any:
        if isinstance(field, str):
            try:
                field = self._index[field]
            except KeyError:
                raise KeyError(f"no field {field!r}; the row has {', '.join(self._names)}") from None
        else:
            # Counts from the end as well, and refuses what is out of range alike for views and others.
            field = range(len(self._names))[field]
        return self._c.column(field)[self._i]

    def __getattr__(self, field: str) -> Any:
        # Only reached for names that are no generated property.
        if field in self._index:
            return self[field]
        raise AttributeError(f"no field {field!r}; the row has {', '.join(self._names) or 'no fields'}")

    def keys(self) -> tuple[str, ...]:
        """Return the field names, in order."""
        return self._names

    def values(self) -> Values:
        """Return the field values, in order."""
        column, i = self._c.column, self._i
        return tuple([column(k)[i] for k in range(len(self._names))])

    def as_dict(self) -> dict[str, Any]:
        """Return a dict: field name -> value."""
        return dict(zip(self._names, self.values(), strict=True))

    def guessed_size(self) -> int:
        """Return about how many bytes the row takes on the wire; for a view, the average of its batch."""
        if isinstance(self._c, Columns):
            batch = self._c._batch
            average: int = batch.nbytes // max(1, batch.num_rows)
            return average
        return sum(8 + (len(value) if isinstance(value, (str, bytes)) else 8) for value in self.values())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, field: object) -> bool:
        return field in self._index

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return self._names == other._names and self.values() == other.values()

    def __hash__(self) -> int:
        return hash((self._names, self.values()))

    def __reduce__(self) -> tuple[Callable[..., Row], tuple[tuple[str, ...], Values]]:
        return make_row, (self._names, self.values())

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{k}={v!r}' for k, v in self.as_dict().items())})"


class Columns:
    """The columns of one batch as Python lists, each converted when it is first read."""

    __slots__ = ("_batch",)
    _batch: pa.RecordBatch

    def column(self, index: int) -> list[Any]:
        # shared by all rows: not to be changed
        return getattr(self, f"c{index}")  # type: ignore[no-any-return]

    def __getattr__(self, slot: str) -> list[Any]:
        # A slot that was never filled: convert and keep.
        values = python_values(self._batch.column(int(slot[1:])))
        setattr(self, slot, values)
        return values


class _Single:
    """The values of one row that is no view of a batch, with the methods of :class:`Columns`."""

    __slots__ = ("_values",)

    def __init__(self, values: Values) -> None:
        self._values = values

    def column(self, index: int) -> Values:
        return (self._values[index],)

    def __getattr__(self, slot: str) -> Values:
        return (self._values[int(slot[1:])],)


@lru_cache(maxsize=1024)
def row_type(names: tuple[str, ...]) -> type[Row]:
    """Return the cached :class:`Row` subclass for these fields; names fit for attributes get properties."""
    body: dict[str, Any] = {"__slots__": (), "_names": names, "_index": {n: i for i, n in enumerate(names)}}
    for index, name in enumerate(names):
        # A property named like `__bool__` would change what Python does with the row.
        plain = name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")
        if plain and not hasattr(Row, name):
            body[name] = _property(index)
    return type("Row", (Row,), body)


@lru_cache(maxsize=4096)
def _property(index: int) -> property:
    scope: dict[str, Any] = {}
    exec(f"def get(self): return self._c.c{index}[self._i]", scope)
    return property(scope["get"])


@lru_cache(maxsize=256)
def _columns_type(count: int) -> type[Columns]:
    return type("Columns", (Columns,), {"__slots__": tuple(f"c{i}" for i in range(count))})


def columns_of(batch: pa.RecordBatch) -> Columns:
    columns = _columns_type(batch.num_columns)()
    columns._batch = batch
    return columns


def make_row(names: tuple[str, ...], values: Sequence[T]) -> Row:
    """Return a row with these field names and values that holds them itself, so it is no view of a batch."""
    row = row_type(tuple(names))()
    row._c, row._i = _Single(tuple(values)), 0
    return row


def python_values(column: pa.Array) -> list[Any]:
    """Return a column as a list of Python objects, null as None, by the fastest lossless way."""
    import numpy as np
    import pyarrow as pa

    values: list[Any]
    kind, filled = column.type, len(column) > 0 and not column.null_count
    if filled and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        # Straight from the buffer: `to_numpy` releases the interpreter lock and may wait for it.
        offset = column.offset * (kind.bit_width // 8)
        values = np.frombuffer(column.buffers()[1], kind.to_pandas_dtype(), len(column), offset).tolist()
    elif filled and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        values = column.to_numpy(zero_copy_only=False).tolist()
    else:
        values = column.to_pylist()
    return values
