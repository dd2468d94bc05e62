"""The pass that has sources begin marks, and sinks wait for them, where an operator answers at marks."""

from __future__ import annotations

from dataclasses import replace

from headgate.graph.logical import SinkNode, SourceNode
from headgate.graph.physical import PhysicalPlan
from headgate.graph.rewrites import Flow
from headgate.graph.table_nodes import AT_MARKS


def mark_sources(flow: Flow) -> Flow:
    """Return the flow with marked sources and sinks if it has an operator that answers at marks.

    All sources, since a gate passes a mark on once it has come on every channel; and the sinks that get
    corrections.
    """
    corrected = {key for key, node in flow.nodes.items() if isinstance(node, AT_MARKS)}
    if not corrected:
        return flow
    nodes = dict(flow.nodes)
    for key, node in flow.nodes.items():  # in the order of the flow
        if any(link.source in corrected for link in flow.into(key)):
            corrected.add(key)
        if isinstance(node, SourceNode) or (isinstance(node, SinkNode) and key in corrected):
            nodes[key] = replace(node, marked=True)
    return replace(flow, nodes=nodes)


def has_marks(plan: PhysicalPlan) -> bool:
    """Return whether marks flow in a plan."""
    heads = (vertex.chain[0] for vertex in plan.vertices)
    return any(isinstance(node, SourceNode) and node.marked for node in heads)
