"""Keyed state in checkpoint storage, as backends read it: a blob, native files next to one, a log, tables."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from headgate.checkpoint.data_files import StoredBytes
from headgate.checkpoint.stored_files import StoredNativeState
from headgate.common.ports import Disk
from headgate.state.backend import BlobReader
from headgate.state.canonical.blobs import blob_of_tables
from headgate.state.canonical.reader import StoredTable, SubtaskTables
from headgate.state.changelog.replay import LoggedState
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.unclaimed import Claims


def stored_state(disk: Disk, keyed: KeyedStateHandle) -> StoredBytes:
    """The base of the state that a handle refers to. Raises StorageError: the blob is missing or damaged."""
    if keyed.native is None:
        return StoredBytes(disk, keyed.handle)
    return StoredNativeState(disk, keyed, keyed.native)


def with_log(
    base: BlobReader, disk: Any, keyed: KeyedStateHandle, claims: Claims | None = None
) -> LoggedState:
    """A base as :func:`stored_state` gives it, or made readable from that, and what changed since.

    Args:
        base: of the state.
        disk: a `common.ports.Disk`, where the segments are; None where all is inline.
        keyed: refers to both.
        claims: what of the segments is to be read; None: everything.

    Raises StorageError: a segment is missing or damaged.
    """
    log: list[BlobReader] = [StoredBytes(disk, segment) for segment in keyed.log]
    if claims is not None:
        log = [claims.claimed(segment) for segment in log]
        if claims.skipped:
            # What was stored holds more than is restored: nothing may go on from there.
            return LoggedState(base, log)
    return LoggedState(base, log, keyed, None if disk is None else disk.describe())


def state_of_tables(
    disk: Disk,  # where the tables are
    keyed: KeyedStateHandle,  # refers to them
    claims: Claims | None,  # those that are to be read; None: all
    groups: tuple[int, int],  # first and last key group (inclusive) that are wanted
    max_parallelism: int,  # number of key groups of the operator
) -> BlobReader:
    """The tables of a savepoint, as a blob on the disk for temporary files.

    Raises StorageError: a table is missing or damaged; the message names its file.
    """
    tables = [
        StoredTable(
            StoredBytes(disk, table.range()), table.length, table.crc32, True, disk.describe(table.file)
        )
        for table in keyed.tables or ()
        if claims is None or claims.claims(table.name)
    ]
    subtask = SubtaskTables((keyed.first_group, keyed.last_group), tables)
    return blob_of_tables(subtask, groups, max_parallelism, Path(tempfile.gettempdir()))
