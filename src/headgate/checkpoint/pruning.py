"""Deletes files that certainly no checkpoint will ever refer to, while the job may be running.

The proof (decision 0148 has it in full): what a new checkpoint refers to is new, or the newest complete one
refers to it already. So a file in the folder of a checkpoint that is not newer than the newest complete one,
to which no entry of the log leads, is not needed and never will be. A file of a *newer* folder may belong to
a pending checkpoint, which the storage does not show; it is deleted only when it has existed longer than any
checkpoint may take, by the clock of the storage itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headgate.checkpoint.inventory import (
    JobFiles,
    job_files,
    look_at,
    names_needed,
    newer_than_log,
    what_to_do,
)
from headgate.checkpoint.layout import METADATA, checkpoint_of, log_folder, metadata_first
from headgate.checkpoint.metadata.metadata_bytes import read_metadata
from headgate.checkpoint.opening import referenced_files
from headgate.checkpoint.savepoints import is_outside
from headgate.checkpoint.storage.storage_contract import TellsAge
from headgate.checkpoint.store.entries import Completed, decode_entry
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import StorageError, UsageError
from headgate.common.files.durable import clock
from headgate.common.ids import JobId
from headgate.common.ports import Disk
from headgate.state.snapshots import CheckpointMetadata

OLDER_THAN_MS: Final = 3_600_000  # older files belong to no pending checkpoint: six default timeouts

_AGE_PROBE: Final = ".headgate-probe/age-"


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that no checkpoint in its job's log refers to; `removable` if it is proven that none ever will.

    `why` is the proof, or what is missing for it, for people. `name` is relative to the storage root.
    """

    job: JobId
    name: str
    uri: str
    removable: bool
    why: str


@dataclass(frozen=True, slots=True)
class Pruning:
    """The result of :func:`prune`: orphaned files, jobs left alone, and how many files were deleted."""

    place: str
    orphans: tuple[Orphan, ...]
    refused: tuple[str, ...]  # a sentence for each job whose files were left alone
    deleted: int = 0
    deleting: bool = False  # whether it was to delete them, or only to find them

    @property
    def removable(self) -> tuple[Orphan, ...]:
        """The orphans that may be deleted."""
        return tuple(orphan for orphan in self.orphans if orphan.removable)


def prune(
    uri: str, *, delete: bool = False, older_than_ms: int = OLDER_THAN_MS, unlogged: bool = False
) -> Pruning:
    """Find the files that no checkpoint refers to; with `delete`, delete those proven never to be needed.

    Savepoints, logs, histories, files of people, and jobs whose log is not next to their checkpoints are
    never changed. Files of possibly pending checkpoints are deleted once they are older than `older_than_ms`,
    which is longer than any checkpoint may take. With `unlogged`, checkpoints that may have lost their log
    entry count as orphans, too; see `inventory.newer_than_log`. Without `delete` nothing is written, and ages
    are by this machine's clock. UsageError if `uri` names a single snapshot, or nothing of Headgate's.
    StorageError if a file cannot be deleted; those deleted before stay deleted.
    """
    place = look_at(uri)
    if place.kind == "snapshot":
        raise UsageError(f"{place.uri} is a single snapshot; expected a checkpoint storage or a job's folder")
    orphans: list[Orphan] = []
    refused: list[str] = []
    for job in place.jobs:
        try:
            orphans += _orphans(job.disk, job.job, _Age(job.disk, older_than_ms, probing=delete), unlogged)
        except StorageError as error:
            refused.append(f"job {job.job!r} was left alone: {error}")
    deleted = [orphan for orphan in orphans if orphan.removable] if delete else []
    disks = {job.job: job.disk for job in place.jobs}
    for orphan in sorted(deleted, key=lambda each: metadata_first(each.name)):
        disks[orphan.job].delete(orphan.name)
    return Pruning(place.uri, tuple(orphans), tuple(refused), len(deleted), delete)


def _orphans(disk: Disk, job: JobId, age: _Age, unlogged: bool) -> Iterable[Orphan]:
    log = CompletedCheckpointLog(disk, log_folder(job))
    before = log.completed()
    files = job_files(disk, job)
    if not files.has_log:
        raise StorageError(
            f"no log lies in {disk.describe(log_folder(job))}, so it is unknown what its checkpoints are "
            "(with ZooKeeper the log is there); delete by hand what is not needed"
        )
    needed = _needed(disk, log, _entries(files))
    newest = max((entry.checkpoint for entry in before), default=0)
    perhaps = {} if unlogged else newer_than_log(files, before)
    kept = names_needed(perhaps)
    names = sorted((files.names - needed - kept).union(files.temporaries))
    judged = [_judged(files, name, newest, age) for name in names if checkpoint_of(name, job) is not None]
    return [*judged, *_perhaps_complete(files, perhaps, newest)]


def _perhaps_complete(files: JobFiles, found: dict[str, CheckpointMetadata], newest: int) -> Iterable[Orphan]:
    for name, metadata in found.items():
        uri = files.disk.describe(name)
        why = what_to_do(uri.removesuffix(f"/{METADATA}"), metadata.checkpoint, newest)
        yield Orphan(files.job, name, uri, False, f"{why}; otherwise --unlogged deletes it")


def _judged(files: JobFiles, name: str, newest: int, age: _Age) -> Orphan:
    uri, checkpoint = files.disk.describe(name), checkpoint_of(name, files.job) or 0
    if checkpoint <= newest:
        why = f"checkpoint {newest} is complete and does not refer to it"
        return Orphan(files.job, name, uri, True, why)
    old, why = age.proves(name)
    return Orphan(files.job, name, uri, old, why)


def _entries(files: JobFiles) -> list[Completed]:
    found = []
    for name in files.log_names():
        try:
            entry = decode_entry(files.disk.read(name), files.disk.describe(name))
        except FileNotFoundError:
            continue  # trimmed by a running job
        if isinstance(entry, Completed):
            found.append(entry)
    return found


def _needed(disk: Disk, log: CompletedCheckpointLog, entries: Iterable[Completed]) -> set[str]:
    needed: set[str] = set()
    for entry in (*entries, *log.completed()):
        if is_outside(entry.metadata) or entry.metadata in needed:
            continue
        try:
            needed |= {entry.metadata, *referenced_files(read_metadata(disk, entry.metadata))}
        except FileNotFoundError:
            if all(each.checkpoint != entry.checkpoint for each in log.completed()):
                continue  # retired by a running job
            raise StorageError(
                f"{disk.describe(entry.metadata)} is missing although its log names it"
            ) from None
    return needed


class _Age:
    """Ages of files by the clock of the storage, which is read off a new file, or else by this machine's."""

    def __init__(self, disk: Disk, older_than_ms: int, *, probing: bool) -> None:
        self._disk, self._older_than_ms, self._probing = disk, older_than_ms, probing
        self._now: int | None = None

    def proves(self, name: str) -> tuple[bool, str]:
        if not isinstance(self._disk, TellsAge):
            return False, "its checkpoint may be pending, and this storage does not have the age of files"
        try:
            age = self._storage_now(self._disk) - self._disk.modified_ms(name)
        except FileNotFoundError:
            return False, "it was deleted meanwhile"
        if age <= self._older_than_ms:
            return False, f"its checkpoint may be on its way: it was written {age // 1000} s ago"
        return True, f"it was written {age // 1000} s ago, longer than a checkpoint may take"

    def _storage_now(self, disk: TellsAge) -> int:
        if not self._probing:
            return int(clock.time() * 1000)
        if self._now is None:
            probe = f"{_AGE_PROBE}{secrets.token_hex(8)}"
            self._disk.create(probe, [b""])
            try:
                self._now = disk.modified_ms(probe)
            finally:
                self._disk.delete(probe)
        return self._now
