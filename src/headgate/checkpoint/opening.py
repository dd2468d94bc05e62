"""Opens a checkpoint or savepoint by what a person or a log points at: a file, a folder, or a job.

The file names in a checkpoint are relative to the storage root, two folders above its `_metadata`; those in a
savepoint to the folder of its `_metadata`, which can therefore be moved and copied.

A damaged snapshot is refused; the error names the next older one that is complete, after reading all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final
from urllib.parse import unquote

from headgate.checkpoint.data_files import check_present, verify_handle
from headgate.checkpoint.layout import LOG, METADATA, checkpoint_number
from headgate.checkpoint.metadata.metadata_bytes import decode_metadata
from headgate.checkpoint.savepoints import folder_of, is_outside
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.store.entries import Completed, digest
from headgate.checkpoint.store.log import CompletedCheckpointLog, readable_entries
from headgate.common.errors import DamagedFileError, HeadgateError, StorageError
from headgate.common.format_config import differences
from headgate.common.ports import Disk
from headgate.state.snapshots import CheckpointMetadata, FileRange, InFlightStream

SAVEPOINT: Final = "savepoint"  # the kind of metadata whose file names are relative to its own folder
VERIFYING_THREADS: Final = 8  # that read concurrently where a job verifies a snapshot before it begins

Disks = Callable[[str], Disk]
"""Opens the disk below a URI."""


def referenced_ranges(metadata: CheckpointMetadata) -> Iterator[FileRange]:
    """Yield every range of a file that a checkpoint needs: of state, and of records in flight."""
    for subtasks in metadata.operators.values():
        for state in subtasks:
            yield from (handle for handle in state.handles() if isinstance(handle, FileRange))
    for stream in metadata.in_flight:
        yield from in_flight_ranges(stream)


def referenced_files(metadata: CheckpointMetadata) -> set[str]:
    """Return the names of all files that a checkpoint needs, without its metadata file."""
    return {item.file for item in referenced_ranges(metadata)}


def in_flight_ranges(stream: InFlightStream) -> Iterator[FileRange]:
    for part in stream.parts:
        if isinstance(part.handle, FileRange):
            yield part.handle


def open_checkpoint(
    uri: str, fell_back: Callable[[str], None] | None = None, *, whole: bool = False, disks: Disks = open_disk
) -> tuple[Disk, CheckpointMetadata]:
    """Open any checkpoint or savepoint; return the disk that its file names refer to, and its metadata.
    `uri` is the path or URI of its folder, of its `_metadata`, or of a job's folder, which stands for the
    latest checkpoint that the job's log names. With `whole` every byte of it is verified first. `fell_back`
    is for a job's folder; see :func:`open_logged`. A DamagedFileError says which bytes of which file are
    wrong, and which older checkpoint is complete. StorageError: there is none, or its format is unknown.
    """
    disk = disks(uri)
    above, last = _split(disk.describe())
    if last == METADATA:
        disk = disks(above)
        above, last = _split(above)
    try:
        data = disk.read(METADATA)
    except FileNotFoundError:
        return _latest(disk, above, fell_back, disks, whole=whole)
    try:
        found = _named(disk, data, above, last, disks)
        if whole:
            verify_files(*found, VERIFYING_THREADS)
        return found
    except DamagedFileError as error:
        raise _with(error, offer_beside(above, last, disks)) from error


def _named(disk: Disk, data: bytes, above: str, last: str, disks: Disks) -> tuple[Disk, CheckpointMetadata]:
    metadata = decode_metadata(data, disk.describe(METADATA))
    if metadata.kind != SAVEPOINT:
        root, job = _split(above)
        disk = disks(root)
        return disk, load_metadata(disk, f"{job}/{last}/{METADATA}")
    _check(disk, metadata, disk.describe(METADATA))
    return disk, metadata


def _split(place: str) -> tuple[str, str]:
    above, _, last = place.rstrip("/").rpartition("/")
    return f"{above}/" if above.endswith("/") else above, unquote(last)


def _latest(
    disk: Disk, above: str, fell_back: Callable[[str], None] | None, disks: Disks, *, whole: bool
) -> tuple[Disk, CheckpointMetadata]:
    try:
        completed = CompletedCheckpointLog(disk, LOG).completed()
    except DamagedFileError as error:
        raise damaged_log(error, disks(above), f"{_split(disk.describe())[1]}/{LOG}") from error
    if not completed:
        raise _nothing_in(disk.describe())
    return open_logged(disks(above), completed, disks, fell_back, whole=whole)


def _nothing_in(where: str) -> StorageError:
    return StorageError(
        f"{where} holds no completed checkpoint; expected a savepoint's folder, a checkpoint's (chk-<n>), "
        f"its {METADATA} file, or a job's folder with a log of completed checkpoints"
    )


def open_logged(
    disk: Disk,
    completed: list[Completed],
    disks: Disks = open_disk,
    fell_back: Callable[[str], None] | None = None,
    *,
    whole: bool = False,
) -> tuple[Disk, CheckpointMetadata]:
    """Open the newest checkpoint of a log; return the disk that its file names refer to, and its metadata.
    `completed` are the log's entries, the oldest first; `disk` is the log's storage. `fell_back` allows to
    take an older entry when one is damaged, and is called with a sentence about each; every byte of an entry
    is verified then, as with `whole`. An entry that cannot be read at the moment is not skipped.
    DamagedFileError: the newest is damaged (with `fell_back`: all are). StorageError: there is none.
    """
    for place in range(len(completed) - 1, -1, -1):
        try:
            found = _open_entry(disk, completed[place], disks)
            if whole or fell_back is not None:
                verify_files(*found)
            return found
        except DamagedFileError as error:
            older = completed[:place][::-1]
            if fell_back is None or not older:
                raise _with(error, offer(disk, older, disks)) from error
            fell_back(
                f"checkpoint {completed[place].checkpoint} cannot be restored: {error}; going back to "
                f"{_uri_of(disk, older[0])}; execution.sinks.older-snapshot says what becomes of output "
                "committed since"
            )
    raise _nothing_in(disk.describe())


def _open_entry(disk: Disk, entry: Completed, disks: Disks) -> tuple[Disk, CheckpointMetadata]:
    place, name = disk, entry.metadata
    if is_outside(name):
        place, name = disks(folder_of(name)), METADATA
    return place, load_metadata(place, name, entry.sha256 or None)


# -- which older one to take -----------------------------------------------------------------------


def offer(disk: Disk, older: Sequence[Completed], disks: Disks = open_disk) -> str:
    """Read `older` until one is intact; return a sentence for an error that names it as the one to restore.
    `older` are log entries, the newest first; one without a digest was found by its name. The sentence tells
    it if there is no older checkpoint, or none that is intact.
    """
    for entry in older:
        try:
            verify_files(*_open_entry(disk, entry, disks))
        except HeadgateError:
            continue
        return f"the next older checkpoint that is complete: --from {_uri_of(disk, entry)}"
    if not older:
        return "there is no older checkpoint"
    return f"none of the older checkpoints ({len(older)}) is complete"


def offer_beside(above: str, last: str, disks: Disks = open_disk) -> str:
    """Return a sentence, for an error, that names an older checkpoint to restore instead of a damaged one.
    `above` is the URI of the job's folder, `last` the name of the damaged snapshot's folder in it. If `last`
    is no checkpoint's name, the sentence says that a savepoint has no older one.
    """
    number = checkpoint_number(last)
    if number is None:
        return "a savepoint stands by itself: begin from another one, or from a checkpoint of its job"
    root, job = _split(above)
    try:
        disk = disks(root)
        logged = readable_entries(disk, f"{job}/{LOG}") or _by_folders(disk, job)
    except HeadgateError as error:
        return f"whether an older checkpoint is complete is unknown: {error}"
    return offer(disk, [entry for entry in reversed(logged) if entry.checkpoint < number], disks)


def damaged_log(error: DamagedFileError, disk: Disk, folder: str) -> DamagedFileError:
    """Return (not raise) `error`, of a damaged log entry, with a sentence about what to restore instead.
    `folder` is the log's folder on `disk`. Readable entries are tried, newest first, until one is intact.
    """
    return _with(error, offer(disk, readable_entries(disk, folder)[::-1]))


def _by_folders(disk: Disk, job: str) -> list[Completed]:
    folders = {name.rpartition("/")[0] for name in disk.list(job) if name.rpartition("/")[2] == METADATA}
    numbers = sorted(n for folder in folders if (n := checkpoint_number(folder.rpartition("/")[2])))
    return [Completed(0, "", number, f"{job}/chk-{number}/{METADATA}", "") for number in numbers]


def _uri_of(disk: Disk, entry: Completed) -> str:
    name = entry.metadata.removesuffix(f"/{METADATA}")
    return name if is_outside(name) else disk.describe(name)


def _with(error: DamagedFileError, offered: str) -> DamagedFileError:
    return DamagedFileError(f"{error}; {offered}")


# -- one checkpoint --------------------------------------------------------------------------------


def load_metadata(disk: Disk, name: str, sha256: str | None = None) -> CheckpointMetadata:
    """Return the metadata in file `name` of `disk`; check that its data files are there, not their content.
    `sha256`: hex digest of the metadata file; None: any. DamagedFileError: a file is missing, too short or
    not the right one. StorageError: this program does not read the snapshot's format.
    """
    where = disk.describe(name)
    try:
        data = disk.read(name)
    except FileNotFoundError:
        raise DamagedFileError(
            f"{where} does not exist; a checkpoint without it was never completed, or was deleted"
        ) from None
    metadata = decode_metadata(data, where)
    if sha256 is not None and digest(data) != sha256:
        raise DamagedFileError(
            f"{where} is not the file that the log of completed checkpoints names: bytes 0 to {len(data)} "
            "have another digest"
        )
    _check(disk, metadata, where)
    return metadata


def _check(disk: Disk, metadata: CheckpointMetadata, where: str) -> None:
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


def verify_files(disk: Disk, metadata: CheckpointMetadata, threads: int = 1) -> None:
    """Read all bytes that a snapshot's metadata refers to, in `threads` threads, and verify their checksums.
    Blocks until the end; DamagedFileError for the first range found missing or changed.
    """
    ranges: Iterable[FileRange] = dict.fromkeys(referenced_ranges(metadata))
    if threads == 1:
        for item in ranges:
            verify_handle(disk, item)
        return
    with ThreadPoolExecutor(threads, "headgate-verifying") as pool:
        for _ in pool.map(partial(verify_handle, disk), ranges):
            pass
