"""How arrays and maps become rows of elements and entries, and the columns of these rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headgate.relational.resolved import Typed
from headgate.relational.schema import Field

ROWS_MAX: Final = 16_384
"""Most rows of a batch of elements; a batch of long arrays becomes several."""


class Elements(NamedTuple):
    """A batch of exploded elements, as `columns`; `rows` has, for each, the index of the row it is from."""

    rows: NDArray[np.int64]
    columns: list[pa.Array]


def is_map(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind))


def made_by(kind: pa.DataType, *, position: bool) -> tuple[str, ...]:
    """Return the names that Spark gives to the columns of an exploded array or map.

    Example:
        >>> made_by(pa.list_(pa.int64()), position=True), made_by(pa.map_("string", "int64"), position=False)
        (('pos', 'col'), ('key', 'value'))
    """
    names = ("key", "value") if pa.types.is_map(kind) else ("col",)
    return ("pos", *names) if position else names


def fields_made(values: Typed, *, position: bool, outer: bool) -> tuple[Field, ...]:
    """Return the fields, in order, of the columns that exploding `values` makes; `outer`: all nullable."""
    kind = values.type
    if pa.types.is_map(kind):
        found = [Field("key", kind.key_type, outer), Field("value", kind.item_type, True)]
    else:
        found = [Field("col", kind.value_type, outer or kind.value_field.nullable)]
    return tuple([Field("pos", pa.int32(), outer), *found] if position else found)


def one_each(values: pa.Array, made: Sequence[str]) -> list[pa.Array] | None:
    """Return the columns of elements where each array has exactly one, so that no row moves; else None.

    Example:
        >>> one_each(pa.array([[7], [8]]), ["col"])[0].to_pylist(), one_each(pa.array([[7, 8]]), ["col"])
        ([7, 8], None)
    """
    starts = values.offsets.to_numpy()
    if values.null_count or not len(values) or (np.diff(starts) != 1).any():
        return None
    places = np.zeros(len(values), np.int64)
    first, size = int(starts[0]), len(values)
    return [
        pa.array(places.astype(np.int32)) if name == "pos" else _inner(values, name).slice(first, size)
        for name in made
    ]


def exploded(values: pa.Array, made: Sequence[str], *, outer: bool) -> Iterator[Elements]:
    """Yield a row for each element of arrays, or entry of maps, in order, in batches of at most `ROWS_MAX`.

    Args:
        values: the arrays or maps.
        made: the columns that are wanted, as :func:`made_by` names them.
        outer: whether a row that is null or has no elements gives one row of nulls.
    """
    starts = values.offsets.to_numpy()
    lengths = np.diff(starts)
    if values.null_count:
        lengths = np.where(values.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
    sizes = np.maximum(lengths, 1) if outer else lengths
    rows = np.repeat(np.arange(len(values)), sizes)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    for start in range(0, len(rows), ROWS_MAX):
        some, at = rows[start : start + ROWS_MAX], places[start : start + ROWS_MAX]
        missing = lengths[some] == 0
        index = pa.array(starts[:-1][some] + at, mask=missing)
        yield Elements(some, [_column(values, name, index, at, missing) for name in made])


def _column(
    values: pa.Array, name: str, index: pa.Array, places: NDArray[np.int64], missing: NDArray[np.bool_]
) -> pa.Array:
    if name == "pos":
        return pa.array(places.astype(np.int32), mask=missing)
    return _inner(values, name).take(index)


def _inner(values: pa.Array, name: str) -> pa.Array:
    return getattr(values, {"key": "keys", "value": "items", "col": "values"}[name])
