"""Identities as types of their own, so that a checkpoint id is never mistaken for an attempt."""

from __future__ import annotations

from typing import NamedTuple, NewType

JobId = NewType("JobId", str)
"""Names one submission of a job; also the directory of its checkpoints."""

OperatorUid = NewType("OperatorUid", str)
"""The user's stable name of an operator; state is matched by it across program changes."""

VertexId = NewType("VertexId", int)
"""Position of a chain of operators in the physical graph."""

EdgeId = NewType("EdgeId", int)
"""Position of an exchange between two vertices in the physical graph."""

SubtaskIndex = NewType("SubtaskIndex", int)
"""Which parallel copy of a vertex, counted from 0."""

SlotIndex = NewType("SlotIndex", int)
"""Which worker of the gang, counted from 0; slot i runs subtask i of every vertex."""

CheckpointId = NewType("CheckpointId", int)
"""Strictly increasing from 1 within a job, across restarts."""

Generation = NewType("Generation", int)
"""Which job master owns the job; grows with every claim of the checkpoint log."""

AttemptId = NewType("AttemptId", int)
"""Which deployment of the dataflow; grows with every restart."""

KeyGroup = NewType("KeyGroup", int)
"""The unit in which keyed state is routed, stored and moved."""


class SubtaskId(NamedTuple):
    """One parallel copy of one vertex."""

    vertex: VertexId
    subtask: SubtaskIndex


class ChannelId(NamedTuple):
    """One sender-to-receiver lane of one exchange."""

    edge: EdgeId
    sender: SubtaskIndex
    receiver: SubtaskIndex


class Fence(NamedTuple):
    """What every frame, control message and commit carries: who is speaking, and since when."""

    job: JobId
    generation: Generation
    attempt: AttemptId
