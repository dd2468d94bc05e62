"""From a stored description to the Arrow type that holds its values without loss, where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from itertools import chain
from typing import Any, Final, TypeVar

import pyarrow as pa

from headgate.common.plain_data import (
    Description,
    Plain,
    mapping_in,
    mappings_in,
    named_mappings_in,
    text_in,
    texts_in,
)
from headgate.serde.arrow.arrow_codec import NAME, SINGLE, STRING, Codec, nulls, numpy_codec, struct_codec
from headgate.serde.arrow.stored_values import ROWS, pack, unpack
from headgate.serde.codecs.containers import DIRECT_KEYS
from headgate.serde.descriptions import nullable, optional_of

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")

Entries = dict[K, V] | Sequence[tuple[K, V]]  # pairs where the keys are none that a msgpack map holds

_ABSENT: Final[Any] = object()


def arrow_type(stored: Description) -> pa.DataType | None:
    """Return the type of the typed column of a description's values; None if bytes alone can hold them.

    Example:
        >>> from headgate.serde.resolve import serializer_for
        >>> print(arrow_type(serializer_for(dict[str, list[float | None]]).describe()))
        map<string, list<element: double>>
        >>> arrow_type(serializer_for(int | str).describe()) is None
        True
    """
    codec: Codec[Plain] | None = codec_of(stored)
    return None if codec is None else codec.type


def codec_of(stored: Description) -> Codec[V] | None:
    """Return the codec between plain values (as msgpack has them) of a described type and one Arrow column.

    None if no Arrow type holds them without loss, so that a column of bytes is needed. Some values may still
    not fit the type of the codec: see `Codec.fits`.
    """
    kind = text_in(stored, "kind")
    if kind in SINGLE:
        return SINGLE[kind]
    if kind in ROWS:
        return _rows(named_mappings_in(stored, "fields"))
    make = _MAKERS.get(kind)
    return None if make is None else make(stored)


# -- parts that stay bytes


def _part(stored: Description) -> Codec[V]:
    return codec_of(stored) or Codec(
        pa.binary(),
        lambda values: pa.array([pack(value) for value in values], pa.binary()),
        lambda array: [None if data is None else unpack(data) for data in array.to_pylist()],
        nullable=nullable(stored),
    )


# -- records and tuples


def _rows(fields: Mapping[str, Description]) -> Codec[Any] | None:
    return _row_codec(fields, lambda row: row, lambda row: row)


def _row_codec(
    fields: Mapping[str, Description], to_row: Callable[[Any], Any], to_plain: Callable[[tuple[Any, ...]], T]
) -> Codec[T] | None:
    if not _has_columns(fields):
        return None
    parts: dict[str, Codec[Plain]] = {name: _part(field) for name, field in fields.items()}
    checks = [(place, part.fits) for place, part in enumerate(parts.values()) if part.fits is not None]

    def fits(value: T) -> bool:
        row = to_row(value)
        return all(check(row[place]) for place, check in checks)

    total = all(part.total for part in parts.values())
    return struct_codec(parts, to_row, to_plain, fits=fits if checks else None, total=total)


def _has_columns(fields: Mapping[str, Description]) -> bool:
    return all(map(_can_name, fields)) and any(codec_of(field) is not None for field in fields.values())


def _can_name(name: str) -> bool:
    try:
        return bool(name) and bool(name.encode())
    except UnicodeEncodeError:
        return False


def _tuple_codec(stored: Description) -> Codec[V] | None:
    # Named as Spark names the columns of tuples.
    return _rows({f"_{place}": part for place, part in enumerate(mappings_in(stored, "of"), 1)})


def _model_codec(stored: Description) -> Codec[tuple[Sequence[V], V]] | None:
    fields = named_mappings_in(stored, "fields")
    if not all(map(_can_name, fields)):
        return None
    fields["_fields_set"] = {"kind": "flag"}
    return _row_codec(fields, lambda plain: (*plain[0], plain[1]), lambda row: (row[:-1], row[-1]))


def _typed_dict_codec(stored: Description) -> Codec[dict[str, V]] | None:
    """Return the codec of a TypedDict; an absent optional key is stored as null, and read as absent."""
    fields = named_mappings_in(stored, "fields")
    if not _has_columns(fields):
        return None
    names, required = list(fields), frozenset(texts_in(stored, "required"))
    always: dict[str, Codec[V]] = {name: _part(field) for name, field in fields.items()}
    parts = {
        name: part if name in required else _optional(part, fields[name]) for name, part in always.items()
    }
    checks = {name: part.fits for name, part in always.items() if part.fits is not None}

    def fits(value: dict[str, V]) -> bool:
        # A struct has its fields in one order; a dict with another one goes to the column of bytes.
        here = list(value)
        return here == [name for name in names if name in value] and all(
            checks[name](value[name]) for name in here if name in checks
        )

    def to_plain(row: tuple[V, ...]) -> dict[str, V]:
        return {name: value for name, value in zip(names, row, strict=True) if value is not _ABSENT}

    return struct_codec(
        parts, lambda value: [value.get(name, _ABSENT) for name in names], to_plain, fits=fits
    )


def _optional(part: Codec[V], stored: Description) -> Codec[V]:
    """Return the codec of a TypedDict's optional key: it stores null where the key is missing.
    Where None is itself a value of the key, values are stored as msgpack bytes.
    """
    if part.nullable:
        raw = pa.binary()
        return Codec(
            raw,
            lambda values: pa.array([None if value is _ABSENT else pack(value) for value in values], raw),
            lambda array: [_ABSENT if data is None else unpack(data) for data in array.to_pylist()],
        )
    if codec_of(stored) is None:
        return _optional(replace(part, nullable=True), stored)
    return Codec(
        part.type,
        lambda values: part.to_array([None if value is _ABSENT else value for value in values]),
        lambda array: [_ABSENT if value is None else value for value in part.to_plain(array)],
    )


# -- containers


def _list_codec(stored: Description) -> Codec[Sequence[Plain]] | None:
    element: Codec[Plain] | None = codec_of(mapping_in(stored, "of"))
    if element is None:
        return None
    # The name that Parquet gives to elements.
    type_ = pa.list_(pa.field("element", element.type))
    fits = element.fits

    def to_array(values: Sequence[Sequence[Plain] | None]) -> pa.Array:
        flat = list(chain.from_iterable(value for value in values if value is not None))
        return pa.ListArray.from_arrays(
            _offsets(values), element.to_array(flat), type=type_, mask=nulls(values)
        )

    def to_plain(array: pa.Array) -> list[Sequence[Plain] | None]:
        return _slices(array, element.to_plain(array.values))

    list_fits = None if fits is None else lambda value: all(map(fits, value))
    return Codec(type_, to_array, to_plain, list_fits, total=element.total)


def _map_codec(stored: Description) -> Codec[Entries[Plain, Plain]] | None:
    stored_key = mapping_in(stored, "key")
    key: Codec[Plain] | None = codec_of(stored_key)
    value: Codec[Plain] | None = codec_of(mapping_in(stored, "value"))
    if key is None or value is None or key.nullable:
        return None
    direct = stored_key["kind"] in DIRECT_KEYS
    type_, keys, items = pa.map_(key.type, value.type), key, value

    def to_array(values: Sequence[Entries[Plain, Plain] | None]) -> pa.Array:
        flat = [pair for entries in values if entries is not None for pair in _pairs(entries)]
        arrays = keys.to_array([k for k, _ in flat]), items.to_array([v for _, v in flat])
        return pa.MapArray.from_arrays(_offsets(values), *arrays, type=type_, mask=nulls(values))

    def to_plain(array: pa.Array) -> list[Any]:
        pairs = list(zip(keys.to_plain(array.keys), items.to_plain(array.items), strict=True))
        made = _slices(array, pairs)
        return [None if entries is None else dict(entries) for entries in made] if direct else made

    return Codec(type_, to_array, to_plain, _map_fits(key, value), total=key.total and value.total)


def _map_fits(key: Codec[K], value: Codec[V]) -> Callable[[Entries[K, V]], bool] | None:
    key_fits, value_fits = key.fits, value.fits
    if key_fits is None and value_fits is None:
        return None

    def fits(entries: Entries[K, V]) -> bool:
        return all(
            (key_fits is None or key_fits(k)) and (value_fits is None or value_fits(v))
            for k, v in _pairs(entries)
        )

    return fits


def _pairs(entries: Entries[K, V]) -> Iterable[tuple[K, V]]:
    return entries.items() if isinstance(entries, dict) else entries


def _offsets(values: Sequence[Sized | None]) -> pa.Array:
    offsets, end = [0], 0
    for value in values:
        end += 0 if value is None else len(value)
        offsets.append(end)
    return pa.array(offsets, pa.int32())


def _slices(array: pa.Array, flat: Sequence[V]) -> list[Sequence[V] | None]:
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [
        flat[start:end] if there else None
        for start, end, there in zip(offsets, offsets[1:], valid, strict=False)
    ]


# -- alternatives


def _union_codec(stored: Description) -> Codec[V] | None:
    member = optional_of(stored)
    codec: Codec[V] | None = None if member is None else codec_of(member)
    if codec is None:
        return None
    fits = codec.fits
    or_none = None if fits is None else lambda value: value is None or fits(value)
    return replace(codec, nullable=True, fits=or_none)


def _enum_codec(stored: Description) -> Codec[str]:
    return NAME if all(map(_can_name, texts_in(stored, "members"))) else STRING


_MAKERS: Final[dict[str, Callable[[Description], Codec[Any] | None]]] = {
    "list": _list_codec,
    "tuple_of": _list_codec,
    "tuple": _tuple_codec,
    "dict": _map_codec,
    "typeddict": _typed_dict_codec,
    "model": _model_codec,
    "union": _union_codec,
    "literal": lambda stored: codec_of(mapping_in(stored, "of")),
    "enum": _enum_codec,
    "numpy": lambda stored: numpy_codec(text_in(stored, "dtype")),
}
