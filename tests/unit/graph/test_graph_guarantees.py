"""What a sink may promise: its mode, its commits, and whether barriers wait for each other upstream."""

from __future__ import annotations

from typing import Any

import pytest
from graph_samples import Sketch

from headgate.common.settings.options import CheckpointingMode
from headgate.graph.guarantees import (
    Checkpointing,
    always_aligned,
    input_channels,
    late_vertices,
    needs_alignment,
    sink_guarantees,
)
from headgate.graph.partitioners import Broadcast, ByKeyGroup, Forward, Rebalance
from headgate.graph.physical import PhysicalPlan
from headgate.graph.plan import physical_plan

IDEMPOTENT = "effectively-once (idempotent writes)"
FREE = "effectively exactly-once (no alignment in its topology)"


def promised(
    s: Sketch, mode: CheckpointingMode | None, commits: bool = True, parallelism: int = 2
) -> dict[int, str]:
    """The guarantees of a sketch whose sinks all commit, or do not."""
    committing = frozenset(node.id for node in s.nodes) if commits else frozenset()
    return sink_guarantees(physical_plan(s.nodes, parallelism), Checkpointing(mode, committing=committing))


def keyed(claims: str = "exactly-once") -> tuple[Sketch, Any]:
    """Two subtasks exchange records by key."""
    s = Sketch()
    return s, claiming(s.sink(s.keyed(s.source())), claims)


def chained(claims: str = "exactly-once") -> tuple[Sketch, Any]:
    """One chain without any exchange."""
    s = Sketch()
    return s, claiming(s.sink(s.map(s.source())), claims)


def claiming(sink: Any, claims: str) -> Any:
    """The sink, with what it says of itself."""
    sink.sink.guarantee = claims
    return sink


EXACTLY, AT_LEAST = CheckpointingMode.EXACTLY_ONCE, CheckpointingMode.AT_LEAST_ONCE


@pytest.mark.parametrize(
    ("sketch", "mode", "commits", "claims", "expected"),
    [
        (keyed, None, True, "exactly-once", "no guarantee: checkpoints are off"),
        (chained, None, False, IDEMPOTENT, "no guarantee: checkpoints are off"),
        (keyed, EXACTLY, True, "exactly-once", "exactly-once"),
        (keyed, EXACTLY, False, "exactly-once", "state exactly-once, output at-least-once"),
        (keyed, EXACTLY, False, "at-least-once", "state exactly-once, output at-least-once"),
        (keyed, EXACTLY, True, "at-least-once", "state exactly-once, output at-least-once"),
        (keyed, EXACTLY, False, IDEMPOTENT, f"state exactly-once, output {IDEMPOTENT}"),
        (keyed, AT_LEAST, True, "exactly-once", "at-least-once"),
        (keyed, AT_LEAST, False, IDEMPOTENT, "at-least-once"),
        (chained, AT_LEAST, True, "exactly-once", FREE),
        (chained, AT_LEAST, False, "exactly-once", f"state {FREE}, output at-least-once"),
        (chained, AT_LEAST, False, IDEMPOTENT, f"state {FREE}, output {IDEMPOTENT}"),
        (chained, EXACTLY, True, "exactly-once", "exactly-once"),
    ],
)
def test_a_sink_promises_what_mode_topology_and_commits_allow(
    sketch: Any, mode: CheckpointingMode | None, commits: bool, claims: str, expected: str
) -> None:
    """No sink is called exactly-once that does not commit, whatever it claims."""
    s, sink = sketch(claims)
    assert promised(s, mode, commits) == {sink.id: expected}


def test_each_sink_is_judged_for_itself() -> None:
    """One sink commits and the other does not."""
    s = Sketch()
    source = s.source()
    safe, plain = s.sink(source), s.sink(source)
    checkpointing = Checkpointing(EXACTLY, committing=frozenset({safe.id}))
    assert sink_guarantees(physical_plan(s.nodes, 2), checkpointing) == {
        safe.id: "exactly-once",
        plain.id: "state exactly-once, output at-least-once",
    }


def travelling(partitioner: Any, senders: int, receivers: int) -> PhysicalPlan:
    """A source, one exchange, a sink."""
    s = Sketch()
    source = s.source(parallelism=senders)
    s.sink(s.travel(source, partitioner), parallelism=receivers)
    # A second consumer keeps the two from being chained.
    s.sink(source, parallelism=senders)
    return physical_plan(s.nodes)


@pytest.mark.parametrize(
    ("partitioner", "senders", "receivers", "channels"),
    [
        (Forward(), 3, 3, 1),
        (Forward(), 1, 1, 1),
        (Rebalance(), 1, 3, 1),
        (Rebalance(), 3, 1, 3),
        (Rebalance(), 2, 3, 2),
        (ByKeyGroup("who"), 1, 3, 1),
        (ByKeyGroup("who"), 3, 3, 3),
        (Broadcast(), 1, 2, 1),
        (Broadcast(), 2, 2, 2),
    ],
)
def test_a15_alignment_concerns_subtasks_with_several_channels(
    partitioner: Any, senders: int, receivers: int, channels: int
) -> None:
    """A15: one channel needs no alignment, be it a forward exchange or a single sender."""
    plan = travelling(partitioner, senders, receivers)
    (receiver,) = {edge.target for edge in plan.edges if edge.partitioner == partitioner and edge.id == 0}
    assert input_channels(plan, receiver) == channels
    assert needs_alignment(plan, receiver) is (channels > 1)
    assert input_channels(plan, plan.vertices[0].id) == 0


def test_a15_one_slow_exchange_upstream_is_enough() -> None:
    """A15: the state of every vertex on the way counts, not only the sink's own channels."""
    s = Sketch()
    merged = s.process(s.travel(s.source(), Rebalance()))
    sink = s.sink(s.side(merged, "late"))
    s.sink(merged)
    plan = physical_plan(s.nodes, 2)
    assert promised(s, AT_LEAST)[sink.id] == "at-least-once"
    (own,) = [vertex for vertex in plan.vertices if vertex.chain[0].id == sink.id]
    assert input_channels(plan, own.id) == 1, "the exchange in front of the sink itself is forward"


def test_a15_what_happens_beside_the_way_does_not_count() -> None:
    """A15: a sibling branch that exchanges takes nothing from a branch that does not."""
    s = Sketch()
    source = s.source()
    free, bound = s.sink(s.map(source)), s.sink(s.keyed(source))
    assert promised(s, AT_LEAST) == {free.id: FREE, bound.id: "at-least-once"}


def test_a15_two_inputs_need_alignment_even_at_parallelism_one() -> None:
    """A15: a union of forward exchanges has one channel from each."""
    s = Sketch()
    sink = s.sink(s.union(s.source(), s.source()))
    assert promised(s, AT_LEAST, parallelism=1) == {sink.id: "at-least-once"}


def test_a15_an_exchange_by_key_is_free_with_a_single_subtask() -> None:
    """A15: the same program promises more when nothing has to be merged."""
    s, sink = keyed()
    assert promised(s, AT_LEAST, parallelism=1) == {sink.id: FREE}
    assert promised(s, AT_LEAST, parallelism=2) == {sink.id: "at-least-once"}


def test_barriers_are_late_behind_a_broadcast_however_far() -> None:
    """Whoever has an exchange above on which nothing overtakes; whoever is beside or above it is not."""
    s = Sketch()
    source = s.source()
    told = s.process(s.travel(source, Broadcast()))
    beside = s.keyed(source)
    joined = s.keyed(s.union(told, source))
    s.sink(joined)
    plan = physical_plan(s.nodes, 2)
    late = {node.id for at in late_vertices(plan) for node in plan.vertices[at].chain}
    assert {told.id, joined.id} <= late
    assert not {source.id, beside.id} & late


@pytest.mark.parametrize("partitioner", [Forward(), Rebalance(), ByKeyGroup("who"), Broadcast()])
def test_only_broadcast_always_aligns(partitioner: Any) -> None:
    """Records on every other exchange have one place to be restored to."""
    (edge,) = [edge for edge in travelling(partitioner, 2, 2).edges if edge.id == 0]
    assert edge.partitioner == partitioner
    assert always_aligned(edge) is isinstance(partitioner, Broadcast)
