"""The restore point of an attempt: the checkpoint from which the subtasks of one deployment start."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.state.snapshots import CheckpointMetadata


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """The checkpoint that an attempt (one deployment of the job) restores, and where its files are."""

    checkpoint: CheckpointMetadata
    storage: str | None  # URI of the folder that its file names are relative to; None: it has no files
    claimed: bool = False  # it is another job's, or a savepoint, and this job owns it
    passed_over: tuple[int, ...] = ()
    """Newer checkpoints of this job, skipped as damaged; the user decides on output committed with them."""
