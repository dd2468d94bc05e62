"""Encoding of the records that `collect()` and `take()` bring from workers to the driver.

Those of `collect()` are in checkpoints until they are committed, so nothing here is pickled. A record of a
class is stored as the class's name and the bytes of its serializer, and is of that class again in the driver.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from headgate.common.decoders import msgpack_decoder
from headgate.common.errors import HeadgateError, UsageError
from headgate.common.plain_data import Plain
from headgate.connectors.committed import DriverResults
from headgate.serde.codecs.dynamic import decode_tagged, encode_tagged
from headgate.serde.logical_names import known_class, logical_name
from headgate.serde.resolve import serializer_for
from headgate.serde.serializer import TypeSerializer

_TUPLE, _BIG_INT, _RECORD, _PLAIN, _SET, _FROZENSET, _DICT = 1, 2, 3, 4, 5, 6, 7
_LEAVES: Final = frozenset({type(None), bool, float, str, bytes})
_NAME: Final = struct.Struct("<H")
_encode: Final = msgspec.msgpack.encode
_Ext: Final = msgspec.msgpack.Ext

T = TypeVar("T")
K = TypeVar("K")

Packed: TypeAlias = "Plain | msgspec.msgpack.Ext | list[Packed] | dict[str, Packed]"
"""A record in the form that :class:`RecordPacker` gives it, which msgpack can encode."""


class DriverRecords(DriverResults, Generic[T]):
    """Records that have reached the driver, in order of arrival, and the program's classes to decode them."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[T] = []
        self._main = sys.modules.get("__main__")

    def class_of(self, name: str) -> type:
        return known_class(name, self._main)


class RecordPacker:
    """Encodes the records of one sink writer as values for msgpack. `verb`: API method named in errors."""

    def __init__(self, verb: str = "collect") -> None:
        self._verb = verb
        self._serializers: dict[type, tuple[bytes, TypeSerializer[Any]] | str] = {}

    def pack(self, value: Any) -> Packed:
        """Return one record as a value that msgpack can hold; UsageError if no serializer takes it."""
        kind = type(value)
        if kind in _LEAVES:
            leaf: Plain = value
            return leaf
        if kind is int:
            number: int = value
            return number if -(2**63) <= number < 2**63 else _Ext(_BIG_INT, b"%x" % number)
        if kind is list:
            return [self.pack(item) for item in value]
        if kind is dict:
            return self._dict(value)
        for cls, code in ((tuple, _TUPLE), (set, _SET), (frozenset, _FROZENSET)):
            if kind is cls:
                return _Ext(code, _encode([self.pack(item) for item in value]))
        return self._other(value, kind)

    def _dict(self, value: dict[K, T]) -> Packed:
        if all(type(key) is str for key in value):
            return {str(key): self.pack(item) for key, item in value.items()}
        return _Ext(_DICT, _encode([self.pack(part) for entry in value.items() for part in entry]))

    def _other(self, value: T, kind: type[T]) -> Packed:
        known = self._serializer_of(kind)
        reason = known if isinstance(known, str) else ""
        if not isinstance(known, str):
            name, serializer = known
            try:
                return _Ext(_RECORD, _NAME.pack(len(name)) + name + serializer.encode_checked([value]))
            except UsageError as error:
                reason = str(error)  # a field holds something else than its annotation says
        as_dict = getattr(kind, "as_dict", None)
        if as_dict is not None:
            return self._dict(as_dict(value))
        try:
            return _Ext(_PLAIN, encode_tagged(value))
        except UsageError:
            raise _not_collectable(value, self._verb, reason) from None

    def _serializer_of(self, kind: type) -> tuple[bytes, TypeSerializer[Any]] | str:
        if kind not in self._serializers:
            self._serializers[kind] = _serializer_of(kind)
        return self._serializers[kind]


def _serializer_of(kind: type) -> tuple[bytes, TypeSerializer[Any]] | str:
    if kind.__module__ in ("datetime", "decimal", "uuid") or hasattr(kind, "as_dict"):
        return ""
    try:
        return logical_name(kind).encode(), serializer_for(kind, "it")
    except HeadgateError as error:
        why = str(error).removeprefix(f"it is declared as {kind.__qualname__}: ").partition("; use None")[0]
        return "" if why == f"no serializer is known for {kind.__qualname__}" else why


def packed_bytes(packed: Sequence[Packed], verb: str = "collect") -> bytes:
    """Return the bytes of records packed by RecordPacker; UsageError, naming `verb`, for invalid Unicode.

    Example:
        >>> records = [(1, 2**70), [None, {"a": b"x"}], {3}]
        >>> unpacked(packed_bytes(list(map(RecordPacker().pack, records))), class_of=None) == records
        True
    """
    try:
        return _encode(packed)
    except UnicodeEncodeError as problem:
        raise UsageError(
            f"{verb}() got text that is not valid Unicode ({problem}); repair it first"
        ) from problem


def unpacked(data: bytes, class_of: Callable[[str], type] | None) -> list[T]:
    """Return the records in bytes of :func:`packed_bytes`, in order and with the types that they had.
    `class_of` finds a record's class by its stored name, and may raise; None where records are plain values.
    """

    def extension(code: int, inner: memoryview) -> Any:
        if code == _BIG_INT:
            return int(bytes(inner), 16)
        if code == _PLAIN:
            return decode_tagged(inner)
        if code == _RECORD:
            length = _NAME.unpack_from(inner)[0]
            begin = _NAME.size + length
            cls: Any = class_of(bytes(inner[_NAME.size : begin]).decode()) if class_of is not None else None
            return serializer_for(cls).decode_many(inner[begin:], 1)[0]
        parts = decoder.decode(inner)
        if code == _DICT:
            entries = iter(parts)
            return dict(zip(entries, entries, strict=True))
        return {_TUPLE: tuple, _SET: set, _FROZENSET: frozenset}[code](parts)

    decoder = msgpack_decoder(list[Any], ext_hook=extension)
    return decoder.decode(data)


def _not_collectable(value: T, verb: str, reason: str) -> UsageError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    got = f"{verb}() got a value of type {type(value).__qualname__} ({shown}), which"
    if reason:
        return UsageError(f"{got} cannot be brought by its fields: {reason}; or map it to plain values first")
    return UsageError(
        f"{got} no serializer knows; "
        "expected plain values or records of them (dataclass, NamedTuple, msgspec.Struct, attrs class, "
        "pydantic model, Enum): map the records to these first"
    )
