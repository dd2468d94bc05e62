"""Finds a job's newest completed checkpoint to begin from, and makes the error when files are damaged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress

from headgate.checkpoint.layout import METADATA, log_folder, metadata_name
from headgate.checkpoint.metadata.metadata_bytes import read_metadata
from headgate.checkpoint.opening import SAVEPOINT, Disks, damaged_log, offer, offer_beside, open_logged
from headgate.checkpoint.savepoints import is_outside
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import DamagedFileError, HeadgateError, StorageError, UsageError
from headgate.common.ids import CheckpointId, JobId
from headgate.common.ports import Disk
from headgate.restore.point import RestorePoint
from headgate.state.snapshots import CheckpointMetadata


def latest_point(
    service: CheckpointService,
    disks: Disks,
    fell_back: Callable[[str], None] | None = None,
    gone_back: Collection[int] = (),
) -> RestorePoint | None:
    """Return the newest completed checkpoint in the log of `service`'s job, to restore; None: it has none.
    `disks` opens a storage by URI. Damaged metadata raise DamagedFileError. With `fell_back`, all files are
    read, and a damaged checkpoint is replaced by an older one, about which `fell_back` gets a sentence; if
    the oldest is damaged, that raises. `gone_back`: checkpoints skipped so before, never taken: their output
    was written anew.
    """
    try:
        logged = service.completed()
    except DamagedFileError as error:
        raise damaged_log(error, service.disk, log_folder(service.job)) from error
    usable = [entry for entry in logged if entry.checkpoint not in gone_back]
    if not usable:
        return None
    disk, found = open_logged(service.disk, usable, disks, fell_back)
    if fell_back is None:
        return RestorePoint(found, disk.describe())
    passed = tuple(entry.checkpoint for entry in usable if entry.checkpoint > found.checkpoint)
    return RestorePoint(found, disk.describe(), passed_over=passed)


def offered(
    error: DamagedFileError, point: RestorePoint, service: CheckpointService | None, disks: Disks
) -> HeadgateError:
    """Return the error to raise in place of `error` (damage in files of `point`): it says what to restore. To
    name an intact one, it reads older checkpoints' files. `service` is None if the job stores none.
    UsageError if the files of `point`, another job's, were deleted; else DamagedFileError.
    """
    checkpoint, root = point.checkpoint, point.storage
    foreign = service is None or checkpoint.job != service.job
    if root is not None and foreign and _is_deleted(disks(root), checkpoint):
        return UsageError(
            f"{checkpoint.kind} {checkpoint.checkpoint} of job {checkpoint.job!r}, which this job began "
            f"from, was deleted before this job had a checkpoint of its own: {error}; begin from another one"
        )
    if service is not None and checkpoint.job == service.job:
        older = [entry for entry in service.completed() if entry.checkpoint < checkpoint.checkpoint]
        advice = offer(service.disk, older[::-1], disks)
    elif root is None or checkpoint.kind == SAVEPOINT:
        advice = offer_beside(root or "", "")
    else:
        advice = offer_beside(f"{root.rstrip('/')}/{checkpoint.job}", f"chk-{checkpoint.checkpoint}")
    return DamagedFileError(f"{error}; {advice}")


def _is_deleted(disk: Disk, checkpoint: CheckpointMetadata) -> bool:
    if checkpoint.kind == SAVEPOINT:
        return METADATA not in disk.list("")
    name = metadata_name(JobId(checkpoint.job), CheckpointId(checkpoint.checkpoint))
    return name not in disk.list(name.rpartition("/")[0])


def still_logged(jobs: Sequence[str], disks: Iterable[Disk]) -> list[CheckpointMetadata]:
    """Return the checkpoints, savepoints excepted, that the logs of `jobs` (ids) list on any of `disks`. Logs
    and metadata that cannot be read are skipped.
    """
    found = []
    for disk in disks if jobs else ():
        for job in jobs:
            try:
                logged = CompletedCheckpointLog(disk, log_folder(JobId(job))).completed()
            except StorageError:
                continue
            for entry in logged:
                with suppress(StorageError, FileNotFoundError):
                    if not is_outside(entry.metadata):
                        found.append(read_metadata(disk, entry.metadata))
    return found
