"""Keyed state in checkpoint storage, as a backend reads it: a blob, native files beside one, a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headgate.checkpoint.data_files import StoredBytes, copy_handle
from headgate.common.ports import Disk
from headgate.state.backend import BlobReader
from headgate.state.changelog.replay import LoggedState
from headgate.state.snapshots import KeyedStateHandle, NativeFiles


class StoredNativeState(StoredBytes):
    """Implements `state.backend.NativeState`: what is read is verified first.

    Args:
        disk: where the files are.
        keyed: refers to them.
        native: those of the backend.

    Raises:
        StorageError: the blob is missing or damaged.
    """

    def __init__(self, disk: Disk, keyed: KeyedStateHandle, native: NativeFiles) -> None:
        super().__init__(disk, keyed.handle)
        self._storage = disk
        self.native, self.root = native, disk.describe()

    def fetch(self, name: str, target: Path) -> None:
        """Copy a native file to the local disk, where it appears once its checksum was compared.

        Raises:
            StorageError: it is missing or damaged, or the local disk does not take it.
        """
        copy_handle(self._storage, self.native.files[name], target)


def stored_state(disk: Disk, keyed: KeyedStateHandle) -> StoredBytes:
    """The base of the state that a handle refers to.

    Raises:
        StorageError: the blob is missing or damaged.
    """
    if keyed.native is None:
        return StoredBytes(disk, keyed.handle)
    return StoredNativeState(disk, keyed, keyed.native)


def with_log(base: BlobReader, disk: Any, keyed: KeyedStateHandle) -> LoggedState:
    """A base as :func:`stored_state` gives it, or made readable from that, and what changed since.

    Args:
        base: of the state.
        disk: a `common.ports.Disk`, where the segments are; None where all is inline.
        keyed: refers to both.

    Raises:
        StorageError: a segment is missing or damaged.
    """
    log = [StoredBytes(disk, segment) for segment in keyed.log]
    return LoggedState(base, log, keyed, None if disk is None else disk.describe())
