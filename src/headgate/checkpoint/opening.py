"""Reads a completed checkpoint back by whatever a person or a log points at: file, folder, or job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headgate.checkpoint.data_files import check_present, verify_handle
from headgate.checkpoint.layout import LOG, METADATA
from headgate.checkpoint.metadata.registry import decode_metadata
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.storage.uris import local_path
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


def open_checkpoint(uri: str) -> tuple[Disk, CheckpointMetadata]:
    """A checkpoint anywhere, with the disk that its file names refer to.

    Args:
        uri: path or ``file:`` URI of a checkpoint's folder, of its `_metadata`, or of a job's folder
            (its latest completed checkpoint).

    Raises:
        ConfigError: the scheme is not supported.
        StorageError: there is no such checkpoint, or it cannot be trusted; says which file and why.
    """
    path = Path(local_path(uri)).resolve()
    if path.name == METADATA:
        path = path.parent
    # A checkpoint's folder is two below the storage root, a job's folder one.
    depth = 2 if (path / METADATA).exists() or not (path / LOG).is_dir() else 1
    root = path.parents[depth - 1] if len(path.parents) >= depth else path
    disk = LocalDisk(root)
    return disk, load_named(disk, path.relative_to(root).as_posix())


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
        raise StorageError(
            f"{disk.describe(name)} holds no completed checkpoint; expected a checkpoint's folder (chk-<n>), "
            f"its {METADATA} file, or a job's folder with a log of completed checkpoints"
        )
    return load_logged(disk, completed)


def load_logged(disk: Disk, completed: list[Completed]) -> CheckpointMetadata:
    """The last checkpoint of a log.

    Raises:
        StorageError: it cannot be trusted; the message offers the older ones.
    """
    last = completed[-1]
    try:
        return load_metadata(disk, last.metadata, last.sha256)
    except StorageError as error:
        older = [disk.describe(entry.metadata) for entry in completed[-2::-1]]
        offer = f"older checkpoints to restore from: {', '.join(older)}" if older else "there is no older one"
        raise StorageError(f"{error}; {offer}") from error


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
    return metadata


def verify_files(disk: Disk, metadata: CheckpointMetadata) -> None:
    """Read everything that a checkpoint refers to and compare checksums.

    Raises:
        StorageError: a file is missing, short or damaged; the message names it.
    """
    for item in referenced_ranges(metadata):
        verify_handle(disk, item)
