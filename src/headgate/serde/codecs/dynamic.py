"""The self-describing, lossless codec for plain Python values whose type is not declared.

Plain are None, bool, int of any size, float, str (lone surrogates too), bytes, list, tuple, dict,
set, frozenset, datetime, date, time, timedelta, Decimal and UUID. Subclasses are not plain: they
would come back as something else.

A batch is one byte of mode and msgpack. msgspec encodes batches of scalars, of tuples of scalars and of dicts
of scalars under str keys as they are; in all others, what msgpack has no type for is wrapped into its
extension types first. Reading needs no such walk.
"""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID

import msgspec

from headgate.common.decoders import UNDECODABLE, msgpack_decoder
from headgate.common.errors import StorageError, UsageError
from headgate.common.plain_data import Plain
from headgate.serde.codecs import temporal
from headgate.serde.described_snapshot import DescribedSnapshot
from headgate.serde.serializer import Buffer, TypeSerializer, TypeSerializerSnapshot

T = TypeVar("T")
V = TypeVar("V")

SCALARS: Final = frozenset({type(None), bool, int, float, str, bytes})
"""Types that msgpack holds as they are (ints to 64 bits, str without lone surrogates)."""

_MODE_VALUES, _MODE_TUPLES = 0, 1
_BIG_INT, _RAW_STR, _TUPLE, _DICT, _SET, _FROZENSET = 1, 2, 3, 4, 5, 6
_DATETIME, _DATE, _TIME, _TIMEDELTA, _DECIMAL, _UUID = 7, 8, 9, 10, 11, 12

_encode: Final = msgspec.msgpack.Encoder().encode
_Ext: Final = msgspec.msgpack.Ext
Tagged: TypeAlias = (
    "bool | int | float | str | bytes | msgspec.msgpack.Ext | Sequence[Tagged] | Mapping[str, Tagged] | None"
)


class NotPlainError(UsageError):
    """Raised for a value of a type that the dynamic codec cannot hold."""


def to_tagged(value: T) -> Tagged:
    """Return a plain value with extension types for what msgpack lacks; NotPlainError if it is not plain."""
    tagger = _TAGGERS.get(type(value))
    if tagger is None:
        raise NotPlainError(
            f"a value of type {type(value).__module__}.{type(value).__qualname__} has no declared type and "
            "is not plain data; annotate it (state: hg.ValueState[T]; a dataclass, NamedTuple, TypedDict or "
            "msgspec.Struct as T), or convert it to plain values"
        )
    return tagger(value)


def encode_tagged(value: T) -> bytes:
    """Return the msgpack bytes of a plain or a tagged value; NotPlainError if it, or a part, is not plain.
    UsageError for a value that contains itself or is nested too deeply.
    """
    try:
        return _encode(to_tagged(value))
    except RecursionError:
        raise UsageError("a value contains itself or is nested too deeply to be stored; flatten it") from None


def as_plain(value: Any) -> Any:
    """Return the plain data that msgspec makes of a value, such as a dict of a dataclass; else TypeError.
    Lists, tuples, sets and dicts keep their class, an Enum member becomes its value.
    """
    kind = type(value)
    if kind in (list, tuple, set, frozenset):
        return kind(as_plain(part) for part in value)
    if kind is dict:
        return {as_plain(key): as_plain(part) for key, part in value.items()}
    if kind in _TAGGERS:
        return value
    if isinstance(value, Enum):
        return as_plain(value.value)
    try:
        return _decode(_encode(value))
    except OverflowError as error:
        raise TypeError(f"{kind.__qualname__}: {error}") from None


def encode_tagged_each(values: Sequence[Any]) -> list[bytes]:
    """Return the bytes of each value by itself, as :func:`encode_tagged` makes them, in order.
    It is fast if all are scalars, or all are tuples of scalars.
    """
    kinds = set(map(type, values))
    try:
        if kinds <= SCALARS:
            return list(map(_encode, values))
        if kinds == {tuple} and set(map(type, chain.from_iterable(values))) <= SCALARS:
            return [_encode(_Ext(_TUPLE, _encode(value))) for value in values]
    except (OverflowError, UnicodeEncodeError):
        pass  # msgpack does not hold one of them as it is
    return [encode_tagged(value) for value in values]


def untag(code: int, data: memoryview) -> Any:
    """Return the value of an extension type, as decoders' `ext_hook`; StorageError for an unknown `code`."""
    reader = _UNTAGGERS.get(code)
    if reader is None:
        raise StorageError(f"stored bytes hold extension type {code}; expected 1 to {len(_UNTAGGERS)}")
    return reader(data)


_decode: Final = msgspec.msgpack.Decoder(ext_hook=untag).decode
_decode_values: Final = msgpack_decoder(list[Any], ext_hook=untag).decode
_decode_tuples: Final = msgpack_decoder(list[tuple[Any, ...]]).decode


def decode_tagged(data: Buffer) -> Any:
    """Return the value whose bytes :func:`encode_tagged` made; other bytes raise errors of many types."""
    return _decode(data)


def _tag_int(value: int) -> Tagged:
    if -0x8000000000000000 <= value <= 0xFFFFFFFFFFFFFFFF:
        return value
    return _Ext(_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _tag_str(value: str) -> Tagged:
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return _Ext(_RAW_STR, value.encode("utf-8", "surrogatepass"))
    return value


def _tag_dict(value: dict[str, T]) -> Tagged:
    if set(map(type, value)) <= {str} and all(map(str.isascii, value)):
        return {key: to_tagged(entry) for key, entry in value.items()}
    return _Ext(_DICT, _encode([to_tagged(part) for part in chain.from_iterable(value.items())]))


def _untag_dict(data: memoryview) -> dict[T, V]:
    parts = iter(_decode(data))
    return dict(zip(parts, parts, strict=True))


def _sequence_tagger(code: int) -> Callable[[Iterable[T]], Tagged]:
    return lambda value: _Ext(code, _encode([to_tagged(element) for element in value]))


def _plain_tagger(code: int, to_plain: Callable[[T], V]) -> Callable[[T], Tagged]:
    return lambda value: _Ext(code, _encode(to_plain(value)))


def keep(value: T) -> T:
    return value


_TAGGERS: Final[dict[type, Callable[[Any], Tagged]]] = {
    type(None): keep,
    bool: keep,
    int: _tag_int,
    float: keep,
    str: _tag_str,
    bytes: keep,
    list: lambda value: [to_tagged(element) for element in value],
    tuple: _sequence_tagger(_TUPLE),
    dict: _tag_dict,
    set: _sequence_tagger(_SET),
    frozenset: _sequence_tagger(_FROZENSET),
    dt.datetime: _plain_tagger(_DATETIME, temporal.datetime_to_plain),
    dt.date: _plain_tagger(_DATE, dt.date.toordinal),
    dt.time: _plain_tagger(_TIME, temporal.time_to_plain),
    dt.timedelta: _plain_tagger(_TIMEDELTA, temporal.timedelta_to_plain),
    Decimal: _plain_tagger(_DECIMAL, str),
    UUID: lambda value: _Ext(_UUID, value.bytes),
    # Made by a typed serializer for a part whose type is Any; it is tagged already.
    _Ext: keep,
}

_UNTAGGERS: Final[dict[int, Callable[[memoryview], Any]]] = {
    _BIG_INT: lambda data: int.from_bytes(data, "big", signed=True),
    _RAW_STR: lambda data: str(data, "utf-8", "surrogatepass"),
    _TUPLE: lambda data: tuple(_decode(data)),
    _DICT: _untag_dict,
    _SET: lambda data: set(_decode(data)),
    _FROZENSET: lambda data: frozenset(_decode(data)),
    _DATETIME: lambda data: temporal.datetime_from_plain(_decode(data)),
    _DATE: lambda data: dt.date.fromordinal(_decode(data)),
    _TIME: lambda data: temporal.time_from_plain(_decode(data)),
    _TIMEDELTA: lambda data: temporal.timedelta_from_plain(_decode(data)),
    _DECIMAL: lambda data: Decimal(_decode(data)),
    _UUID: lambda data: UUID(bytes=bytes(data)),
}


def with_mode(mode: int, value: T) -> bytes:
    return bytes((mode,)) + _encode(value)


class DynamicSerializer(TypeSerializer[Any]):
    """Serializer of plain values without a declared type; it stores each value's type with it.
    `encode_many` raises NotPlainError for values that are not plain, UsageError for a cycle.
    """

    name = "Any"

    def encode_many(self, values: Sequence[Any]) -> bytes:
        if not isinstance(values, (list, tuple)):
            values = list(values)
        fast = self.encode_scalars(values)
        return bytes((_MODE_VALUES,)) + encode_tagged(list(values)) if fast is None else fast

    def encode_scalars(self, values: Sequence[Any]) -> bytes | None:
        """Return a batch if msgspec alone can hold it (scalars, or tuples or dicts of these), else None."""
        try:
            mode = _fast_mode(values)
            return None if mode is None else with_mode(mode, values)
        except (OverflowError, UnicodeEncodeError):
            return None

    def decode_many(self, data: Buffer, count: int) -> list[Any]:
        view = memoryview(data)
        try:
            if view[0] > _MODE_TUPLES:
                raise ValueError(f"mode {view[0]} is unknown")
            values = (_decode_tuples if view[0] == _MODE_TUPLES else _decode_values)(view[1:])
        except UNDECODABLE as error:
            raise StorageError(
                f"stored values do not decode ({error}); the bytes are not what was written"
            ) from None
        if len(values) != count:
            raise StorageError(f"a batch holds {len(values)} values; expected {count}")
        return values

    def describe(self) -> dict[str, Plain]:
        return {"kind": "any", "version": 1}

    def snapshot(self) -> TypeSerializerSnapshot[Any]:
        return DescribedSnapshot(self.describe(), self)

    def copy(self, value: T) -> T:
        return copy.deepcopy(value)

    def encode_checked(self, values: Sequence[Any]) -> bytes:
        return self.encode_many(values)  # which takes nothing that it cannot decode again


def _fast_mode(values: Sequence[Any]) -> int | None:
    kinds, mode = set(map(type, values)), _MODE_VALUES
    if kinds == {tuple}:
        kinds, mode = set(map(type, chain.from_iterable(values))), _MODE_TUPLES
    elif kinds == {dict} and set(map(type, chain.from_iterable(values))) <= {str}:
        kinds = set(map(type, chain.from_iterable(map(dict.values, values))))
    return mode if kinds <= SCALARS else None
