"""Operators with a broadcast side in the plan: sides of exchanges, chains, what is shown."""

from __future__ import annotations

from typing import Any

import pytest
from graph_samples import Sketch

from headgate.common.errors import InternalError
from headgate.graph.explain import describe, render
from headgate.graph.guarantees import Checkpointing, always_aligned
from headgate.graph.logical import BroadcastProcessNode, KeyedBroadcastProcessNode, Node, Side
from headgate.graph.partitioners import Broadcast, ByKeyGroup, Forward, Partitioner, Rebalance
from headgate.graph.physical import PhysicalPlan
from headgate.graph.plan import physical_plan


def connected(s: Sketch, main: Node, rules: Node, **fields: Any) -> Any:
    """A node with a broadcast side; keyed when it is given a key."""
    kind = KeyedBroadcastProcessNode if "key" in fields else BroadcastProcessNode
    return s.add(kind, main, s.travel(rules, Broadcast()), function=object(), **fields)


def inputs(plan: PhysicalPlan, vertex: int) -> list[tuple[int, Side, Partitioner]]:
    """Who feeds a vertex, where and how."""
    return [(e.source, e.side, e.partitioner) for e in plan.edges if e.target == vertex]


def test_a_keyed_main_side_and_a_broadcast_side() -> None:
    """By key on one side, to everybody on the other; what follows is chained behind."""
    s = Sketch()
    orders, rules = s.source(), s.source(parallelism=1)
    s.sink(connected(s, s.travel(orders, ByKeyGroup("who")), rules, key="who"))
    plan = physical_plan(s.nodes, 3)
    assert [[type(node).__name__ for node in vertex.chain] for vertex in plan.vertices] == [
        ["SourceNode"],
        ["SourceNode"],
        ["KeyedBroadcastProcessNode", "SinkNode"],
    ]
    assert inputs(plan, 2) == [(0, Side.MAIN, ByKeyGroup("who")), (1, Side.BROADCAST, Broadcast())]
    assert [always_aligned(edge) for edge in plan.edges] == [False, True]


@pytest.mark.parametrize(("widths", "way"), [((2, 2), Forward()), ((1, 2), Rebalance())])
def test_a_main_side_without_a_key_is_an_exchange_too(widths: tuple[int, int], way: object) -> None:
    """It goes forward or is rebalanced, but never becomes part of the sender's chain."""
    s = Sketch()
    s.sink(connected(s, s.source(parallelism=widths[0]), s.source(), parallelism=widths[1]))
    plan = physical_plan(s.nodes, 2)
    assert inputs(plan, 2) == [(0, Side.MAIN, way), (1, Side.BROADCAST, Broadcast())]


def test_a_broadcast_to_one_subtask_stays_one() -> None:
    """At parallelism 1 the side is still aligned, and its records are of the broadcast side."""
    s = Sketch()
    s.sink(connected(s, s.source(), s.source()))
    assert inputs(physical_plan(s.nodes, 1), 2) == [
        (0, Side.MAIN, Forward()),
        (1, Side.BROADCAST, Broadcast()),
    ]


def test_unions_and_side_outputs_enter_on_the_side_they_are_given_to() -> None:
    """Each stream of a union is an exchange of its own; the same operator may feed both sides."""
    s = Sketch()
    first, second = s.source(), s.process(s.source())
    rules = s.union(s.side(second, "rules"), s.source())
    s.sink(connected(s, s.union(first, second), rules))
    plan = physical_plan(s.nodes, 2)
    target = next(v.id for v in plan.vertices if isinstance(v.chain[0], BroadcastProcessNode))
    found = [(e.source, e.tag, e.side) for e in plan.edges if e.target == target]
    assert found == [
        (0, None, Side.MAIN),
        (1, None, Side.MAIN),
        (1, "rules", Side.BROADCAST),
        (2, None, Side.BROADCAST),
    ]


@pytest.mark.parametrize("way", [None, Rebalance()])
def test_a_broadcast_side_that_is_none_is_our_mistake(way: Partitioner | None) -> None:
    """The API refuses it beforehand."""
    s = Sketch()
    rules = s.source() if way is None else s.travel(s.source(), way)
    s.sink(s.add(BroadcastProcessNode, s.source(), rules, function=object()))
    with pytest.raises(InternalError, match="not fed by a broadcast"):
        physical_plan(s.nodes, 2)


def test_both_graphs_show_the_sides() -> None:
    """As text and as values."""
    s = Sketch()
    orders, rules = s.source(), s.source()
    s.sink(connected(s, s.travel(orders, ByKeyGroup("who")), rules, key="who"))
    facts = describe(
        "job", s.nodes, physical_plan(s.nodes, 2), {}, checkpointing=Checkpointing(unaligned=True)
    )
    assert [edge["side"] for edge in facts["edges"]] == ["main", "broadcast"]
    assert [node.get("broadcast_input") for node in facts["logical"]] == [None, None, None, None, 3, None]
    text = render(facts)
    assert "from 2 and broadcast side 3" in text
    assert "=> broadcast to vertex 2 (broadcast side), rows, always aligned" in text
    assert "=> by key 'who' to vertex 2, rows\n" in text
    rows = {(row["to"], row["side"], row["in_flight"]) for row in facts["types"]["streams"]}
    assert rows == {
        (2, "main", "plain values only"),
        (2, "broadcast", "never there"),
        (None, None, "plain values only"),
    }
