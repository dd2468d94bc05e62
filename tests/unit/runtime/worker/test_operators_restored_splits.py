"""Event time of a reader that is restored with the rests of several splits: none makes another's late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operator_samples import ManualClock, Recorder, context, finished

from headgate.api.source import NOTHING_AVAILABLE, Source, SourceReader, Split
from headgate.api.streams.event_time import WatermarkStrategy
from headgate.common.time import WATERMARK_MIN
from headgate.restore.assignment import share_operator
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.operators.timestamps import TimestampsOperator

TIMES = {"a": [10, 20, 30], "b": [40, 50, 60], "c": [70, 80, 90]}
IDLE_MS = 1_000


class Reader(SourceReader[int]):
    """Reads its splits one after the other, the last one that it got first, or two with one poll."""

    def __init__(self, records: int) -> None:
        self.bad_records, self.splits, self.records = [], list[Split](), records
        self.waits: set[str] = set()

    def add_splits(self, splits: Sequence[Split]) -> None:
        self.splits += splits

    def no_more_splits(self) -> None: ...

    def poll(self, max_records: int) -> Any:
        given: list[int] = []
        for split in [split for split in reversed(self.splits) if split.id not in self.waits]:
            left = TIMES[split.id][split.position :]
            given += left[: self.records - len(given)]
            self._read(split, self.records if len(left) > self.records else len(left))
            if len(given) == self.records:
                break
        return given or NOTHING_AVAILABLE

    def _read(self, split: Split, count: int) -> None:
        at = self.splits.index(split)
        position = split.position + count
        self.splits[at : at + 1] = [Split(split.id, position)] if position < len(TIMES[split.id]) else []

    def snapshot(self) -> list[Split]:
        return list(self.splits)


class Fixed(Source[int]):
    """A source of one reader."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def create_enumerator(self, restored: Any) -> Any: ...

    def create_reader(self, context: Any) -> Reader:
        return self.reader


class Chain:
    """A reader and its event time, as one subtask has them."""

    def __init__(self, states: Any = None, records: int = 1, idleness_ms: int | None = None) -> None:
        self.clock, self.reader, self.out = ManualClock(1_000), Reader(records), Recorder()
        mine = [[], []] if states is None else states
        self.source = SourceOperator(context("in", restored=mine[0]), Fixed(self.reader))
        self.times = TimestampsOperator(
            context("in-event-time", restored=mine[1], clock=self.clock),
            WatermarkStrategy(lambda time: time, 0, idleness_ms),
        )
        self.times.source, self.source.next, self.times.next = self.source, self.times, self.out
        self.source.open()
        self.times.open()

    def read(self, polls: int = 1) -> None:
        """Poll so often."""
        for _ in range(polls):
            batch = self.source.poll(10)
            assert not isinstance(batch, type(NOTHING_AVAILABLE))
            self.times.process(batch)

    def snapshot(self) -> tuple[Any, Any]:
        """What both operators keep."""
        return finished(self.source.snapshot(1)), finished(self.times.snapshot(1))

    @property
    def late(self) -> list[int]:
        """Records that came behind a watermark that says they would not."""
        return [record for record, time, mark in self.out.timed() if time <= mark]


def one_each(read: int) -> list[tuple[Any, Any]]:
    """Snapshots of three readers with one split each, of which so many records are read."""
    found = []
    for name in TIMES:
        chain = Chain()
        chain.reader.add_splits([Split(name, 0)])
        chain.read(read)
        found.append(chain.snapshot())
    return found


def merged(snapshots: list[tuple[Any, Any]]) -> list[Any]:
    """The states of the one reader that takes over."""
    return [share_operator([pair[at] for pair in snapshots], 1, 128)[0] for at in (0, 1)]


def test_splits_of_several_readers_make_none_late_in_one() -> None:
    """Read backwards, each split waits for the others; at the end time is where it would have been."""
    for read in range(3):
        chain = Chain(merged(one_each(read)))
        chain.read(9 - 3 * read)
        assert chain.late == []
        assert chain.out.log[-1] == ("watermark", 29), "the last one read is the first one of all"


def test_a_split_that_nobody_has_begun_holds_time_where_it_is() -> None:
    """A reader that had read nothing told nothing of the time, and its split may begin anywhere."""
    begun, fresh = Chain(), Chain()
    begun.reader.add_splits([Split("c", 0)])
    begun.read()
    fresh.reader.add_splits([Split("a", 0)])
    chain = Chain(merged([fresh.snapshot(), begun.snapshot()]))
    chain.read(2)
    assert [mark for _, _, mark in chain.out.timed()] == [WATERMARK_MIN] * 2
    assert not [entry for entry in chain.out.log if entry[0] == "watermark"]
    chain.read(3)
    assert chain.late == []


def test_what_one_split_holds_outlives_another_restart() -> None:
    """A snapshot between two splits says of each how far it is."""
    first = Chain(merged(one_each(1)))
    first.read(1)
    again = Chain([[state] for state in first.snapshot()])
    again.read(5)
    assert again.late == []


def test_a_batch_of_two_splits_moves_time_no_further_than_the_slower_one() -> None:
    """Nobody knows which record is whose."""
    chain = Chain(merged(one_each(1)), records=3)
    chain.read(2)
    assert chain.late == []


def test_an_idle_split_is_not_waited_for() -> None:
    """With an idleness time goes on without a split that brings nothing for so long."""
    chain = Chain(merged(one_each(1)), idleness_ms=IDLE_MS)
    chain.reader.waits = {"a", "b"}
    chain.read()
    assert chain.out.log[-1] == ("watermark", 9)
    chain.clock.now += IDLE_MS
    chain.read()
    assert chain.out.log[-1] == ("watermark", 89)


def test_snapshots_without_marks_of_splits_go_on_as_before() -> None:
    """Those of older versions know one time for all splits of a reader."""
    source, times = one_each(1)[0]
    times.list_state.clear()
    chain = Chain([[source], [times]])
    chain.read(2)
    assert [mark for _, _, mark in chain.out.timed()] == [9, 19]
