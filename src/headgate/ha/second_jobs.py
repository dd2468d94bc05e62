"""Whether what a job is about to do is being done already: a job of its name here, or output in its place.

Each driver is seen in its checkpoint storage and in the folders of its sinks for as long as it lives (see
`common.occupants`), and by the file of a job that answers commands. Drivers of one job, which replace each
other under high availability, are settled by their election, and not here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import UsageError
from headgate.common.files.job_files import known_jobs
from headgate.common.files.occupants import Occupancy, Occupant, occupants_of, this_driver_as
from headgate.common.ids import JobId
from headgate.common.ports import Disk
from headgate.graph.logical import SinkNode
from headgate.graph.physical import PhysicalPlan

RUNNING: Final = ".headgate-running"
"""In a checkpoint storage on local files: the folder of the jobs that keep their checkpoints there."""

WRITING: Final = ".headgate-writing"
"""In a sink's folder: the folder of the jobs that write there."""

Look = Callable[[Sequence[Occupant]], None]

_LOG: Final = logging.getLogger(__name__)


def take_places(
    job: JobId, name: str, plan: PhysicalPlan, disk: Disk | None, opened: ExitStack, *, allow_second: bool
) -> None:
    """Be seen where the job keeps its checkpoints and writes, until `opened` is closed."""
    me = this_driver_as(job, name)

    def others(found: Sequence[Occupant]) -> list[Occupant]:
        return [] if allow_second else [each for each in found if each.job_id != job]

    def same_name(found: Sequence[Occupant]) -> None:
        for each in others(found):
            if each.name == name and disk is not None:
                raise UsageError(_same_name(each, disk.describe()))

    if disk is not None:
        same_name(_answering(disk))
    if isinstance(disk, LocalDisk):
        _enter(disk.root / RUNNING, me, same_name, opened)
    for folder, uid in _outputs(plan).items():

        def same_output(found: Sequence[Occupant], folder: Path = folder, uid: str = uid) -> None:
            for each in others(found):
                raise UsageError(_same_output(each, uid, folder))

        with suppress(OSError):  # output belongs to its readers: it is made as any program makes folders
            folder.mkdir(parents=True, exist_ok=True)
        _enter(folder / WRITING, me, same_output, opened)


def running_in(disk: Disk, job: JobId) -> str | None:
    """The living driver of a job that keeps its checkpoints on a disk, in words; None where none is seen."""
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
        _LOG.debug("%s tells nobody that job %r runs: %s", folder, me.job_id, error)
        return
    opened.callback(occupancy.leave)


def _answering(disk: Disk) -> list[Occupant]:
    """The jobs of this user that answer commands and keep their checkpoints on a disk."""
    storage = disk.describe()
    return [
        Occupant(known.file.job_id, known.file.name, known.file.pid, known.file.host)
        for known in known_jobs()
        if not known.exited and known.file.storage == storage
    ]


def _outputs(plan: PhysicalPlan) -> dict[Path, str]:
    """The folders that sinks write to, each with the uid of one."""
    nodes = [node for vertex in plan.vertices for node in vertex.chain if isinstance(node, SinkNode)]
    places = [(node.sink.place(), node.uid or node.name) for node in nodes]
    return {Path(place).resolve(): uid for place, uid in places if place is not None}


def _same_name(other: Occupant, storage: str) -> str:
    return (
        f"job {other.name!r} is running already: {other.where} keeps the checkpoints of {other.job_id} below "
        f"{storage}, and a second one would write all output once more; {_choices(other)}; another job gets "
        "another name, by execute(name)"
    )


def _same_output(other: Occupant, uid: str, folder: Path) -> str:
    return (
        f"sink {uid!r} writes to {str(folder)!r}, where job {other.job_id} ({other.name!r}, {other.where}) "
        f"is writing; let it write to another folder, or {_choices(other)}"
    )


def _choices(other: Occupant) -> str:
    job = other.job_id
    return (
        f"end that one first (`headgate stop {job}` or `headgate cancel {job}`), or begin beside it with "
        "--allow-second (execution.allow-second=true)"
    )
