"""Turns a declared state into its stored description and the serializer of its values, for every backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from headgate.api.declared.keyed_states import StateDescriptor, StateKind
from headgate.common.errors import UsageError
from headgate.common.plain_data import Description, Plain
from headgate.serde.codecs.containers import dict_form, sequence_form
from headgate.serde.codecs.dynamic import DynamicSerializer
from headgate.serde.codecs.type_codec import FormSerializer
from headgate.serde.composites import ListSerializer, MapSerializer
from headgate.serde.evolution.custom_serializers import stored_snapshot, writer_of
from headgate.serde.evolution.judging_types import reader_for
from headgate.serde.evolution.older_shapes import Reader, form_of
from headgate.serde.resolve import serializer_for
from headgate.serde.serializer import Buffer, TypeSerializer, TypeSerializerSnapshot
from headgate.serde.snapshots.snapshot_rules import part_serializers as part_serializers
from headgate.serde.verdicts import Incompatible
from headgate.state.serializer_provider import StateSerializerProvider

V = TypeVar("V")


class Target(NamedTuple):
    """The stored description (kind, serializers) of a declared state, and the serializer of its values.

    A value is all that the state holds under one key of the stream, such as a list. `schema` is always the
    same dict: where a restore reconfigures a declared serializer, before any write, its content changes.
    """

    schema: Description
    serializer: TypeSerializer[Any]


class DeclaredSerializer(TypeSerializer[V]):
    """Forwards to a serializer that the program gave, which a restore may replace by a reconfigured one.

    Backends hold it from the start, before any checkpoint is known. `state` names the state in errors.
    `current` is the serializer in use; `on_change` is called after a restore has replaced it.
    """

    def __init__(self, state: str, serializer: TypeSerializer[V]) -> None:
        self._state = state
        self._readers: list[tuple[Description, Reader]] = []
        self.on_change: Callable[[], None] = lambda: None
        self._use(serializer)

    def _use(self, serializer: TypeSerializer[V]) -> None:
        self.current = serializer
        self.name, self.immutable = serializer.name, serializer.immutable

    def encode(self, value: V) -> bytes:
        return self.current.encode(value)

    def decode(self, data: bytes) -> V:
        return self.current.decode(data)

    def encode_many(self, values: Sequence[V]) -> bytes:
        return self.current.encode_many(values)

    def decode_many(self, data: Buffer, count: int) -> list[V]:
        return self.current.decode_many(data, count)

    def encode_checked(self, values: Sequence[V]) -> bytes:
        return self.current.encode_checked(values)

    def copy(self, value: V) -> V:
        return self.current.copy(value)

    def snapshot(self) -> TypeSerializerSnapshot[V]:
        return self.current.snapshot()

    def reader_of(self, stored: Description) -> Reader:
        """Return a function of a batch (bytes) and its number of values that decodes what the serializer
        `stored` wrote. This may reconfigure `current`. UsageError, with both names and the reason: it is
        incompatible.
        """
        for known, reader in self._readers:
            if known == stored:
                return reader
        previous = stored_snapshot(stored, self.current)
        provider = StateSerializerProvider.eagerly_registered(self._state, self.current)
        judged = provider.set_previous_serializer_snapshot(previous, writer_of(stored))
        if isinstance(judged.verdict, Incompatible):
            raise UsageError(judged.verdict.why)
        current = provider.current_serializer()
        if judged.is_compatible_with_reconfigured_serializer:
            self._use(current)
            self.on_change()
        old = provider.previous_serializer() if judged.is_compatible_after_migration else current
        self._readers.append((stored, old.decode_stored))
        return old.decode_stored


def target_of(descriptor: StateDescriptor) -> Target:
    """Return the stored description of a declared state, and the serializer of what it holds under one key.
    UsageError, with the state's name: one of its types has no serializer, or its kind is unknown.
    """
    what = f"state {descriptor.name!r}"
    if descriptor.kind not in _HINTS:
        raise UsageError(f"{what} has kind {descriptor.kind!r}; expected one of {', '.join(_HINTS)}")
    parts = part_serializers(descriptor.types, descriptor.serializers, what)
    schema: dict[str, Plain] = {"kind": descriptor.kind, "of": [part.describe() for part in parts]}
    if all(given is None for given in descriptor.serializers):
        return Target(schema, serializer_for(_HINTS[descriptor.kind](descriptor.types), what))
    if all(isinstance(part, FormSerializer | DynamicSerializer) for part in parts):
        return Target(schema, _built_in(descriptor.kind, parts))
    declared = DeclaredSerializer(what, _over(descriptor.kind, parts))

    def described_anew() -> None:
        schema["of"] = [part.describe() for part in _parts_of(descriptor.kind, declared.current)]

    declared.on_change = described_anew
    return Target(schema, declared)


def timers_target() -> Target:
    # a timer is stored as its timestamp, under its key
    timestamps = serializer_for(int)
    return Target({"kind": "timers", "of": [timestamps.describe()]}, timestamps)


def stored_reader(stored: Description, serializer: TypeSerializer[Any]) -> Reader:
    """Return a function that decodes batches (bytes, number of values), written as `stored` describes, into
    values as `serializer` gives them. This may reconfigure a serializer of the program's. UsageError:
    incompatible.
    """
    if isinstance(serializer, DeclaredSerializer):
        return serializer.reader_of(stored)
    return reader_for(stored, serializer)


def map_key_serializer(serializer: TypeSerializer[Any]) -> TypeSerializer[Any] | None:
    """Return the serializer of the own keys of a map state if the program gave serializers for the state,
    else None. `serializer`: that of a whole map, or of the value of a state of another kind (None).
    """
    declared = serializer.current if isinstance(serializer, DeclaredSerializer) else None
    return declared.key if isinstance(declared, MapSerializer) else None


def _over(kind: str, parts: Sequence[TypeSerializer[Any]]) -> TypeSerializer[Any]:
    if kind == StateKind.LIST:
        return ListSerializer(parts[0])
    return MapSerializer(parts[0], parts[1]) if kind == StateKind.MAP else parts[0]


def _built_in(kind: str, parts: Sequence[TypeSerializer[Any]]) -> TypeSerializer[Any]:
    # that which an annotation of the same types would give: both have one description
    forms = [form_of(part) for part in parts]
    if kind == StateKind.LIST:
        return FormSerializer(sequence_form(list, forms[0]))
    return FormSerializer(dict_form(*forms)) if kind == StateKind.MAP else parts[0]


def _parts_of(kind: str, serializer: TypeSerializer[Any]) -> Sequence[TypeSerializer[Any]]:
    if isinstance(serializer, ListSerializer) and kind == StateKind.LIST:
        return (serializer.element,)
    if isinstance(serializer, MapSerializer) and kind == StateKind.MAP:
        return serializer.key, serializer.value
    return (serializer,)


_HINTS: Final[dict[str, Callable[[tuple[Any, ...]], Any]]] = {
    StateKind.VALUE: lambda types: types[0],
    StateKind.LIST: lambda types: list[types[0]],  # type: ignore[valid-type]
    StateKind.MAP: lambda types: dict[types[0], types[1]],  # type: ignore[valid-type]
    StateKind.REDUCING: lambda types: types[0],
    StateKind.AGGREGATING: lambda types: types[0],
}
"""Kind of state -> the type of its value under one key of the stream."""
