"""Who owns the snapshot that a job begins from, and how the owner deletes it when it is not needed any more.

A job that claims the newest checkpoint of another job on the same storage continues as that job, in its log
and folder (:func:`continues_as`). Any other claimed snapshot is named in a **claim record** in the new job's
folder; no checkpoint of the new job refers to its files, which are deleted once such checkpoints replace it.
The last claimant owns a snapshot. A claim record is therefore valid only as long as its mark is the last one:
on a checkpoint the generation in its job's log, on a savepoint the file `_claimed` in its folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from headgate.checkpoint.layout import METADATA, checkpoint_of, job_folder, log_folder
from headgate.checkpoint.metadata.metadata_bytes import decode_metadata
from headgate.checkpoint.opening import SAVEPOINT, Disks, referenced_files
from headgate.checkpoint.savepoints import is_outside
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.store.entries import Completed, digest
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.decoders import msgpack_decoder
from headgate.common.errors import DamagedFileError, StorageError, UsageError
from headgate.common.files.envelope import Envelope
from headgate.common.ids import JobId
from headgate.common.ports import Disk
from headgate.state.snapshots import CheckpointMetadata

RECORD: Final = "claimed"  # file of the claim record in a job's folder
MARK: Final = "_claimed"  # file in a savepoint's folder that names the job that claimed it last


class ClaimRecord(msgspec.Struct, frozen=True):
    """The record that job `owner` owns a savepoint or another job's checkpoint, with what its deletion needs.
    A checkpoint also has its `job` and the `generation` of the claim on that job's log.
    """

    root: str  # URI of the folder that its file names are relative to
    metadata: str  # name of its `_metadata` file
    sha256: str  # hexadecimal digest of the metadata file
    checkpoint: int
    files: list[str]  # everything else that it refers to
    owner: str  # id of the job that owns the snapshot
    job: str | None = None  # of a checkpoint, whose log names it; None for a savepoint
    generation: int = 0  # of the claim on that log; 0 for a savepoint


_VERSION: Final = 1
_ENVELOPE: Final = Envelope("record of a claimed snapshot", b"HGDEED", ">HI")
_decoder: Final = msgpack_decoder(ClaimRecord)


def encode_record(record: ClaimRecord) -> bytes:
    return b"".join(_ENVELOPE.seal(_VERSION, [msgspec.msgpack.encode(record)]))


def decode_record(data: bytes, where: str) -> ClaimRecord:
    """Decode the claim record in the file `where`; StorageError if it is damaged."""
    try:
        return _ENVELOPE.decode(data, where, {_VERSION: _decoder.decode})
    except DamagedFileError as error:
        raise StorageError(
            f"{where} is no record of a claimed snapshot, or is damaged ({error}); remove it, and delete the "
            "snapshot that the job began from by hand once the job has completed a checkpoint"
        ) from error


def continues_as(disk: Disk, root: str, checkpoint: CheckpointMetadata) -> JobId | None:
    """Return the job that a driver with storage `disk` continues by claiming a snapshot below URI `root`.
    That is the snapshot's job, if its log on the same storage has this checkpoint as the newest; else None.
    """
    if checkpoint.kind == SAVEPOINT or root != disk.describe():
        return None
    logged = CompletedCheckpointLog(disk, log_folder(JobId(checkpoint.job))).completed()
    newest = logged[-1].checkpoint if logged else None
    return JobId(checkpoint.job) if newest == checkpoint.checkpoint else None


def check_newest(completed: list[Completed], checkpoint: CheckpointMetadata) -> None:
    """Raise UsageError unless `checkpoint` is the newest in `completed`: its job went on during the claim."""
    newest = completed[-1].checkpoint if completed else None
    if newest != checkpoint.checkpoint:
        raise UsageError(
            f"checkpoint {checkpoint.checkpoint} of job {checkpoint.job!r} cannot be claimed: the job has "
            f"completed checkpoint {newest} meanwhile, so it was running; it is stopped by this claim. Begin "
            "from its newest checkpoint, or choose claim mode NO_CLAIM"
        )


def require_logged(disk: Disk, checkpoint: CheckpointMetadata) -> None:
    """Raise UsageError for a checkpoint that no log on its storage names: it is unknown which job uses it."""
    job = JobId(checkpoint.job)
    logged = CompletedCheckpointLog(disk, log_folder(job)).completed()
    if not any(entry.checkpoint == checkpoint.checkpoint for entry in logged):
        raise UsageError(
            f"checkpoint {checkpoint.checkpoint} of job {job!r} cannot be claimed, because no log below "
            f"{disk.describe(job_folder(job))} names it, so a running job may still use it; choose claim "
            "mode NO_CLAIM, or take a savepoint and claim that"
        )


def claim(disk: Disk, checkpoint: CheckpointMetadata, owner: JobId) -> ClaimRecord:
    """Claim snapshot `checkpoint` on `disk` for job `owner`; return the record for `CheckpointService.own`.
    This fences a checkpoint's job. UsageError: its log does not name it, or it was deleted meanwhile.
    """
    files = sorted(referenced_files(checkpoint))
    if checkpoint.kind == SAVEPOINT:
        data = _read(disk, METADATA)
        disk.create(MARK, [owner.encode()])
        return ClaimRecord(disk.describe(), METADATA, digest(data), checkpoint.checkpoint, files, owner)
    job = JobId(checkpoint.job)
    log = CompletedCheckpointLog(disk, log_folder(job))
    require_logged(disk, checkpoint)
    generation = log.claim().generation
    # Read again: until the claim its owner may have retired it.
    entry = next((each for each in log.completed() if each.checkpoint == checkpoint.checkpoint), None)
    if entry is None or digest(_read(disk, entry.metadata)) != entry.sha256:
        raise UsageError(
            f"checkpoint {checkpoint.checkpoint} of job {job!r} was deleted while it was claimed, so the job "
            "was running; it is stopped by this claim: begin from its newest checkpoint"
        )
    return ClaimRecord(
        disk.describe(), entry.metadata, entry.sha256, entry.checkpoint, files, owner, job, generation
    )


def release(record: ClaimRecord, keep: Callable[[ClaimRecord], None], disks: Disks = open_disk) -> str | None:
    """Delete a claimed snapshot, without files that its job still needs; if it stays, return why, else None.
    It stays if another job has claimed it, or its metadata changed. `keep` is called to store a new record.
    """
    disk = disks(record.root)
    try:
        if digest(disk.read(record.metadata)) != record.sha256:
            return f"{disk.describe(record.metadata)} is not the file any more that was claimed"
    except FileNotFoundError:
        pass  # deleted by an attempt before this one
    if record.job is None:
        return _release_savepoint(record, disk)
    return _release_checkpoint(record, disk, JobId(record.job), keep)


def _release_savepoint(record: ClaimRecord, disk: Disk) -> str | None:
    try:
        owner = disk.read(MARK).decode(errors="replace")
    except FileNotFoundError:
        owner = None
    if owner != record.owner:
        # The mark is deleted last, so without it either everything is deleted or a person removed the mark.
        return (
            f"the savepoint {disk.describe()} was claimed by {'nobody' if owner is None else owner!r} since"
        )
    for name in (record.metadata, *record.files, MARK):
        disk.delete(name)
    return None


def _release_checkpoint(
    record: ClaimRecord, disk: Disk, job: JobId, keep: Callable[[ClaimRecord], None]
) -> str | None:
    log = CompletedCheckpointLog(disk, log_folder(job))
    reason = f"the checkpoints of job {job!r} were claimed by another job since"
    if not record.generation or log.generation() != record.generation:
        return reason  # without disturbing that job by another claim
    permit = log.claim()
    if permit.generation != record.generation + 1:
        return reason
    keep(msgspec.structs.replace(record, generation=permit.generation))
    needed: set[str] = set()
    for entry in log.completed():
        if entry.checkpoint != record.checkpoint and not is_outside(entry.metadata):
            needed |= {entry.metadata, *referenced_files(_metadata(disk, entry.metadata))}
    log.forget(permit, record.checkpoint)
    for name in (record.metadata, *record.files):
        if checkpoint_of(name, job) is not None and name not in needed:
            disk.delete(name)
    return None


def _metadata(disk: Disk, name: str) -> CheckpointMetadata:
    return decode_metadata(_read(disk, name), disk.describe(name))


def _read(disk: Disk, name: str) -> bytes:
    try:
        return disk.read(name)
    except FileNotFoundError:
        raise StorageError(
            f"{disk.describe(name)} is missing; nothing was deleted: name a complete snapshot"
        ) from None
