"""What each sink of a job may promise after a failure, told from the plan and the checkpointing mode. The
caller says which sinks commit with a checkpoint, because sinks belong to the API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headgate.common.ids import VertexId
from headgate.common.settings.options import CheckpointingMode
from headgate.graph.logical import SinkNode
from headgate.graph.partitioners import Broadcast, Forward
from headgate.graph.physical import Edge, PhysicalPlan

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
NO_CHECKPOINTS: Final = "no guarantee: checkpoints are off"
_FREE: Final = "effectively exactly-once (no alignment in its topology)"


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """Settings on which guarantees depend: `mode` (None: checkpoints off), ids of `committing` sink nodes."""

    mode: CheckpointingMode | None = None  # of the checkpoints; None when they are off
    unaligned: bool = False  # whether barriers may overtake records
    # Ids of the sink nodes whose output is committed with a checkpoint
    committing: frozenset[int] = frozenset()


def sink_guarantees(plan: PhysicalPlan, checkpointing: Checkpointing) -> dict[int, str]:
    """Return the guarantee of every sink in words, such as "exactly-once", by the sink's node id."""
    return {
        node.id: _guarantee(plan, vertex.id, node, checkpointing)
        for vertex in plan.vertices
        for node in vertex.chain
        if isinstance(node, SinkNode)
    }


def input_channels(plan: PhysicalPlan, vertex: VertexId) -> int:
    """Return how many channels each subtask of a vertex (chain of operators) reads; 0 for a source. A forward
    exchange (subtask i to subtask i) gives it one, any other one from every subtask of the sender.
    """
    return sum(
        1 if isinstance(edge.partitioner, Forward) else plan.vertices[edge.source].parallelism
        for edge in plan.inputs(vertex)
    )


def needs_alignment(plan: PhysicalPlan, vertex: VertexId) -> bool:
    """Return whether a barrier can reach a vertex, or one upstream, on one channel before another. Where it
    cannot, at-least-once is exactly-once: no channel has to wait for another.
    """
    seen, open_ends = {vertex}, [vertex]
    while open_ends:
        here = open_ends.pop()
        if input_channels(plan, here) > 1:
            return True
        senders = {edge.source for edge in plan.inputs(here)} - seen
        seen |= senders
        open_ends += senders
    return False


def always_aligned(edge: Edge) -> bool:
    """Return whether barriers never overtake records on this exchange. Every receiver of a broadcast is sent
    its own copy of a record, so copies that a checkpoint took along could not be redistributed over another
    number of receivers.
    """
    return isinstance(edge.partitioner, Broadcast)


def late_vertices(plan: PhysicalPlan) -> frozenset[VertexId]:
    """Return the vertices whose barriers come only after records, even in an unaligned checkpoint. Barriers
    never overtake records on one of their input exchanges, or a sender is such a vertex. From all other
    vertices an unaligned barrier comes at once, whatever waits for credit.
    """
    late: set[VertexId] = set()
    for vertex in plan.vertices:  # senders come first
        edges = plan.inputs(vertex.id)
        if any(always_aligned(edge) or edge.source in late for edge in edges):
            late.add(vertex.id)
    return frozenset(late)


def _guarantee(plan: PhysicalPlan, vertex: VertexId, node: SinkNode, checkpointing: Checkpointing) -> str:
    if checkpointing.mode is None:
        return NO_CHECKPOINTS
    state = EXACTLY_ONCE
    if checkpointing.mode is CheckpointingMode.AT_LEAST_ONCE:
        if needs_alignment(plan, vertex):
            return AT_LEAST_ONCE
        state = _FREE
    output = _output(node, node.id in checkpointing.committing)
    return state if output == EXACTLY_ONCE else f"state {state}, output {output}"


def _output(node: SinkNode, commits: bool) -> str:
    # A sink may promise less, or idempotent writes; exactly-once it cannot be without a commit.
    claimed: str = node.sink.guarantee
    return AT_LEAST_ONCE if claimed == EXACTLY_ONCE and not commits else claimed
