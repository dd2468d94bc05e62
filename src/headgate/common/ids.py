"""Identities as types of their own, so that a checkpoint id is never mistaken for an attempt."""

from __future__ import annotations

from typing import NamedTuple, NewType

JobId = NewType("JobId", str)  # names one submission of a job; also the directory of its checkpoints
OperatorUid = NewType("OperatorUid", str)  # the user's name of an operator, by which its state is matched
VertexId = NewType("VertexId", int)  # position of a chain of operators in the physical graph
EdgeId = NewType("EdgeId", int)  # position of an exchange between two vertices in the physical graph
SubtaskIndex = NewType("SubtaskIndex", int)  # which parallel copy of a vertex, counted from 0
SlotIndex = NewType("SlotIndex", int)  # which worker of the gang; it runs that subtask of each vertex
CheckpointId = NewType("CheckpointId", int)  # strictly increasing from 1 within a job, across restarts
Generation = NewType("Generation", int)  # which job master owns the job; grows with every claim of the log
AttemptId = NewType("AttemptId", int)  # which deployment of the dataflow; grows with every restart
KeyGroup = NewType("KeyGroup", int)  # the unit in which keyed state is routed, stored and moved


class SubtaskId(NamedTuple):
    """Identity of a subtask: its vertex (a chain of operators) and index (from 0) among parallel copies."""

    vertex: VertexId
    subtask: SubtaskIndex


class ChannelId(NamedTuple):
    """Identity of a channel: an exchange between two vertices, and both subtasks' indexes, from 0."""

    edge: EdgeId
    sender: SubtaskIndex
    receiver: SubtaskIndex


class Fence(NamedTuple):
    """Job, generation (driver) and attempt of a sender, by which receivers refuse its outdated messages."""

    job: JobId
    generation: Generation
    attempt: AttemptId
