"""The running plan of a job as JSON: its vertices, each with its place in a picture, and the exchanges."""

from __future__ import annotations

from headgate.api.declared.keyed_states import declared_state
from headgate.common.plain_data import Json
from headgate.graph.graph_layout import places
from headgate.graph.logical import KeyedProcessNode, Node, SinkNode, SourceNode
from headgate.graph.physical import PhysicalPlan


def plan_facts(job: str, plan: PhysicalPlan) -> dict[str, Json]:
    """Return the plan of the job named `job` for `GET /v1/plan`; `place` is a vertex' column and row."""
    at = places([each.id for each in plan.vertices], [(each.source, each.target) for each in plan.edges])
    return {
        "job": job,
        "slots": plan.slots,
        "max_parallelism": plan.max_parallelism,
        "vertices": [
            {
                "id": vertex.id,
                "name": vertex.name,
                "parallelism": vertex.parallelism,
                "operators": [_operator(node) for node in vertex.chain],
                "place": list(at[vertex.id]),
            }
            for vertex in plan.vertices
        ],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target,
                "tag": edge.tag,
                "partitioner": type(edge.partitioner).__name__,
            }
            for edge in plan.edges
        ],
    }


def _operator(node: Node) -> dict[str, Json]:
    states = declared_state(node.function) if isinstance(node, KeyedProcessNode) else {}
    return {
        "uid": node.known_as,
        "name": node.name,
        "site": node.site,
        "end": "source" if isinstance(node, SourceNode) else "sink" if isinstance(node, SinkNode) else None,
        "states": [{"name": name, "kind": state.kind} for name, state in states.items()],
    }
