"""Creates a job's checkpoint coordinator from its log, and writes complete checkpoints to storage and log."""

from __future__ import annotations

from typing import Final

from headgate.checkpoint.savepoints import SavepointFolder, is_outside
from headgate.checkpoint.service import CheckpointService, may_be_published
from headgate.checkpoint.store.store_contract import CommitPermit
from headgate.common.ids import CheckpointId
from headgate.common.ports import Randomness
from headgate.core.checkpoint.coordinator import CheckpointCoordinator
from headgate.core.checkpoint.effects import RequestKind
from headgate.core.checkpoint.requests import CheckpointSettings
from headgate.runtime.master.checkpoints.committers import Committers
from headgate.state.snapshots import CheckpointMetadata, SubtaskSnapshot

ENUMERATORS: Final = "enumerators"  # hook before the subtasks are triggered: snapshot the split enumerators


def make_coordinator(
    settings: CheckpointSettings, service: CheckpointService | None, randomness: Randomness
) -> CheckpointCoordinator[SubtaskSnapshot]:
    """Return a coordinator that has `service`'s logged checkpoints and next id (None: no log, id 1)."""
    first = CheckpointId(1) if service is None else service.next_checkpoint_id()
    logged = [] if service is None else service.completed()
    known = [CheckpointId(entry.checkpoint) for entry in logged]
    if service is not None and (claimed := service.claimed()) is not None:
        known.insert(0, claimed)
    unowned = [CheckpointId(entry.checkpoint) for entry in logged if is_outside(entry.metadata)]
    return CheckpointCoordinator(settings, first, known, randomness.uniform, [ENUMERATORS], unowned)


def store_checkpoint(
    kind: RequestKind,
    metadata: CheckpointMetadata,
    folder: SavepointFolder | None,
    committers: Committers,
    service: CheckpointService | None,
    permit: CommitPermit | None,
) -> None:
    """Write a snapshot's metadata, then its log entry, which completes it; blocks, and raises what fails.
    A savepoint goes to `folder`, and sinks hold its output; only a stop's is logged. `service` None: no log.
    """
    log = None if service is None or permit is None or not kind.is_logged else (service, permit)
    if folder is None:
        if log is not None:
            log[0].store(log[1], metadata)
        return
    try:
        sha256 = _savepoint(kind, metadata, folder, committers)
        if log is not None:
            log[0].store_savepoint(log[1], metadata, folder.metadata_uri, sha256)
    except BaseException as error:
        # A savepoint outside of the log was not yet reported to its user, so it has failed in any case.
        if log is None or not may_be_published(error):
            committers.release(metadata)
        raise


def _savepoint(
    kind: RequestKind, metadata: CheckpointMetadata, folder: SavepointFolder, committers: Committers
) -> str:
    if not kind.is_logged:
        committers.hold(metadata)
        return folder.write(metadata)
    # A stop counts once the log has it. If it cannot be written its pending output is abandoned.
    sha256 = folder.write(metadata)
    committers.hold(metadata)
    return sha256
