"""The newest checkpoint of a job, as a restore opens it."""

from __future__ import annotations

from headgate.checkpoint.opening import open_logged
from headgate.checkpoint.service import CheckpointService
from headgate.state.snapshots import CheckpointMetadata


def load_latest(service: CheckpointService) -> CheckpointMetadata | None:
    """The newest completed checkpoint of a job, read afresh; None when there is none."""
    completed = service.completed()
    return open_logged(service.disk, completed)[1] if completed else None
