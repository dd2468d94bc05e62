"""A snapshot of keyed state around bytes that an older version stored, and the present one cannot write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar
from zlib import crc32

from headgate.api.declared.keyed_states import StateDescriptor, StateKind
from headgate.common.errors import InternalError
from headgate.serde.composites import ListSerializer, MapSerializer
from headgate.serde.resolve import serializer_for
from headgate.serde.serializer import Buffer, TypeSerializer, TypeSerializerSnapshot
from headgate.state.heap.heap_blob import Chunk, Header, Section, chunk_bytes, preamble_and_header
from headgate.state.heap.snapshot import KEY_SERIALIZER
from headgate.testing.suites.stored_values import StoredValues

T = TypeVar("T")

STATE: Final = "state"
"""What the one state is called; its keys are the numbers of the values."""

MAP_KEY: Final = "entry"


class _Verbatim(TypeSerializer[int]):
    """Writes the stored batch for the numbers of its values."""

    immutable = True

    def __init__(self, stored: StoredValues) -> None:
        self._stored = stored

    def encode_many(self, values: Sequence[int]) -> bytes:
        if list(values) != list(range(self._stored.count)):
            raise InternalError(f"{values!r:.80} do not number the stored values; please report this")
        return self._stored.batch

    def decode_many(self, data: Buffer, count: int) -> list[int]:
        raise InternalError("stored values are not read as their numbers; please report this")

    def snapshot(self) -> TypeSerializerSnapshot[int]:
        raise InternalError("stored values have the snapshot of their writer; please report this")


def kinds_of(stored: StoredValues) -> list[str]:
    """The kinds of state whose bytes can be made of stored values.

    Lists and maps are stored value by value only under a serializer of the user's.
    """
    if stored.description["kind"] != "custom":
        return [StateKind.VALUE]
    return [StateKind.VALUE, StateKind.LIST, StateKind.MAP]


def blob_of(stored: StoredValues, kind: str) -> bytes:
    """The snapshot of a subtask of one key group whose keys hold one stored value each."""
    verbatim, numbers = _Verbatim(stored), list(range(stored.count))
    texts, of = serializer_for(str), [stored.description]
    if kind == StateKind.MAP:
        of = [texts.describe(), stored.description]
        values = MapSerializer(texts, verbatim).encode_many([{MAP_KEY: n} for n in numbers])
    elif kind == StateKind.LIST:
        values = ListSerializer(verbatim).encode_many([[n] for n in numbers])
    else:
        values = verbatim.encode_many(numbers)
    chunk = chunk_bytes(KEY_SERIALIZER.encode_many(numbers), values)
    chunks = [Chunk(0, 0, len(chunk), stored.count, crc32(chunk))]
    sections = [Section(STATE, {"kind": kind, "of": of}, chunks)]
    header = Header(1, 0, 0, KEY_SERIALIZER.describe(), sections, len(chunk))
    return preamble_and_header(header) + chunk


def declared(kind: str, serializer: TypeSerializer[T]) -> dict[str, StateDescriptor]:
    """The program: one state of a kind, with a serializer for its values."""
    if kind == StateKind.MAP:
        parts = StateDescriptor(STATE, kind, (str, Any), lambda: None, serializers=(None, serializer))
    else:
        parts = StateDescriptor(STATE, kind, (Any,), lambda: None, serializers=(serializer,))
    return {STATE: parts}


def held(handle: Any, kind: str) -> list[Any]:
    """What the state holds under its current key."""
    if kind == StateKind.VALUE:
        return [handle.value]
    return handle.get() if kind == StateKind.LIST else [value for _, value in handle.items()]


def replace(handle: Any, kind: str, value: T) -> None:
    """Let the state hold another value under its current key."""
    if kind == StateKind.VALUE:
        handle.value = value
    elif kind == StateKind.LIST:
        handle.update([value])
    else:
        handle.put(MAP_KEY, value)
