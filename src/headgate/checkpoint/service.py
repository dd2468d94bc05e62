"""Carries out the coordinator's storage effects for one job: store, retire, discard, sweep.

The coordinator decides when. All methods block and belong to one thread. The order of writes, so that a
crash between any two steps leaves nothing half-visible:

* store: data files (by workers), metadata, log entry;
* retire: log entries, metadata, data files; then a snapshot that the job claimed, the same way.

`core.checkpoint.shared_state`, which each job master makes anew from the log, counts the files that
checkpoints share. `docs/checkpoint-ownership.md` says who may delete what.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from headgate.checkpoint.in_use import Users
from headgate.checkpoint.inventory import JobFiles, names_needed, newer_than_log
from headgate.checkpoint.layout import (
    checkpoint_folder,
    checkpoint_of,
    job_folder,
    log_folder,
    metadata_first,
    metadata_name,
)
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata, read_metadata
from headgate.checkpoint.opening import Disks, in_flight_ranges, referenced_files
from headgate.checkpoint.ownership import RECORD, ClaimRecord, decode_record, encode_record, release
from headgate.checkpoint.savepoints import is_outside
from headgate.checkpoint.storage.storage_contract import KeepsTemporaries, UnsureWriteError
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.store.entries import Completed, digest
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.checkpoint.store.store_contract import CommitPermit, CompletedCheckpointStore
from headgate.common.errors import InternalError, StorageError, UsageError
from headgate.common.ids import CheckpointId, JobId
from headgate.common.ports import Clock, Disk, NoProbe, Probe
from headgate.core.checkpoint.shared_state import SharedStateRegistry
from headgate.state.snapshots import CheckpointMetadata, FileRange, SubtaskSnapshot

_LOG: Final = logging.getLogger("headgate.checkpoints")


def may_be_published(error: BaseException) -> bool:
    """Return whether a checkpoint may be in the log although :meth:`CheckpointService.store` raised `error`.
    True for all errors but a StorageError that is no UnsureWriteError: only then may data files be deleted.
    """
    return not isinstance(error, StorageError) or isinstance(error, UnsureWriteError)


class CheckpointService:
    """Stores and deletes the checkpoints of one job on one storage, for the job master of one driver.
    `log` holds the complete checkpoints and decides who may add to them; by default it is files next to the
    checkpoints. `disks` opens other storages by URI, for the deletion of a claimed snapshot. `clock` measures
    how long another job that restores a checkpoint has not renewed its mark (see `checkpoint.in_use`; None:
    each mark counts). `probe`: tests stop it at "checkpoint.metadata-written", ".logged", ".trimmed".
    """

    def __init__(
        self,
        disk: Disk,
        job: JobId,
        probe: Probe | None = None,
        log: CompletedCheckpointStore | None = None,
        disks: Disks = open_disk,
        clock: Clock | None = None,
    ) -> None:
        self.disk, self.job = disk, job
        self._users = Users(disk, job, clock)
        self._probe: Probe = probe if probe is not None else NoProbe()
        self._log = CompletedCheckpointLog(disk, log_folder(job)) if log is None else log
        self._disks = disks
        self._shared = SharedStateRegistry()
        self._counted: set[int] = set()
        self._doomed: set[str] = set()
        self._spared: set[str] = set()
        self._written: set[int] = set()
        self._log_emptied = False
        self._record: ClaimRecord | None = None
        self._record_name = f"{job_folder(job)}/{RECORD}"

    def claim(self) -> CommitPermit:
        """Take the job over from earlier job masters, whose permits end; return the permit of this one.
        UsageError if checkpoints of this job are on the disk but its log was never claimed: it is the wrong
        log. StorageError if the log cannot be claimed.
        """
        left = self._left_here()
        # In this order: a job master that has left something had claimed before.
        if left is not None and self._log.generation() == 0:
            raise UsageError(
                f"{self.disk.describe(job_folder(self.job))} holds {left!r} of job {self.job!r}, and the "
                "store of completed checkpoints that is configured has never heard of that job, so that all "
                "of it would be deleted as left over; configure the store of before (high-availability.type, "
                "its ZooKeeper and root), or go on from one of these checkpoints under another "
                "high-availability.cluster-id"
            )
        return self._log.claim()

    def _left_here(self) -> str | None:
        folder, log = job_folder(self.job), log_folder(self.job)
        for name in self.disk.list(folder):
            is_entry = name.startswith(f"{log}/") and name.rpartition("/")[2].isdigit()
            if is_entry or checkpoint_of(name, self.job) is not None:
                return name.removeprefix(f"{folder}/")
        return None

    def check(self, permit: CommitPermit) -> None:
        self._log.check(permit)

    def completed(self) -> list[Completed]:
        return self._log.completed()

    def next_checkpoint_id(self) -> CheckpointId:
        """Return an id above all that the log, folders or a claim record show; call after :meth:`claim`."""
        folders = (checkpoint_of(name, self.job) for name in self.disk.list(job_folder(self.job)))
        used = [checkpoint for checkpoint in folders if checkpoint is not None]
        if (claimed := self.claimed()) is not None:
            used.append(claimed)
        return self._log.first_checkpoint_id(CheckpointId(max(used, default=0) + 1))

    def reserve_ids(self, permit: CommitPermit, end: CheckpointId) -> None:
        self._log.reserve_ids(permit, end)

    def own(self, record: ClaimRecord) -> None:
        """Store the claim record `record`: this job owns the snapshot that it began from.
        The snapshot is deleted when its id is among those of :meth:`retire` or :meth:`discard_completed`.
        """
        self.disk.create(self._record_name, [encode_record(record)])
        self._record = record

    def claimed(self) -> CheckpointId | None:
        """Return the checkpoint id of the snapshot that this job owns (see :meth:`own`), read from the disk.
        None if it owns none, or has released it. StorageError if the claim record is damaged.
        """
        try:
            data = self.disk.read(self._record_name)
        except FileNotFoundError:
            return None
        self._record = decode_record(data, self.disk.describe(self._record_name))
        return CheckpointId(self._record.checkpoint)

    def store(self, permit: CommitPermit, metadata: CheckpointMetadata) -> None:
        """Complete a checkpoint: write its metadata durably, then its log entry.

        Raises:
            FencedError: another job master took over: stop. Nothing may be deleted.
            UnsureWriteError: the log entry may be there or not. Nothing may be deleted.
            StorageError: it was not completed; its data files may be discarded.
            InternalError: `metadata` is of another job or generation; nothing was written.
        """
        checkpoint = CheckpointId(metadata.checkpoint)
        if metadata.job != self.job or metadata.generation != permit.generation:
            raise InternalError(
                f"checkpoint {checkpoint} of job {metadata.job!r}, generation {metadata.generation}, was "
                f"given to the service of job {self.job!r}, generation {permit.generation}"
            )
        name = metadata_name(self.job, checkpoint)
        data = encode_metadata(metadata)
        self._written.add(checkpoint)
        self._write_metadata(name, data)
        self._probe.reached("checkpoint.metadata-written")
        try:
            self._log.append(permit, checkpoint, name, digest(data))
        except StorageError as error:
            if not may_be_published(error):
                self._delete_quietly(name)
            raise
        self._shared.register(checkpoint, {name, *referenced_files(metadata)})
        self._counted.add(checkpoint)
        self._give_up_spared()
        self._probe.reached("checkpoint.logged")

    def store_savepoint(
        self, permit: CommitPermit, metadata: CheckpointMetadata, uri: str, sha256: str
    ) -> None:
        """Add a log entry for the savepoint that the job was stopped with; its files are written already.
        `uri` is the URI of its `_metadata`, `sha256` the hex digest of that file. Errors as :meth:`store`.
        """
        self._log.append(permit, CheckpointId(metadata.checkpoint), uri, sha256)
        self._probe.reached("checkpoint.logged")

    def retire(self, permit: CommitPermit, checkpoints: Iterable[CheckpointId]) -> None:
        """Delete `checkpoints` and all older ones in the log, and a claimed snapshot with an id among them.
        Files that a newer checkpoint needs stay. A checkpoint that another job is restoring stays, with all
        that are newer, until a later call. The log is trimmed first; files that could not be deleted
        (StorageError) are tried again by the next call. FencedError: another job master took over.
        InternalError, with nothing deleted: the job would have no checkpoint left.
        """
        retired = set(checkpoints)
        if used := self._users.checkpoints():
            retired = {checkpoint for checkpoint in retired if checkpoint < min(used)}
            if not retired:
                return
        logged, newest = self._log.completed(), max(retired, default=0)
        retained = [entry for entry in logged if entry.checkpoint > newest]
        retired |= {CheckpointId(entry.checkpoint) for entry in logged if entry.checkpoint <= newest}
        if logged and not retained:
            raise InternalError(
                f"retiring checkpoints {sorted(retired)} would leave job {self.job!r} without any"
            )
        self._count(retained)
        self._count((entry for entry in logged if entry.checkpoint <= newest), tolerant=True)
        if retained:
            lowest = CheckpointId(retained[0].checkpoint)
            self._log.trim(permit, lowest)
            self._probe.reached("checkpoint.trimmed")
        else:
            lowest = CheckpointId(newest + 1)
        self._delete_unused(retired, lowest)
        self._release_claimed(retired)

    def discard_completed(self, permit: CommitPermit, checkpoints: Iterable[CheckpointId]) -> None:
        """Empty the log of a job that has ended and keeps nothing, and delete the files of its checkpoints.
        The folders of `checkpoints` (ids) go too, even if the log lacks them. Savepoints that the log names
        stay, and checkpoints that another job is restoring. It may be called again after a StorageError.
        FencedError: another job master took over; nothing was deleted.
        """
        discarded = set(checkpoints)
        self._give_up_spared()
        logged = self._log.completed()
        self._count(logged, tolerant=True)
        if not self._log_emptied:
            self._log.close(permit, terminal=True)
            self._log_emptied = True
        newest = max(discarded | {CheckpointId(entry.checkpoint) for entry in logged}, default=0)
        self._delete_unused(discarded, CheckpointId(newest + 1))
        self._release_claimed(discarded)

    def discard(self, snapshots: Iterable[SubtaskSnapshot]) -> None:
        """Delete the data files of an aborted checkpoint's snapshots, but none that a completed one needs."""
        # They may refer to files of completed checkpoints, also to those of a job master before this one.
        self._count(self._log.completed())
        names = {name for snapshot in snapshots for name in _files_of_snapshot(snapshot)}
        self._delete_all(
            {name for name in self._shared.unreferenced(names) if checkpoint_of(name, self.job) is not None}
        )

    def perhaps_complete(self) -> dict[str, CheckpointMetadata]:
        return self._perhaps_complete(self.disk.list(job_folder(self.job)), self._log.completed())

    def _perhaps_complete(
        self, names: Iterable[str], logged: Iterable[Completed]
    ) -> dict[str, CheckpointMetadata]:
        files = JobFiles(self.disk, self.job, frozenset(names), ())
        return {
            name: metadata
            for name, metadata in newer_than_log(files, logged).items()
            if metadata.checkpoint not in self._written and referenced_files(metadata) <= files.names
        }

    def sweep_orphans(self, permit: CommitPermit, pending: Iterable[CheckpointId] = ()) -> list[str]:
        """Delete files that crashes left in folders of checkpoints neither completed nor in `pending`.
        A checkpoint that may have lost its log entry stays until a newer one completes. Returns the names of
        the deleted files. FencedError, before anything is deleted: another job master took over.
        """
        folder = job_folder(self.job)
        # List first, then check the claim: what was listed cannot belong to a later job master.
        names = list(self.disk.list(folder))
        unfinished = list(self.disk.temporaries(folder)) if isinstance(self.disk, KeepsTemporaries) else []
        self._log.check(permit)
        logged = self._log.completed()
        spared = {entry.checkpoint for entry in logged} | set(pending)
        self._count(logged)
        orphans = {
            name
            for name in self._shared.unreferenced(names)
            if (owner := checkpoint_of(name, self.job)) is not None and owner not in spared
        }
        # Those in the log stay, a few bytes for each driver that died there: one may be the next claim of a
        # running job master, and nothing here shows how old a file is.
        spared_owners = {None, *pending}
        orphans |= {name for name in unfinished if checkpoint_of(name, self.job) not in spared_owners}
        self._spared = names_needed(self._perhaps_complete(names, logged))
        orphans -= self._spared
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

    def _count(self, logged: Iterable[Completed], *, tolerant: bool = False) -> None:
        for entry in logged:
            if entry.checkpoint in self._counted or is_outside(entry.metadata):
                continue
            try:
                names = {entry.metadata, *referenced_files(self._metadata_of(entry))}
            except StorageError:
                if not tolerant:
                    raise
                continue
            self._shared.register(CheckpointId(entry.checkpoint), names)
            self._counted.add(entry.checkpoint)

    def _metadata_of(self, entry: Completed) -> CheckpointMetadata:
        try:
            return read_metadata(self.disk, entry.metadata)
        except FileNotFoundError:
            where = self.disk.describe(entry.metadata)
            raise StorageError(f"{where} is missing although the log names it; nothing was deleted") from None

    def _give_up_spared(self) -> None:
        self._doomed |= self._spared
        self._spared = set()

    def _delete_unused(self, retired: Iterable[CheckpointId], lowest: CheckpointId) -> None:
        self._doomed.update(self._shared.unregister_below(lowest))
        self._counted = {checkpoint for checkpoint in self._counted if checkpoint >= lowest}
        for checkpoint in retired:
            self._doomed.update(self.disk.list(checkpoint_folder(self.job, checkpoint)))
        self._doomed.intersection_update(self._shared.unreferenced(self._doomed))
        # After the change of the log: a restoring driver writes its file before it looks at the log.
        used = self._users.checkpoints()
        kept = self._users.files(used) & self._doomed if used else set()
        self._delete_all(self._doomed - kept)
        self._doomed = kept

    def _release_claimed(self, retired: Iterable[CheckpointId]) -> None:
        record = self._record
        if record is None or CheckpointId(record.checkpoint) not in set(retired):
            return
        left_alone = release(record, self.own, self._disks)
        if left_alone is not None:
            _LOG.warning("the claimed snapshot %s was not deleted: %s", record.root, left_alone)
        self.disk.delete(self._record_name)
        self._record = None

    def _delete_all(self, names: set[str]) -> list[str]:
        ordered = sorted(names, key=metadata_first)
        for name in ordered:
            self.disk.delete(name)
        return ordered

    def _delete_quietly(self, name: str) -> None:
        try:
            self.disk.delete(name)
        except (StorageError, OSError):
            return  # the error that is being raised matters more, and the next sweep finds the file


def _files_of_snapshot(snapshot: SubtaskSnapshot) -> list[str]:
    handles = (handle for state in snapshot.operators for handle in state.handles())
    names = [handle.file for handle in handles if isinstance(handle, FileRange)]
    return names + [item.file for stream in snapshot.in_flight for item in in_flight_ranges(stream)]
