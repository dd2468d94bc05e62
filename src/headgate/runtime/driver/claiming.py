"""Checks and claims the snapshot that a driver starts its job from; see also `checkpoint.ownership`."""

from __future__ import annotations

import dataclasses

from headgate.checkpoint.opening import SAVEPOINT, Disks
from headgate.checkpoint.ownership import check_newest, claim, continues_as, require_logged
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage.uris import open_disk
from headgate.common.errors import UsageError
from headgate.common.ids import JobId
from headgate.common.ports import Disk
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.ha.second_jobs import refuse_running
from headgate.restore.point import RestorePoint


def refuse_in_use(config: Config, point: RestorePoint | None, job: JobId, disks: Disks = open_disk) -> None:
    """Raise UsageError if snapshot `point` is a checkpoint of a job other than `job` which is seen to run.
    Allowed are savepoints always, and checkpoints with `execution.allow-second` and claim mode NO_CLAIM.
    """
    if point is None or point.storage is None or point.checkpoint.kind == SAVEPOINT:
        return
    if point.checkpoint.job != job and (_claims(config) or not config.get(o.ALLOW_SECOND)):
        refuse_running(config, disks(point.storage), point.checkpoint)


def keeps(config: Config, point: RestorePoint, job: JobId) -> bool:
    """Return whether `job` starts, without a claim, from a checkpoint that another job may delete."""
    other = point.storage is not None and point.checkpoint.job != job
    return other and point.checkpoint.kind != SAVEPOINT and not _claims(config)


def continued_job(config: Config, disk: Disk | None, point: RestorePoint | None) -> JobId | None:
    if point is None or not _claims(config):
        return None
    if disk is None:
        raise UsageError(
            f"{o.CLAIM_MODE.key} is CLAIM, but checkpoints are off, and nothing would ever replace the "
            f"snapshot; set {o.CHECKPOINTING_INTERVAL.key}, or choose NO_CLAIM"
        )
    return continues_as(disk, point.storage or "", point.checkpoint)


def check_claim(
    config: Config, disk: Disk | None, point: RestorePoint, disks: Disks = open_disk
) -> JobId | None:
    """Raise UsageError if snapshot `point` has to be claimed and cannot be; change nothing.
    Return the id of the job that this driver would continue, None if it would be a job of its own.
    """
    job = continued_job(config, disk, point)
    if job is None and _claims(config) and point.checkpoint.kind != SAVEPOINT:
        require_logged(disks(point.storage or ""), point.checkpoint)
    return job


def taken_over(
    config: Config, service: CheckpointService | None, point: RestorePoint | None, disks: Disks = open_disk
) -> RestorePoint | None:
    """Return the snapshot to restore: `point` as it is or, with claim mode CLAIM, claimed for the job of
    `service`. The claim of another job's checkpoint fences that job, and the result is marked `claimed`; the
    newest checkpoint of our own job needs no claim. UsageError: it cannot be claimed.
    """
    if point is None or service is None or not _claims(config):
        return point
    if continues_as(service.disk, point.storage or "", point.checkpoint) == service.job:
        return point
    if point.checkpoint.job == service.job and point.checkpoint.kind == "checkpoint":
        check_newest(service.completed(), point.checkpoint)
    service.own(claim(disks(point.storage or ""), point.checkpoint, service.job))
    return dataclasses.replace(point, claimed=True)


def _claims(config: Config) -> bool:
    return config.get(o.CLAIM_MODE) is o.ClaimMode.CLAIM
