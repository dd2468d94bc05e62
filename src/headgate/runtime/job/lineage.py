"""The lineage of a job's output: whose output it continues, from which snapshots on. Plain data, no I/O."""

from __future__ import annotations

from headgate.api.sink import Fork, Lineage
from headgate.common.ids import JobId
from headgate.state.snapshots import CheckpointMetadata, SnapshotFork


def lineage_of(job: JobId, restored: CheckpointMetadata | None) -> Lineage:
    """Return the lineage (whose output it continues) of a job that restores `restored` (None: nothing).

    Example:
        >>> lineage_of(JobId("first"), None)
        Lineage(id='first', forks=())
    """
    if restored is None:
        return Lineage(job)
    forks = tuple(Fork(f.job, f.generation, f.attempt, f.checkpoint) for f in restored.forks)
    if restored.job != job:
        forks += (Fork(restored.job, restored.generation, restored.attempt, restored.checkpoint),)
    return Lineage(restored.lineage or restored.job, forks)


def stored_forks(lineage: Lineage) -> list[SnapshotFork]:
    return [SnapshotFork(f.job, f.generation, f.attempt, f.checkpoint) for f in lineage.forks]
