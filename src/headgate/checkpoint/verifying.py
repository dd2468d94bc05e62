"""Proves that every byte that a snapshot needs is there and intact, and lists what nothing needs.

Read-only: the log is read and not claimed, so a running job is not disturbed. Before something is reported as
missing, the log is read again: a running job may have deleted it meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from headgate.checkpoint.data_files import verify_handle
from headgate.checkpoint.inventory import (
    JobFiles,
    Place,
    SnapshotFiles,
    is_whole,
    job_files,
    look_at,
    names_needed,
    newer_than_log,
    what_to_do,
)
from headgate.checkpoint.layout import METADATA, checkpoint_of, log_folder
from headgate.checkpoint.metadata.metadata_bytes import decode_metadata
from headgate.checkpoint.opening import SAVEPOINT, referenced_files, referenced_ranges
from headgate.checkpoint.ownership import MARK
from headgate.checkpoint.savepoints import folder_of, is_outside
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.store.entries import Completed, Entry, decode_entry, digest
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import ConfigError, StorageError
from headgate.common.format_config import differences
from headgate.common.ids import JobId
from headgate.common.ports import Disk
from headgate.state.snapshots import CheckpointMetadata, FileRange

Progress = Callable[[str, int, int], None]
"""Called with the file that is being read, the bytes read so far, and all bytes."""


@dataclass(slots=True)
class Report:
    """The result of :func:`verify`; files are given as URIs, `damaged` and others as sentences for people."""

    place: str
    kind: str
    jobs: int = 0
    checkpoints: int = 0
    savepoints: int = 0
    files: int = 0
    bytes: int = 0
    damaged: list[str] = field(default_factory=list)
    """A sentence for each thing that is missing or not intact."""
    orphans: list[str] = field(default_factory=list)
    """Files in snapshots' folders that no completed snapshot refers to; a pending checkpoint may use some."""
    of_damaged: list[str] = field(default_factory=list)
    """Orphans of a job with a damaged log entry or metadata; pruning skips them, as they may be needed."""
    unfinished: list[str] = field(default_factory=list)  # files that killed writers left
    unlogged: list[str] = field(default_factory=list)  # checkpoints with metadata that no log entry names
    perhaps_complete: list[str] = field(default_factory=list)
    """A sentence for each intact checkpoint newer than the log; pruning needs --unlogged for it."""
    notes: list[str] = field(default_factory=list)  # what could not be judged, and why

    @property
    def clean(self) -> bool:
        """Whether nothing is damaged; orphans are no damage."""
        return not self.damaged


class _Found(NamedTuple):
    """A snapshot whose metadata is intact, with the disk that its file names refer to."""

    disk: Disk
    name: str
    metadata: CheckpointMetadata
    entry: Completed | None = None


def verify(uri: str, progress: Progress | None = None) -> Report:
    """Verify all snapshots that `uri` names: a storage, a job's folder, or one snapshot; return a report.
    Every byte that they need is read. Damage is reported, not raised. UsageError: nothing of Headgate's is
    there. `progress` is called before each range of a file is read; see :data:`Progress`.
    """
    return _Verifying(look_at(uri), progress).run()


class _Verifying:
    def __init__(self, place: Place, progress: Progress | None) -> None:
        self._place, self._progress = place, progress
        self._report = Report(place.uri, place.kind, jobs=len(place.jobs))
        self._read: set[tuple[str, FileRange]] = set()
        self._files: set[str] = set()
        self._doubtful: set[JobId] = set()
        self._done = self._total = 0

    def run(self) -> Report:
        found = [(each, list(self._of_job(each))) for each in self._place.jobs]
        single = [(each, self._alone(each)) for each in self._place.snapshots]
        snapshots = [one for _, several in found for one in several]
        snapshots += [one for _, one in single if one is not None]
        ranges = {
            (one.disk.describe(), item) for one in snapshots for item in referenced_ranges(one.metadata)
        }
        self._total = sum(max(0, item.length) for _, item in ranges)
        for one in snapshots:
            self._verify(one)
        for job, several in found:
            self._left_over(job, several)
        for files, only in single:
            if only is not None and only.metadata.kind == SAVEPOINT:
                left = sorted(files.names - {METADATA, MARK, *referenced_files(only.metadata)})
                self._report.orphans += map(files.disk.describe, left)
        self._report.files = len(self._files)
        return self._report

    # -- which snapshots there are ---------------------------------------------------------------

    def _of_job(self, job: JobFiles) -> Iterator[_Found]:
        if not job.has_log:
            self._report.notes.append(
                f"{job.disk.describe(job.job)} has no log of completed checkpoints (with ZooKeeper it is "
                "there), so every checkpoint with metadata was verified, and none is known to be complete"
            )
            yield from self._without_log(job)
            return
        yield from (found for entry in self._logged(job) if (found := self._of_entry(job, entry)) is not None)

    def _logged(self, job: JobFiles) -> list[Completed]:
        entries: dict[str, tuple[bytes, Entry]] = {}
        broken = False
        for name in job.log_names():
            try:
                data = job.disk.read(name)
                entries[name] = data, decode_entry(data, job.disk.describe(name))
            except FileNotFoundError:
                continue  # trimmed by a running job
            except StorageError as error:
                broken = True
                self._report.damaged.append(str(error))
        if broken:
            self._doubtful.add(job.job)
            return [entry for _, entry in entries.values() if isinstance(entry, Completed)]
        self._check_links(job, entries)
        return CompletedCheckpointLog(job.disk, log_folder(job.job)).completed()

    def _check_links(self, job: JobFiles, entries: dict[str, tuple[bytes, Entry]]) -> None:
        names = list(entries)
        for before, name in pairwise(names):
            if digest(entries[before][0]) != entries[name][1].previous:
                self._report.damaged.append(
                    f"log entry {job.disk.describe(name)} does not follow {job.disk.describe(before)}: an "
                    "entry between them is missing, or one was added by a job master that had been replaced; "
                    "only what follows the gap counts"
                )

    def _of_entry(self, job: JobFiles, entry: Completed) -> _Found | None:
        disk, name = job.disk, entry.metadata
        try:
            if is_outside(name):
                disk, name = open_disk(folder_of(name)), METADATA
                if name not in disk.list(""):
                    self._report.notes.append(
                        f"the savepoint that job {job.job!r} was stopped with is not at {disk.describe()} "
                        "any more: its owner moved or deleted it, or a job that claimed it did"
                    )
                    return None
            return self._metadata(disk, name, entry)
        except (StorageError, ConfigError) as error:
            if _still_logged(job, entry):
                self._doubtful.add(job.job)
                self._report.damaged.append(f"{error} (named by the log of job {job.job!r})")
            return None

    def _metadata(self, disk: Disk, name: str, entry: Completed | None = None) -> _Found:
        where = disk.describe(name)
        try:
            data = disk.read(name)
        except FileNotFoundError:
            raise StorageError(f"{where} is missing") from None
        metadata = decode_metadata(data, where)
        if entry is not None and digest(data) != entry.sha256:
            raise StorageError(f"{where} is not the file that the log of completed checkpoints names")
        wrong = differences(metadata.format_fingerprint)
        if wrong:
            raise StorageError(
                f"{where} was written in a format that this program would read wrong: {'; '.join(wrong)}"
            )
        self._files.add(where)
        self._report.bytes += len(data)
        return _Found(disk, name, metadata, entry)

    def _without_log(self, job: JobFiles) -> Iterator[_Found]:
        names = [name for name in sorted(job.names) if name.rpartition("/")[2] == METADATA]
        found = (self._tolerant(job.disk, name) for name in names if checkpoint_of(name, job.job) is not None)
        yield from (one for one in found if one is not None)

    def _tolerant(self, disk: Disk, name: str) -> _Found | None:
        try:
            return self._metadata(disk, name)
        except StorageError as error:
            self._report.damaged.append(str(error))
            return None

    def _alone(self, files: SnapshotFiles) -> _Found | None:
        """Read a snapshot given by its own URI (None: damaged); compare a checkpoint with its job's log."""
        found = self._tolerant(files.disk, METADATA)
        if found is None or found.metadata.kind == SAVEPOINT:
            return found
        job_uri, _, chk = files.disk.describe().rstrip("/").rpartition("/")
        root_uri, _, job = job_uri.rpartition("/")
        root = open_disk(root_uri)
        name = f"{job}/{chk}/{METADATA}"
        found = _Found(root, name, found.metadata)
        listed = job_files(root, JobId(job))
        if not listed.has_log:
            return found
        entries = [entry for entry in self._logged(listed) if entry.metadata == name]
        if not entries:
            self._report.unlogged.append(root.describe(name))
        elif digest(root.read(name)) != entries[-1].sha256:
            self._report.damaged.append(
                f"{root.describe(name)} is not the file that the log of completed checkpoints names"
            )
        return found

    # -- what they refer to ----------------------------------------------------------------------

    def _verify(self, one: _Found) -> None:
        sound = True
        for item in referenced_ranges(one.metadata):
            key = one.disk.describe(), item
            if key in self._read:
                continue
            self._read.add(key)
            if self._progress is not None:
                self._progress(item.file, self._done, self._total)
            try:
                verify_handle(one.disk, item)
                self._report.bytes += item.length
            except StorageError as error:
                if not self._is_needed(one):
                    return
                sound = False
                self._report.damaged.append(f"{error} (needed by {one.disk.describe(one.name)})")
            self._files.add(one.disk.describe(item.file))
            self._done += max(0, item.length)
        if one.metadata.kind == SAVEPOINT:
            self._report.savepoints += 1
        elif sound or one.entry is not None:
            self._report.checkpoints += 1

    def _is_needed(self, one: _Found) -> bool:
        job = next((each for each in self._place.jobs if each.job == one.metadata.job), None)
        return job is None or one.entry is None or _still_logged(job, one.entry)

    # -- what nothing refers to ------------------------------------------------------------------

    def _left_over(self, job: JobFiles, several: Iterable[_Found]) -> None:
        self._report.unfinished += map(job.disk.describe, job.temporaries)
        if not job.has_log:
            return
        needed = {name for one in several for name in (one.name, *referenced_files(one.metadata))}
        # What completed while files were read is no orphan.
        try:
            entries = CompletedCheckpointLog(job.disk, log_folder(job.job)).completed()
        except StorageError:
            entries = []
        logged = {entry.metadata for entry in entries} | self._perhaps_complete(job, entries)
        left = self._report.of_damaged if job.job in self._doubtful else self._report.orphans
        for name in sorted(job.names - needed - logged):
            if checkpoint_of(name, job.job) is None:
                continue
            if name.rpartition("/")[2] == METADATA:
                self._report.unlogged.append(job.disk.describe(name))
            left.append(job.disk.describe(name))

    def _perhaps_complete(self, job: JobFiles, logged: list[Completed]) -> set[str]:
        newest = max((entry.checkpoint for entry in logged), default=0)
        found = {
            name: metadata
            for name, metadata in newer_than_log(job, logged).items()
            if job.job not in self._doubtful and is_whole(job, metadata)
        }
        for name, metadata in found.items():
            uri = job.disk.describe(name)
            self._report.unlogged.append(uri)
            folder = uri.removesuffix(f"/{METADATA}")
            self._report.perhaps_complete.append(what_to_do(folder, metadata.checkpoint, newest))
        return names_needed(found)


def _still_logged(job: JobFiles, entry: Completed) -> bool:
    try:
        logged = CompletedCheckpointLog(job.disk, log_folder(job.job)).completed()
    except StorageError:
        return True
    return any(each.checkpoint == entry.checkpoint for each in logged)
