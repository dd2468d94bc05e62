"""The check that only sources which can be held back have a limit to their drift in event time."""

from __future__ import annotations

from headgate.common.errors import PlanError
from headgate.graph.logical import SourceNode, TimestampsNode
from headgate.graph.rewrites import Flow, place


def check_aligned_sources(flow: Flow) -> Flow:
    """Return the flow as it is; PlanError if `max_drift` is set where the event time is not a source's own.

    The operator has to run in the chain of its source, and be the first there that assigns event time:
    otherwise nothing that can be held back decides how far it is.
    """
    for chain in flow.chains:
        nodes = [flow.nodes[number] for number in chain]
        timed = [node for node in nodes if isinstance(node, TimestampsNode)]
        held = timed[:1] if isinstance(nodes[0], SourceNode) else []
        for node in timed:
            if node.strategy.max_drift_ms is not None and node not in held:
                raise PlanError(
                    f"event time {place(node)} has max_drift, but does not decide how far a source has read; "
                    "call with_event_time() with max_drift on the source itself, before it branches"
                )
    return flow
