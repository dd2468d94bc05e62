"""What a checkpoint says of RocksDB's own files: which count, in which format, and who may refer to them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from headgate.common.decoders import converter
from headgate.common.errors import StorageError
from headgate.state.rocksdb.layout_versions import LAYOUTS
from headgate.state.rocksdb.timer_sections import TIMERS
from headgate.state.rocksdb.value_layout import Layout
from headgate.state.rocksdb.value_versions import StoredVersions
from headgate.state.snapshots import NativeFiles, StateHandle

ROCKSDB: Final = "rocksdb"
_TABLE: Final = re.compile(r"[0-9]{6,20}\.sst")
_ALWAYS_NEW: Final = re.compile(r"CURRENT|MANIFEST-[0-9]{6,20}")


class Details(msgspec.Struct, frozen=True):
    """Plain data beside the files.

    Attributes:
        checkpoint: the one that they were first listed in.
        formats: column family -> its format; see `layout`.
        versions: column family -> of which types its values are; without an entry they are of one.
    """

    checkpoint: int
    formats: dict[str, int]
    versions: dict[str, StoredVersions] = {}


_details: Final = converter(Details)


def native_files(
    checkpoint: int, layouts: Mapping[str, Layout], timers: Iterable[str], files: dict[str, StateHandle]
) -> NativeFiles:
    """The files of one snapshot, for its handle."""
    details = Details(
        checkpoint,
        {name: layout.format for name, layout in layouts.items()} | dict.fromkeys(timers, TIMERS),
        {name: layout.versions.stored() for name, layout in layouts.items()},
    )
    # Bytes are part of what serializers of the users' say of themselves.
    return NativeFiles(ROCKSDB, files, msgspec.to_builtins(details, builtin_types=(bytes,)))


def details_of(native: NativeFiles) -> Details:
    """What stands beside the files, once it is certain that this Headgate reads them."""
    if native.backend != ROCKSDB:
        raise StorageError(f"the checkpoint holds files of backend {native.backend!r}; expected {ROCKSDB!r}")
    strange = [name for name in native.files if not (_TABLE.fullmatch(name) or _ALWAYS_NEW.fullmatch(name))]
    if strange or "CURRENT" not in native.files:
        raise StorageError(
            f"the checkpoint lists {', '.join(map(repr, strange)) or 'no CURRENT'} for RocksDB; expected "
            "CURRENT, a manifest and tables; restore an older checkpoint"
        )
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


def tables_and_small(directory: Path) -> tuple[list[Path], list[Path]]:
    """The tables of a local checkpoint, which never change, and the few small files that do.

    RocksDB's options are left out: they are given anew when a database is opened.
    """
    files = sorted(directory.iterdir())
    return (
        [file for file in files if _TABLE.fullmatch(file.name)],
        [file for file in files if _ALWAYS_NEW.fullmatch(file.name)],
    )


class Uploads:
    """Which tables of the live database are in which checkpoint's files.

    Used by the thread that writes snapshots, one after the other, and before that by the restore. A name
    means the same bytes for as long as the database is open: RocksDB numbers its files and never
    changes a table.
    """

    def __init__(self) -> None:
        self._files: dict[int, dict[str, StateHandle]] = {}
        # Apart from the others: another job's checkpoints have numbers of their own.
        self._restored: tuple[int, dict[str, StateHandle], str] | None = None

    def restored(self, checkpoint: int, files: Mapping[str, StateHandle], root: str) -> None:
        """The database was made of these files, which are in storage `root`."""
        self._restored = checkpoint, dict(files), root

    def stored(self, checkpoint: int, files: Mapping[str, StateHandle]) -> None:
        """All files of a snapshot are durable; whether it completes is not known yet."""
        self._files[checkpoint] = dict(files)

    def base(self, completed: int) -> tuple[dict[str, StateHandle], str | None]:
        """What a snapshot may refer to when `completed` is complete, and the root it was restored from.

        A snapshot between the two that has the same table elsewhere may complete first; then `completed`
        may go, and its files with it. So only what all later snapshots refer to counts.
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
