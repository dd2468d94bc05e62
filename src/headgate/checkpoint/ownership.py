"""Who owns the snapshot that a job begins from, and how it is let go of when it is not needed any more.

A job that claims the newest checkpoint of another one on the same storage simply goes on as that job: its log
is the fence, its folder the place (:func:`goes_on_as`). Everything else that is claimed - a savepoint,
a checkpoint on another storage - is written down in a **deed** in the new job's folder. Nothing of the
new job ever refers to its files; they are deleted when the first checkpoints of the job have replaced it.

Whoever claims last owns. A deed is therefore worth something only as long as its mark is the last one: on a
checkpoint the generation in its job's log, on a savepoint the file `_claimed` in its folder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from headgate.checkpoint.layout import METADATA, checkpoint_of, job_folder, log_folder
from headgate.checkpoint.metadata.metadata_bytes import decode_metadata
from headgate.checkpoint.opening import SAVEPOINT, referenced_ranges
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

DEED: Final = "claimed"
"""Name of the deed's file in a job's folder."""

MARK: Final = "_claimed"
"""Name of the file in a savepoint's folder that says which job claimed it last."""

Disks = Callable[[str], Disk]


class Deed(msgspec.Struct, frozen=True):
    """A snapshot from elsewhere that a job owns.

    Attributes:
        root: URI of the folder that its file names are relative to.
        metadata: name of its metadata file.
        sha256: hexadecimal digest of that file.
        files: everything else that it refers to.
        job: of a checkpoint, whose log names it; None for a savepoint.
        generation: of the claim on that log; 0 for a savepoint.
    """

    root: str
    metadata: str
    sha256: str
    checkpoint: int
    files: list[str]
    owner: str
    job: str | None = None
    generation: int = 0


_VERSION: Final = 1
_ENVELOPE: Final = Envelope("deed of a claimed snapshot", b"HGDEED", ">HI")
_decoder: Final = msgpack_decoder(Deed)


def encode_deed(deed: Deed) -> bytes:
    """The bytes of a deed's file."""
    return b"".join(_ENVELOPE.seal(_VERSION, [msgspec.msgpack.encode(deed)]))


def decode_deed(data: bytes, where: str) -> Deed:
    """The deed in `data`."""
    try:
        return _ENVELOPE.decode(data, where, {_VERSION: _decoder.decode})
    except DamagedFileError as error:
        raise StorageError(
            f"{where} is no deed of a claimed snapshot, or is damaged ({error}); remove it, and delete the "
            "snapshot that the job began from by hand once the job has completed a checkpoint"
        ) from error


def goes_on_as(disk: Disk, root: str, checkpoint: CheckpointMetadata) -> JobId | None:
    """The job that a claiming job goes on as; None when it only takes the snapshot over with a deed."""
    if checkpoint.kind == SAVEPOINT or root != disk.describe():
        return None
    logged = CompletedCheckpointLog(disk, log_folder(JobId(checkpoint.job))).completed()
    newest = logged[-1].checkpoint if logged else None
    return JobId(checkpoint.job) if newest == checkpoint.checkpoint else None


def check_newest(completed: list[Completed], checkpoint: CheckpointMetadata) -> None:
    """After the claim of its log: nobody has completed another checkpoint meanwhile."""
    newest = completed[-1].checkpoint if completed else None
    if newest != checkpoint.checkpoint:
        raise UsageError(
            f"checkpoint {checkpoint.checkpoint} of job {checkpoint.job!r} cannot be claimed: the job has "
            f"completed checkpoint {newest} meanwhile, so it was running; it is stopped by this claim. Begin "
            "from its newest checkpoint, or choose claim mode NO_CLAIM"
        )


def require_logged(disk: Disk, checkpoint: CheckpointMetadata) -> None:
    """Only a checkpoint that a log names can be claimed: else nobody knows who uses it."""
    job = JobId(checkpoint.job)
    logged = CompletedCheckpointLog(disk, log_folder(job)).completed()
    if not any(entry.checkpoint == checkpoint.checkpoint for entry in logged):
        raise UsageError(
            f"checkpoint {checkpoint.checkpoint} of job {job!r} cannot be claimed, because no log below "
            f"{disk.describe(job_folder(job))} names it, and so nobody can tell whether a running job uses "
            "it; choose claim mode NO_CLAIM, or take a savepoint and claim that"
        )


def claim(disk: Disk, checkpoint: CheckpointMetadata, owner: JobId) -> Deed:
    """Become the owner of a snapshot: from here on whoever owned it may not change it."""
    files = sorted({item.file for item in referenced_ranges(checkpoint)})
    if checkpoint.kind == SAVEPOINT:
        data = _read(disk, METADATA)
        disk.create(MARK, [owner.encode()])
        return Deed(disk.describe(), METADATA, digest(data), checkpoint.checkpoint, files, owner)
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
    return Deed(
        disk.describe(), entry.metadata, entry.sha256, entry.checkpoint, files, owner, job, generation
    )


def release(deed: Deed, keep: Callable[[Deed], None], disks: Disks = open_disk) -> str | None:
    """Delete a claimed snapshot that is not needed any more.

    `keep` writes a changed deed down durably, before anything is deleted.

    Returns:
        None; or why it was left alone, in words.
    """
    disk = disks(deed.root)
    try:
        if digest(disk.read(deed.metadata)) != deed.sha256:
            return f"{disk.describe(deed.metadata)} is not the file any more that was claimed"
    except FileNotFoundError:
        pass  # deleted by an attempt before this one
    if deed.job is None:
        return _release_savepoint(deed, disk)
    return _release_checkpoint(deed, disk, JobId(deed.job), keep)


def _release_savepoint(deed: Deed, disk: Disk) -> str | None:
    try:
        owner = disk.read(MARK).decode(errors="replace")
    except FileNotFoundError:
        owner = None
    if owner != deed.owner:
        # The mark goes last, so without it either everything is gone or a person took it away.
        return (
            f"the savepoint {disk.describe()} was claimed by {'nobody' if owner is None else owner!r} since"
        )
    for name in (deed.metadata, *deed.files, MARK):
        disk.delete(name)
    return None


def _release_checkpoint(deed: Deed, disk: Disk, job: JobId, keep: Callable[[Deed], None]) -> str | None:
    log = CompletedCheckpointLog(disk, log_folder(job))
    told = f"the checkpoints of job {job!r} were claimed by somebody else since"
    if not deed.generation or log.generation() != deed.generation:
        return told  # and whoever did is not disturbed
    permit = log.claim()
    if permit.generation != deed.generation + 1:
        return told
    keep(msgspec.structs.replace(deed, generation=permit.generation))
    needed: set[str] = set()
    for entry in log.completed():
        if entry.checkpoint != deed.checkpoint:
            needed |= _needed(disk, entry)
    log.forget(permit, deed.checkpoint)
    mine = [name for name in (deed.metadata, *deed.files) if checkpoint_of(name, job) is not None]
    for name in mine:
        if name not in needed:
            disk.delete(name)
    return None


def _needed(disk: Disk, entry: Completed) -> set[str]:
    """What another checkpoint of the same log refers to; nothing of a savepoint elsewhere."""
    if is_outside(entry.metadata):
        return set()
    data = _read(disk, entry.metadata)
    metadata = decode_metadata(data, disk.describe(entry.metadata))
    return {entry.metadata, *(item.file for item in referenced_ranges(metadata))}


def _read(disk: Disk, name: str) -> bytes:
    try:
        return disk.read(name)
    except FileNotFoundError:
        raise StorageError(
            f"{disk.describe(name)} is missing; nothing was deleted: name a snapshot that is whole"
        ) from None
