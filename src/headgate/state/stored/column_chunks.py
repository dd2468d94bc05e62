"""Chunks of a blob that hold Arrow columns: large map states whose entries are at hand as columns. They are
read back as maps, so nothing but the blob and the operator that writes them knows of columns.
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
    """Return the layout of chunks with this Arrow schema: `keys` columns of the stream's key, then one of the
    map entry's key, then the record's fields. `numbered`: several rows may have the same two keys; they
    become entries whose keys are (entry's key, number from 0).
    """
    return ColumnLayout(schema.serialize().to_pybytes(), keys, numbered)


def written_chunk(chunk: ColumnChunk) -> memoryview:
    # without the schema, which the layout has
    return memoryview(chunk.columns.serialize())


def read_chunk(layout: ColumnLayout, data: memoryview) -> tuple[list[Hashable], bytes]:
    """Return the stream's keys in a chunk's bytes, each once, and their maps as one batch, in the form that
    the built-in serializer of the map state encodes and decodes. StorageError: the bytes are no columns of
    this layout.
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
    """Return a function for each field of the record, which turns its Arrow values into what msgspec encodes;
    None: no need. `schema` has the columns of `layout`: those of keys are left out of the result.
    """
    return [_convert(field.type) for field in list(schema)[layout.keys + 1 :]]


@cache
def _convert(kind: pa.DataType) -> Convert | None:
    if pa.types.is_list(kind):
        each = _convert(kind.value_type)
        return None if each is None else _optional(lambda values: list(map(each, values)))
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
    """Return each key of the stream with its map. `values`: the columns as Python lists, in the order of
    `layout`; `converts`: as :func:`converts_of` gives them. Rows of a key need not follow one another;
    without `numbered`, a later row replaces an earlier one under the same entry's key.
    """
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
    start = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        mask = chunk.is_null().to_numpy(zero_copy_only=False)
        yield from (start + mask.nonzero()[0]).tolist()
        start += len(chunk)
