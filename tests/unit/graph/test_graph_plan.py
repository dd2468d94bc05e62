"""From nodes to vertices and edges: chaining, partitioning, unions, side outputs, uids, limits."""

from __future__ import annotations

import pytest
from graph_samples import Sketch
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import PlanError
from headgate.graph.logical import PartitionNode, SideOutputNode, SinkNode, SourceNode, UnionNode
from headgate.graph.partitioners import Broadcast, ByKeyGroup, Forward, Rebalance
from headgate.graph.physical import PhysicalPlan
from headgate.graph.plan import edge_record_types, physical_plan


def chains(plan: PhysicalPlan) -> list[list[int]]:
    """Node ids by vertex."""
    return [[node.id for node in vertex.chain] for vertex in plan.vertices]


def edges(plan: PhysicalPlan) -> list[tuple[int, int, str | None, int, object]]:
    """What matters of the edges."""
    return [(e.source, e.operator, e.tag, e.target, e.partitioner) for e in plan.edges]


def test_a_straight_program_is_one_chain() -> None:
    """Source, event time, map and sink of equal parallelism run in one subtask."""
    s = Sketch()
    s.sink(s.map(s.times(s.source())))
    plan = physical_plan(s.nodes, 2)
    assert chains(plan) == [[0, 1, 2, 3]]
    assert (plan.edges, plan.slots, plan.max_parallelism) == ((), 2, 128)


def test_a_keyed_operator_begins_a_chain_and_keeps_what_follows() -> None:
    """A key exchange stands before the keyed operator; its sink is chained behind it."""
    s = Sketch()
    s.sink(s.keyed(s.source(), key="author"))
    plan = physical_plan(s.nodes, 2)
    assert chains(plan) == [[0], [2, 3]]
    assert edges(plan) == [(0, 0, None, 1, ByKeyGroup("author"))]


def test_a_blocking_operator_begins_a_chain_and_keeps_what_follows() -> None:
    """What is before it does not wait for it; two of them wait beside each other."""
    s = Sketch()
    s.sink(s.map(s.process(s.map(s.map(s.source()), blocking=True), blocking=True)))
    plan = physical_plan(s.nodes, 2)
    assert chains(plan) == [[0, 1], [2], [3, 4, 5]]
    assert edges(plan) == [(0, 1, None, 1, Forward()), (1, 0, None, 2, Forward())]


def test_several_consumers_end_a_chain() -> None:
    """A node with two consumers feeds both by forward edges."""
    s = Sketch()
    mapped = s.map(s.source())
    s.sink(s.map(mapped))
    s.sink(mapped)
    plan = physical_plan(s.nodes)
    assert chains(plan) == [[0, 1], [2, 3], [4]]
    assert edges(plan) == [(0, 1, None, 1, Forward()), (0, 1, None, 2, Forward())]


def test_different_parallelism_rebalances() -> None:
    """Where nobody said how records travel, a change of parallelism spreads them evenly."""
    s = Sketch()
    s.sink(s.map(s.source(parallelism=1), parallelism=3), parallelism=1)
    plan = physical_plan(s.nodes)
    assert [vertex.parallelism for vertex in plan.vertices] == [1, 3, 1]
    assert [edge.partitioner for edge in plan.edges] == [Rebalance(), Rebalance()]
    assert plan.slots == 3


@pytest.mark.parametrize("partitioner", [Rebalance(), Broadcast()])
def test_said_partitioning_breaks_the_chain(partitioner: object) -> None:
    """An explicit partitioning stays an exchange, also between equal parallelism."""
    s = Sketch()
    s.sink(s.travel(s.source(), partitioner))
    plan = physical_plan(s.nodes)
    assert edges(plan) == [(0, 0, None, 1, partitioner)]


def test_the_last_partitioning_wins() -> None:
    """What stands nearest to the consumer decides."""
    s = Sketch()
    s.sink(s.travel(s.travel(s.source(), Rebalance()), Broadcast()))
    assert [edge.partitioner for edge in physical_plan(s.nodes).edges] == [Broadcast()]


def test_a_union_becomes_several_edges_in_order() -> None:
    """Each input of a union is an edge of its own into the consumer; nested unions too."""
    s = Sketch()
    a, b, c = s.source(), s.source(), s.source()
    s.sink(s.union(s.union(a, b), c))
    plan = physical_plan(s.nodes)
    assert chains(plan) == [[0], [1], [2], [5]]
    assert edges(plan) == [(0, 0, None, 3, Forward()), (1, 0, None, 3, Forward()), (2, 0, None, 3, Forward())]


def test_a_union_with_itself_has_two_edges() -> None:
    """A stream united with itself arrives twice."""
    s = Sketch()
    a = s.source()
    s.sink(s.union(a, a))
    assert edges(physical_plan(s.nodes)) == [(0, 0, None, 1, Forward())] * 2


def test_partitioning_before_and_behind_a_union() -> None:
    """Partitioning before a union holds for that input only; behind it, for all."""
    s = Sketch()
    a, b = s.source(), s.source()
    s.sink(s.union(s.travel(a, Rebalance()), b))
    assert [edge.partitioner for edge in physical_plan(s.nodes).edges] == [Rebalance(), Forward()]
    s = Sketch()
    a, b = s.source(), s.source()
    s.sink(s.keyed(s.union(s.travel(a, Rebalance()), b)))
    assert [edge.partitioner for edge in physical_plan(s.nodes).edges] == [ByKeyGroup("who")] * 2


def test_a_side_output_leaves_from_inside_a_chain() -> None:
    """The main output stays chained; the side output is an edge from the operator that emits it."""
    s = Sketch()
    processed = s.process(s.source())
    s.sink(s.map(processed))
    s.sink(s.side(processed, "late"))
    plan = physical_plan(s.nodes)
    assert chains(plan) == [[0, 1, 2, 3], [5]]
    assert edges(plan) == [(0, 1, "late", 1, Forward())]


def test_a_side_output_may_be_keyed_and_united() -> None:
    """Tag and partitioner of one link survive partition and union nodes between."""
    s = Sketch()
    processed = s.process(s.source())
    s.sink(s.keyed(s.union(processed, s.side(processed, "late"))))
    assert edges(physical_plan(s.nodes)) == [
        (0, 1, None, 1, ByKeyGroup("who")),
        (0, 1, "late", 1, ByKeyGroup("who")),
    ]


@pytest.mark.parametrize("verb", ["map", "union", "travel"])
def test_a_side_output_of_nothing_that_emits_one_is_refused(verb: str) -> None:
    """Only process functions and sources have side outputs."""
    s = Sketch()
    a = s.source()
    stream = {
        "map": lambda: s.map(a),
        "union": lambda: s.union(a, a),
        "travel": lambda: s.travel(a, Forward()),
    }
    s.sink(s.side(stream[verb](), "late"))
    with pytest.raises(PlanError, match=r"side output 'late' .* which has none"):
        physical_plan(s.nodes)


def test_event_time_has_the_parallelism_of_its_source() -> None:
    """The source's parallelism holds for the timestamps, so that they stay in one chain."""
    s = Sketch()
    s.sink(s.times(s.source(parallelism=1)))
    assert chains(physical_plan(s.nodes, 4))[0] == [0, 1]


def test_event_time_apart_from_its_source_is_refused() -> None:
    """Another parallelism, or a second consumer of the source, would make watermarks inexact."""
    s = Sketch()
    s.sink(s.times(s.source(parallelism=1), parallelism=2))
    with pytest.raises(PlanError, match=r"has parallelism 2 but its source .* has 1"):
        physical_plan(s.nodes)
    s = Sketch()
    a = s.source()
    s.sink(s.times(a))
    s.sink(a)
    with pytest.raises(PlanError, match=r"right behind its source 'n0' \(job.py:0\)"):
        physical_plan(s.nodes)


def test_bad_records_of_a_source_do_not_part_it_from_event_time() -> None:
    """A side output is no second consumer."""
    s = Sketch()
    a = s.source()
    s.sink(s.times(a))
    s.sink(s.side(a, "bad-records"))
    plan = physical_plan(s.nodes)
    assert chains(plan) == [[0, 1, 2], [4]]
    assert edges(plan) == [(0, 0, "bad-records", 1, Forward())]


def test_forward_between_different_parallelism_is_refused() -> None:
    """Subtask i to subtask i needs equal numbers."""
    s = Sketch()
    s.sink(s.travel(s.source(parallelism=1), Forward()), parallelism=2)
    with pytest.raises(PlanError, match=r"parallelism 1 to .* parallelism 2"):
        physical_plan(s.nodes)


def test_every_operator_gets_a_uid_and_keeps_a_given_one() -> None:
    """Made-up uids are unique and never collide with the user's."""
    s = Sketch()
    s.sink(s.map(s.source(uid="map-1")))
    names = [node.uid for vertex in physical_plan(s.nodes).vertices for node in vertex.chain]
    assert names == ["map-1", "map-1'", "sink-2"]


def test_a_uid_used_twice_is_refused_with_both_places() -> None:
    """State is found by uid, so two operators cannot share one."""
    s = Sketch()
    s.sink(s.source(uid="a"), uid="a")
    with pytest.raises(
        PlanError, match=r"uid 'a' is used 2 times, by 'n0' \(job.py:0\) and 'n1' \(job.py:1\)"
    ):
        physical_plan(s.nodes)


def test_more_subtasks_than_key_groups_is_refused() -> None:
    """Some subtask would own no key group; the limit itself has bounds."""
    s = Sketch()
    s.sink(s.source(), parallelism=5)
    with pytest.raises(PlanError, match=r"parallelism 5, more than the 4 key groups"):
        physical_plan(s.nodes, max_parallelism=4)
    for wrong in (0, 32_769):
        with pytest.raises(PlanError, match="from 1 to 32768"):
            physical_plan(s.nodes, max_parallelism=wrong)
    assert physical_plan(s.nodes, max_parallelism=5).max_parallelism == 5


def test_edges_know_the_types_that_annotations_tell() -> None:
    """The main output has its operator's type, a side output that of its tag; contradictions tell nothing."""
    s = Sketch()
    processed = s.process(s.source(record_type=int), record_type=str)
    s.sink(s.travel(processed, Rebalance()))
    s.sink(s.side(processed, "late", record_type=bytes))
    s.sink(s.side(processed, "odd", record_type=bytes))
    s.sink(s.side(processed, "odd", record_type=int))
    s.sink(s.travel(s.source(), Rebalance()))
    plan = physical_plan(s.nodes)
    told = edge_record_types(s.nodes, plan)
    assert [(edge.tag, told.get(edge.id)) for edge in plan.edges] == [
        (None, str),
        ("late", bytes),
        ("odd", None),
        ("odd", None),
        (None, None),
    ]


@st.composite
def programs(draw: st.DrawFn) -> Sketch:
    """Any program of sources, maps, unions, partitions, keyed operators and side outputs."""
    s = Sketch()
    open_streams = [s.process(s.source())]
    for _ in range(draw(st.integers(0, 12))):
        one, two = (draw(st.sampled_from(open_streams)) for _ in range(2))
        match draw(st.sampled_from(["source", "map", "union", "travel", "keyed", "side", "process"])):
            case "source":
                new = s.source(parallelism=draw(st.sampled_from([None, 1, 2])))
            case "map":
                new = s.map(one, parallelism=draw(st.sampled_from([None, 1, 2])))
            case "union":
                new = s.union(one, two)
            case "travel":
                new = s.travel(one, draw(st.sampled_from([Rebalance(), Broadcast()])))
            case "keyed":
                new = s.keyed(one)
            case "process":
                new = s.process(one)
            case _:
                emitters = [n for n in s.nodes if type(n).__name__ in ("ProcessNode", "KeyedProcessNode")]
                new = s.side(draw(st.sampled_from(emitters)), "late")
        open_streams.append(new)
    for stream in open_streams:
        s.sink(stream)
    return s


@settings(max_examples=80, deadline=None, derandomize=True)
@given(programs())
def test_every_plan_keeps_the_rules(s: Sketch) -> None:
    """Operators appear once, chains are linear and of one parallelism, edges go down and enter at the top."""
    plan = physical_plan(s.nodes, 2)
    placed = [node.id for vertex in plan.vertices for node in vertex.chain]
    virtual = (UnionNode, PartitionNode, SideOutputNode)
    assert sorted(placed) == [node.id for node in s.nodes if not isinstance(node, virtual)]
    for number, vertex in enumerate(plan.vertices):
        assert vertex.id == number
        assert {node.parallelism for node in vertex.chain} == {vertex.parallelism}
        assert all(not isinstance(node, SourceNode) for node in vertex.chain[1:])
        assert all(not isinstance(node, SinkNode) for node in vertex.chain[:-1])
        fed_by_itself = isinstance(vertex.chain[0], SourceNode)
        assert fed_by_itself != bool(plan.inputs(vertex.id))
    for edge in plan.edges:
        assert edge.source < edge.target
        last = len(plan.vertices[edge.source].chain) - 1
        assert edge.tag is not None or edge.operator == last
        if isinstance(edge.partitioner, Forward):
            assert plan.vertices[edge.source].parallelism == plan.vertices[edge.target].parallelism
    assert paths_through(plan) == paths_as_written(s)


def paths_as_written(s: Sketch) -> dict[int, int]:
    """How many ways lead from any source to each sink, counted on the program."""
    ways: dict[int, int] = {}
    for node in s.nodes:
        ways[node.id] = sum(ways[source.id] for source in node.inputs) if node.inputs else 1
    return {node.id: ways[node.id] for node in s.nodes if isinstance(node, SinkNode)}


def paths_through(plan: PhysicalPlan) -> dict[int, int]:
    """The same, counted on the plan."""
    ways: list[int] = []
    for vertex in plan.vertices:
        ways.append(sum(ways[edge.source] for edge in plan.inputs(vertex.id)) or 1)
    return {
        vertex.chain[-1].id: ways[vertex.id]
        for vertex in plan.vertices
        if isinstance(vertex.chain[-1], SinkNode)
    }
