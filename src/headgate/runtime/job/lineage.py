"""Which line a job's output goes on, told from the snapshot that it begins from. Plain data, no I/O."""

from __future__ import annotations

from headgate.api.sink import Fork, Lineage
from headgate.common.ids import JobId
from headgate.state.snapshots import CheckpointMetadata, SnapshotFork


def lineage_of(job: JobId, restored: CheckpointMetadata | None) -> Lineage:
    """The line of a job that begins.

    `job`: its id; `restored`: what it begins from: nothing, another job's snapshot, or its own, taken when
    another driver ran it.

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
    """The forks of a line as a snapshot's metadata has them."""
    return [SnapshotFork(f.job, f.generation, f.attempt, f.checkpoint) for f in lineage.forks]
