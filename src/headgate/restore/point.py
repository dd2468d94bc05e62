"""Where an attempt begins."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.state.snapshots import CheckpointMetadata


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """Where an attempt begins.

    Attributes:
        checkpoint: what is restored.
        storage: the root that its files are named from.
        claimed: whether it is another job's, or a savepoint, that this job owns.
        passed_over: newer ones of this job that are damaged; what sinks have committed since is the user's
            choice.
    """

    checkpoint: CheckpointMetadata
    storage: str | None
    claimed: bool = False
    passed_over: tuple[int, ...] = ()
