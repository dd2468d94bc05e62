"""Stores RocksDB's own files in checkpoints: new ones as they are, others as references to earlier ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from headgate.common.decoders import converter
from headgate.common.errors import StorageError
from headgate.state.backend import NewSection, Part, StateFiles, StateWriter
from headgate.state.chunk_log.log_file import COLUMN_LOG, check_log_names
from headgate.state.rocksdb.map_layout import LAYOUTS
from headgate.state.rocksdb.snapshot import PendingRocksSnapshot, SnapshotPoint
from headgate.state.rocksdb.timer_queue import TIMERS
from headgate.state.rocksdb.value_layout import VersionedValues
from headgate.state.rocksdb.value_versions import StoredVersions
from headgate.state.snapshots import KeyedStateHandle, NativeFiles, StateHandle, size_of
from headgate.state.stored.blob import BlobWriter
from headgate.state.stored.contract import written
from headgate.state.stored.local_files import FileParts, local_error

ROCKSDB: Final = "rocksdb"
_TABLE: Final = re.compile(r"[0-9]{6,20}\.sst")
_ALWAYS_NEW: Final = re.compile(r"CURRENT|MANIFEST-[0-9]{6,20}")


class Details(msgspec.Struct, frozen=True):
    """What a checkpoint's metadata says of RocksDB's files: their column families' formats and types."""

    checkpoint: int  # the one that they were first listed in
    formats: dict[str, int]  # column family -> its format; see `map_layout`
    versions: dict[
        str, StoredVersions
    ] = {}  # column family -> types of its values; without an entry one type


_details: Final = converter(Details)


def native_files(
    checkpoint: int,
    layouts: Mapping[str, VersionedValues],
    timers: Iterable[str],
    files: dict[str, StateHandle],
    backend: str = ROCKSDB,
) -> NativeFiles:
    """Return the entry of a checkpoint's metadata for one subtask's own files. `checkpoint`: the one that is
    taken; `layouts`: by state, which say format and types of its column family; `timers`: the kinds of timers
    that have a column family; `files`: name in the local folder -> handle of the stored bytes; `backend`: the
    kind of files.
    """
    details = Details(
        checkpoint,
        {name: layout.format for name, layout in layouts.items()} | dict.fromkeys(timers, TIMERS),
        {name: layout.versions.stored() for name, layout in layouts.items()},
    )
    # Descriptions of users' serializers may hold bytes.
    return NativeFiles(backend, files, msgspec.to_builtins(details, builtin_types=(bytes,)))


def details_of(native: NativeFiles) -> Details:
    """Return what the metadata says of the column families in a subtask's RocksDB files. StorageError: the
    files are another backend's, or no database, or in a format that this Headgate does not know.
    """
    _check_names(native)
    try:
        details = _details(native.details)
    except msgspec.ValidationError as error:
        raise StorageError(
            f"the checkpoint's description of RocksDB's files does not decode ({error})"
        ) from None
    for name, number in details.formats.items():
        if number not in (*LAYOUTS, TIMERS):
            raise StorageError(
                f"state {name!r} of the checkpoint is in format {number} of RocksDB's values; this Headgate "
                f"reads {', '.join(map(str, (*LAYOUTS, TIMERS)))}"
            )
    return details


def _check_names(native: NativeFiles) -> None:
    if native.backend == COLUMN_LOG:
        check_log_names(native.files)
        return
    if native.backend != ROCKSDB:
        raise StorageError(f"the checkpoint holds files of backend {native.backend!r}; expected {ROCKSDB!r}")
    strange = [name for name in native.files if not (_TABLE.fullmatch(name) or _ALWAYS_NEW.fullmatch(name))]
    if strange or "CURRENT" not in native.files:
        raise StorageError(
            f"the checkpoint lists {', '.join(map(repr, strange)) or 'no CURRENT'} for RocksDB; expected "
            "CURRENT, a manifest and tables; restore an older checkpoint"
        )


def tables_and_small(directory: Path) -> tuple[list[Path], list[Path]]:
    # RocksDB's options are left out: a database gets its own when it is opened
    files = sorted(directory.iterdir())
    return (
        [file for file in files if _TABLE.fullmatch(file.name)],
        [file for file in files if _ALWAYS_NEW.fullmatch(file.name)],
    )


class Uploads:
    """Remembers which SST files of one live database each checkpoint stored: later ones refer to these. A
    RocksKeyedBackend or ChunkStore has one, which its pending snapshots share.
    """

    def __init__(self) -> None:
        # A name means the same bytes while the database is open: RocksDB never changes an SST file.
        self._files: dict[int, dict[str, StateHandle]] = {}
        # Not among the others: another job's checkpoints have numbers of their own.
        self._restored: tuple[int, dict[str, StateHandle], str] | None = None

    def restored(self, checkpoint: int, files: Mapping[str, StateHandle], root: str) -> None:
        self._restored = checkpoint, dict(files), root

    def stored(self, checkpoint: int, files: Mapping[str, StateHandle]) -> None:
        # whether the checkpoint completes is not known yet
        self._files[checkpoint] = dict(files)

    def base(self, completed: int) -> tuple[dict[str, StateHandle], str | None]:
        """Return the stored SST files that a new snapshot may refer to, and the storage root of restored ones
        or None. They are those of `completed`, the newest complete checkpoint; {} if none is known. A later
        snapshot that stored the same table elsewhere may complete first, and then `completed` is removed with
        its files. So only files to which all later snapshots refer count. Older checkpoints are forgotten.
        """
        for older in [number for number in self._files if number < completed]:
            del self._files[older]
        files, root = self._files.get(completed, {}), None
        if completed in self._files:
            self._restored = None
        elif self._restored is not None and self._restored[0] == completed:
            _, files, root = self._restored
        later = [other for number, other in self._files.items() if number > completed]
        return {n: h for n, h in files.items() if all(o.get(n) == h for o in later)}, root


# -- an incremental snapshot, of which only the new files are stored

SMALL_BYTES: Final = 1 << 20
"""New tables up to this size go into one file with the blob, as each file costs the storage a round trip."""


class PendingNativeSnapshot(PendingRocksSnapshot):
    """A pending snapshot that stores RocksDB's own files, and refers to those stored by an earlier one.
    `completed`: the checkpoint to whose files it may refer; 0: to none.
    """

    def __init__(self, point: SnapshotPoint, *, checkpoint: int, completed: int, uploads: Uploads) -> None:
        super().__init__(point)
        self._checkpoint, self._completed, self._uploads = checkpoint, completed, uploads

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        writer = FamilyWriter(self._point, self._checkpoint, self._completed, self._uploads, uid, files)
        try:
            return written(writer, self._describe_to)
        except OSError as error:
            raise local_error("read", self._point.directory, error) from error
        finally:
            self.release()

    def _describe_to(self, writer: StateWriter) -> None:
        # Entries of the states are in RocksDB's files: their sections are empty.
        targets = {name: each.versions.target for name, each in self._point.layouts.items()}
        for name, target in (targets | dict(self._point.stored_timers)).items():
            writer.add(NewSection(name, target.schema, target.serializer.encode_many), ())
        self._timers.write_to(writer)


class FamilyWriter(BlobWriter):
    """The StateWriter of an incremental checkpoint: it stores new SST files, and a blob of its sections."""

    def __init__(
        self,
        point: SnapshotPoint,
        checkpoint: int,
        completed: int,
        uploads: Uploads,
        uid: str,
        files: StateFiles,
    ) -> None:
        super().__init__(point.groups, point.max_parallelism)
        self._point, self._checkpoint, self._completed = point, checkpoint, completed
        self._uploads, self._uid, self._files = uploads, uid, files

    def finish(self) -> KeyedStateHandle:
        tables, small = tables_and_small(self._point.directory)
        stored = self._shared(tables)
        new = [table for table in tables if table.name not in stored]
        for table in new:
            if table.stat().st_size > SMALL_BYTES:
                (stored[table.name],) = self._files.write_sections(
                    self._uid, [FileParts(table)], inline=False
                )
        packed = [*(table for table in new if table.name not in stored), *small]
        sections: list[Iterable[Part]] = [self.parts(), *map(FileParts, packed)]
        # Tables are never kept in the metadata: later checkpoints would send them time and again.
        handle, *rest = self._files.write_sections(self._uid, sections, inline=len(packed) == len(small))
        stored.update(zip((file.name for file in packed), rest, strict=True))
        self._uploads.stored(self._checkpoint, stored)
        return KeyedStateHandle(
            *self._point.groups,
            handle,
            size_of(handle) + sum(map(size_of, stored.values())),
            native_files(self._checkpoint, self._point.layouts, self._point.stored_timers, stored),
        )

    def _shared(self, tables: Sequence[Path]) -> dict[str, StateHandle]:
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
            if self._files.share(handle, root):
                shared[table.name] = handle
        return shared
