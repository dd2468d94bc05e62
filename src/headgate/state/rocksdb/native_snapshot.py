"""An incremental snapshot: RocksDB's own files, of which only the new ones are stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from headgate.common.errors import StorageError
from headgate.state.backend import Part, StateFiles, size_of
from headgate.state.stored.local_files import FileParts, local_error
from headgate.state.rocksdb.native_files import Uploads, native_files, tables_and_small
from headgate.state.rocksdb.snapshot import Cut, PendingRocksSnapshot
from headgate.state.snapshots import KeyedStateHandle, StateHandle
from headgate.state.stored.blob_writer import BlobWriter

SMALL_BYTES: Final = 1 << 20
"""New tables up to this size go into one file with the blob, as each file costs the storage a round trip."""


class PendingNativeSnapshot(PendingRocksSnapshot):
    """See :class:`PendingRocksSnapshot`; here the tables are stored as they are.

    The blob holds the timers that are in memory, and of everything else only what it is.

    Args:
        completed: whose files it may refer to; 0: to none.
    """

    def __init__(self, cut: Cut, *, checkpoint: int, completed: int, uploads: Uploads) -> None:
        super().__init__(cut)
        self._checkpoint, self._completed, self._uploads = checkpoint, completed, uploads

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        """Store what no completed checkpoint has; then the snapshot is released."""
        try:
            return self._store(uid, files)
        except OSError as error:
            raise local_error("read", self._cut.directory, error) from error
        finally:
            self.release()

    def _store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        tables, small = tables_and_small(self._cut.directory)
        stored = self._shared(tables, files)
        new = [table for table in tables if table.name not in stored]
        for table in new:
            if table.stat().st_size > SMALL_BYTES:
                (stored[table.name],) = files.write_sections(uid, [FileParts(table)], inline=False)
        packed = [*(table for table in new if table.name not in stored), *small]
        sections: list[Iterable[Part]] = [self._blob(), *map(FileParts, packed)]
        # Tables are never kept in the metadata: later checkpoints would send them time and again.
        handle, *rest = files.write_sections(uid, sections, inline=len(packed) == len(small))
        stored.update(zip((file.name for file in packed), rest, strict=True))
        self._uploads.stored(self._checkpoint, stored)
        return KeyedStateHandle(
            *self._cut.groups,
            handle,
            size_of(handle) + sum(map(size_of, stored.values())),
            native_files(self._checkpoint, self._cut.layouts, self._cut.stored_timers, stored),
        )

    def _shared(self, tables: Sequence[Path], files: StateFiles) -> dict[str, StateHandle]:
        known, root = self._uploads.base(self._completed)
        shared: dict[str, StateHandle] = {}
        for table in tables:
            handle = known.get(table.name)
            if handle is None:
                continue
            if size_of(handle) != table.stat().st_size:
                raise StorageError(
                    f"{table} has {table.stat().st_size} bytes, but {size_of(handle)} of it are stored, and "
                    "a table never changes; the local disk is damaged, restart the job elsewhere"
                )
            if files.share(handle, root):
                shared[table.name] = handle
        return shared

    def _blob(self) -> Sequence[Part]:
        """The timers, after a header that describes the states as well."""
        body: list[bytes] = []
        blob = BlobWriter(self._cut.groups, self._cut.max_parallelism, body.extend)
        targets = {name: each.versions.target for name, each in self._cut.layouts.items()}
        for name, target in (targets | dict(self._cut.stored_timers)).items():
            blob.add(name, target.schema, (), target.serializer.encode_many)
        self._timers.write_to(blob)
        return [blob.head(), *body]
