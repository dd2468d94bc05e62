"""Names the operator that holds a job up, in one sentence.

Backpressure shows at those who wait; the cause is further down. The bottleneck is the last vertex, in the
direction of flow, whose busiest subtask works nearly all the time while one that sends to it has to wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headgate.graph.physical import PhysicalPlan, Vertex
from headgate.runtime.driver.endpoint.page.recent_rates import VertexRates

BUSY: Final = 0.8
BACKPRESSURED: Final = 0.2
SKEWED: Final = 2.0
"""From this quotient of the largest subtask and the mean on, more subtasks would not help much."""


class Bottleneck(msgspec.Struct, frozen=True):
    """The vertex that holds the job up, and a sentence with the reason and what can be done about it."""

    vertex: int
    text: str


def bottleneck(plan: PhysicalPlan, rates: Mapping[int, VertexRates]) -> Bottleneck | None:
    """Return the job's bottleneck by the newest rates of its vertices; None where nothing holds it up."""
    for vertex in reversed(plan.vertices):
        waiting = max((_waits(rates, edge.source) for edge in plan.inputs(vertex.id)), default=0.0)
        found = rates.get(vertex.id)
        if found is not None and (found.busy or 0.0) > BUSY and waiting > BACKPRESSURED:
            return Bottleneck(vertex.id, _sentence(vertex, found, waiting))
    return None


def _waits(rates: Mapping[int, VertexRates], vertex: int) -> float:
    found = rates.get(vertex)
    return 0.0 if found is None else found.backpressured or 0.0


def _sentence(vertex: Vertex, rates: VertexRates, waiting: float) -> str:
    label = " -> ".join(node.uid or node.name for node in vertex.chain)
    text = (
        f"'{label}' is the bottleneck: its busiest subtask works {rates.busy or 0:.0%} of the time, and "
        f"those that send to it wait {waiting:.0%} of theirs"
    )
    if rates.skew is not None and rates.skew >= SKEWED:
        return f"{text}; one subtask gets {rates.skew:.1f} times the mean, so look for keys with many records"
    return f"{text}; more subtasks, or less work per record, would make the job faster"
