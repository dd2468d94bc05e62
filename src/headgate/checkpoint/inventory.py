"""What lies below a place in checkpoint storage: jobs, single snapshots, and whose each file is.

Nothing is decoded but names, so this works on whatever state the storage is in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headgate.checkpoint.layout import LOG, METADATA, checkpoint_number
from headgate.checkpoint.storage.storage_contract import KeepsTemporaries
from headgate.checkpoint.storage.uris import open_disk
from headgate.common.errors import UsageError
from headgate.common.ids import JobId
from headgate.common.ports import Disk

_LOG_NAME: Final = 19


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The files of one job.

    Attributes:
        names: all finished files, from the root.
        temporaries: unfinished files of killed writers, from the root.
    """

    disk: Disk
    job: JobId
    names: frozenset[str]
    temporaries: tuple[str, ...]

    @property
    def has_log(self) -> bool:
        """Whether a log of completed checkpoints lies beside the checkpoints."""
        return any(name.startswith(f"{self.job}/{LOG}/") for name in self.names)

    def log_names(self) -> list[str]:
        """Files of log entries, oldest first."""
        prefix = f"{self.job}/{LOG}/"
        return sorted(
            name for name in self.names if name.startswith(prefix) and len(name) == len(prefix) + _LOG_NAME
        )


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """One checkpoint or savepoint, named by itself."""

    disk: Disk
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Place:
    """What is below a URI.

    Attributes:
        kind: "storage", "job" or "snapshot".
    """

    uri: str
    kind: str
    jobs: tuple[JobFiles, ...] = ()
    snapshots: tuple[SnapshotFiles, ...] = ()


def look_at(uri: str) -> Place:
    """Find out what a URI names.

    `uri` is that of a storage root, a job's folder, a checkpoint's or savepoint's, or its `_metadata`.
    """
    disk = open_disk(uri)
    above, _, last = disk.describe().rstrip("/").rpartition("/")
    if last == METADATA:
        disk = open_disk(above)
        above, _, last = above.rpartition("/")
    names = frozenset(disk.list(""))
    if METADATA in names:
        return Place(disk.describe(), "snapshot", snapshots=(SnapshotFiles(disk, names),))
    if _is_job(names):
        root = open_disk(above)
        job = disk.describe()[len(root.describe().rstrip("/")) + 1 :]
        return Place(disk.describe(), "job", jobs=(job_files(root, JobId(job)),))
    return _storage(disk, names)


def job_files(root: Disk, job: JobId) -> JobFiles:
    """The files of a job, listed afresh."""
    unfinished = tuple(root.temporaries(job)) if isinstance(root, KeepsTemporaries) else ()
    return JobFiles(root, job, frozenset(root.list(job)), unfinished)


def _storage(disk: Disk, names: frozenset[str]) -> Place:
    folders: dict[str, set[str]] = {}
    for name in names:
        top, _, rest = name.partition("/")
        if rest:
            folders.setdefault(top, set()).add(rest)
    jobs = [JobId(top) for top, below in folders.items() if top[0] != "." and _is_job(below)]
    mine = {f"{job}/" for job in jobs}
    savepoints = sorted(
        name.rpartition("/")[0]
        for name in names
        if name.rpartition("/")[2] == METADATA and f"{name.partition('/')[0]}/" not in mine
    )
    if not jobs and not savepoints:
        raise UsageError(
            f"{disk.describe()} holds nothing of Headgate's; expected a checkpoint storage, a job's folder "
            f"in it, a checkpoint's or savepoint's folder, or its {METADATA}"
        )
    below = [open_disk(disk.describe(folder)) for folder in savepoints]
    return Place(
        disk.describe(),
        "storage",
        tuple(job_files(disk, job) for job in sorted(jobs)),
        tuple(SnapshotFiles(each, frozenset(each.list(""))) for each in below),
    )


def _is_job(below: set[str] | frozenset[str]) -> bool:
    return any(_of_job(*name.partition("/")) for name in below)


def _of_job(top: str, _: str, rest: str) -> bool:
    if top == LOG:
        return len(rest) == _LOG_NAME and rest.isdigit()
    return bool(rest) and checkpoint_number(top) is not None
