"""Random streams restored at random parallelism, interrupted and restored again.

Whatever the exchange was and becomes: each record comes once, at the owner of its key, in its
channel's order, and none that was in time becomes late, be it in flight or emitted after the restore.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from restore_samples import Seen, batch, checkpoint, owner, plan, recovered, stream

from headgate.records.row_batch import RowBatch
from headgate.restore.in_flight_shares import assign_in_flight
from headgate.runtime.protocol.elements import Idle, Watermark
from headgate.runtime.worker.in_flight.gathering import StreamKey

Chooser = Any


@dataclass
class Run:
    """A deployment: its exchange, where its senders' clocks stand, and what came in.

    Attributes:
        dealt: channels of an earlier deployment were dealt out over several subtasks.
        mixed: what was dealt out came together again, in an order that nobody knows.
    """

    way: str
    senders: int
    receivers: int
    clocks: list[int]
    seen: list[Seen] = field(default_factory=list)
    dealt: bool = False
    mixed: bool = False

    def channels(self) -> list[tuple[int, int]]:
        """(sender, receiver) of every channel."""
        if self.way == "chained":
            return []
        if self.way == "forward":
            return [(index, index) for index in range(self.senders)]
        return [(s, r) for s in range(self.senders) for r in range(self.receivers)]


@dataclass
class Emitted:
    """Every record in flight: name -> key, and those that were in time on their own channel."""

    keys: dict[Any, int] = field(default_factory=dict)
    in_time: set[Any] = field(default_factory=set)


def ways(draw: Chooser, keyed: bool, senders: int, receivers: int, first: bool = False) -> str:
    """An exchange that these two may have."""
    if keyed:
        return "keyed"
    allowed = ["rebalance"]
    if senders == receivers:
        allowed += ["forward"] if first else ["forward", "chained"]
    return draw(st.sampled_from(allowed))


def elements_of(
    draw: Chooser, name: tuple[Any, ...], run: Run, receiver: int, start: int, emitted: Emitted, idle: bool
) -> tuple[list[Any], int]:
    """Random elements of a channel from a watermark on, and its last watermark."""
    found: list[Any] = []
    mark, number = start, 0
    owned = [key for key in range(40) if run.way != "keyed" or owner(key, run.receivers) == receiver]
    for kind in draw(st.lists(st.sampled_from("bbbw" + "i" * idle), max_size=5)):
        if kind == "i":
            found.append(Idle())
            continue
        if kind == "w":
            mark += draw(st.integers(0, 30))
            found.append(Watermark(mark))
            continue
        rows = []
        for _ in range(draw(st.integers(1, 3))):
            mark += draw(st.sampled_from([0, 0, 3, 20]))
            time = mark + draw(st.sampled_from([-5, 1, 2, 30]))
            full, key = (*name, number), draw(st.sampled_from(owned))
            emitted.keys[full] = key
            if time > mark:
                emitted.in_time.add(full)
            rows.append((full, key, time, mark))
            number += 1
        found.append(batch(*rows))
    return found, mark


def first_checkpoint(draw: Chooser, run: Run, emitted: Emitted, idle: bool) -> list[Any]:
    """What the first run had in flight; moves the senders' clocks."""
    streams = []
    for sender, receiver in run.channels():
        start = draw(st.integers(0, 100))
        found, last = elements_of(draw, (1, sender, receiver), run, receiver, start, emitted, idle)
        run.clocks[sender] = max(run.clocks[sender], last)
        cut = draw(st.integers(0, len(found)))
        key = StreamKey("b", "a", None, sender, receiver)
        keyed = run.way == "keyed"
        streams.append(stream(key, found[:cut], start, keyed=keyed, idle=idle and draw(st.booleans())))
        if found[cut:]:
            behind = StreamKey("b", "a", None, sender, receiver, from_output=True)
            streams.append(stream(behind, found[cut:], keyed=keyed))
    return streams


def restored(run: Run, senders: int, receivers: int, way: str, streams: list[Any]) -> Run:
    """The next deployment, its senders' clocks restored and its records in flight shared out."""
    same = senders == run.senders
    clocks = list(run.clocks) if same else [min(run.clocks)] * senders
    deals = way == "rebalance" and receivers != run.receivers
    moves = way != "keyed" and receivers != run.receivers
    mixed = run.mixed or (run.dealt and moves)
    after = Run(way, senders, receivers, clocks, dealt=run.dealt or deals, mixed=mixed)
    metadata = checkpoint(streams, parallelism={"a": run.senders, "b": run.receivers})
    where = plan(way, senders, receivers)
    shares = {subtask: shares for _, subtask, shares in assign_in_flight(where, metadata)}
    position = 1 if way == "chained" else 0
    for subtask in range(receivers):
        mine = recovered(shares.get(subtask, []), subtask, lambda _uid: position)
        after.seen.append(Seen(mine))
    return after


def check(run: Run, emitted: Emitted, before: list[Any], interrupted_before: bool = False) -> None:
    """Everything once, at its owner, in order, in time."""
    got = [name for seen in run.seen for name in seen.names]
    assert sorted([*got, *before]) == sorted(emitted.keys)
    for subtask, seen in enumerate(run.seen):
        assert not emitted.in_time.intersection(seen.late)
        if run.way == "keyed":
            assert {owner(key, run.receivers) for key in seen.keys} <= {subtask}
        assert {name: emitted.keys[name] for name in seen.names} == dict(
            zip(seen.names, seen.keys, strict=True)
        )
        if not run.mixed:
            check_order(seen, run.way == "keyed" and interrupted_before)


def check_order(seen: Seen, by_key: bool) -> None:
    """Each channel's records come in order; `by_key`: those of a key do, as others took another way."""
    last: dict[Any, int] = {}
    for (*channel, number), key in zip(seen.names, seen.keys, strict=True):
        line = (*channel, key if by_key else None)
        assert last.get(line, -1) < number
        last[line] = number


def check_live(run: Run) -> None:
    """No channel claims more than its sender, and no clock is ahead of a sender that it listens to."""
    for subtask, seen in enumerate(run.seen):
        own = [subtask] if run.way in ("forward", "chained") else list(range(run.senders))
        assert seen.clock <= min(run.clocks[sender] for sender in own)
        for sender, (mark, _) in zip(own, seen.input.seeds([("a", None, s) for s in own]), strict=True):
            assert mark is None or mark <= run.clocks[sender]


def interrupted(draw: Chooser, run: Run, emitted: Emitted, number: int) -> tuple[list[Any], list[Any]]:
    """Some polls, then checkpoint `number`: its streams, and the names that were processed before it."""
    streams: list[Any] = []
    done: list[Any] = []
    keyed = run.way == "keyed"
    for subtask, seen in enumerate(run.seen):
        partly = _poll_some(draw, seen)
        remainder = seen.input.remainder(partly)
        assert len({key for key, *_ in remainder}) == len(remainder)
        for key, mark, idle, elements in remainder:
            assert key.receiver_subtask == subtask
            streams.append(stream(key, elements, mark, idle=idle, keyed=keyed))
        done += seen.names
    for sender, receiver in run.channels():
        level = run.seen[receiver].input.levels()
        name = (number, sender, receiver)
        found, last = elements_of(draw, name, run, receiver, run.clocks[sender], emitted, False)
        cut = draw(st.integers(0, len(found)))
        key = StreamKey("b", "a", None, sender, receiver, level)
        streams.append(stream(key, found[:cut], None, keyed=keyed))
        behind = StreamKey("b", "a", None, sender, receiver, 0, True)
        streams += [stream(behind, found[cut:], keyed=keyed)] if found[cut:] else []
        run.clocks[sender] = max(run.clocks[sender], last)
    return streams, done


def _poll_some(draw: Chooser, seen: Seen) -> RowBatch | None:
    for _ in range(draw(st.integers(0, 6))):
        seen.poll()
    if not draw(st.booleans()) or (polled := seen.input.poll()) is None or polled[1] is None:
        return None
    given = polled[1]
    cut = draw(st.integers(0, len(given) - 1))
    seen.process(given.slice(0, cut))
    rest = given.slice(cut, len(given))
    assert isinstance(rest, RowBatch)
    return rest


def _parallelisms(draw: Chooser) -> tuple[int, int]:
    sizes = st.integers(1, 3)
    receivers = draw(sizes)
    return (receivers if draw(st.booleans()) else draw(sizes)), receivers


def _first_run(draw: Chooser, emitted: Emitted, idle: bool) -> tuple[bool, Run, list[Any]]:
    keyed = draw(st.booleans())
    senders, receivers = _parallelisms(draw)
    run = Run(ways(draw, keyed, senders, receivers, first=True), senders, receivers, [0] * senders)
    return keyed, run, first_checkpoint(draw, run, emitted, idle)


@settings(max_examples=60)
@given(st.data(), st.booleans())
def test_one_restore_at_any_parallelism(data: Any, idle: bool) -> None:
    """sO7: each record once, at its owner, in its channel's order, in time if it was."""
    emitted = Emitted()
    keyed, run, streams = _first_run(data.draw, emitted, idle)
    senders, receivers = _parallelisms(data.draw)
    after = restored(run, senders, receivers, ways(data.draw, keyed, senders, receivers), streams)
    for seen in after.seen:
        seen.run()
    check(after, emitted, [])
    if not idle:
        check_live(after)


@settings(max_examples=60)
@given(st.data())
def test_interrupted_recoveries_lose_nothing(data: Any) -> None:
    """sO7: two checkpoints during recoveries, a new parallelism after each: polled and left are all."""
    emitted = Emitted()
    keyed, run, streams = _first_run(data.draw, emitted, False)
    done: list[Any] = []
    for number in (2, 3):
        senders, receivers = _parallelisms(data.draw)
        run = restored(run, senders, receivers, ways(data.draw, keyed, senders, receivers), streams)
        streams, processed = interrupted(data.draw, run, emitted, number)
        done += processed
    senders, receivers = _parallelisms(data.draw)
    last = restored(run, senders, receivers, ways(data.draw, keyed, senders, receivers), streams)
    for seen in last.seen:
        seen.run()
    check(last, emitted, done, True)
    check_live(last)
