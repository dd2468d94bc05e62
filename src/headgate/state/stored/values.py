"""Codecs of stored values: as plain data of their descriptions, or as a program declares them.

Without a program a value is plain data (numbers, text, bytes, lists, dicts), so no class is needed. A batch
that a program's own serializer wrote cannot be split then; in canonical tables each value is encoded alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from headgate.common.errors import UsageError
from headgate.common.plain_data import Description, mappings_in
from headgate.serde.arrow.stored_values import Beyond, close_batch, open_batch, pack, settling, within
from headgate.serde.codecs.containers import DIRECT_KEYS
from headgate.serde.codecs.type_codec import Convert
from headgate.serde.serializer import (
    Buffer,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from headgate.serde.simple_snapshot import SimpleTypeSerializerSnapshot
from headgate.state.canonical.table_layout import BYTES, ENTRY, TIMER_SECTIONS, row_of, stored_type
from headgate.state.state_names import is_stamps
from headgate.state.stored.blob_format import Section
from headgate.state.stored.contract import SectionCodec
from headgate.state.stored.value_readers import value_reader
from headgate.state.targets import Target

V = TypeVar("V")

GIVE_PROGRAM: Final = "give the program: name it behind the target"
TAKE_CANONICAL: Final = "take a canonical savepoint of the running job and read that"
"""Advice for a reader without a program: in a canonical savepoint each value has bytes of its own."""


class PlainValues:
    """The `ValueCodec` that needs no program: values are plain data (numbers, text, bytes, lists, dicts).
    `advice` ends the messages of its errors.
    """

    converts = False

    def __init__(self, advice: str = GIVE_PROGRAM) -> None:
        self.advice = advice
        self._targets: dict[str, Target] = {}

    def codec(self, section: Section) -> SectionCodec | None:
        # UsageError: only a program decodes it, or sections of its name differ in type
        schema = section.schema
        single = row_of(schema) == BYTES
        if single and any(chunk.count != 1 for chunk in section.chunks):
            raise self._opaque(section.name)
        target = self._targets.setdefault(
            section.name, Target(schema, OpaqueValues() if single else PlainSerializer(stored_type(schema)))
        )
        if target.schema != schema:
            raise UsageError(
                f"state {section.name!r} holds values of several types, because it was not rewritten yet "
                f"to what the last program declares; {self.advice}"
            )
        return SectionCodec(target.serializer.decode_many, target, single, plain=True)

    def _opaque(self, name: str) -> UsageError:
        return UsageError(
            f"state {name!r} was written by a serializer of the program's own, which alone can take its "
            f"values apart; {self.advice}"
        )

    def targets(self, stored: Mapping[str, Description]) -> dict[str, Target]:
        found = {}
        for name, schema in stored.items():
            if row_of(schema) == BYTES:
                raise self._opaque(name)
            if row_of(schema) == ENTRY:
                found[name] = Target(schema, PlainMaps(*mappings_in(schema, "of")))
            elif name not in TIMER_SECTIONS:
                found[name] = Target(schema, PlainSerializer(stored_type(schema)))
        return found


class DeclaredValues:
    """The `ValueCodec` of a program: values are read as a restore reads them, written as it declares them.

    `declared`: the program's targets (type, serializer) by name of the state or kind of timers. `drop`:
    whether stored states that the program does not declare are left out; else they are a UsageError.
    """

    advice = "declare the state as the snapshot has it"
    converts = True

    def __init__(self, declared: Mapping[str, Target], drop: bool = False) -> None:
        self._declared, self._drop = declared, drop

    def codec(self, section: Section) -> SectionCodec | None:
        target = self._declared.get(section.name)
        if target is not None:
            return SectionCodec(value_reader(section, target), target)
        if self._drop or is_stamps(section.name) or not section.chunks:
            return None
        raise UsageError(
            f"the snapshot holds state {section.name!r}, which the program does not declare; declare it, "
            "or leave it behind with --allow-non-restored-state"
        )

    def targets(self, stored: Mapping[str, Description]) -> Mapping[str, Target]:
        # makeshift ones for dropped states, which are read all the same
        found = {name: target for name, target in self._declared.items() if name not in TIMER_SECTIONS}
        if self._drop:
            missing = {
                name: schema for name, schema in stored.items() if name not in {*found, *TIMER_SECTIONS}
            }
            maps = {name: schema for name, schema in missing.items() if row_of(schema) == ENTRY}
            found |= {name: Target(schema, OpaqueValues()) for name, schema in missing.items()}
            found |= PlainValues().targets(maps)
        return found


class KeysOnly:
    """The `ValueCodec` for readers of keys only: each batch of values is decoded as an empty list."""

    advice = GIVE_PROGRAM
    converts = True

    def codec(self, section: Section) -> SectionCodec | None:
        return SectionCodec(lambda _, __: [], Target(section.schema, OpaqueValues()), plain=True)

    def targets(self, stored: Mapping[str, Description]) -> Mapping[str, Target]:
        return PlainValues().targets(stored)


class _AsDescribed(SimpleTypeSerializerSnapshot[V]):
    """The serializer snapshot of a serializer made for one stored description, which it always fits."""

    def resolve_schema_compatibility(
        self, old: TypeSerializerSnapshot[V]
    ) -> TypeSerializerSchemaCompatibility[V]:
        return TypeSerializerSchemaCompatibility.compatible_as_is()


class _OfDescription(TypeSerializer[V]):
    """Base of the serializers made for a stored description, which no program declares."""

    def snapshot(self) -> TypeSerializerSnapshot[V]:
        # The judge asks for it; nothing stores it, as the description stays that of the values.
        return _AsDescribed(lambda: self)


class PlainSerializer(_OfDescription[V]):
    """A serializer made for a stored description: decodes values to plain data (numbers, text, bytes, lists,
    dicts), without the program's classes, and encodes such plain data again.
    """

    def __init__(self, stored: Description) -> None:
        self._stored = stored
        self.name = str(stored["kind"])

    def encode_many(self, values: Sequence[V]) -> bytes:
        return close_batch(self._stored, values if isinstance(values, list) else list(values))

    def decode_many(self, data: Buffer, count: int) -> list[V]:
        return open_batch(self._stored, bytes(data), count)


class OpaqueValues(_OfDescription[bytes]):
    """A serializer whose values are bytes: batches of one value each, passed on unchanged."""

    name = "bytes"

    def encode_many(self, values: Sequence[bytes]) -> bytes:
        (value,) = values
        return bytes(value)

    def decode_many(self, data: Buffer, count: int) -> list[bytes]:
        return [bytes(data)]


class _Key:
    """A hashable plain key of a map's entry, which msgpack may have made a list; compared by its bytes."""

    __slots__ = ("_bytes", "plain")

    def __init__(self, plain: Any) -> None:
        self.plain = plain
        self._bytes = repr(plain).encode() if type(plain) is Beyond else pack(plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)


Maps = dict[_Key, Any]
"""The plain values of one map."""


class PlainMaps(_OfDescription[Maps]):
    """A serializer of maps as dicts of plain data, for RocksDB files in which each entry of a map is stored
    by itself. The keys of these dicts are wrapped, as plain data need not be hashable.
    """

    def __init__(self, key: Description, value: Description) -> None:
        self._stored = stored_type({"kind": "map", "of": [key, value]})
        self._direct = key["kind"] in DIRECT_KEYS
        self._settle = settling(key), settling(value)
        self.name = "map"

    def encode_many(self, values: Sequence[Maps]) -> bytes:
        return close_batch(self._stored, [self._plain(entries) for entries in values])

    def decode_many(self, data: Buffer, count: int) -> list[Maps]:
        return [self._entries(plain) for plain in open_batch(self._stored, bytes(data), count)]

    def _entries(self, plain: Any) -> Maps:
        held = plain.plain if type(plain) is Beyond else plain
        pairs = list(held.items()) if self._direct else held
        if type(plain) is Beyond:
            pairs = [(within(key), within(value)) for key, value in pairs]
        return {_Key(key): value for key, value in pairs}

    def _plain(self, entries: Maps) -> Any:
        make = dict if self._direct else list
        pairs = [(key.plain, value) for key, value in entries.items()]
        if not any(type(part) is Beyond for pair in pairs for part in pair):
            return make(pairs)
        return Beyond(make((_settled(k, self._settle[0]), _settled(v, self._settle[1])) for k, v in pairs))


def _settled(part: Any, settle: Convert | None) -> Any:
    if type(part) is Beyond:
        return part.plain
    return part if settle is None else settle(part)


def spilled(codec: SectionCodec, values: Sequence[Any]) -> bytes:
    """Return `values`, which `codec` has read, as one batch of bytes that :func:`unspilled` decodes: for a
    scratch file on the local disk, not for a snapshot.
    """
    return msgspec.msgpack.encode(values) if codec.single else codec.target.serializer.encode_many(values)


def unspilled(codec: SectionCodec, data: Buffer, count: int) -> list[Any]:
    if not codec.single:
        return codec.target.serializer.decode_many(data, count)
    found: list[Any] = msgspec.msgpack.decode(data)
    return found
