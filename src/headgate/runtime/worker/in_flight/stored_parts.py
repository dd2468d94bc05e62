"""Encodes elements of an in-flight stream as the bytes of one stored part, and decodes them.

::

    version u8 | zero u8, u16 | number of elements u32 | elements
    element:  kind u8 | grouped u8 | zero u16 | records u32 | length of payload u64
              key groups, u16 each, if grouped | payload

All numbers are little-endian. A payload is the element as the exchange's codec encodes it; rows are stored
without pickle, because reading a checkpoint must not run code. A part has no checksum of its own: its handle
has one, which is verified when it is read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from headgate.common.errors import InternalError, StorageError, UsageError
from headgate.common.plain_data import Description
from headgate.common.process.process_exceptions import let_pass
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.row import Row, make_row
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Event, Idle, Watermark
from headgate.runtime.protocol.frames import FrameKind, Part
from headgate.serde.codecs.dynamic import DynamicSerializer
from headgate.serde.verdicts import Incompatible, compare

Element = Batch | Watermark | Idle
KeyGroups = NDArray[np.uint16]
GroupsOf = Callable[[Batch], NDArray[np.int32]]
"""Returns the key group of every record of a batch."""
R = TypeVar("R")

VERSION: Final = 1


class NotStorableError(UsageError):
    """Fails a checkpoint: in-flight records, or a batch of mixed classes, could be stored by pickle only."""


class StoredKind(IntEnum):
    """The kind of a stored element. The numbers are in checkpoints: never reuse one."""

    ROWS = 1
    COLUMNS = 2
    VIEWS = 3
    """Rows that are views of columns: the names of their fields, then their values as tuples."""
    WATERMARK = 4
    IDLE = 5


_FRAMES: Final = {
    StoredKind.ROWS: FrameKind.ROWS,
    StoredKind.COLUMNS: FrameKind.COLUMNS,
    StoredKind.WATERMARK: FrameKind.WATERMARK,
    StoredKind.IDLE: FrameKind.IDLE,
}
_STORED: Final = {frame: stored for stored, frame in _FRAMES.items()}
_PART: Final = struct.Struct("<BBHI")
_HEAD: Final = struct.Struct("<BBHIQ")
_SIZE: Final = struct.Struct("<I")
_DYNAMIC: Final = DynamicSerializer()
_DEPTH_MAX: Final = 8


def encode_elements(
    elements: Sequence[Batch | Event],
    codec: ElementCodec,
    groups_of: GroupsOf | None,  # for a keyed exchange
    where: str = "in flight",  # sending and receiving operator, for messages
) -> tuple[list[Part], int]:
    """Return the bytes of one stored part, in pieces, and how many records it holds.
    `groups_of` returns the key groups of a batch's records (None: not keyed); `where` names both operators in
    messages. Raises NotStorableError: only pickle could store a record; InternalError: another kind of event.
    """
    parts: list[Part] = [_PART.pack(VERSION, 0, 0, len(elements))]
    records = 0
    for element in elements:
        kind, payload = _payload(element, codec, where)
        count, groups = 0, None
        if isinstance(element, (RowBatch, ArrowBatch)):
            count = len(element)
            groups = None if groups_of is None else _packed_groups(element, groups_of)
        length = sum(memoryview(part).nbytes for part in payload)
        parts.append(_HEAD.pack(kind, groups is not None, 0, count, length))
        parts += payload if groups is None else [groups, *payload]
        records += count
    return parts, records


def decode_elements(data: bytes, codec: ElementCodec) -> list[tuple[Element, KeyGroups | None]]:
    """Return the batches and events of one part, in order, each with its records' key groups.
    The key groups are None for an event, and where they were not stored. Raises StorageError if the bytes are
    damaged or of an unknown version.
    """
    try:
        return list(_decoded(memoryview(data), codec))
    except (StorageError, MemoryError):
        raise
    except BaseException as error:  # Arrow, msgspec and numpy raise errors of all kinds.
        let_pass(error)
        raise StorageError(
            f"records in flight, a part of {len(data)} bytes, do not decode: {error}; the bytes are not what "
            "was written, use an older checkpoint"
        ) from error


def describe_records(codec: ElementCodec) -> Description | None:
    """Return the description of `codec`'s record class, to be stored; None: no class is declared."""
    serializer = codec.record_serializer
    return None if serializer is None else serializer.describe()


def check_records(stored: Description | None, codec: ElementCodec, where: str = "in flight") -> None:
    """Raise UsageError if `codec` cannot read records whose description is `stored` (None: no check).
    `where` names the operators at the stream's ends, for the message.
    """
    if stored is None:
        return
    current = describe_records(codec)
    if current is None:
        why = "the program declares no class of records there any more"
    else:
        described = isinstance(stored, Mapping)  # it may be damaged
        verdict = compare(stored, current) if described else Incompatible("no description")
        if not isinstance(verdict, Incompatible):
            return
        why = verdict.why
    raise UsageError(
        f"the records {where} in the checkpoint cannot be read by this program ({why}); restore them with "
        "the program that wrote them and let it take an aligned checkpoint, or undo the change of their class"
    )


def _payload(element: Batch | Event, codec: ElementCodec, where: str) -> tuple[StoredKind, Sequence[Part]]:
    if isinstance(element, RowBatch):
        try:
            if element.records and all(isinstance(record, Row) for record in element.records):
                return StoredKind.VIEWS, _encode_views(element, codec)
            return StoredKind.ROWS, codec.encode_plain(element)
        except UsageError as error:
            raise _not_storable(element, codec, where) from error
    if isinstance(element, (ArrowBatch, Watermark, Idle)):
        frame, payload = codec.encode(element)
        return _STORED[frame], payload
    raise InternalError(f"{element!r} {where} is neither records nor a watermark and is not stored")


def _packed_groups(batch: Batch, groups_of: GroupsOf) -> bytes:
    groups = groups_of(batch) if len(batch) else np.empty(0, np.uint16)
    packed = np.asarray(groups).astype("<u2")
    if len(packed) != len(batch) or not np.array_equal(packed, groups):
        raise InternalError(f"{groups!r} are no key groups of {len(batch)} records")
    return packed.tobytes()


def _encode_views(batch: RowBatch, codec: ElementCodec) -> list[Part]:
    kinds: dict[tuple[str, ...], int] = {}
    picks = [kinds.setdefault(row.keys(), len(kinds)) for row in batch.records]
    names = _DYNAMIC.encode_many([list(kinds), picks if len(kinds) > 1 else []])
    values = RowBatch([row.values() for row in batch.records], batch.timestamps, batch.watermarks)
    return [_SIZE.pack(len(names)), names, *codec.encode_plain(values)]


def _decode_views(payload: memoryview, codec: ElementCodec) -> RowBatch:
    (size,) = _SIZE.unpack_from(payload)
    at = _SIZE.size + size
    kinds, picks = _DYNAMIC.decode_many(payload[_SIZE.size : at], 2)
    # A copy again, so that the numbers in it are aligned.
    batch = codec.decode(FrameKind.ROWS, memoryview(bytes(payload[at:])))
    assert isinstance(batch, RowBatch)
    picks = picks or [0] * len(batch)
    if len(picks) != len(batch):
        raise StorageError(f"{len(batch)} rows in flight have the names of {len(picks)}")
    rows = []
    for pick, values in zip(picks, batch.records, strict=True):
        if len(kinds[pick]) != len(values):
            raise StorageError(f"a row in flight has {len(values)} fields; expected {len(kinds[pick])}")
        rows.append(make_row(kinds[pick], values))
    return RowBatch(rows, batch.timestamps, batch.watermarks)


def _decoded(view: memoryview, codec: ElementCodec) -> Iterator[tuple[Element, KeyGroups | None]]:
    version = view[0] if view else 0
    if version != VERSION:
        raise StorageError(
            f"records in flight are stored in version {version}, this program reads {VERSION}; use the "
            "version of Headgate that wrote them, or an older checkpoint if their bytes are damaged"
        )
    _, zero, more_zero, announced = _PART.unpack_from(view)
    if zero or more_zero:
        raise StorageError(f"records in flight begin with {bytes(view[:4])!r}; the bytes were damaged")
    at = _PART.size
    for _ in range(announced):
        kind, grouped, zero, count, length = _HEAD.unpack_from(view, at)
        at += _HEAD.size
        middle = at + (2 * count if grouped else 0)
        end = middle + length
        if grouped > 1 or zero or end > len(view):
            raise StorageError(
                f"an element in flight has marks {grouped} and {zero} and ends at byte {end}; the part has "
                f"{len(view)}, its bytes are not what was written"
            )
        groups = np.frombuffer(bytes(view[at:middle]), "<u2") if grouped else None
        # A copy: the element must not keep the complete part in memory.
        element = _element(StoredKind(kind), memoryview(bytes(view[middle:end])), codec)
        if count != (len(element) if isinstance(element, (RowBatch, ArrowBatch)) else 0):
            raise StorageError(f"an element in flight announces {count} records but is {element!r}")
        yield element, groups
        at = end
    if at != len(view):
        raise StorageError(f"records in flight end at byte {at} but there are {len(view)}; damaged bytes")


def _element(kind: StoredKind, payload: memoryview, codec: ElementCodec) -> Element:
    if kind is StoredKind.VIEWS:
        return _decode_views(payload, codec)
    element = codec.decode(_FRAMES[kind], payload)
    if isinstance(element, ArrowBatch):
        element.columns.validate(full=True)
    assert isinstance(element, (RowBatch, ArrowBatch, Watermark, Idle))
    return element


def _not_storable(batch: RowBatch, codec: ElementCodec, where: str) -> NotStorableError:
    record = next((r for r in batch.records if not _is_storable(r, codec)), None)
    if record is None:
        # Each alone could be stored: a batch of nothing but the declared class needs no plain values.
        kinds = " and ".join(sorted({_name_of(type(r)) for r in batch.records}))
        who = f"a batch {where} that mixes records of {kinds}"
    else:
        kind, inner = type(record), _culprit(record, codec)
        holds = "" if inner is kind else f", which holds a value of class {_name_of(inner)},"
        who = f"a record {where} of class {_name_of(kind)}{holds}"
    return NotStorableError(
        f"{who} cannot go into an unaligned checkpoint, because records in flight are stored without pickle; "
        "declare the one class of the stream's records (a dataclass, NamedTuple or msgspec.Struct whose "
        "fields hold what their annotations say), emit plain values, or turn off "
        "execution.checkpointing.unaligned.enabled"
    )


def _is_storable(record: R, codec: ElementCodec) -> bool:
    try:
        codec.encode_plain(RowBatch([record.values() if isinstance(record, Row) else record]))
    except UsageError:
        return False
    return True


def _culprit(value: R, codec: ElementCodec, depth: int = 0) -> type:
    parts: list[R] = []
    if isinstance(value, Mapping):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, Row):
        parts = list(value.values())
    elif isinstance(value, Collection) and type(value) in (list, tuple, set, frozenset):
        parts = list(value)
    wrong = (part for part in parts if depth < _DEPTH_MAX and not _is_storable(part, codec))
    return next((_culprit(part, codec, depth + 1) for part in wrong), type(value))


def _name_of(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
