"""Inventory of a place in checkpoint storage: jobs, single snapshots, and checkpoints without a log entry.

:func:`look_at` reads only names of files, so it works on a storage in any state.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

from headgate.checkpoint.layout import LOG, METADATA, checkpoint_number, checkpoint_of
from headgate.checkpoint.metadata.metadata_bytes import read_metadata
from headgate.checkpoint.opening import referenced_files, verify_files
from headgate.checkpoint.storage.storage_contract import KeepsTemporaries
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.store.entries import Completed
from headgate.common.errors import StorageError, UsageError
from headgate.common.ids import JobId
from headgate.common.ports import Disk
from headgate.state.snapshots import CheckpointMetadata

_LOG_NAME: Final = 19


class JobFiles(NamedTuple):
    """The files of one job, named relative to the storage's root; `temporaries` are those left unfinished."""

    disk: Disk
    job: JobId
    names: frozenset[str]
    temporaries: tuple[str, ...]  # unfinished files of killed writers

    @property
    def has_log(self) -> bool:
        return any(name.startswith(f"{self.job}/{LOG}/") for name in self.names)

    def log_names(self) -> list[str]:
        prefix = f"{self.job}/{LOG}/"
        return sorted(
            name for name in self.names if name.startswith(prefix) and len(name) == len(prefix) + _LOG_NAME
        )


class SnapshotFiles(NamedTuple):
    """The files of one checkpoint or savepoint given by its own URI; names are relative to its folder."""

    disk: Disk
    names: frozenset[str]


class Place(NamedTuple):
    """What :func:`look_at` found at `uri`. Kind "storage": all `jobs` and single `snapshots` below it.
    Kind "job": the one job in `jobs`. Kind "snapshot": the one checkpoint or savepoint in `snapshots`.
    """

    uri: str
    kind: Literal["storage", "job", "snapshot"]
    jobs: tuple[JobFiles, ...] = ()
    snapshots: tuple[SnapshotFiles, ...] = ()


def look_at(uri: str) -> Place:
    """Find what a URI names: a storage root, a job's or a snapshot's folder, or a `_metadata` file.
    Only names of files are read; no log is claimed. UsageError: there is nothing of Headgate's.
    """
    disk = open_disk(uri)
    above, _, last = disk.describe().rstrip("/").rpartition("/")
    if last == METADATA:
        disk = open_disk(above)
        above, _, last = above.rpartition("/")
    names = frozenset(disk.list(""))
    if METADATA in names:
        return Place(disk.describe(), "snapshot", snapshots=(SnapshotFiles(disk, names),))
    if _is_job(names):
        root = open_disk(above)
        return Place(disk.describe(), "job", jobs=(job_files(root, JobId(unquote(last))),))
    return _storage(disk, names)


def job_files(root: Disk, job: JobId) -> JobFiles:
    """Return the names of all files of a job, and of those being written, or left unfinished by a crash."""
    unfinished = tuple(root.temporaries(job)) if isinstance(root, KeepsTemporaries) else ()
    return JobFiles(root, job, frozenset(root.list(job)), unfinished)


def _storage(disk: Disk, names: frozenset[str]) -> Place:
    folders: dict[str, set[str]] = {}
    for name in names:
        top, _, rest = name.partition("/")
        if rest:
            folders.setdefault(top, set()).add(rest)
    jobs = [JobId(top) for top, below in folders.items() if top[0] != "." and _is_job(below)]
    mine = {f"{job}/" for job in jobs}
    savepoints = sorted(
        name.rpartition("/")[0]
        for name in names
        if name.rpartition("/")[2] == METADATA and f"{name.partition('/')[0]}/" not in mine
    )
    if not jobs and not savepoints:
        raise UsageError(
            f"{disk.describe()} holds nothing of Headgate's; expected a checkpoint storage, a job's folder "
            f"in it, a checkpoint's or savepoint's folder, or its {METADATA}"
        )
    below = [open_disk(disk.describe(folder)) for folder in savepoints]
    return Place(
        disk.describe(),
        "storage",
        tuple(job_files(disk, job) for job in sorted(jobs)),
        tuple(SnapshotFiles(each, frozenset(each.list(""))) for each in below),
    )


def _is_job(below: AbstractSet[str]) -> bool:
    return any(_of_job(*name.partition("/")) for name in below)


def _of_job(top: str, _: str, rest: str) -> bool:
    if top == LOG:
        return len(rest) == _LOG_NAME and rest.isdigit()
    return bool(rest) and checkpoint_number(top) is not None


# -- checkpoints without a log entry


def newer_than_log(files: JobFiles, logged: Iterable[Completed]) -> dict[str, CheckpointMetadata]:
    """Return the checkpoints that may have lost their log entry, by the name of their metadata.
    They are newer than all that their job's log names, and yet have metadata. Metadata is written first, then
    the log entry, and then output is committed. So such a checkpoint was either about to be complete when its
    driver died, and then nothing needs it; or its entry was lost, and then it is the only one that fits the
    output that was committed. The storage does not show which.
    """
    newest = max((entry.checkpoint for entry in logged), default=0)
    found = {}
    for name in sorted(files.names):
        checkpoint = checkpoint_of(name, files.job)
        if name.rpartition("/")[2] != METADATA or checkpoint is None or checkpoint <= newest:
            continue
        try:
            found[name] = read_metadata(files.disk, name)
        except (StorageError, FileNotFoundError):
            continue  # it cannot be restored
    return found


def names_needed(found: dict[str, CheckpointMetadata]) -> set[str]:
    return {*found, *(name for metadata in found.values() for name in referenced_files(metadata))}


def is_whole(files: JobFiles, metadata: CheckpointMetadata) -> bool:
    """Return whether all data of a checkpoint is there and intact; reads all the bytes that it needs."""
    try:
        verify_files(files.disk, metadata)
    except (StorageError, FileNotFoundError):
        return False
    return True


def what_to_do(folder: str, checkpoint: int, newest: int) -> str:
    """Return a sentence about `checkpoint`, newer than `newest` in the log: its meaning, and what to do."""
    return (
        f"checkpoint {checkpoint} is newer than the newest in the log ({newest}): either its driver died "
        "just before it was complete, or its log entry was lost, and then output was committed up to it; "
        f"where output of checkpoint {checkpoint} is published (files named ...-c{checkpoint}...), begin "
        f"from it, by --from {folder}"
    )
