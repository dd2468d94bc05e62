"""From what is asked to pieces that are read beside one another: which columns there are, and which files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Final, Protocol

import pyarrow as pa

from headgate.checkpoint.opening import open_checkpoint
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import StorageError
from headgate.common.ports import Disk
from headgate.offline.storages import storage_options
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.snapshots import CheckpointMetadata, KeyedStateHandle, StateTable
from headgate.state.stored.blob import StoredBlob
from headgate.state.stored.tables import head_of_table, open_table
from headgate.stateprocessor.reading.reading_contents import keyed_shape, nothing_chosen
from headgate.stateprocessor.reading.reading_in_flight import InFlightPiece, in_flight_columns
from headgate.stateprocessor.reading.reading_keyed import batches
from headgate.stateprocessor.reading.reading_operator import OperatorPiece, operator_columns, operator_handles
from headgate.stateprocessor.reading.reading_options import IN_FLIGHT, Asked
from headgate.stateprocessor.reading.reading_shape import Shape

PIECE_BYTES: Final = 128 << 20
"""A table that is larger is read in pieces, of whole row groups; each piece verifies the whole file first."""
PIECE_ENTRIES: Final = 500_000
"""About so many entries of a blob are in a piece."""


class Piece(Protocol):
    """What one task reads; plain data that goes to it."""

    def batches(self, disk: Disk, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Rows that have at least these columns."""
        ...


@dataclass(frozen=True)
class Reading:
    """One table of a snapshot, found; plain data, so that it is found once.

    Attributes:
        keyed: of keyed state and timers: its columns as a table, and where the subtasks have it.
        pieces_at_once: of everything else: all pieces.
    """

    root: str
    storage: tuple[str, ...]
    columns: pa.Schema
    max_parallelism: int
    keyed: tuple[Shape, tuple[KeyedStateHandle, ...]] | None = None
    pieces_at_once: tuple[Piece, ...] = ()

    def open(self) -> Disk:
        """The storage."""
        with storage_options(self.storage):
            return open_disk(self.root)

    def pieces(self, groups: Collection[int] | None = None) -> list[Piece]:
        """What is to be read of the wanted key groups, None: all; of what is not keyed, everything comes."""
        if self.keyed is None:
            return list(self.pieces_at_once)
        shape, handles = self.keyed
        disk, found = self.open(), list[Piece]()
        for handle in handles:
            mine = [
                g for g in range(handle.first_group, handle.last_group + 1) if groups is None or g in groups
            ]
            if mine:
                found += _keyed_pieces(disk, handle, shape, mine)
        return found


def reading_of(asked: Asked) -> Reading:
    """The table that is asked for."""
    with storage_options(asked.storage):
        disk, metadata = open_checkpoint(asked.path)
    if asked.uid is None or asked.state is None:
        raise nothing_chosen(disk, metadata, asked)
    common = disk.describe(), asked.storage
    if asked.state == IN_FLIGHT:
        streams = [stream for stream in metadata.in_flight if stream.receiver == asked.uid]
        if not streams:
            raise nothing_chosen(disk, metadata, asked)
        record, columns = in_flight_columns(streams)
        pieces = tuple(InFlightPiece(stream, record) for stream in streams if stream.parts)
        return Reading(*common, columns, metadata.max_parallelism, pieces_at_once=pieces)
    handles = operator_handles(metadata, asked.uid, asked.state)
    if handles:
        columns = operator_columns(handles[0][1].schema)
        return Reading(
            *common,
            columns,
            metadata.max_parallelism,
            pieces_at_once=tuple(OperatorPiece(subtask, handle) for subtask, handle in handles),
        )
    return _keyed(disk, metadata, asked)


def _keyed(disk: Disk, metadata: CheckpointMetadata, asked: Asked) -> Reading:
    assert asked.uid is not None
    assert asked.state is not None
    subtasks = metadata.operators.get(asked.uid, [])
    handles = tuple(subtask.keyed for subtask in subtasks if subtask.keyed is not None)
    shape = keyed_shape(disk, handles, asked.state, metadata.state_types.get(asked.uid, {}))
    if shape is None or not handles:
        raise nothing_chosen(disk, metadata, asked)
    return Reading(
        disk.describe(), asked.storage, shape.columns, metadata.max_parallelism, keyed=(shape, handles)
    )


# -- pieces of keyed state


@dataclass(frozen=True)
class TablePiece:
    """Row groups of a table, which come as they are stored.

    Attributes:
        row_groups: first row group, and the one behind the last; None: all.
    """

    table: StateTable
    shape: Shape
    groups: frozenset[int]
    row_groups: tuple[int, int] | None = None

    def batches(self, disk: Disk, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See :class:`Piece`."""
        table = open_table(DiskFiles(disk), self.table)
        first, stop = self.row_groups or (0, table.row_groups)
        try:
            yield from table.record_batches(self.groups, columns, range(first, stop))
        except StorageError as error:
            raise StorageError(f"{disk.describe(self.table.file)}: {error}") from None


@dataclass(frozen=True)
class EntriesPiece:
    """Key groups of a subtask's state in any other form, or in tables that are not all alike."""

    keyed: KeyedStateHandle
    shape: Shape
    groups: tuple[int, ...]

    def batches(self, disk: Disk, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See :class:`Piece`."""
        yield from batches(disk, self.keyed, self.shape, self.groups)


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
    return [EntriesPiece(keyed, shape, part) for part in _portioned(counts)]


def _portioned(counts: dict[int, int]) -> Iterator[tuple[int, ...]]:
    """Key groups in order, cut where there are enough entries; those without any are left out.

    Example:
        >>> list(_portioned({1: 300_000, 2: 0, 3: 300_000, 4: 10}))
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
