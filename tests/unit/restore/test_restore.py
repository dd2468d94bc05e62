"""Restore: every piece of state finds exactly one subtask, at any parallelism, or is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headgate as hg
from headgate.common.errors import UsageError
from headgate.common.ids import VertexId
from headgate.common.keys.keygroups import key_group_range
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.graph.logical import KeyedProcessNode, MapNode, Node, SinkNode, SourceNode
from headgate.graph.physical import PhysicalPlan, Vertex
from headgate.restore.assignment import (
    assign_finished,
    assign_state,
    check_compatible,
    share_operator,
    unclaimed_state,
    without_committables,
)
from headgate.state.snapshots import (
    CheckpointMetadata,
    InFlightPart,
    InFlightStream,
    Inline,
    KeyedStateHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    StateTable,
)

GROUPS = 128


def plan(*chains: tuple[int, tuple[str, ...]], max_parallelism: int = GROUPS) -> PhysicalPlan:
    """Vertices of (parallelism, uids of the chain)."""
    vertices = []
    for number, (parallelism, uids) in enumerate(chains):
        nodes = tuple(KeyedProcessNode(10 * number + n, uid, uid=uid) for n, uid in enumerate(uids))
        vertices.append(Vertex(VertexId(number), nodes, parallelism))
    return PhysicalPlan(tuple(vertices), (), max_parallelism, max(v.parallelism for v in vertices))


def checkpoint(max_parallelism: int = GROUPS, **operators: list[OperatorSubtaskState]) -> CheckpointMetadata:
    """A checkpoint of these operators."""
    return CheckpointMetadata(
        job="j",
        job_name="streaks",
        checkpoint=7,
        generation=1,
        attempt=1,
        trigger_ms=0,
        max_parallelism=max_parallelism,
        format_fingerprint="",
        parallelism={uid: len(states) for uid, states in operators.items()},
        operators=operators,
        enumerators={},
        state_types={},
        totals={},
    )


def keyed(uid: str, parallelism: int, marks: list[int] | None = None) -> list[OperatorSubtaskState]:
    """Keyed state of an operator at a parallelism."""
    states = []
    for index in range(parallelism):
        handle = KeyedStateHandle(*key_group_range(GROUPS, parallelism, index), Inline(bytes([index])), 1)
        mark = None if marks is None else marks[index]
        states.append(OperatorSubtaskState(uid, handle, {}, [], mark))
    return states


def groups_of(states: list[OperatorSubtaskState]) -> set[int]:
    """The key groups for which some of these states has an answer."""
    return {
        group
        for state in states
        if state.keyed is not None
        for group in range(state.keyed.first_group, state.keyed.last_group + 1)
    }


@given(st.integers(1, 12), st.integers(1, 12))
def test_every_key_group_is_covered_by_the_handles_given_and_by_no_needless_one(old: int, new: int) -> None:
    """A subtask gets each handle that overlaps its range, once, and no other."""
    shares = share_operator(keyed("u", old), new, GROUPS)
    for index, share in enumerate(shares):
        first, last = key_group_range(GROUPS, new, index)
        assert groups_of(share) >= set(range(first, last + 1))
        handles = [state.keyed for state in share if state.keyed is not None]
        assert len({handle.handle.data for handle in handles}) == len(handles)  # type: ignore[union-attr]
        for handle in handles:
            assert handle.first_group <= last
            assert handle.last_group >= first


@given(st.lists(st.lists(st.integers(), max_size=5), min_size=1, max_size=6), st.integers(1, 6))
def test_list_entries_are_shared_out_evenly_each_to_one(lists: list[list[int]], new: int) -> None:
    """Round-robin: none lost, none twice, as even as can be; unchanged parallelism moves nothing."""
    old = [OperatorSubtaskState("u", None, {"splits": entries}) for entries in lists]
    shares = share_operator(old, new, GROUPS)
    found = [[e for state in share for e in state.list_state.get("splits", [])] for share in shares]
    assert sorted(e for mine in found for e in mine) == sorted(e for mine in lists for e in mine)
    if new == len(old):
        assert found == lists
    else:
        assert max(map(len, found)) - min(map(len, found)) <= 1


def test_one_two_three() -> None:
    """Rescaling 1 to 2 to 3: each key group keeps its bytes, each list entry its place in one list."""
    states = [OperatorSubtaskState("u", KeyedStateHandle(0, 127, Inline(b"all"), 3), {"l": [1, 2, 3, 4, 5]})]
    two = share_operator(states, 2, GROUPS)
    assert [[s.list_state.get("l") for s in share] for share in two] == [
        [[1, 3, 5], {}.get("l")],
        [[2, 4], None],
    ]
    halves = [
        OperatorSubtaskState("u", KeyedStateHandle(*key_group_range(GROUPS, 2, i), Inline(b"%d" % i), 1))
        for i in range(2)
    ]
    three = share_operator(halves, 3, GROUPS)
    data = [[s.keyed.handle.data for s in share if s.keyed is not None] for share in three]  # type: ignore[union-attr]
    assert data == [[b"0"], [b"0", b"1"], [b"1"]]


def test_event_time_becomes_the_least() -> None:
    """After a change of parallelism the slowest decides; keyed states say how far their groups had got."""
    shares = share_operator(keyed("u", 2, [100, 40]), 3, GROUPS)
    assert [[state.watermark for state in share] for share in shares] == [[40, 100], [40, 100, 40], [40, 40]]
    assert [s.watermark for share in share_operator(keyed("u", 2, [100, 40]), 2, GROUPS) for s in share] == [
        100,
        40,
    ]


def test_one_that_no_time_has_reached_is_the_slowest() -> None:
    """Where time comes from outside; a reader that has read nothing knows no time of its own."""
    old = keyed("u", 2, [WATERMARK_MAX, WATERMARK_MIN])
    assert {share[0].watermark for share in share_operator(old, 3, GROUPS)} == {WATERMARK_MIN}
    readers = [OperatorSubtaskState("u", None, watermark=mark) for mark in (70, WATERMARK_MIN)]
    shares = share_operator(readers, 3, GROUPS, makes_time=True)
    assert {state.watermark for share in shares for state in share} == {70}


def test_state_is_found_by_uid_in_every_chain() -> None:
    """Each subtask gets the states of all operators of its chain, wherever they were chained before."""
    made = plan((2, ("a", "b")), (1, ("c",)))
    restored = assign_state(made, checkpoint(a=keyed("a", 2), c=keyed("c", 2)))
    assert {(v, s): [state.uid for state in states] for v, s, states in restored} == {
        (0, 0): ["a"],
        (0, 1): ["a"],
        (1, 0): ["c", "c", "c"],
    }


def held(name: str, count: int, mode: str = "split") -> OperatorStateHandle:
    """An operator state of one old subtask."""
    return OperatorStateHandle(name, mode, None, Inline(b""), count)


def ranges(shares: list[list[OperatorSubtaskState]]) -> list[list[tuple[str, int, int | None]]]:
    """Name and elements of the operator state that each new subtask gets."""
    return [[(h.name, h.first, h.stop) for s in share for h in s.operator_state] for share in shares]


def test_so1_operator_state_is_redistributed_beside_keyed_state() -> None:
    """sO1: each share comes once, with whatever else the subtask gets."""
    old = [
        msgspec.structs.replace(state, operator_state=[held("l", count)])
        for state, count in zip(keyed("u", 2), (4, 3), strict=True)
    ]
    three = ranges(share_operator(old, 3, GROUPS))
    assert three == [[("l", 0, 3)], [("l", 3, 4), ("l", 0, 1)], [("l", 1, 3)]]
    assert ranges(share_operator(old, 1, GROUPS)) == [[("l", 0, 4), ("l", 0, 3)]]
    assert ranges(share_operator(old, 2, GROUPS)) == [[("l", 0, 4)], [("l", 0, 3)]]


def test_so2_union_and_broadcast_at_the_same_parallelism() -> None:
    """sO2: union goes to everybody; who reported no broadcast state gets another's."""
    old = [
        OperatorSubtaskState("u", operator_state=[held("u", 1, "union"), held("b", 0, "broadcast")]),
        OperatorSubtaskState("u", operator_state=[held("u", 2, "union")]),
    ]
    assert ranges(share_operator(old, 2, GROUPS)) == [[("u", 0, 1), ("u", 0, 2), ("b", 0, 0)]] * 2


def test_operator_state_without_an_operator_is_refused() -> None:
    """It counts like any other state, unless nothing is in it."""
    state = OperatorSubtaskState("gone", operator_state=[held("waiting", 1)])
    with pytest.raises(UsageError, match="'gone'"):
        check_compatible(plan((1, ("a",))), checkpoint(gone=[state]))
    empty = OperatorSubtaskState("gone", operator_state=[held("rules", 0, "broadcast")])
    check_compatible(plan((1, ("a",))), checkpoint(gone=[empty]))


def test_operator_state_that_its_operator_does_not_declare_is_refused() -> None:
    """The uid is known, but nobody there would ask for the state."""
    state = OperatorSubtaskState("a", operator_state=[held("waiting", 1), held("rules", 0, "broadcast")])
    with pytest.raises(UsageError, match="'waiting' of 'a', which the operator does not declare"):
        check_compatible(plan((1, ("a",))), checkpoint(a=[state]))


def test_state_without_an_operator_is_refused() -> None:
    """State is never dropped silently: the uid, the checkpoint and the remedy are named."""
    with pytest.raises(UsageError, match=r"checkpoint 7 of job 'streaks' holds state of 'gone', .* old uid"):
        check_compatible(plan((1, ("a",))), checkpoint(a=keyed("a", 1), gone=keyed("gone", 1)))


class Counts(hg.KeyedProcessFunction[Any, Any, Any]):
    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: Any, ctx: Any) -> None: ...


def of_tables(*names: str) -> OperatorSubtaskState:
    """Keyed state of operator "a" in a canonical savepoint."""
    tables = [StateTable(name, f"state/a/{name}/part-00000.parquet", 1, 0) for name in names]
    return OperatorSubtaskState("a", KeyedStateHandle(0, GROUPS - 1, Inline(b""), 0, tables=tables))


def with_counts() -> PhysicalPlan:
    """One operator that declares `count`."""
    node = KeyedProcessNode(0, "a", uid="a", function=Counts())
    return PhysicalPlan((Vertex(VertexId(0), (node,), 1),), (), GROUPS, 1)


def test_a_table_that_nobody_declares_is_refused_before_anything_starts() -> None:
    """Timers and stamps belong to the operator; with leave it may be left behind."""
    check_compatible(with_counts(), checkpoint(a=[of_tables("count", "timers:all", "gone#ttl")]))
    cut = checkpoint(a=[of_tables("count", "last", "first")])
    with pytest.raises(UsageError, match=r"'first', 'last' of 'a', .*--allow-non-restored-state \(.*ignore"):
        check_compatible(with_counts(), cut)
    check_compatible(with_counts(), cut, ignore_unclaimed=True)
    assert len(unclaimed_state(with_counts(), cut)) == 1


def test_keyed_state_of_an_operator_that_is_keyed_no_more_is_refused() -> None:
    """The uid is known, but nobody there would ask for it; an empty savepoint holds none."""
    node = MapNode(0, "a", uid="a")
    made = PhysicalPlan((Vertex(VertexId(0), (node,), 1),), (), GROUPS, 1)
    with pytest.raises(UsageError, match="keyed state of 'a', which is a keyed operator no more"):
        check_compatible(made, checkpoint(a=keyed("a", 1)))
    check_compatible(made, checkpoint(a=[of_tables()]))


def test_what_is_left_behind_and_who_starts_empty_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Every name, once."""
    cut = checkpoint(a=keyed("a", 1), gone=keyed("gone", 1))
    fresh = KeyedProcessNode(1, "b", uid="b", function=Counts())
    made = plan((1, ("a",)))
    made = replace(made, vertices=(*made.vertices, Vertex(VertexId(1), (fresh,), 1)))
    with caplog.at_level("INFO"):
        assign_state(made, cut, ignore_unclaimed=True)
    assert [line.partition(" holds ")[2] or line.partition(" has ")[2] for line in caplog.messages] == [
        "state of 'gone', but the program has no operator with that uid: it is skipped",
        "nothing of operator 'b': it starts without state",
    ]


def test_an_operator_that_kept_nothing_may_go() -> None:
    """A clock is no state."""
    check_compatible(plan((1, ("a",))), checkpoint(gone=[OperatorSubtaskState("gone", None, {}, [], 5)]))
    lists = [OperatorSubtaskState("gone", None, {"splits": [1]})]
    with pytest.raises(UsageError, match="'gone'"):
        check_compatible(plan((1, ("a",))), checkpoint(gone=lists))


def of_nodes(*nodes: Node) -> PhysicalPlan:
    """A vertex for each."""
    vertices = tuple(Vertex(VertexId(n), (node,), 1) for n, node in enumerate(nodes))
    return PhysicalPlan(vertices, (), GROUPS, 1)


@pytest.mark.parametrize("uid", ["renamed", "in"])
def test_splits_that_only_an_enumerator_has_are_refused_without_their_source(uid: str) -> None:
    """The source would read its input again from the start; what it begins from anyway is no loss."""
    cut = msgspec.structs.replace(checkpoint(), enumerators={"in": {"left": [1, 2]}})
    check_compatible(of_nodes(SourceNode(0, "in", uid="in")), cut)
    kind = SourceNode if uid == "renamed" else MapNode
    changed = of_nodes(kind(0, "in", uid=uid))
    with pytest.raises(
        UsageError, match=r"holds splits of 'in', .*no source with that uid.*ignore-unclaimed"
    ):
        check_compatible(changed, cut)
    check_compatible(changed, cut, ignore_unclaimed=True)
    check_compatible(changed, msgspec.structs.replace(checkpoint(), enumerators={"in": None}))


class Publishing(hg.Sink[Any]):
    def create_writer(self, context: Any, restored: Any) -> Any: ...

    def create_committer(self) -> Any: ...


class Direct(hg.Sink[Any]):
    def create_writer(self, context: Any, restored: Any) -> Any: ...


@pytest.mark.parametrize(
    "node",
    [
        SinkNode(0, "out", uid="other", sink=Publishing()),
        SinkNode(0, "out", uid="out", sink=Direct()),
        MapNode(0, "out", uid="out"),
    ],
)
def test_prepared_output_is_refused_without_a_sink_that_publishes_it(node: Node) -> None:
    """The sink is gone, is another kind of operator, or publishes without a committer now."""
    cut = checkpoint(out=[OperatorSubtaskState("out", None, {}, ["a file"])])
    check_compatible(of_nodes(SinkNode(0, "out", uid="out", sink=Publishing())), cut)
    with pytest.raises(UsageError, match=r"prepared output of 'out', .*could publish it.*ignore-unclaimed"):
        check_compatible(of_nodes(node), cut)
    check_compatible(of_nodes(node), cut, ignore_unclaimed=True)


def test_what_a_writer_keeps_is_refused_without_its_sink() -> None:
    """The uid is known, but is no sink any more."""
    cut = checkpoint(out=[OperatorSubtaskState("out", None, {"writer": [7]})])
    check_compatible(of_nodes(SinkNode(0, "out", uid="out", sink=Direct())), cut)
    with pytest.raises(UsageError, match="state of the writers of 'out'"):
        check_compatible(of_nodes(MapNode(0, "out", uid="out")), cut)


def test_another_number_of_key_groups_is_refused() -> None:
    """Both numbers and the option are named."""
    with pytest.raises(UsageError, match=r"has 128 key groups .* 64; set pipeline.max-parallelism to 128"):
        assign_state(plan((1, ("a",)), max_parallelism=64), checkpoint(a=keyed("a", 1)))


def test_what_was_prepared_stays_with_the_job_master() -> None:
    """Workers get states without committables, and the checkpoint keeps its own."""
    state = OperatorSubtaskState("s", None, {"writer": [1]}, ["prepared"], 3)
    (shipped,) = without_committables([state])
    assert (shipped.committables, shipped.list_state, shipped.watermark) == ([], {"writer": [1]}, 3)
    assert state.committables == ["prepared"]


def test_committables_are_not_shared_out() -> None:
    """A new parallelism gives writers their states only."""
    old: list[Any] = [OperatorSubtaskState("s", None, {"writer": [n]}, [f"p{n}"]) for n in range(3)]
    sink = SinkNode(0, "s", uid="s", sink=Publishing())
    made = PhysicalPlan((Vertex(VertexId(0), (sink,), 2),), (), GROUPS, 2)
    for _, _, states in assign_state(made, checkpoint(s=old)):
        assert all(state.committables == [] for state in states)


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        # (watermark, firing_to) of each old subtask -> those of the new ones
        ([(10, 50), (20, 40)], (10, 40)),
        ([(10, 50), (20, None)], (10, 20)),
        ([(10, None), (20, 40)], (10, None)),
        ([(10, None), (20, None)], (10, None)),
        ([(10, 50), (WATERMARK_MIN, None)], (WATERMARK_MIN, None)),
        ([(None, None), (WATERMARK_MIN, 30)], (WATERMARK_MIN, 30)),
        ([(None, None), (None, None)], (None, None)),
    ],
)
def test_timers_fire_at_once_as_far_as_all_old_subtasks_had_come(
    old: list[tuple[int | None, int | None]], expected: tuple[int | None, int | None]
) -> None:
    """With another parallelism the least counts, if it is ahead of the watermark; else each its own."""
    handles = [KeyedStateHandle(*key_group_range(GROUPS, 2, i), Inline(b"s"), 1) for i in range(2)]
    states = [
        OperatorSubtaskState("u", handle, {}, [], mark, firing)
        for handle, (mark, firing) in zip(handles, old, strict=True)
    ]
    for new in (1, 3):
        shares = share_operator(states, new, GROUPS)
        assert {(share[0].watermark, share[0].firing_to) for share in shares} == {expected}
    unchanged = [(s.watermark, s.firing_to) for share in share_operator(states, 2, GROUPS) for s in share]
    assert unchanged == old


def finished_in(parallelism: dict[str, int], finished: dict[str, list[int]]) -> CheckpointMetadata:
    """A checkpoint in which these subtasks had processed all their input."""
    return msgspec.structs.replace(checkpoint(), parallelism=parallelism, finished=finished)


def test_a_chain_is_finished_where_all_its_operators_are() -> None:
    """All of them at any parallelism; some only at the same; never one whose chain has unfinished work."""
    made = plan((2, ("a", "b")), (3, ("c",)))
    everybody = {(0, 0), (0, 1)}
    assert (
        assign_finished(made, finished_in({"a": 4, "b": 4}, {"a": [0, 1, 2, 3], "b": [3, 2, 1, 0]}))
        == everybody
    )
    assert assign_finished(made, finished_in({"a": 2, "b": 2}, {"a": [1], "b": [0, 1]})) == {(0, 1)}
    assert assign_finished(made, finished_in({"a": 3, "b": 2}, {"a": [0, 1], "b": [0, 1]})) == set()
    assert assign_finished(made, finished_in({"a": 2, "b": 2}, {"a": [0, 1]})) == set()
    assert assign_finished(made, finished_in({"c": 3}, {"c": [0, 2]})) == {(1, 0), (1, 2)}
    assert assign_finished(made, finished_in({"c": 2}, {"c": [0]})) == set()


def test_without_the_old_parallelism_nobody_is_finished() -> None:
    """Whether two of two or two of four had ended is not known; running again does no harm."""
    assert assign_finished(plan((2, ("a",))), finished_in({}, {"a": [0, 1]})) == set()


def in_flight(receiver: str, *records: int) -> CheckpointMetadata:
    """A checkpoint with one stream of parts with so many records."""
    parts = [InFlightPart(Inline(b"x"), 1, count) for count in records]
    return msgspec.structs.replace(
        checkpoint(), in_flight=[InFlightStream(receiver, "s", None, 0, 0, parts=parts)]
    )


def test_records_in_flight_to_an_unknown_operator_are_refused() -> None:
    """They are never dropped silently; an empty stream is nothing."""
    with pytest.raises(UsageError, match=r"checkpoint 7 .* records in flight \(5 for 'gone'\)"):
        check_compatible(plan((1, ("a",))), in_flight("gone", 2, 3))
    check_compatible(plan((1, ("a",))), in_flight("gone"))
    check_compatible(plan((1, ("a",))), in_flight("a", 2))
