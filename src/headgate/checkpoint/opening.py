"""Reads a checkpoint or savepoint back by whatever a person or a log points at: file, folder, or job.

The file names in a checkpoint are relative to the storage root, two folders above its `_metadata`; those in a
savepoint to the folder of its `_metadata`, which can therefore be moved and copied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import unquote

from headgate.checkpoint.data_files import check_present, verify_handle
from headgate.checkpoint.layout import LOG, METADATA
from headgate.checkpoint.metadata.registry import decode_metadata
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.store.entries import Completed, digest
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import StorageError
from headgate.common.format_config import differences
from headgate.common.ports import Disk
from headgate.state.snapshots import CheckpointMetadata, FileRange, InFlightStream


def referenced_ranges(metadata: CheckpointMetadata) -> Iterator[FileRange]:
    """Every piece of a file that a checkpoint needs."""
    for subtasks in metadata.operators.values():
        for state in subtasks:
            yield from (handle for handle in state.handles() if isinstance(handle, FileRange))
    for stream in metadata.in_flight:
        yield from in_flight_ranges(stream)


def in_flight_ranges(stream: InFlightStream) -> Iterator[FileRange]:
    """Every piece of a file that holds records in flight."""
    for part in stream.parts:
        if isinstance(part.handle, FileRange):
            yield part.handle


SAVEPOINT: Final = "savepoint"
"""The kind of metadata whose file names are relative to its own folder."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def open_checkpoint(
    uri: str, fell_back: Callable[[str], None] | None = None
) -> tuple[Disk, CheckpointMetadata]:
    """A checkpoint or savepoint anywhere, with the disk that its file names refer to.

    Args:
        uri: path or URI of a checkpoint's or savepoint's folder, of its `_metadata`, or of a job's folder
            (the latest that its log says is complete).
        fell_back: of a job's folder, leave to take an older one; see :func:`open_logged`.

    Raises:
        ConfigError: the scheme is not supported.
        StorageError: there is no such checkpoint, or it cannot be trusted; says which file and why.
    """
    disk = open_disk(uri)
    above, last = _cut(disk.describe())
    if last == METADATA:
        disk = open_disk(above)
        above, last = _cut(above)
    try:
        data = disk.read(METADATA)
    except FileNotFoundError:
        return _latest(disk, above, fell_back)
    metadata = decode_metadata(data, disk.describe(METADATA))
    if metadata.kind != SAVEPOINT:
        root, job = _cut(above)
        disk = open_disk(root)
        return disk, load_metadata(disk, f"{job}/{last}/{METADATA}")
    _check(disk, metadata, disk.describe(METADATA))
    return disk, metadata


def _cut(place: str) -> tuple[str, str]:
    """The URI of the folder above, and the last name."""
    above, _, last = place.rstrip("/").rpartition("/")
    return f"{above}/" if above.endswith("/") else above, unquote(last)


def _latest(
    disk: Disk, above: str, fell_back: Callable[[str], None] | None
) -> tuple[Disk, CheckpointMetadata]:
    """What is latest in a job's folder."""
    completed = CompletedCheckpointLog(disk, LOG).completed()
    if not completed:
        raise _nothing_in(disk.describe())
    return open_logged(open_disk(above), completed, fell_back=fell_back)


def load_named(disk: Disk, name: str) -> CheckpointMetadata:
    """A checkpoint by name below the disk's root; see :func:`open_checkpoint`.

    Raises:
        StorageError: there is no such checkpoint, or it cannot be trusted.
    """
    name = name.removeprefix(disk.describe()).strip("/")
    if name.rpartition("/")[2] == METADATA:
        return load_metadata(disk, name)
    if f"{name}/{METADATA}" in disk.list(name):
        return load_metadata(disk, f"{name}/{METADATA}")
    completed = CompletedCheckpointLog(disk, f"{name}/{LOG}").completed()
    if not completed:
        raise _nothing_in(disk.describe(name))
    return load_logged(disk, completed)


def _nothing_in(where: str) -> StorageError:
    return StorageError(
        f"{where} holds no completed checkpoint; expected a savepoint's folder, a checkpoint's (chk-<n>), "
        f"its {METADATA} file, or a job's folder with a log of completed checkpoints"
    )


def open_logged(
    disk: Disk,
    completed: list[Completed],
    disks: Callable[[str], Disk] = open_disk,
    fell_back: Callable[[str], None] | None = None,
) -> tuple[Disk, CheckpointMetadata]:
    """The last entry of a log, with the disk that its file names refer to: a savepoint's may be elsewhere.

    Args:
        disk: the storage that the log is in.
        completed: its entries, at least one.
        disks: opens the disk of a savepoint that is elsewhere.
        fell_back: leave to take an older entry when one is damaged, for which every byte of it is read
            first; told in words each time.

    Raises:
        StorageError: it cannot be trusted; the message offers the older ones.
    """
    for place in range(len(completed) - 1, -1, -1):
        try:
            found = _open_entry(disk, completed[place], disks)
            if fell_back is not None:
                verify_files(*found)
            return found
        except StorageError as error:
            older = [_named(disk, entry) for entry in completed[:place][::-1]]
            if fell_back is None or not older:
                offer = f"older checkpoints to restore from: {', '.join(older)}"
                raise StorageError(f"{error}; {offer if older else 'there is no older one'}") from error
            fell_back(
                f"checkpoint {completed[place].checkpoint} cannot be restored: {error}; going back to "
                f"{older[0]}; execution.sinks.older-snapshot says what becomes of output committed since"
            )
    raise _nothing_in(disk.describe())


def _open_entry(
    disk: Disk, entry: Completed, disks: Callable[[str], Disk]
) -> tuple[Disk, CheckpointMetadata]:
    place, name = disk, entry.metadata
    if _SCHEME.match(name):
        place, name = disks(_cut(name)[0]), METADATA
    return place, load_metadata(place, name, entry.sha256)


def _named(disk: Disk, entry: Completed) -> str:
    return entry.metadata if _SCHEME.match(entry.metadata) else disk.describe(entry.metadata)


def load_logged(disk: Disk, completed: list[Completed]) -> CheckpointMetadata:
    """The last entry of a log; see :func:`open_logged`.

    Raises:
        StorageError: it cannot be trusted; the message offers the older ones.
    """
    return open_logged(disk, completed)[1]


def load_metadata(disk: Disk, name: str, sha256: str | None = None) -> CheckpointMetadata:
    """Metadata from its file, after all cheap checks.

    Args:
        disk: the storage.
        name: the `_metadata` file.
        sha256: what the log says of it, when it was found through the log.

    Raises:
        StorageError: missing, damaged, of another format, or a file it refers to is missing or short.
    """
    where = disk.describe(name)
    try:
        data = disk.read(name)
    except FileNotFoundError:
        raise StorageError(
            f"{where} does not exist; a checkpoint without it was never completed, or was deleted"
        ) from None
    metadata = decode_metadata(data, where)
    if sha256 is not None and digest(data) != sha256:
        raise StorageError(f"{where} is not the file that the log of completed checkpoints names")
    _check(disk, metadata, where)
    return metadata


def _check(disk: Disk, metadata: CheckpointMetadata, where: str) -> None:
    """That its format is this program's, and its files are there."""
    wrong = differences(metadata.format_fingerprint)
    if wrong:
        raise StorageError(
            f"{where} was written in a format that this program would read wrong: {'; '.join(wrong)}; use "
            "the version of Headgate that wrote it"
        )
    ranges = list(referenced_ranges(metadata))
    folders = {item.file.rpartition("/")[0] for item in ranges}
    names = frozenset(file for folder in sorted(folders) for file in disk.list(folder))
    check_present(disk, ranges, names)


def verify_files(disk: Disk, metadata: CheckpointMetadata) -> None:
    """Read everything that a checkpoint refers to and compare checksums.

    Raises:
        StorageError: a file is missing, short or damaged; the message names it.
    """
    for item in referenced_ranges(metadata):
        verify_handle(disk, item)
