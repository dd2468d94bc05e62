"""Keyed state in checkpoint storage, as backends read it: a blob, native files next to one, a log, tables."""

from __future__ import annotations

from typing import Any

from headgate.checkpoint.data_files import StoredBytes
from headgate.checkpoint.stored_files import DiskFiles, StoredNativeState
from headgate.common.ports import Disk
from headgate.state.backend import EarlierState
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.unclaimed import Claims


def stored_state(disk: Disk, keyed: KeyedStateHandle) -> StoredBytes:
    """The base of the state that a handle refers to. Raises StorageError: the blob is missing or damaged."""
    if keyed.native is None:
        return StoredBytes(disk, keyed.handle)
    return StoredNativeState(disk, keyed, keyed.native)


def earlier_state(disk: Any, keyed: KeyedStateHandle, claims: Claims | None = None) -> EarlierState:
    """All keyed state that a handle refers to, for a backend's restore.

    Args:
        disk: a `common.ports.Disk`, where it is; None where all is inline.
        keyed: refers to it.
        claims: what of it is to be read; None: everything.

    Raises StorageError: a blob is missing or damaged.
    """
    if keyed.tables is not None:
        # Without a handle: nothing may go on from files of a savepoint.
        return EarlierState(None, tables=(DiskFiles(disk), keyed), claims=claims)
    log = [StoredBytes(disk, segment) for segment in keyed.log]
    root = None if disk is None else disk.describe()
    return EarlierState(stored_state(disk, keyed), log, handle=keyed, root=root, claims=claims)
