"""The folder of one savepoint: prepared before the trigger, complete with its metadata, removed on a failure.

::

    <target>/savepoint-<last 6 of the job's id>-<12 hexadecimal digits>/_metadata
    <target>/savepoint-.../<everything that the metadata names>

Nothing in it refers outside, and no other snapshot refers to its files. The log of a job may name the
metadata of a savepoint that ended it. Only a person, or a job that claimed it, removes a finished savepoint.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headgate.checkpoint.layout import METADATA
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.storage import reachability
from headgate.checkpoint.storage.storage_contract import KeepsTemporaries, UnsureWriteError
from headgate.checkpoint.store.entries import digest
from headgate.common.errors import StorageError, StrayPathError
from headgate.common.ids import JobId
from headgate.common.ports import Disk
from headgate.state.snapshots import CheckpointMetadata

TOKEN_BYTES: Final = 6  # random part of the name of a savepoint's folder

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class SavepointFolder:
    """The folder `name` of one savepoint, on the disk of the directory in which savepoints were asked for."""

    disk: Disk
    name: str

    @property
    def uri(self) -> str:
        return self.disk.describe(self.name)

    @property
    def metadata_uri(self) -> str:
        return self.disk.describe(f"{self.name}/{METADATA}")

    def write(self, metadata: CheckpointMetadata) -> str:
        """Complete the savepoint by writing its metadata; return the hex digest of the metadata file.
        StorageError, also if the file may be there all the same: the savepoint does not count. Call once.
        """
        data = encode_metadata(metadata)
        try:
            created = self.disk.create_if_absent(f"{self.name}/{METADATA}", data)
        except UnsureWriteError as error:
            # It was not reported yet, so it does not count, whether or not it is there.
            raise StorageError(str(error)) from error
        if not created:
            raise StorageError(f"{self.metadata_uri} exists already; take the savepoint again")
        return digest(data)

    def remove(self) -> None:
        """Delete every file in this savepoint's folder, unfinished ones too, the metadata first."""
        self.disk.delete(f"{self.name}/{METADATA}")
        names = list(self.disk.list(self.name))
        if isinstance(self.disk, KeepsTemporaries):
            names += self.disk.temporaries(self.name)
        for name in names:
            self.disk.delete(name)


def prepare(disk: Disk, job: JobId, token: bytes) -> SavepointFolder:
    """Check that `disk` can be written, else StorageError; return a savepoint's folder, named by `token`."""
    reachability.probe(disk)
    return SavepointFolder(disk, f"savepoint-{job[-6:]}-{token.hex()}")


def folder_of(metadata: str) -> str:
    """Return the URI of a savepoint's folder from that of its metadata in a log; else StrayPathError."""
    folder, _, name = metadata.rpartition("/")
    if name != METADATA:
        raise StrayPathError(
            f"a log of checkpoints names {metadata!r:.500} as the metadata of a savepoint; expected "
            f"<its folder>/{METADATA}; the log was written by another program or is damaged"
        )
    return folder


def is_outside(name: str) -> bool:
    """Return whether `name`, of metadata in a log entry, is a URI: a savepoint's, outside the job's files."""
    return _SCHEME.match(name) is not None
