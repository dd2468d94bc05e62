"""Where an attempt begins."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.state.snapshots import CheckpointMetadata


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """The checkpoint that an attempt restores."""

    checkpoint: CheckpointMetadata
    storage: str | None  # the root that its files are named from
    claimed: bool = False  # it is another job's, or a savepoint, and this job owns it
    passed_over: tuple[int, ...] = ()
    """Newer ones of this job that are damaged; the user chooses what becomes of output committed since."""
