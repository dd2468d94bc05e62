"""The pass that has sources begin marks, where an operator of the job answers at marks."""

from __future__ import annotations

from dataclasses import replace

from headgate.graph.logical import Node, SourceNode
from headgate.graph.physical import PhysicalPlan
from headgate.graph.rewrites import Flow
from headgate.graph.table_nodes import AT_MARKS


def mark_sources(flow: Flow) -> Flow:
    """Return the flow with all its sources marked if it has an operator that answers at marks.

    All of them: a gate passes a mark on once it has come on every channel.
    """
    if not any(isinstance(node, AT_MARKS) for node in flow.nodes.values()):
        return flow
    return replace(flow, nodes={key: _marked(node) for key, node in flow.nodes.items()})


def _marked(node: Node) -> Node:
    return replace(node, marked=True) if isinstance(node, SourceNode) else node


def has_marks(plan: PhysicalPlan) -> bool:
    """Return whether marks flow in a plan."""
    heads = (vertex.chain[0] for vertex in plan.vertices)
    return any(isinstance(node, SourceNode) and node.marked for node in heads)
