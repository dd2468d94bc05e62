"""Detection of another driver that runs already: of a job's name, in its output, or of a checkpoint's job.

Each driver is seen in its checkpoint storage and in the folders of its sinks for as long as it lives, and by
the file of a job that answers commands (`common.files.job_files`); a leader elected on files by its beat, if
the beat changes while it is watched. Which driver of one job continues it, under high availability, is
decided by their election.

A sign proves that a driver runs; a missing sign proves nothing, because the driver may be where it cannot be
seen. So only a sign refuses a restore. Without one the restore goes on, and a claim fences the other driver.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import UsageError
from headgate.common.files.durable import clock
from headgate.common.files.job_files import (
    RUNNING,
    Occupancy,
    Occupant,
    known_jobs,
    occupants_of,
    this_driver_as,
)
from headgate.common.ids import JobId
from headgate.common.ports import Clock, Disk
from headgate.common.process.system import SystemClock
from headgate.common.settings import options as o
from headgate.common.settings.config import Config
from headgate.graph.logical import SinkNode
from headgate.graph.physical import PhysicalPlan
from headgate.ha.files.file_election import FileElection
from headgate.ha.high_availability import LEADERS, election_key, job_id
from headgate.state.snapshots import CheckpointMetadata

WRITING: Final = ".headgate-writing"  # in a sink's folder: the folder of the jobs that write there
LOOKS_PER_LEASE: Final = 30  # how often a beat is looked at while it is watched for one lease

Look = Callable[[Sequence[Occupant]], None]

_LOG: Final = logging.getLogger(__name__)


def take_places(
    job: JobId, name: str, plan: PhysicalPlan, disk: Disk | None, opened: ExitStack, *, allow_second: bool
) -> None:
    """Make the folders that the sinks of `plan` write to, and mark them, and `disk` if it is on local files,
    as used by this job until `opened` closes; what cannot be marked is left.

    UsageError, unless `allow_second`, if another job runs that writes to one of these folders, or that has
    this `name` and its checkpoints on `disk` (None: this job has none).
    """
    me = this_driver_as(job, name)

    def others(found: Sequence[Occupant]) -> list[Occupant]:
        return [] if allow_second else [each for each in found if each.job_id != job]

    def same_name(found: Sequence[Occupant]) -> None:
        for other in others(found):
            if other.name == name and disk is not None:
                raise UsageError(
                    f"job {name!r} is running already: {other.where} keeps the checkpoints of {other.job_id} "
                    f"below {disk.describe()}, and a second one would write all output once more; "
                    f"{_choices(other)}; another job gets another name, by execute(name)"
                )

    if disk is not None:
        same_name(_answering(disk))
    if isinstance(disk, LocalDisk):
        _enter(disk.root / RUNNING, me, same_name, opened)
    nodes = [node for vertex in plan.vertices for node in vertex.chain if isinstance(node, SinkNode)]
    places = [(node.sink.place(), node.uid or node.name) for node in nodes]
    # The folders that sinks write to, each with the uid of one.
    for folder, uid in {Path(place).resolve(): uid for place, uid in places if place is not None}.items():

        def same_output(found: Sequence[Occupant], folder: Path = folder, uid: str = uid) -> None:
            for each in others(found):
                raise UsageError(
                    f"sink {uid!r} writes to {str(folder)!r}, where job {each.job_id} ({each.name!r}, "
                    f"{each.where}) is writing; let it write to another folder, or {_choices(each)}"
                )

        with suppress(OSError):  # output belongs to its readers: it is made as any program makes folders
            folder.mkdir(parents=True, exist_ok=True)
        _enter(folder / WRITING, me, same_output, opened)


def refuse_running(
    config: Config,
    disk: Disk,
    checkpoint: CheckpointMetadata,
    clock: Clock | None = None,
    pause: Callable[[float], None] = clock.sleep,
) -> None:
    """Raise UsageError if the job of a checkpoint, from which a job is to begin, is seen to be running.

    The `high-availability.lease` of `config` is how long a leader's beat is watched for a change.
    """
    job = JobId(checkpoint.job)
    # Under high availability jobs of one name have one id on every storage.
    answering = [each for each in _answering(disk, None) if each.host == socket.gethostname()]
    seen = next((each.where for each in answering if each.job_id == job), None)
    where = seen or running_in(disk, job) or _leading(config, disk, checkpoint, clock or SystemClock(), pause)
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


def _leading(
    config: Config, disk: Disk, checkpoint: CheckpointMetadata, clock: Clock, pause: Callable[[float], None]
) -> str | None:
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


def running_in(disk: Disk, job: JobId) -> str | None:
    """Return where the driver of `job` runs, as text; None: not seen on `disk`, or that is not local."""
    if not isinstance(disk, LocalDisk):
        return None
    try:
        found = occupants_of(disk.root / RUNNING)
    except OSError:
        return None
    return next((each.where for each in found if each.job_id == job), None)


def _enter(folder: Path, me: Occupant, look: Look, opened: ExitStack) -> None:
    occupancy = Occupancy(folder, me)
    try:
        occupancy.enter(look)
    except OSError as error:
        _LOG.debug("%s cannot show that job %r runs: %s", folder, me.job_id, error)
        return
    opened.callback(occupancy.leave)


def _answering(disk: Disk, *also: str | None) -> list[Occupant]:
    files = [known.file for known in known_jobs() if not known.exited]
    storages = (disk.describe(), *also)
    return [
        Occupant(file.job_id, file.name, file.pid, file.host) for file in files if file.storage in storages
    ]


def _choices(other: Occupant) -> str:
    job = other.job_id
    return (
        f"end that one first (`headgate stop {job}` or `headgate cancel {job}`), or begin beside it with "
        "--allow-second (execution.allow-second=true)"
    )
