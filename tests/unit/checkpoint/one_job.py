"""Checkpoints of one job with one operator: names, metadata, and one that is complete on a disk."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.checkpoint.data_files import DataFileWriter
from headgate.checkpoint.layout import data_file_name
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.store.store_contract import CommitPermit
from headgate.common.format_config import fingerprint
from headgate.common.ids import (
    AttemptId,
    CheckpointId,
    Generation,
    JobId,
    SubtaskId,
    SubtaskIndex,
    VertexId,
)
from headgate.common.ports import Disk
from headgate.state.snapshots import (
    CheckpointMetadata,
    FileRange,
    KeyedStateHandle,
    OperatorSubtaskState,
    StateHandle,
)

JOB = JobId("job")


def data_name(checkpoint: int, subtask: int = 0, generation: int = 1) -> str:
    """The name of a data file of one subtask."""
    task = SubtaskId(VertexId(1), SubtaskIndex(subtask))
    return data_file_name(JOB, CheckpointId(checkpoint), Generation(generation), AttemptId(1), task)


def keyed(handle: StateHandle) -> OperatorSubtaskState:
    """A subtask state that is one handle."""
    return OperatorSubtaskState("count", KeyedStateHandle(0, 127, handle, 8))


def metadata_of(checkpoint: int, handles: Sequence[StateHandle], generation: int = 1) -> CheckpointMetadata:
    """Metadata of one operator with these handles."""
    return CheckpointMetadata(
        job=JOB,
        job_name="counts",
        checkpoint=checkpoint,
        generation=generation,
        attempt=1,
        trigger_ms=0,
        max_parallelism=128,
        format_fingerprint=fingerprint(),
        parallelism={"count": len(handles)},
        operators={"count": [keyed(handle) for handle in handles]},
        enumerators={},
        state_types={},
    )


def write(disk: Disk, checkpoint: int, generation: int = 1) -> FileRange:
    """Write a data file of eight bytes."""
    return DataFileWriter(disk).write(
        data_name(checkpoint, generation=generation), [b"state", b"%03d" % checkpoint]
    )


def store(service: CheckpointService, permit: CommitPermit, checkpoint: int) -> CheckpointMetadata:
    """Write data and complete a checkpoint."""
    generation = permit.generation
    metadata = metadata_of(checkpoint, [write(service.disk, checkpoint, generation)], generation)
    service.store(permit, metadata)
    return metadata
