"""A subtask's recovered records: order, event time, laziness, and what a checkpoint takes along."""

from __future__ import annotations

from typing import Any

import pytest
from restore_samples import Seen, batch, recovered, stream

from headgate.common.errors import StorageError, UsageError
from headgate.common.time import WATERMARK_MIN
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.elements import Idle, Watermark
from headgate.runtime.worker.in_flight.gathering import StreamKey
from headgate.runtime.worker.in_flight.recovered import RecoveredInput
from headgate.state.snapshots import InFlightShare, InFlightStream


def share(
    sender: int,
    elements: Any = (),
    mark: int | None = None,
    level: int = 0,
    from_output: bool = False,
    receiver: str = "b",
    **more: Any,
) -> InFlightShare:
    """A whole stream from a copy of "a" to subtask 0."""
    key = StreamKey(receiver, "a", None, sender, 0, level, from_output, former=more.pop("former", False))
    return InFlightShare(stream(key, list(elements), mark, **more))


def one(name: str, time: int = 0, mark: int = 0) -> RowBatch:
    """A batch of one record."""
    return batch((name, 1, time, mark))


def polled(shares: list[InFlightShare]) -> list[Any]:
    """Every piece: (names, marks of the records, watermark behind them), or the watermark alone."""
    return pieces_of(recovered(shares))


def pieces_of(found: RecoveredInput) -> list[Any]:
    """The same of an input that is made already."""
    pieces: list[Any] = []
    while (piece := found.poll()) is not None:
        _, given, mark = piece
        if given is None:
            pieces.append(mark)
        else:
            assert given.watermarks is not None
            pieces.append(("".join(name for name, _ in given.rows()), given.watermarks.tolist(), mark))
    assert found.poll() is None
    return pieces


def names(shares: list[InFlightShare]) -> str:
    """The records in the order in which they come."""
    return "".join(piece[0] for piece in polled(shares) if isinstance(piece, tuple))


def test_lower_levels_come_first_and_input_before_output() -> None:
    """Whatever the order of the shares."""
    shares = [
        share(0, [one("f")], level=1, from_output=True),
        share(0, [one("e")], level=1),
        share(0, [one("c"), one("d")], from_output=True),
        share(0, [one("a"), one("b")], 0),
    ]
    assert names(shares) == "abcdef"


def test_channels_of_a_level_take_turns() -> None:
    """So that none holds event time back for long."""
    assert names([share(0, map(one, "ace"), 0), share(1, map(one, "bd"), 0)]) == "abcde"


def test_marks_are_those_that_all_channels_allow() -> None:
    """A record's mark is cut to where the slowest other channel is; the watermark follows the least."""
    fast, slow = [one("a", 90, 80), Watermark(95)], [one("b", 40, 30), Watermark(60)]
    assert polled([share(0, fast, 50), share(1, slow, 10)]) == [
        10,
        ("a", [10], 10),
        ("b", [30], 30),
        60,
    ]


def test_a_channel_at_its_end_stays_where_it_is() -> None:
    """Its live records are still to come and must not be late."""
    assert polled([share(0, (), 20), share(1, [one("a", 90, 80), Watermark(95)], 15)]) == [
        15,
        ("a", [20], 20),
    ]


def test_an_idle_channel_holds_nothing_back_unless_records_follow_in_it() -> None:
    """Those records were in time and stay so."""
    fast = [one("a", 90, 80)]
    assert polled([share(0, fast, 50), share(1, (), 10, idle=True)]) == [50, ("a", [80], 80)]
    late = polled([share(0, fast, 50), share(1, [one("b", 20, 10)], 10, idle=True)])
    assert late == [10, ("a", [10], 10), ("b", [10], 10)]
    asleep = [share(0, [Watermark(60)], 50), share(1, [Idle(), one("b", 20, 10), Idle()], 10)]
    assert polled(asleep) == [10, ("b", [10], 10), 60]


def test_a_level_continues_where_the_one_below_ended() -> None:
    """The same copy of the sender goes on at its end; renumbered copies at the least end."""
    below = [share(0, [Watermark(50)], 10), share(1, [Watermark(70)], 10)]
    above = [share(1, [one("a", 90, 80)], level=1)]
    assert polled([*below, *above])[-2:] == [70, ("a", [80], 80)]
    renumbered = [
        share(0, [Watermark(50)], 10, former=True),
        share(1, [Watermark(70)], 10, former=True),
        share(1, [one("a", 90, 80)], level=1),
        share(0, (), level=1),
    ]
    assert polled(renumbered)[-2:] == [50, ("a", [50], 50)]


def test_a_stream_that_waits_for_its_level_holds_event_time_back() -> None:
    """It begins at a known time, so nothing may be later before its turn comes."""
    assert polled([share(0, [Watermark(50)], 10), share(1, [one("b", 25, 20)], 20, level=1)]) == [
        10,
        20,
        ("b", [20], 20),
    ]


def test_a_live_channel_of_which_nothing_is_stored_holds_event_time_back() -> None:
    """Its sender may be slower than those that others tell of, as after a checkpoint that only some subtasks
    of the receiver took unaligned.
    """
    shares = [share(0, [one("a", 20, 10)], 10)]
    for live, expected in (
        ([("a", None)], [10, ("a", [10], 10)]),
        ([("a", None), ("z", None)], [("a", [WATERMARK_MIN], WATERMARK_MIN)]),
        ([("a", None), ("a", "odd")], [("a", [WATERMARK_MIN], WATERMARK_MIN)]),
    ):
        found = recovered(shares)
        found.wait_for(live)
        assert pieces_of(found) == expected


def test_the_output_part_begins_where_the_sender_had_got_to() -> None:
    """Its watermark stands behind the input part."""
    shares = [share(0, [one("a", 20, 10)], 10), share(0, [one("b", 90, 70)], 60, from_output=True)]
    assert polled(shares) == [10, ("a", [10], 10), 60, ("b", [70], 70)]


def test_operators_further_down_the_chain_come_first() -> None:
    """What was under way to them is older than what the head makes of its own; only its time is told."""
    shares = [share(0, [one("b", 90, 80)], 70), share(0, [one("a", 50, 40)], 30, receiver="c")]
    found = recovered(shares, position_of={"b": 0, "c": 2}.__getitem__)
    first, second, third = found.poll(), found.poll(), found.poll()
    assert first is not None
    assert (first[0], first[2]) == (2, WATERMARK_MIN)
    assert second == (0, None, 70)
    assert third is not None
    assert (third[0], third[2]) == (0, 80)
    assert found.poll() is None


def test_dealt_batches_are_taken_in_turn() -> None:
    """Counted over all parts; the others' event time is taken note of."""
    whole = share(0, [one(name, 10 * n + 1, 10 * n) for n, name in enumerate("abcdefg")], 0).stream
    assert len(whole.parts) == 2
    assert [names([InFlightShare(whole, turn=turn, of=2)]) for turn in (0, 1)] == ["aceg", "bdf"]
    assert polled([InFlightShare(whole, turn=1, of=2)]) == [
        0,
        ("b", [10], 10),
        20,
        ("d", [30], 30),
        40,
        ("f", [50], 50),
        60,
    ]


def test_keyed_records_are_taken_by_their_group() -> None:
    """All groups together are all records."""
    whole = stream(
        StreamKey("b", "a", None, 0, 0), [batch(*[(key, key, 1, 0) for key in range(30)])], 0, keyed=True
    )
    halves = []
    for first, last in ((0, 7), (8, 15)):
        seen = Seen(recovered([InFlightShare(whole, first, last)]))
        seen.run()
        halves.append(seen.names)
    assert sorted(halves[0] + halves[1]) == list(range(30))
    assert all(halves)


def test_keyed_records_without_groups_are_damage() -> None:
    """They cannot be dealt out by guess."""
    bare = stream(StreamKey("b", "a", None, 0, 0), [one("a")], 0)
    told = InFlightStream(**{name: getattr(bare, name) for name in bare.__struct_fields__} | {"keyed": True})
    with pytest.raises(StorageError, match="from 'a' to 'b' are stored with key groups None"):
        Seen(recovered([InFlightShare(told, 0, 15)])).run()


def test_parts_are_read_when_their_turn_comes() -> None:
    """Not all at once: what was in flight may be large."""
    reads: list[Any] = []
    found = recovered([share(0, [one("a"), one("b")], 0)], reads=reads)
    assert reads == []
    while (piece := found.poll()) is not None and piece[1] is None:
        pass
    assert len(reads) == 1


def test_records_of_another_class_are_refused() -> None:
    """The stored description says which they were."""
    typed = share(0, [one("a")], 0, record_type={"kind": "record", "version": 1})
    with pytest.raises(UsageError, match="from 'a' to 'b' in the checkpoint cannot be read"):
        polled([typed])


def test_what_is_left_is_a_copy() -> None:
    """A function may change a record that it gets, and the checkpoint still stores the old one."""
    found = recovered([share(0, [one("a"), one("b")], 0)])
    while (piece := found.poll()) is not None and piece[1] is None:
        pass
    ((_, _, _, elements),) = found.remainder()
    polled_next = found.poll()
    assert polled_next is not None
    assert isinstance(polled_next[1], RowBatch)
    (left,) = [element for element in elements if isinstance(element, RowBatch)]
    assert polled_next[1].records == left.records == [("b", 1)]
    assert polled_next[1].records is not left.records


def test_a_batch_in_work_stands_before_its_own_watermark() -> None:
    """The rest of it goes first, at the event time before it."""
    found = recovered([share(0, [batch(("a", 1, 20, 10), ("b", 1, 60, 50)), Watermark(70)], 10)])
    assert found.poll() == (0, None, 10)
    piece = found.poll()
    assert piece is not None
    assert piece[1] is not None
    ((key, mark, idle, elements),) = found.remainder(piece[1].slice(1, 2))
    assert (key.level, key.receiver_subtask, mark, idle) == (0, 0, 10, False)
    assert elements[1:] == [Watermark(50), Watermark(70)]
    assert elements[0].rows() == [("b", 1)]


def test_levels_left_are_numbered_anew() -> None:
    """The live level comes behind them; it is there even when everything is polled, for its event time."""
    found = recovered([share(0, [one("a")], 5), share(0, [one("b")], level=1)])
    assert (found.levels(), [key.level for key, *_ in found.remainder()]) == (2, [0, 1])
    while found.poll() is not None:
        pass
    assert (found.levels(), [(key.level, mark) for key, mark, *_ in found.remainder()]) == (1, [(0, 5)])


def test_live_channels_begin_where_recovered_ones_ended() -> None:
    """The same copy where it was, another at the least of all; nothing is known of another sender."""
    found = recovered([share(0, [Watermark(50)], 10), share(1, [Watermark(70)], 10, idle=False)])
    while found.poll() is not None:
        pass
    live = [("a", None, 0), ("a", None, 1), ("a", None, 2), ("z", None, 0), ("a", "odd", 0)]
    assert found.seeds(live) == [(50, False), (70, False), (50, False), (None, False), (None, False)]


def test_nothing_in_flight_is_nothing_to_do() -> None:
    """No share: nothing is polled, and every channel begins anew."""
    found = recovered([])
    assert (found.poll(), found.remainder(), found.levels()) == (None, [], 0)
    assert found.seeds([("a", None, 0)]) == [(None, False)]
