"""Operator state of one subtask: live lists and broadcast maps, their snapshots, and their restore.

It is held in memory and is meant to be small. At the snapshot point a list of values that cannot be changed
in place is copied; others are encoded right there, which costs less than copying each of them.

Stored form of one state: magic, version, length of the body, checksum of all that and of the body; the body.
That is, for each column (elements; or keys, then values), the length of the encoded batch and the batch.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from headgate.api.declared.operator_state import BROADCAST, OperatorStateDescriptor
from headgate.common.errors import HeadgateError, InternalError, StorageError, UsageError
from headgate.common.files.envelope import Envelope
from headgate.common.plain_data import Description
from headgate.serde.evolution.judging_types import judge
from headgate.serde.evolution.older_shapes import Reader
from headgate.serde.evolution.undecodable import stored_description
from headgate.serde.serializer import TypeSerializer
from headgate.serde.verdicts import Compatibility, combined
from headgate.state.snapshots import OperatorStateHandle, StateHandle, place_of
from headgate.state.subscripts import Subscripts
from headgate.state.targets import DeclaredSerializer, part_serializers, stored_reader

V = TypeVar("V")
K = TypeVar("K")

MAGIC: Final = b"HGOPSTA\n"
VERSION: Final = 1
_ENVELOPE: Final = Envelope("operator state", MAGIC, "<IQ", covers_head=True)
_LENGTH: Final = struct.Struct("<Q")


class LiveListState(Generic[V]):
    """The live `OperatorListState` that a user function works with: its elements in a Python list."""

    __slots__ = ("_elements",)

    def __init__(self) -> None:
        self._elements: list[V] = []

    def add(self, value: V) -> None:
        self._elements.append(value)

    def extend(self, values: Iterable[V]) -> None:
        self._elements.extend(values)

    def get(self) -> list[V]:
        return self._elements.copy()

    def update(self, values: Iterable[V]) -> None:
        self._elements = list(values)

    def clear(self) -> None:
        self._elements = []

    def __len__(self) -> int:
        return len(self._elements)

    def columns(self) -> tuple[list[V]]:
        return (self._elements,)

    def refill(self, elements: list[V]) -> None:
        self._elements.extend(elements)


class LiveBroadcastState(Subscripts[K, V]):
    """The live `BroadcastState` that a user function works with: its entries in a dict."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[K, V] = {}

    def get(self, key: K, default: V | None = None) -> V | None:
        return self._entries.get(key, default)

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value

    def remove(self, key: K) -> None:
        self._entries.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> list[tuple[K, V]]:
        return list(self._entries.items())

    def clear(self) -> None:
        self._entries = {}

    def columns(self) -> tuple[list[K], list[V]]:
        return list(self._entries), list(self._entries.values())

    def refill(self, keys: list[K], values: list[V]) -> None:
        self._entries = dict(zip(keys, values, strict=True))
        if len(self._entries) != len(keys):
            raise UsageError(
                f"{len(keys)} stored keys became {len(self._entries)}, because what told them apart was "
                "removed; keep that field"
            )


class _Column(Generic[V]):
    """A state's elements, keys or values at the snapshot point: a copy of their list, or their bytes."""

    def __init__(self, serializer: TypeSerializer[V], values: list[V]) -> None:
        self._serializer, self._count = serializer, len(values)
        self._held: list[V] | bytes = values.copy() if serializer.immutable else _encoded(serializer, values)

    def encoded(self) -> bytes:
        if isinstance(self._held, list):
            return self._serializer.encode_checked(self._held)
        try:
            self._serializer.decode_stored(self._held, self._count)
        except StorageError as error:
            raise UsageError(
                f"a value is not a {self._serializer.name} ({error}); correct the value, or the annotation "
                "that declares it"
            ) from None
        return self._held


def _encoded(serializer: TypeSerializer[V], values: list[V]) -> bytes:
    try:
        return serializer.encode_many(values)
    except HeadgateError:
        raise
    except Exception:  # a serializer of the user's raises whatever it likes
        return serializer.encode_checked(values)


@dataclass(frozen=True, slots=True)
class _StateCopy:
    """One operator state at the snapshot point: immutable values copied, others encoded at that moment."""

    name: str
    mode: str
    schema: Description
    count: int
    columns: tuple[_Column[Any], ...]

    def parts(self) -> list[bytes]:
        try:
            return blob_parts([column.encoded() for column in self.columns])
        except UsageError as error:
            raise _not_storable(self.name, error) from None


def _not_storable(name: str, why: UsageError) -> UsageError:
    return UsageError(f"operator state {name!r} cannot be stored: {why}")


class PendingOperatorState:
    """A subtask's operator state as it was at the snapshot point, to be stored by one background thread.

    :meth:`OperatorStateBackend.snapshot_sync` makes it; later changes of the live states do not reach it.
    """

    def __init__(self, states: list[_StateCopy]) -> None:
        self._states = states

    def store(self, write: Callable[[list[bytes]], StateHandle]) -> list[OperatorStateHandle]:
        """Store each state by `write`, which takes the parts of its bytes, to be laid end to end, and returns
        a handle. Return what the checkpoint's metadata says of each. Call it before :meth:`release`.
        UsageError, with the state's name: a value has a wrong type.
        """
        return [
            OperatorStateHandle(one.name, one.mode, one.schema, write(one.parts()), one.count)
            for one in self._states
        ]

    def release(self) -> None:
        self._states = []


class _Target:
    """One declared operator state: its live handle, and the serializers of its columns."""

    def __init__(self, descriptor: OperatorStateDescriptor) -> None:
        self.name, self.mode = descriptor.name, descriptor.mode
        what, given = f"operator state {self.name!r}", descriptor.serializers
        self.serializers: tuple[TypeSerializer[Any], ...] = tuple(
            part if own is None else DeclaredSerializer(what, part)
            for part, own in zip(part_serializers(descriptor.types, given, what), given, strict=True)
        )
        self.handle: Any = LiveBroadcastState() if self.mode == BROADCAST else LiveListState()

    def schema(self) -> Description:
        # of the serializers in use, which a restore may have reconfigured
        current = [s.current if isinstance(s, DeclaredSerializer) else s for s in self.serializers]
        return {"kind": self.mode, "of": [serializer.describe() for serializer in current]}

    def at_snapshot(self) -> _StateCopy | None:
        # An empty list is not stored (None); an empty broadcast map is, so that a restore sees it.
        columns = self.handle.columns()
        if not columns[0] and self.mode != BROADCAST:
            return None
        try:
            copied = tuple(_Column(s, values) for s, values in zip(self.serializers, columns, strict=True))
        except UsageError as error:
            raise _not_storable(self.name, error) from None
        return _StateCopy(self.name, self.mode, self.schema(), len(columns[0]), copied)

    def restore(self, stored: OperatorStateHandle, blob: bytes) -> None:
        columns = self._decoded(stored, blob)
        try:
            self.handle.refill(*(column[stored.first : stored.stop] for column in columns))
        except UsageError as error:
            raise self._unreadable(error) from None

    def readers(self, stored: OperatorStateHandle) -> list[Reader]:
        if stored.mode != self.mode:
            raise UsageError(
                f"operator state {self.name!r} of the checkpoint is distributed by {stored.mode} and is now "
                f"declared as {self.mode}; declare it as it was, or give the new state another name"
            )
        try:
            with stored_description():
                return [stored_reader(old, s) for old, s in zip(stored.schema["of"], self.serializers)]
        except StorageError as error:
            raise self._damaged(error) from None
        except UsageError as error:
            raise self._unreadable(error) from None

    def verdict(self, stored: OperatorStateHandle) -> Compatibility:
        current = [s.current if isinstance(s, DeclaredSerializer) else s for s in self.serializers]
        return combined([judge(old, s) for old, s in zip(stored.schema["of"], current)])

    def _decoded(self, stored: OperatorStateHandle, blob: bytes) -> list[list[Any]]:
        readers = self.readers(stored)
        try:
            encoded = read_columns(blob, len(self.serializers))
            return [read(column, stored.count) for read, column in zip(readers, encoded, strict=True)]
        except StorageError as error:
            raise self._damaged(StorageError(f"{error} ({place_of(stored.handle)})")) from None
        except UsageError as error:
            raise self._unreadable(error) from None

    def _damaged(self, why: StorageError) -> StorageError:
        return StorageError(f"the stored form of operator state {self.name!r} is damaged: {why}")

    def _unreadable(self, why: UsageError) -> UsageError:
        return UsageError(
            f"operator state {self.name!r} of the checkpoint cannot be read as the program declares it: "
            f"{why}; declare the type as it was, or change it in a way that stored values can follow (see "
            "docs/state-evolution.md)"
        )


class OperatorStateBackend:
    """The live operator states of one subtask, with snapshot and restore, on the operator's thread.

    `handles`: the live handle of each declared state, by name, which the user function gets.
    """

    def __init__(self, descriptors: Mapping[str, OperatorStateDescriptor]) -> None:
        self._targets = {name: _Target(descriptor) for name, descriptor in descriptors.items()}
        self.handles: dict[str, Any] = {name: target.handle for name, target in self._targets.items()}

    def restore(self, parts: Iterable[tuple[OperatorStateHandle, bytes]]) -> None:
        """Fill the empty states with the stored elements and entries that were assigned to this subtask.

        `parts`: for each old subtask's state, the handle with the range of elements that this subtask takes,
        and the complete stored bytes; in the order of old subtasks. UsageError: a state is undeclared or
        unreadable; StorageError: bytes are damaged; InternalError: two shares of a broadcast.
        """
        maps: set[str] = set()
        for stored, blob in parts:
            if not stored.count:
                continue
            if stored.mode == BROADCAST and stored.name in maps:
                raise InternalError(
                    f"broadcast state {stored.name!r} of two subtasks was given to one; please report this"
                )
            maps.add(stored.name)
            self._target(stored.name).restore(stored, blob)

    def verdict(self, stored: OperatorStateHandle) -> Compatibility:
        """Return how a restore would read the stored state: as it is, or changed. A serializer that a restore
        would reconfigure is reconfigured by this, too. UsageError: the restore would refuse it.
        """
        target = self._target(stored.name)
        target.readers(stored)
        return target.verdict(stored)

    def snapshot_sync(self) -> PendingOperatorState:
        """Return a snapshot of all states, to be stored in the background, at a barrier; between records.
        UsageError, with the state's name: a value that has to be encoded at once cannot be.
        """
        copies = (target.at_snapshot() for target in self._targets.values())
        return PendingOperatorState([one for one in copies if one is not None])

    def state_types(self) -> dict[str, Description]:
        return {name: target.schema() for name, target in self._targets.items()}

    def _target(self, name: str) -> _Target:
        target = self._targets.get(name)
        if target is None:
            declares = ", ".join(map(repr, self._targets)) or "none"
            raise UsageError(
                f"the checkpoint holds operator state {name!r}, which the program does not declare (it "
                f"declares {declares}); declare it, or start without the checkpoint"
            )
        return target


# -- the stored form


def blob_parts(columns: Sequence[bytes]) -> list[bytes]:
    """Return the stored form of one operator state, in parts to be laid end to end. `columns`: its elements,
    or its keys and its values, each encoded as one batch.
    """
    body = [part for column in columns for part in (_LENGTH.pack(len(column)), column)]
    return _ENVELOPE.seal(VERSION, body)


def read_columns(blob: bytes, count: int) -> list[memoryview]:
    """Return the `count` encoded columns (batches) in the stored form of one state, not copied. StorageError:
    it is damaged, or has another number of columns.
    """
    _, body = _ENVELOPE.open(blob, "it", (VERSION,))
    columns: list[memoryview] = []
    while len(body) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(body)
        stop = _LENGTH.size + length
        columns.append(body[_LENGTH.size : stop])
        body = body[stop:]
    if len(columns) != count or body:
        raise StorageError(f"it has {len(columns)} columns, expected {count}")
    return columns
