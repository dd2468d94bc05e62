"""Whether another driver still runs the job from whose checkpoint one is to begin.

A sign proves that it runs; that there is none proves nothing, because a driver may be where nobody can see
it. So a restore is refused on a sign only. Without one it goes on, and a claim fences whoever still runs.

Signs are: the file of a job that answers commands, locked by a driver of this machine; the file that a driver
locks in a checkpoint storage on local files; and the beat of a leader on files, if it goes on while it is
watched.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

from headgate.common.errors import UsageError
from headgate.common.files.durable import clock
from headgate.common.files.job_files import known_jobs
from headgate.common.ids import JobId
from headgate.common.ports import Clock, Disk
from headgate.common.process.system import SystemClock
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.ha.files.file_election import FileElection
from headgate.ha.high_availability import LEADERS, election_key, job_id
from headgate.ha.second_jobs import running_in
from headgate.state.snapshots import CheckpointMetadata

LOOKS_PER_LEASE: Final = 30
"""How often a beat is looked at while it is watched for one lease."""


def refuse_running(
    config: Config,
    disk: Disk,
    checkpoint: CheckpointMetadata,
    clock: Clock | None = None,
    pause: Callable[[float], None] = clock.sleep,
) -> None:
    """Refuse to begin from a checkpoint whose job runs, where that can be seen.

    The `high-availability.lease` of `config` is how long a silent leader is watched.
    """
    job = JobId(checkpoint.job)
    where = _answering(job, disk) or running_in(disk, job)
    where = where or _leading(config, disk, checkpoint, clock or SystemClock(), pause)
    if where is None:
        return
    claims = config.get(o.CLAIM_MODE) is o.ClaimMode.CLAIM
    what = (
        "cannot be claimed, because the job is running"
        if claims
        else "cannot be begun from, because the job is running, and deletes it when newer ones replace it"
    )
    beside = "" if claims else ", or begin beside it with --allow-second (execution.allow-second=true)"
    raise UsageError(
        f"checkpoint {checkpoint.checkpoint} of job {job!r} {what} ({where}); end it first, with `headgate "
        f"stop {job}` or `headgate cancel {job}`, or take a savepoint (`headgate savepoint create "
        f"{job}`) and begin from that{beside}"
    )


def _answering(job: JobId, disk: Disk) -> str | None:
    """The driver of this machine that holds the job's file, in words."""
    for known in known_jobs():
        file = known.file
        # Under high availability jobs of one name have one id on every storage.
        here = file.host == socket.gethostname() and file.storage in (None, disk.describe())
        if file.job_id == job and here and not known.exited:
            return f"process {file.pid} on {file.host}"
    return None


def _leading(
    config: Config, disk: Disk, checkpoint: CheckpointMetadata, clock: Clock, pause: Callable[[float], None]
) -> str | None:
    """The leader of the job on this storage whose beat goes on, in words."""
    name, cluster = checkpoint.job_name, config.get(o.HA_CLUSTER_ID)
    lease_ms = config.get(o.HA_LEASE)
    election = FileElection(disk, f"{LEADERS}/{election_key(name, cluster)}", clock, lease_ms)
    first = election.leader()
    if first is None or first.released or job_id(name, cluster, first.run) != checkpoint.job:
        return None
    until_ms = clock.monotonic_ms() + lease_ms
    while clock.monotonic_ms() < until_ms:
        pause(lease_ms / 1000 / LOOKS_PER_LEASE)
        now = election.leader()
        if now is not None and now != first:
            return None if now.released else now.who
    return None
