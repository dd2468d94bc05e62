"""The dataflow as it runs: chains of operators, exchanges between them, slots. Data only."""

from __future__ import annotations

from dataclasses import dataclass

from headgate.common.ids import EdgeId, VertexId
from headgate.graph.logical import Node, Side
from headgate.graph.partitioners import Partitioner


@dataclass(frozen=True, slots=True)
class Edge:
    """An exchange: the connection over which one vertex sends records to another.

    Attributes:
        id: its number.
        source: the vertex that sends.
        operator: which operator of the sending chain emits here, counted from 0. It is the last one, but for
            side outputs.
        tag: the side output's name, or None for the main output.
        target: the vertex that receives; records enter its first operator.
        partitioner: who receives what.
        side: which input of that operator it is.
    """

    id: EdgeId
    source: VertexId
    operator: int
    tag: str | None
    target: VertexId
    partitioner: Partitioner
    side: Side = Side.MAIN


@dataclass(frozen=True, slots=True)
class Vertex:
    """A chain of operators that run in one subtask, calling each other batch by batch.

    Attributes:
        id: its number; vertices are in topological order.
        chain: logical nodes in order of flow; never Union, Partition or SideOutput nodes. A source
            only at the front, a sink only at the end. Each has a uid and a parallelism; their
            `inputs` are empty, because the chain and the edges say who feeds whom.
        parallelism: number of subtasks; subtask i runs in slot i.
    """

    id: VertexId
    chain: tuple[Node, ...]
    parallelism: int

    @property
    def name(self) -> str:
        """The operators' names, joined."""
        return " -> ".join(node.name for node in self.chain)


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """The whole job as it runs.

    Attributes:
        vertices: chains, in topological order.
        edges: exchanges between them.
        max_parallelism: number of key groups.
        slots: number needed to run the job, the greatest parallelism of a vertex.
    """

    vertices: tuple[Vertex, ...]
    edges: tuple[Edge, ...]
    max_parallelism: int
    slots: int

    def inputs(self, vertex: VertexId) -> tuple[Edge, ...]:
        """Return the exchanges that feed a vertex."""
        return tuple(edge for edge in self.edges if edge.target == vertex)

    def outputs(self, vertex: VertexId) -> tuple[Edge, ...]:
        """Return the exchanges that a vertex feeds."""
        return tuple(edge for edge in self.edges if edge.source == vertex)
