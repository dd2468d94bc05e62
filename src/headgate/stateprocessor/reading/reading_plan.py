"""Plans a read: its columns, and the pieces of it that Spark's tasks read in parallel."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil
from typing import Final, Protocol

import pyarrow as pa

from headgate.checkpoint.layout import TIMERS_FOLDER, from_folder
from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import StorageError, UsageError
from headgate.common.plain_data import Description
from headgate.common.ports import Disk
from headgate.offline.rewriting import keyed_handles
from headgate.offline.snapshot_pages import sections_of_operator
from headgate.offline.storages import storage_options
from headgate.offline.words import OPERATOR_STATE, state_words
from headgate.state.canonical.key_columns import key_description
from headgate.state.canonical.table_layout import TIMER_SECTIONS, TIMERS
from headgate.state.snapshots import CheckpointMetadata, KeyedStateHandle, StateTable
from headgate.state.state_names import STAMPS, is_stamps, removed
from headgate.state.stored.blob import StoredBlob
from headgate.state.stored.subtask_state import open_state
from headgate.state.stored.tables import head_of_table, open_table
from headgate.state.stored.values import TAKE_CANONICAL, PlainValues
from headgate.state.targets import timers_target
from headgate.stateprocessor.reading.reading_keyed import EntriesPiece
from headgate.stateprocessor.reading.reading_options import IN_FLIGHT, ReadRequest
from headgate.stateprocessor.reading.reading_shape import Shape
from headgate.stateprocessor.reading.reading_unkeyed import (
    InFlightPiece,
    in_flight_columns,
    operator_columns,
    operator_pieces,
)

PIECE_BYTES: Final = 128 << 20
"""A table above this size is read in pieces of row groups; each piece verifies the complete file first."""
PIECE_ENTRIES: Final = 500_000
"""The approximate number of a blob's state entries that one piece reads."""


class Piece(Protocol):
    """A piece of a read, which one Spark task does; picklable, as it is sent to the task."""

    def batches(self, disk: Disk, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the piece's rows, read from `disk`, in batches with at least `columns`; or StorageError."""


@dataclass(frozen=True)
class Reading:
    """The plan of reading one state of a snapshot; picklable, so that the state is looked up once.

    `root` is the snapshot's URI, `storage` settings of it; `columns` are all that the state has, with Arrow's
    types as stored. `keyed`: table shape, and each subtask's state; None: the state is unkeyed, read by
    `other_pieces`.
    """

    root: str
    storage: tuple[str, ...]
    columns: pa.Schema
    max_parallelism: int
    keyed: tuple[Shape, list[KeyedStateHandle]] | None = None  # keyed state and timers, by subtask
    other_pieces: tuple[Piece, ...] = ()  # all pieces of everything else

    def open(self) -> Disk:
        with storage_options(self.storage):
            return open_disk(self.root)

    def pieces(self, groups: Collection[int] | None = None) -> list[Piece]:
        """Return the pieces of the read that have any of key `groups` (None: all); of unkeyed state, all."""
        if self.keyed is None:
            return list(self.other_pieces)
        shape, handles = self.keyed
        disk, found = self.open(), list[Piece]()
        for handle in handles:
            mine = [
                g for g in range(handle.first_group, handle.last_group + 1) if groups is None or g in groups
            ]
            if mine:
                found += _keyed_pieces(disk, handle, shape, mine)
        return found


def reading_of(request: ReadRequest) -> Reading:
    """Return the plan of a read, in the driver, from the snapshot's metadata and heads of its files.

    UsageError, with a list of all states, if the requested one is not there; StorageError: absent or damaged.
    """
    with storage_options(request.storage):
        disk, metadata = open_checkpoint(request.path)
    groups, uid, state = metadata.max_parallelism, request.uid, request.state
    found = partial(Reading, disk.describe(), request.storage, max_parallelism=groups)
    if uid is None or state is None:
        raise nothing_chosen(disk, metadata, request)
    if state == IN_FLIGHT:
        streams = [stream for stream in metadata.in_flight if stream.receiver == uid]
        if not streams:
            raise nothing_chosen(disk, metadata, request)
        record, columns = in_flight_columns(streams)
        pieces = tuple(InFlightPiece(stream, record, groups) for stream in streams if stream.parts)
        return found(columns=columns, other_pieces=pieces)
    of_operator = operator_pieces(metadata, uid, state)
    if of_operator:
        return found(columns=operator_columns(of_operator[0].handle.schema), other_pieces=of_operator)
    handles = keyed_handles(metadata.operators.get(uid, []))
    shape = keyed_shape(disk, handles, state, metadata.state_types.get(uid, {}))
    if shape is None or not handles:
        raise nothing_chosen(disk, metadata, request)
    return found(columns=shape.columns, keyed=(shape, handles))


# -- pieces of keyed state


@dataclass(frozen=True)
class TablePiece:
    """A piece of a read: row groups of one canonical table, passed on as Arrow batches without decoding."""

    table: StateTable
    shape: Shape
    groups: frozenset[int]
    row_groups: tuple[int, int] | None = None  # the first one, and the one after the last; None: all

    def batches(self, disk: Disk, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        table = open_table(DiskFiles(disk), self.table)
        first, stop = self.row_groups or (0, table.row_groups)
        try:
            yield from table.record_batches(self.groups, columns, range(first, stop))
        except StorageError as error:
            raise StorageError(f"{disk.describe(self.table.file)}: {error}") from None


def _keyed_pieces(disk: Disk, keyed: KeyedStateHandle, shape: Shape, groups: list[int]) -> list[Piece]:
    if keyed.tables is not None:
        return _table_pieces(disk, keyed, shape, groups)
    if keyed.native is not None:  # its files have to be on the local disk, all of them
        return [EntriesPiece(keyed, shape, tuple(groups))]
    counts, files = dict.fromkeys(groups, 0), DiskFiles(disk)
    names = {*TIMER_SECTIONS} if shape.timers else {shape.name}
    for handle in (keyed.handle, *keyed.log):
        for section in StoredBlob(files.ranges(handle)).header.sections:
            for chunk in section.chunks if section.name in names else ():
                if chunk.group in counts:
                    counts[chunk.group] += chunk.count
    return [EntriesPiece(keyed, shape, part) for part in _divided(counts)]


def _divided(counts: dict[int, int]) -> Iterator[tuple[int, ...]]:
    """Yield the key groups that have entries, in order, divided into parts of `PIECE_ENTRIES` or more.

    Example:
        >>> list(_divided({1: 300_000, 2: 0, 3: 300_000, 4: 10}))
        [(1, 3), (4,)]
    """
    part, entries = list[int](), 0
    for group, count in counts.items():
        if count:
            part.append(group)
            entries += count
        if entries >= PIECE_ENTRIES:
            yield tuple(part)
            part, entries = [], 0
    if part:
        yield tuple(part)


def _table_pieces(disk: Disk, keyed: KeyedStateHandle, shape: Shape, groups: list[int]) -> list[Piece]:
    names = {shape.name, shape.stamps}
    tables = [table for table in keyed.tables or () if table.name in names]
    table = next((table for table in tables if table.name == shape.name), None)
    if table is None:
        return []
    head = head_of_table(DiskFiles(disk), table)
    if shape.stamps is not None or head.info.key != shape.key:
        only = KeyedStateHandle(keyed.first_group, keyed.last_group, keyed.handle, keyed.size, tables=tables)
        return [EntriesPiece(only, shape, tuple(groups))]
    wanted = frozenset(groups)
    number = min(max(1, ceil(table.length / PIECE_BYTES)), max(1, head.row_groups))
    borders = [head.row_groups * place // number for place in range(number + 1)]
    return [
        TablePiece(table, shape, wanted, (first, stop))
        for first, stop in pairwise(borders)
        if head.holds(wanted, range(first, stop))
    ]


# -- what there is


def nothing_chosen(disk: Disk, metadata: CheckpointMetadata, request: ReadRequest) -> UsageError:
    uids = {*metadata.operators, *metadata.state_types, *(s.receiver for s in metadata.in_flight)}
    there = {uid: _options_of(disk, metadata, uid) for uid in sorted(uids)}
    listed = "; ".join(f"{uid!r}: {', '.join(states)}" for uid, states in there.items() if states)
    uid, state = request.uid, request.state
    if uid is None or state is None:
        lacking = " and ".join(name for name, value in (("uid", uid), ("state", state)) if value is None)
        what = f"option {lacking} is missing"
    elif not there.get(uid):
        what = f"{request.path} has no state of an operator {uid!r}"
    else:
        what = f"{request.path} has no state {state!r} of operator {uid!r}"
    return UsageError(f"{what}; there is {listed or 'no state in it'}")


def _options_of(disk: Disk, metadata: CheckpointMetadata, uid: str) -> list[str]:
    sections = sections_of_operator(disk, metadata, uid)
    types = metadata.state_types.get(uid, {})
    schemas = types | {each.name: each.schema for each in sections if each.name not in types}
    found = [
        f"{_as_option(name)} ({state_words(schemas[name])})"
        for name in schemas
        if not is_stamps(name) and name not in TIMER_SECTIONS
    ]
    if any(section.name in TIMER_SECTIONS and section.entries != 0 for section in sections):
        found.append(TIMERS_FOLDER)
    if any(stream.receiver == uid and stream.parts for stream in metadata.in_flight):
        found.append(IN_FLIGHT)
    return found


def _as_option(name: str) -> str:
    return "%74imers" if name == TIMERS_FOLDER else name


# -- of which types it is


def keyed_shape(
    disk: Disk, handles: Sequence[KeyedStateHandle], option: str, types: Mapping[str, Description]
) -> Shape | None:
    """Return the table's shape of the keyed state or timers that option `state` names; None: none is there.

    `handles` are the subtasks' state, `types` the states' descriptions in the metadata. UsageError: values of
    several types are stored of the state.
    """
    if option == TIMERS_FOLDER:
        if not any(True for handle in handles for _ in handle.handles()):
            return None
        return Shape(TIMERS, timers_target().schema, _key_type(disk, handles, [TIMERS, *TIMER_SECTIONS]))
    name = from_folder(option) if option == _as_option(TIMERS_FOLDER) else option
    stored = list(_stored_schemas(disk, handles, name))
    schemas = [schema for found, schema in stored if found == name]
    if any(schema != schemas[0] for schema in schemas):
        raise UsageError(
            f"state {name!r} holds values of several types, because it was not rewritten yet to what the "
            "last program declares; take a canonical savepoint and read that"
        )
    if not schemas and (name not in types or types[name]["kind"] in OPERATOR_STATE):
        return None
    stamps = next((found for found, _ in stored if _stamps_of(found, name)), None)
    schema = schemas[0] if schemas else types[name]
    return Shape(name, schema, _key_type(disk, handles, [name]), stamps)


def _stored_schemas(
    disk: Disk, handles: Sequence[KeyedStateHandle], name: str
) -> Iterator[tuple[str, Description]]:
    for handle in handles:
        for table in handle.tables or ():
            if table.name == name or _stamps_of(table.name, name):
                yield table.name, head_of_table(DiskFiles(disk), table).info.schema
        native = set() if handle.native is None else set(handle.native.details.get("formats", ()))
        for stored in () if handle.tables is not None else (handle.handle, *handle.log):
            for section in StoredBlob(DiskFiles(disk).ranges(stored)).header.sections:
                mine = section.name == name or _stamps_of(section.name, name)
                if mine and (section.chunks or section.name in native):
                    yield section.name, section.schema


def _stamps_of(name: str, state: str) -> bool:
    return is_stamps(name) and name.startswith(f"{state}{STAMPS}")


def _key_type(disk: Disk, handles: Sequence[KeyedStateHandle], names: Sequence[str]) -> Description | None:
    for handle in handles:
        for table in handle.tables or ():
            if table.name in names and (info := head_of_table(DiskFiles(disk), table).info).key is not None:
                return info.key
    blobs = [handle for handle in handles if handle.tables is None]
    for handle in blobs:
        for key in _first_keys(disk, handle, names):
            return key_description(key)
    # RocksDB's files have to be fetched for it, so those of the subtask that has least.
    for handle in sorted((each for each in blobs if each.native), key=lambda handle: handle.size):
        with open_state(DiskFiles(disk), handle) as stored:
            for chunk in stored.chunks(PlainValues(TAKE_CANONICAL), names):
                return key_description(chunk.keys[0])
    return None


def _first_keys(disk: Disk, handle: KeyedStateHandle, names: Sequence[str]) -> Iterator[Hashable]:
    wanted = [name for state in names for name in (state, removed(state))]
    for stored in (handle.handle, *handle.log):
        blob = StoredBlob(DiskFiles(disk).ranges(stored))
        for section in blob.header.sections:
            groups = [chunk.group for chunk in section.chunks[:1]] if section.name in wanted else []
            yield from (found.keys[0] for found in blob.entries(section, None, groups))
