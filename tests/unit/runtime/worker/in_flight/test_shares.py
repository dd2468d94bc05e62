"""Who takes which stream: by key, forward, dealt out; what is refused; what holds event time back."""

from __future__ import annotations

from typing import Any

import pytest
from restore_samples import batch, checkpoint, plan, stream

from headgate.common.errors import UsageError
from headgate.common.ids import EdgeId, VertexId
from headgate.common.time import WATERMARK_MIN
from headgate.graph.logical import MapNode
from headgate.graph.partitioners import Forward, Rebalance
from headgate.graph.physical import Edge, PhysicalPlan, Vertex
from headgate.restore.in_flight_shares import (
    SEVERAL,
    SEVERAL_CONTINUED,
    assign_in_flight,
    check_receivers,
    old_parallelism,
)
from headgate.runtime.worker.in_flight.gathering import StreamKey
from headgate.state.snapshots import CheckpointMetadata, InFlightShare, InFlightStream

ONE = batch(("x", 1, 10, 0))


def streams(
    senders: int, receivers: int, keyed: bool = False, elements: Any = (ONE,)
) -> list[InFlightStream]:
    """Every channel of an exchange between all, each with one record."""
    return [
        stream(StreamKey("b", "a", None, s, r), elements, 100 * s + r, keyed=keyed)
        for s in range(senders)
        for r in range(receivers)
    ]


def forward(size: int, elements: Any = (ONE,)) -> list[InFlightStream]:
    """The channels of a forward exchange."""
    return [stream(StreamKey("b", "a", None, i, i), elements, 100 - 10 * i) for i in range(size)]


def taken(where: PhysicalPlan, metadata: CheckpointMetadata) -> dict[int, list[InFlightShare]]:
    """Subtask of the receiver -> its shares."""
    assigned = assign_in_flight(where, metadata)
    assert {vertex for vertex, _, _ in assigned} <= {VertexId(len(where.vertices) - 1)}
    return {subtask: shares for _, subtask, shares in assigned}


def ends(shares: list[InFlightShare]) -> list[tuple[int, int]]:
    """(sender, receiver) of each share that is not a stand-in."""
    found = [(s.stream.sender_subtask, s.stream.receiver_subtask) for s in shares]
    return [pair for pair in found if pair[0] >= 0]


def test_keyed_streams_follow_their_key_groups() -> None:
    """2 to 3 of 16 groups: who overlaps the old range takes the stream, its own range of it."""
    found = taken(plan("keyed", 2, 3), checkpoint(streams(2, 2, keyed=True)))
    assert {subtask: ends(shares) for subtask, shares in found.items()} == {
        0: [(0, 0), (1, 0)],
        1: [(0, 0), (1, 0), (0, 1), (1, 1)],
        2: [(0, 1), (1, 1)],
    }
    ranges = {s: {(x.first_group, x.last_group) for x in shares} for s, shares in found.items()}
    assert ranges == {0: {(0, 5)}, 1: {(6, 10)}, 2: {(11, 15)}}


@pytest.mark.parametrize(
    ("old", "new", "inputs"),
    [
        (3, 2, [{0, 1}, {1, 2}]),
        (2, 2, [{0}, {1}]),
        (2, 3, [{0}, {0, 1}, {1}]),
    ],
)
def test_so4_records_of_a_key_come_from_whoever_overlaps(old: int, new: int, inputs: list[set[int]]) -> None:
    """sO4: each new subtask takes the streams of the old ones whose key groups it has some of, and no others.

    Also where only some of the old ones hold records; and the shares of one stream have each key group once.
    """
    found = taken(plan("keyed", 2, new), checkpoint(streams(2, old, keyed=True)))
    assert [{receiver for _, receiver in ends(found[subtask])} for subtask in range(new)] == inputs
    of_stream: dict[tuple[int, int], list[int]] = {}
    for shares in found.values():
        for share, pair in zip(shares, ends(shares), strict=True):
            groups = range(max(share.first_group, 0), share.last_group + 1) if new != old else range(16)
            of_stream.setdefault(pair, []).extend(groups)
    assert all(len(groups) == len(set(groups)) for groups in of_stream.values())


def test_so4_one_sided_records_reach_every_subtask() -> None:
    """sO4: where only the last old receiver holds records, whoever has some of its keys takes them."""
    last = [each for each in streams(2, 3, keyed=True) if each.receiver_subtask == 2]
    found = taken(plan("keyed", 2, 2), checkpoint(last))
    assert {subtask: ends(shares) for subtask, shares in found.items() if ends(shares)} == {
        1: [(0, 2), (1, 2)]
    }


def test_a_keyed_stream_stays_when_nothing_changed() -> None:
    """The same subtask, and nobody else."""
    found = taken(plan("keyed", 2, 3), checkpoint(streams(2, 3, keyed=True)))
    assert {subtask: ends(shares) for subtask, shares in found.items()} == {
        r: [(0, r), (1, r)] for r in range(3)
    }


@pytest.mark.parametrize("way", ["forward", "rebalance", "chained"])
def test_an_unchanged_parallelism_moves_nothing(way: str) -> None:
    """Whatever the exchange is now, the whole stream stays."""
    found = taken(plan(way, 2, 2), checkpoint(streams(2, 2)))
    assert {subtask: ends(shares) for subtask, shares in found.items()} == {
        0: [(0, 0), (1, 0)],
        1: [(0, 1), (1, 1)],
    }
    assert all(share.of == 1 for shares in found.values() for share in shares)


@pytest.mark.parametrize(
    ("old", "new", "where"), [(2, 3, [0, 1]), (3, 2, [0, 0, 1]), (4, 1, [0, 0, 0, 0]), (1, 3, [0])]
)
@pytest.mark.parametrize("way", ["forward", "chained"])
def test_a_forward_stream_goes_whole_to_one_subtask(way: str, old: int, new: int, where: list[int]) -> None:
    """Order per old channel stays, and old neighbours stay neighbours."""
    found = taken(plan(way, new, new), checkpoint(forward(old)))
    goes = {pair[0]: subtask for subtask, shares in found.items() for pair in ends(shares)}
    assert [goes[sender] for sender in range(old)] == where


def test_other_streams_are_dealt_out() -> None:
    """Each subtask has one turn of every stream, and they begin at different subtasks."""
    found = taken(plan("rebalance", 2, 3), checkpoint(streams(2, 2)))
    for number in range(4):
        assert sorted(found[subtask][number].turn for subtask in range(3)) == [0, 1, 2]
        assert {found[subtask][number].of for subtask in range(3)} == {3}
    firsts = [next(s for s in range(3) if found[s][number].turn == 0) for number in range(4)]
    assert set(firsts) == {0, 1, 2}


def test_empty_streams_are_taken_too() -> None:
    """Where they stand matters for event time; so every subtask gets all of them."""
    found = taken(plan("rebalance", 2, 3), checkpoint(streams(2, 2, elements=())))
    assert [len(ends(found[subtask])) for subtask in range(3)] == [4, 4, 4]


def test_a_changed_forward_exchange_holds_event_time_back() -> None:
    """Each subtask hears of the slowest sender that it has no stream of, also one without a stream."""
    found = taken(plan("forward", 3, 3), checkpoint(forward(2)))
    stand_ins = {
        subtask: [s.stream for s in shares if s.stream.sender_subtask < 0]
        for subtask, shares in found.items()
    }
    told = {s: [(x.watermark, x.parts, x.former) for x in there] for s, there in stand_ins.items()}
    assert told == {0: [(90, [], True)], 1: [(100, [], True)], 2: [(90, [], True)]}


def test_an_idle_sender_holds_nothing_back_unless_it_is_about_to_wake_up() -> None:
    """Idle and empty: it does not count. Idle with records ahead: it does."""
    for elements, mark in (((), 50), ((ONE,), 20)):
        some = [
            stream(StreamKey("b", "a", None, 0, 0), (), 100),
            stream(StreamKey("b", "a", None, 1, 1), elements, 20, idle=True),
            stream(StreamKey("b", "a", None, 2, 2), (), 50),
        ]
        found = taken(plan("rebalance", 1, 3), checkpoint(some))
        (stand_in,) = [share.stream for share in found[0] if share.stream.sender_subtask == SEVERAL]
        assert (stand_in.watermark, stand_in.idle) == (mark, False)


def test_streams_that_continue_are_stood_in_for_apart() -> None:
    """What begins at a known time and what begins where a lower level ends are two things to wait for."""
    some = [
        stream(StreamKey("b", "a", None, 0, 0, level), (ONE,), mark) for level, mark in ((0, 5), (1, None))
    ]
    some.append(stream(StreamKey("b", "a", None, 1, 1), (ONE,), 7))
    found = taken(plan("forward", 3, 3), checkpoint(some))
    named = [(s.stream.level, s.stream.sender_subtask, s.stream.watermark) for s in found[2]]
    assert sorted(named) == [(0, SEVERAL, 5), (1, SEVERAL_CONTINUED, None), (1, SEVERAL, 7)]


def test_what_is_live_is_the_same_level_for_all() -> None:
    """A receiver that has recovered and one that has not: their live streams come last, together."""
    some = [
        stream(StreamKey("b", "a", None, 0, 0, 0), (ONE,), 5),
        stream(StreamKey("b", "a", None, 0, 0, 1), (ONE,), None),
        stream(StreamKey("b", "a", None, 0, 1, 0), (ONE,), 7),
        stream(StreamKey("b", "a", None, 0, 0, 0, True), (ONE,)),
    ]
    (shares,) = taken(plan("rebalance", 1, 1), checkpoint(some)).values()
    levels = {
        (s.stream.receiver_subtask, s.stream.watermark, s.stream.from_output): s.stream.level for s in shares
    }
    assert levels == {(0, 5, False): 0, (0, None, False): 1, (1, 7, False): 1, (0, None, True): 1}


def test_a_first_level_begins_before_all_time_unless_it_says_otherwise() -> None:
    """Lined up behind another receiver's levels, it still does not continue those."""
    some = [
        stream(StreamKey("b", "a", None, 0, 0, 0), (ONE,), 5),
        stream(StreamKey("b", "a", None, 0, 0, 1), (ONE,), None),
        stream(StreamKey("b", "a", None, 0, 1, 0), (ONE,), None),
    ]
    (shares,) = taken(plan("rebalance", 1, 1), checkpoint(some)).values()
    begins = {(s.stream.receiver_subtask, s.stream.level): s.stream.watermark for s in shares}
    assert begins == {(0, 0): 5, (0, 1): None, (1, 1): WATERMARK_MIN}


def test_copies_of_a_rescaled_sender_are_former_ones() -> None:
    """Their numbers mean others now; those of an unchanged sender do not."""
    for senders, former in ((2, False), (3, True)):
        found = taken(plan("rebalance", senders, 2), checkpoint(streams(2, 2)))
        assert {s.stream.former for shares in found.values() for s in shares} == {former}


def test_the_parallelism_is_known_from_the_checkpoint_or_its_streams() -> None:
    """Streams exist for every channel, so the highest number tells; former numbers tell nothing."""
    some = [*streams(2, 3), stream(StreamKey("b", "a", None, 8, 0, former=True), (), 0)]
    assert old_parallelism(checkpoint(some)) == {"a": 2, "b": 3}
    assert old_parallelism(checkpoint(some, parallelism={"b": 4, "c": 1})) == {"a": 2, "b": 4, "c": 1}


def test_side_outputs_are_links_of_their_own() -> None:
    """The exchange is found by the sender's tag: here the main output goes forward, the tagged one not."""
    nodes = [MapNode(n, uid, uid=uid) for n, uid in enumerate("ab")]
    vertices = tuple(Vertex(VertexId(n), (node,), 2) for n, node in enumerate(nodes))
    edges = (
        Edge(EdgeId(0), VertexId(0), 0, None, VertexId(1), Forward()),
        Edge(EdgeId(1), VertexId(0), 0, "odd", VertexId(1), Rebalance()),
    )
    some = [stream(StreamKey("b", "a", tag, i, i), (ONE,), 0) for tag in (None, "odd") for i in range(3)]
    (first, _) = assign_in_flight(PhysicalPlan(vertices, edges, 16, 2), checkpoint(some))
    real = [share for share in first[2] if share.stream.sender_subtask >= 0]
    assert {share.stream.tag: share.of for share in real} == {None: 1, "odd": 2}


def test_records_of_an_unknown_operator_are_refused() -> None:
    """The uid, their number, and what to do; without records the streams may go."""
    lost = [stream(StreamKey("gone", "a", None, s, 0), (ONE, ONE), 0) for s in range(2)]
    with pytest.raises(UsageError, match=r"checkpoint 7 .* \(4 for 'gone'\), .* old uid back"):
        check_receivers(plan("forward", 1, 1), checkpoint(lost))
    with pytest.raises(UsageError, match="'gone'"):
        assign_in_flight(plan("forward", 1, 1), checkpoint(lost))
    empty = [stream(StreamKey("gone", "a", None, 0, 0), (), 5)]
    assert assign_in_flight(plan("forward", 1, 1), checkpoint(empty)) == []


@pytest.mark.parametrize(
    ("way", "keyed", "said"),
    [
        ("keyed", False, "without a key from 'a' to 'b', but in this program it is keyed"),
        ("rebalance", True, "by key from 'a' to 'b', but in this program it is not;"),
        ("broadcast", False, "in this program each goes to every subtask"),
    ],
)
def test_another_rule_is_refused(way: str, keyed: bool, said: str) -> None:
    """Records that were routed by one rule cannot arrive by another; none can be misled."""
    with pytest.raises(UsageError, match=said):
        assign_in_flight(plan(way, 2, 2), checkpoint(streams(2, 2, keyed=keyed)))
    empty = checkpoint(streams(2, 2, keyed=keyed, elements=()))
    assert len(assign_in_flight(plan(way, 2, 2), empty)) == 2
