"""Collects what `core/bottleneck` judges: the graph, rates of subtasks and workers, stacks, alignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from headgate.core.bottleneck.areas import stack_name
from headgate.core.bottleneck.evidence import (
    AlignmentSeen,
    Evidence,
    OperatorSeen,
    Role,
    SubtaskSeen,
    VertexSeen,
    WorkerSeen,
)
from headgate.core.checkpoint.history import CheckpointRecord
from headgate.graph.async_nodes import AsyncNode
from headgate.graph.logical import Node, SinkNode, SourceNode
from headgate.graph.physical import PhysicalPlan, Vertex
from headgate.runtime.driver.endpoint.page.recent_rates import RecentRates
from headgate.runtime.driver.endpoint.page.worker_rates import WorkerRates

ALIGNMENT_MS: Final = 10_000
"""Alignment is that of the checkpoints of so long a time; less after the begin of the job."""

Stacks = Mapping[int, Mapping[str, int]]
"""Samples of the loop of each worker: how often each stack was found."""


def evidence_of(
    plan: PhysicalPlan,
    rates: RecentRates,
    workers: WorkerRates,
    now_ms: int,
    *,
    credit_initial: int,
    process_of: Callable[[int], str] = lambda _: "",
    alignment: AlignmentSeen | None = None,
    stacks: Stacks | None = None,
) -> Evidence:
    """Return what is known of a job at `now_ms` (monotonic); `process_of` names a worker's process."""
    subtasks = [
        SubtaskSeen(
            *task, seen.in_per_s, seen.busy, seen.backpressured, seen.idle, records=rates.records_of(task)
        )
        for vertex in plan.vertices
        for task in [(vertex.id, number) for number in range(vertex.parallelism)]
        if (seen := rates.of_subtask(task, now_ms)) is not None
    ]
    found: list[WorkerSeen] = []
    for slot in sorted({each.worker for each in subtasks}):
        cpu, garbage = workers.of_worker(slot) or (None, None)
        found.append(WorkerSeen(slot, cpu, garbage, dict((stacks or {}).get(slot, {})), process_of(slot)))
    vertices = tuple(_vertex(plan, vertex) for vertex in plan.vertices)
    if alignment is not None and alignment.vertex not in {vertex.id for vertex in vertices}:
        alignment = None  # it is of the plan before a change of the parallelism
    return Evidence(vertices, tuple(subtasks), tuple(found), credit_initial, alignment)


def _vertex(plan: PhysicalPlan, vertex: Vertex) -> VertexSeen:
    head = vertex.chain[0]
    return VertexSeen(
        vertex.id,
        tuple(
            OperatorSeen(uid, stack_name(f"operator {node.name!r} (uid {uid!r})"), _role(node))
            for node in vertex.chain
            for uid in [node.known_as]
        ),
        tuple(edge.source for edge in plan.inputs(vertex.id)),
        own_thread=head.blocking,
        many_calls=isinstance(head, AsyncNode),
    )


def _role(node: Node) -> Role:
    if isinstance(node, SourceNode):
        return Role.SOURCE
    return Role.SINK if isinstance(node, SinkNode) else Role.FUNCTION


def alignment_of(records: Iterable[CheckpointRecord], now_ms: int) -> AlignmentSeen | None:
    """Return the subtask that alignment has held up longest by the newest checkpoints; None: there are none.

    `now_ms` is the wall clock. Of a checkpoint in progress what has been acknowledged counts.
    """
    recent = [each for each in records if now_ms - each.trigger_ms <= ALIGNMENT_MS]
    newest = max((each.attempt for each in recent), default=0)
    recent = [each for each in recent if each.attempt == newest]
    if not recent:
        return None
    passed = max(1, now_ms - min(each.trigger_ms for each in recent))
    blocked: Counter[tuple[int, int]] = Counter()
    for record in recent:
        for subtask in record.subtasks:
            blocked[subtask.task] += round(subtask.alignment_ms)
    if not blocked:
        return None
    (task, ms), *_ = blocked.most_common(1)
    last = Counter(
        seen.slowest_channel
        for record in recent
        if (seen := record.subtask(task)) is not None and seen.slowest_channel is not None
    )
    name = last.most_common(1)[0][0] if last else None
    return AlignmentSeen(*task, min(1.0, ms / passed), len(recent), name)
