"""Chunks of a blob that hold Arrow columns: large map states whose entries are at hand as columns.

A row is one entry of a key's map: the columns of the key, then that of the entry's key, then the fields of
its record. They are read back as the maps that they are, so nothing but the blob knows of columns.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from itertools import islice, repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headgate.common.errors import StorageError
from headgate.serde.codecs.primitives import PRIMITIVES
from headgate.serde.codecs.type_codec import plain_bytes
from headgate.state.stored.blob_format import ColumnLayout

Convert = Callable[[Any], Any]
_WITH_TIME: Final = ((pa.types.is_timestamp, dt.datetime), (pa.types.is_date, dt.date))


class ColumnChunk(NamedTuple):
    """A map state's entries of one key group: `columns` in the layout's order, of `keys` distinct keys."""

    group: int
    keys: int
    columns: pa.RecordBatch


class Maps(NamedTuple):
    """Keys, and for each the map as msgspec encodes it: a dict, or pairs where its keys are tuples."""

    keys: list[Hashable]
    plain: list[Any]


def layout_of(schema: pa.Schema, keys: int, *, numbered: bool) -> ColumnLayout:
    """Return the layout of batches with `keys` columns of the stream's key, then one of the map entry's key.

    `numbered`: a key may have several rows with one entry's key, which become entries (that key, number).
    """
    return ColumnLayout(schema.serialize().to_pybytes(), keys, numbered)


def written_chunk(chunk: ColumnChunk) -> bytes:
    """Return the bytes of a chunk, without its schema."""
    return bytes(chunk.columns.serialize().to_pybytes())


def read_chunk(layout: ColumnLayout, data: memoryview) -> tuple[list[Hashable], bytes]:
    """Return the keys of a chunk, and their maps as one batch of a map state's built-in serializer.

    Raises:
        StorageError: the bytes are no columns of this layout.
    """
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(layout.schema))
        columns = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
        columns.validate(full=True)
        if not 0 < layout.keys < len(schema):
            raise ValueError(f"{layout.keys} of {len(schema)} columns are of the key")
        found = maps_of([_values(column) for column in columns.columns], layout, converts_of(schema, layout))
    except (pa.ArrowException, OSError, EOFError, ValueError, TypeError) as error:
        raise StorageError(f"stored columns do not decode ({error})") from None
    return found.keys, plain_bytes(found.plain)


def converts_of(schema: pa.Schema, layout: ColumnLayout) -> list[Convert | None]:
    """Return for each record field a converter of its values to what msgspec encodes; None: not needed."""
    return [_convert(field.type) for field in list(schema)[layout.keys + 1 :]]


@cache
def _convert(kind: pa.DataType) -> Convert | None:
    if pa.types.is_decimal(kind):
        return _optional(PRIMITIVES[Decimal].to_plain)
    for is_kind, cls in _WITH_TIME:
        if is_kind(kind):
            return _optional(PRIMITIVES[cls].to_plain)
    return None


def _optional(convert: Convert | None) -> Convert:
    assert convert is not None  # of a class that msgspec does not encode as it is wanted
    return lambda value: None if value is None else convert(value)


def maps_of(values: Sequence[list[Any]], layout: ColumnLayout, converts: Sequence[Convert | None]) -> Maps:
    """Return each key with its map; `values`: columns in the layout's order; a key's rows may lie apart."""
    columns = iter(values)
    of_keys = list(islice(columns, layout.keys))
    keys = of_keys[0] if layout.keys == 1 else list(zip(*of_keys, strict=True))
    places = next(columns)
    fields = [
        column if convert is None else list(map(convert, column))
        for column, convert in zip(columns, converts, strict=True)
    ]
    rows: Iterable[tuple[Any, ...]] = zip(*fields, strict=True) if fields else repeat((), len(keys))
    return _pairs(keys, places, rows) if layout.numbered else _dicts(keys, places, rows)


def _dicts(keys: list[Any], places: list[Any], rows: Iterable[tuple[Any, ...]]) -> Maps:
    if len(set(keys)) == len(keys):
        return Maps(keys, [{place: row} for place, row in zip(places, rows, strict=True)])
    found: dict[Hashable, dict[Any, Any]] = {}
    for key, place, row in zip(keys, places, rows, strict=True):
        found.setdefault(key, {})[place] = row
    return Maps(list(found), list(found.values()))


def _pairs(keys: list[Any], places: list[Any], rows: Iterable[tuple[Any, ...]]) -> Maps:
    found: dict[Hashable, list[Any]] = {}
    for key, place, row in zip(keys, places, rows, strict=True):
        mine = found.setdefault(key, [])
        mine.append(((place, len(mine)), row))
    return Maps(list(found), list(found.values()))


def python_columns(table: pa.Table) -> list[list[Any]]:
    """Return a table's columns as lists of Python values."""
    return [_values(column) for column in table.columns]


def _values(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
        return list(column.to_pylist())
    if not column.null_count:
        known: list[Any] = column.to_numpy().tolist()
        return known
    # Arrow makes Python numbers one by one where some are null, which takes ten times as long.
    found = _values(column.fill_null(0))
    for place in places_of_nulls(column):
        found[place] = None
    return found


def places_of_nulls(column: pa.ChunkedArray | pa.Array) -> Iterator[int]:
    """Yield the indexes of the rows that are null, ascending."""
    start = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        mask = chunk.is_null().to_numpy(zero_copy_only=False)
        yield from (start + mask.nonzero()[0]).tolist()
        start += len(chunk)
