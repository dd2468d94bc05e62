"""Carries out the coordinator's storage effects for one job: store, retire, discard, load, sweep.

It decides nothing about when. All methods block and belong to one thread. What is written in which
order, so that a crash between any two steps leaves nothing half-visible:

* store: data files (by workers), metadata, log entry;
* retire: log entries, metadata, data files.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.checkpoint.layout import (
    METADATA,
    checkpoint_folder,
    checkpoint_of,
    job_folder,
    log_folder,
    metadata_name,
)
from headgate.checkpoint.metadata.registry import decode_metadata, encode_metadata
from headgate.checkpoint.opening import (
    in_flight_ranges,
    load_logged,
    load_named,
    referenced_ranges,
    verify_files,
)
from headgate.checkpoint.storage.base import KeepsTemporaries, UnsureWriteError
from headgate.checkpoint.store.entries import Completed, digest
from headgate.checkpoint.store.log import CommitPermit, CompletedCheckpointLog
from headgate.common.errors import InternalError, StorageError
from headgate.common.ids import CheckpointId, JobId
from headgate.common.ports import Disk, NoProbe, Probe
from headgate.state.snapshots import CheckpointMetadata, FileRange, SubtaskSnapshot


def may_be_published(error: BaseException) -> bool:
    """Whether a checkpoint may be in the log although :meth:`CheckpointService.store` raised `error`.

    Only a plain StorageError says for certain that it is not; then, and only then, its files may go.
    """
    return not isinstance(error, StorageError) or isinstance(error, UnsureWriteError)


class CheckpointService:
    """The checkpoints of one job on one disk.

    Args:
        disk: the checkpoint storage.
        job: whose checkpoints.
        probe: told of "checkpoint.metadata-written" and "checkpoint.logged".

    Raises:
        StorageError: the job's id cannot name a folder.
    """

    def __init__(self, disk: Disk, job: JobId, probe: Probe | None = None) -> None:
        self.disk = disk
        self.job = job
        self._probe: Probe = probe if probe is not None else NoProbe()
        self._log = CompletedCheckpointLog(disk, log_folder(job))
        self._files_of: dict[CheckpointId, frozenset[str]] = {}

    def claim(self) -> CommitPermit:
        """Take the job over from every earlier job master.

        Raises:
            StorageError: the log cannot be read or written.
        """
        return self._log.claim()

    def completed(self) -> list[Completed]:
        """What the log holds, oldest first, read afresh.

        Raises:
            StorageError: the log cannot be read.
        """
        return self._log.completed()

    def next_checkpoint_id(self) -> CheckpointId:
        """An id above every one that left a trace: in the log, or as a folder of an aborted checkpoint.

        Ask after :meth:`claim`.
        """
        folders = (checkpoint_of(name, self.job) for name in self.disk.list(job_folder(self.job)))
        used = [CheckpointId(entry.checkpoint) for entry in self._log.completed()]
        used += [checkpoint for checkpoint in folders if checkpoint is not None]
        return CheckpointId(max(used, default=0) + 1)

    def store(self, permit: CommitPermit, metadata: CheckpointMetadata) -> None:
        """Complete a checkpoint: metadata durably in place, then the log entry.

        Raises:
            FencedError: another job master took over: stop. Nothing may be deleted.
            UnsureWriteError: the log entry may be there or not. Nothing may be deleted.
            StorageError: it was not completed; its data files may be discarded.
        """
        checkpoint = CheckpointId(metadata.checkpoint)
        if metadata.job != self.job or metadata.generation != permit.generation:
            raise InternalError(
                f"checkpoint {checkpoint} of job {metadata.job!r}, generation {metadata.generation}, was "
                f"given to the service of job {self.job!r}, generation {permit.generation}"
            )
        name = metadata_name(self.job, checkpoint)
        data = encode_metadata(metadata)
        self._write_metadata(name, data)
        self._probe.reached("checkpoint.metadata-written")
        try:
            self._log.append(permit, checkpoint, name, digest(data))
        except StorageError as error:
            if not may_be_published(error):
                self._delete_quietly(name)
            raise
        self._files_of[checkpoint] = _files(metadata)
        self._probe.reached("checkpoint.logged")

    def load_latest(self) -> CheckpointMetadata | None:
        """The newest completed checkpoint of this job, read afresh; None when there is none.

        Raises:
            StorageError: it cannot be trusted; the message names the file, the cause and older ones.
        """
        completed = self._log.completed()
        return load_logged(self.disk, completed) if completed else None

    def load(self, where: str = "latest") -> CheckpointMetadata:
        """A checkpoint on this disk.

        Args:
            where: "latest" for this job's newest, or below the storage root: a checkpoint's folder, its
                `_metadata` file, or a job's folder. For other roots see `opening.open_checkpoint`.

        Raises:
            StorageError: there is none, or it cannot be trusted.
        """
        return load_named(self.disk, job_folder(self.job) if where == "latest" else where)

    def verify(self, metadata: CheckpointMetadata) -> None:
        """Read every file of a checkpoint in full and compare checksums.

        Raises:
            StorageError: a file is missing, short or damaged.
        """
        verify_files(self.disk, metadata)

    def retire(self, permit: CommitPermit, checkpoints: Iterable[CheckpointId]) -> None:
        """Delete completed checkpoints, but no file that a retained one refers to.

        Older ones that are still in the log, because their retirement failed or they were not known to be
        complete, go with them: what remains of the log has no gaps.

        Raises:
            FencedError: another job master took over; nothing was deleted.
            InternalError: nothing would be retained.
            StorageError: something cannot be read or deleted; the next sweep tries again.
        """
        retired = set(checkpoints)
        logged, newest = self._log.completed(), max(retired, default=0)
        retained = [entry for entry in logged if entry.checkpoint > newest]
        retired |= {CheckpointId(entry.checkpoint) for entry in logged if entry.checkpoint <= newest}
        if logged and not retained:
            raise InternalError(
                f"retiring checkpoints {sorted(retired)} would leave job {self.job!r} without any"
            )
        needed = self._needed_by(retained)
        candidates: set[str] = set()
        for entry in logged:
            if entry.checkpoint in retired:
                candidates |= self._files_of_logged(entry, tolerant=True)
        if retained:
            self._log.trim(permit, CheckpointId(retained[0].checkpoint))
        for checkpoint in sorted(retired):
            candidates |= set(self.disk.list(checkpoint_folder(self.job, checkpoint)))
            self._files_of.pop(checkpoint, None)
        self._delete_all(candidates - needed)

    def discard(self, snapshots: Iterable[SubtaskSnapshot]) -> None:
        """Delete the data files of snapshots that will never be part of a completed checkpoint.

        Raises:
            StorageError: a file cannot be deleted; the next sweep tries again.
        """
        # They may refer to files of completed checkpoints, also to those of a job master before this one.
        kept = self._needed_by(self._log.completed())
        names = {name for snapshot in snapshots for name in _files_of_snapshot(snapshot)}
        self._delete_all({name for name in names - kept if checkpoint_of(name, self.job) is not None})

    def sweep_orphans(self, permit: CommitPermit, pending: Iterable[CheckpointId] = ()) -> list[str]:
        """Delete what crashes left behind: files of checkpoints neither completed nor pending.

        Args:
            permit: of this job master.
            pending: ids on their way now; their files stay.

        Returns:
            the names of the deleted files.

        Raises:
            FencedError: another job master took over; nothing was deleted.
            StorageError: something cannot be read or deleted.
        """
        folder = job_folder(self.job)
        # First look, then check the claim: what was listed cannot belong to a later job master.
        names = list(self.disk.list(folder))
        unfinished = list(self.disk.temporaries(folder)) if isinstance(self.disk, KeepsTemporaries) else []
        self._log.check(permit)
        logged = self._log.completed()
        spared = {entry.checkpoint for entry in logged} | set(pending)
        needed = self._needed_by(logged)
        orphans = {
            name
            for name in names
            if (owner := checkpoint_of(name, self.job)) is not None and owner not in spared
        } - needed
        on_the_way = set(pending)
        orphans |= {name for name in unfinished if checkpoint_of(name, self.job) not in on_the_way}
        return self._delete_all(orphans)

    def _write_metadata(self, name: str, data: bytes) -> None:
        try:
            created = self.disk.create_if_absent(name, data)
        except UnsureWriteError as error:
            # Without a log entry it does not count, so it is certain that nothing was published.
            self._delete_quietly(name)
            raise StorageError(str(error)) from error
        if not created:
            raise StorageError(
                f"{self.disk.describe(name)} exists already; another job master used the same checkpoint id, "
                "the next checkpoint takes a new one"
            )

    def _needed_by(self, logged: Iterable[Completed]) -> set[str]:
        needed: set[str] = set()
        for entry in logged:
            needed |= self._files_of_logged(entry)
            needed.add(entry.metadata)
        return needed

    def _files_of_logged(self, entry: Completed, *, tolerant: bool = False) -> frozenset[str]:
        checkpoint = CheckpointId(entry.checkpoint)
        if checkpoint not in self._files_of:
            where = self.disk.describe(entry.metadata)
            try:
                self._files_of[checkpoint] = _files(decode_metadata(self.disk.read(entry.metadata), where))
            except FileNotFoundError:
                if not tolerant:
                    raise StorageError(
                        f"{where} is missing although the log names it; nothing was deleted"
                    ) from None
                return frozenset()
            except StorageError:
                if not tolerant:
                    raise
                return frozenset()
        return self._files_of[checkpoint]

    def _delete_all(self, names: set[str]) -> list[str]:
        # Metadata first: a half-deleted checkpoint must not look whole.
        ordered = sorted(names, key=lambda name: (name.rpartition("/")[2] != METADATA, name))
        for name in ordered:
            self.disk.delete(name)
        return ordered

    def _delete_quietly(self, name: str) -> None:
        try:
            self.disk.delete(name)
        except (StorageError, OSError):
            return  # the error under way matters more, and the next sweep finds the file


def _files(metadata: CheckpointMetadata) -> frozenset[str]:
    return frozenset(item.file for item in referenced_ranges(metadata))


def _files_of_snapshot(snapshot: SubtaskSnapshot) -> list[str]:
    handles = (handle for state in snapshot.operators for handle in state.handles())
    names = [handle.file for handle in handles if isinstance(handle, FileRange)]
    return names + [item.file for stream in snapshot.in_flight for item in in_flight_ranges(stream)]
