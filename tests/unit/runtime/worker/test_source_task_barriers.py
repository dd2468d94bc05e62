"""Barriers that a source emits: when they are drawn, when they wait, and what becomes of those."""

from __future__ import annotations

from typing import Any

import pytest
from operator_samples import context, finished, rows
from task_samples import TASK, CountingReader, SourceRig

from headgate.api.source import Split
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.alignment.barriers import Alignment, Barrier, SavepointOrder
from headgate.core.alignment.handler_contract import SUBSUMED
from headgate.records.batch import Batch
from headgate.runtime.protocol.elements import CancelMarker, EndOfData, Watermark
from headgate.runtime.worker.exchange.output import EdgeReceiver
from headgate.runtime.worker.in_flight.gathering import StreamKey
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.task.source_task import SourceTask
from headgate.runtime.worker.task.task import TaskParts


def over(checkpoint: int) -> Barrier:
    """A barrier that overtakes."""
    return Barrier(checkpoint, 1_000, Alignment.UNALIGNED)


def timed(checkpoint: int, trigger_ms: int = 1_000) -> Barrier:
    """A barrier that overtakes when it is older than 50 ms."""
    return Barrier(checkpoint, trigger_ms, timeout_ms=50)


class Recovered:
    """Records of a restored checkpoint, one a poll; a `RecoveredInput` to a subtask."""

    def __init__(self, *records: Any) -> None:
        self.left = list(records)

    def poll(self) -> tuple[int, Batch | None, int] | None:
        return (0, rows([self.left.pop(0)]), WATERMARK_MIN) if self.left else None

    def remainder(self, partly: Batch | None = None) -> list[Any]:
        key = StreamKey("op", "before", None, 0, 0)
        mine = [] if partly is None else [partly]
        return [(key, None, False, [*mine, *(rows([record]) for record in self.left)])]


class Rig(SourceRig):
    """A source task that may have something to recover, or be through."""

    def __init__(
        self, recovered: Any = None, *, through: bool = False, credit: int = 100, known: bool = True
    ) -> None:
        super().__init__(CountingReader(), credit)
        self.made = 0
        operator = SourceOperator(context(clock=self.clock), self)  # type: ignore[arg-type]
        operator.next = EdgeReceiver(self.outputs, [self.edge], True)
        parts = TaskParts(TASK, [operator], self.outputs, self.services, 10, recovered)
        self.task = SourceTask(parts, finished=through)
        self.task.open()
        if known and not through:
            self.task.splits_assigned([Split("0-4")])

    def create_reader(self, context: Any) -> Any:
        self.made += 1
        return self.reader

    def run(self) -> None:
        """Step until there is nothing to do."""
        while self.task.step():
            pass

    @property
    def drawn(self) -> list[int]:
        """Checkpoints in the order of their drawing."""
        return [drawn.checkpoint for drawn in self.taken.drawn]

    def barriers(self) -> list[Barrier]:
        """What went out."""
        return [element for element in self.lane.elements if isinstance(element, Barrier)]


def splits(rig: Rig, at: int = 0) -> list[Any]:
    """What a snapshot says is left to read."""
    return finished(rig.taken.drawn[at].pending[0]).list_state["splits"]


def test_a_barrier_is_drawn_at_once_where_the_reader_stands() -> None:
    """What was read before it is on its way, the rest is in the snapshot."""
    rig = Rig()
    rig.task.step()
    rig.task.trigger(over(1))
    assert rig.drawn == [1]
    assert splits(rig) == [["2-4", None]]
    assert [batch.rows() for batch in rig.taken.captures[1].of(0, output=True)] == [[0, 1]]
    assert rig.taken.captures[1].sealed, "a source has no inputs to wait for"


def test_a_barrier_waits_until_the_reader_knows_whether_it_reads() -> None:
    """Or it would be the first sign of its channels, and the splits be in nobody's snapshot."""
    rig = Rig(known=False)
    rig.task.trigger(over(1))
    rig.run()
    assert rig.drawn == []
    rig.task.splits_assigned([Split("0-4")])
    assert rig.drawn == [1]
    assert splits(rig) == [], "drawn before the splits are taken over: the enumerator still has them"


def test_no_timeout_helps_a_reader_that_does_not_know() -> None:
    """It cannot overtake what nobody knows of yet."""
    rig = Rig(known=False)
    rig.task.trigger(timed(1))
    rig.clock.now += 1_000
    rig.run()
    assert rig.drawn == []


def test_a_barrier_that_waits_gives_way_to_a_newer_one() -> None:
    """The job master and those downstream hear that it will not come."""
    rig = Rig(known=False)
    rig.task.trigger(over(1))
    rig.task.trigger(over(2))
    assert rig.reports.declined == [(1, SUBSUMED)]
    assert rig.lane.elements == [CancelMarker(1)]
    rig.task.splits_assigned([Split("0-4")])
    assert rig.drawn == [2]


@pytest.mark.parametrize("known", [True, False])
def test_a_barrier_that_waits_is_forgotten_when_it_is_given_up(known: bool) -> None:
    """Nothing is drawn for it, whatever it waited for."""
    rig = Rig(Recovered("a", "b") if known else None, known=known)
    rig.task.trigger(Barrier(1, 1_000))
    rig.task.aborted(1)
    rig.run()
    rig.task.splits_assigned([Split("4-6")])
    rig.run()
    assert (rig.drawn, rig.barriers(), rig.reports.declined) == ([], [], [])


def test_an_aligned_barrier_comes_behind_restored_records() -> None:
    """They are older than it, and it takes nothing along."""
    rig = Rig(Recovered("a", "b"))
    rig.task.trigger(Barrier(1, 1_000))
    rig.task.step()
    assert rig.drawn == []
    rig.run()
    assert rig.drawn == [1]
    story = [r for e in rig.lane.elements for r in (e.rows() if hasattr(e, "rows") else [e])]
    assert story[: story.index(Barrier(1, 1_000))][:2] == ["a", "b"]
    assert rig.taken.captures == {}


def test_one_that_overtakes_takes_restored_records_along() -> None:
    """Those that were not processed; the others are on their way."""
    rig = Rig(Recovered("a", "b", "c"))
    rig.task.step()
    rig.task.trigger(over(1))
    capture = rig.taken.captures[1]
    assert [batch.rows() for batch in capture.of(0)] == [["b"], ["c"]]
    assert [batch.rows() for batch in capture.of(0, output=True)] == [["a"]]
    assert capture.sealed
    rig.run()
    assert rig.drawn == [1]


def test_one_that_waits_for_restored_records_overtakes_when_it_is_too_old() -> None:
    """At its timeout, even if no record can leave: the loop is woken for it."""
    rig = Rig(Recovered("a", "b"), credit=1)
    for name in ("x", "y"):  # no credit is left
        rig.edge.channels[0].add(rows([name]))
        rig.edge.channels[0].flush()
    rig.task.trigger(timed(1))
    rig.run()
    assert rig.drawn == []
    assert rig.task.next_wakeup() == 1_051
    rig.clock.now = 1_050
    rig.run()
    assert rig.drawn == []
    rig.clock.now = 1_051
    rig.run()
    assert rig.drawn == [1]
    assert rig.barriers() == [timed(1).as_unaligned()]
    assert [batch.rows() for batch in rig.taken.captures[1].of(0)] == [["a"], ["b"]]
    assert rig.taken.drawn[0].metrics.unaligned


def test_one_that_waited_in_vain_is_not_drawn_twice() -> None:
    """When its time comes after the last restored record it has been drawn."""
    rig = Rig(Recovered("a"))
    rig.task.trigger(timed(1))
    rig.run()
    rig.clock.now += 1_000
    rig.run()
    assert rig.drawn == [1]
    assert not rig.taken.drawn[0].metrics.unaligned


def test_without_credit_a_barrier_waits_and_then_overtakes() -> None:
    """What it overtakes in the output becomes part of the checkpoint."""
    rig = Rig(credit=1)
    for _ in range(2):
        rig.task.step()
        rig.edge.channels[0].flush()
    rig.task.trigger(timed(1))
    assert (rig.drawn, rig.barriers()) == ([1], [])
    assert not rig.taken.captures[1].sealed
    rig.clock.now = 1_051
    rig.run()
    assert rig.barriers() == [timed(1).as_unaligned()]
    taken = rig.taken.captures[1].of(0, output=True)
    assert [each.rows() for each in taken if hasattr(each, "rows")] == [[2, 3]]
    assert rig.taken.captures[1].sealed


def test_sc14_an_ended_source_takes_part_and_says_so() -> None:
    """sC14, F4: its snapshot has nothing left and is marked as finished; the coordinator waits for it too."""
    rig = Rig()
    rig.task.splits_assigned(None)
    rig.run()
    assert rig.lane.elements[-1] == EndOfData()
    rig.task.trigger(over(1))
    assert rig.taken.drawn[0].finished
    assert splits(rig) == []
    assert rig.taken.captures[1].of(0, output=True) == [], "what has left is not in flight"


def test_a_source_that_was_through_makes_no_reader_and_ends_again() -> None:
    """Those downstream learn that nothing will come."""
    rig = Rig(through=True)
    rig.run()
    assert rig.made == 0
    assert rig.reports.requests == 0
    assert rig.lane.elements[-1] == EndOfData()
    assert rig.reports.ends == 1
    rig.task.trigger(over(1))
    assert rig.taken.drawn[0].finished


def test_a_source_that_was_through_stays_so_in_a_checkpoint_before_its_first_step() -> None:
    """Or the next restore would make a reader for it."""
    rig = Rig(through=True)
    rig.task.trigger(over(1))
    assert rig.taken.drawn[0].finished


# -- savepoints


def order(checkpoint: int, *, stop: bool = False, drain: bool = False) -> Barrier:
    """A savepoint's barrier."""
    return Barrier(checkpoint, 1_000, savepoint=SavepointOrder("file:///s", "native", stop, drain))


def test_a_savepoint_that_waits_gives_way_to_nothing() -> None:
    """Checkpoints that are triggered meanwhile wait behind it, and only the newest of them."""
    rig = Rig(Recovered("a", "b"))
    for barrier in (order(1), Barrier(2, 1_000), over(3)):
        rig.task.trigger(barrier)
    assert rig.reports.declined == [(2, SUBSUMED)]
    assert rig.drawn == []
    rig.run()
    assert rig.drawn == [1, 3]
    assert rig.taken.drawn[0].savepoint == order(1).savepoint
    assert rig.taken.drawn[1].savepoint is None


def story(rig: Rig) -> list[Any]:
    """Everything that went out, records one by one."""
    return [each for e in rig.lane.elements for each in (e.rows() if hasattr(e, "rows") else [e])]


def test_after_the_barrier_of_a_savepoint_a_source_goes_on() -> None:
    """It changes nothing for the job."""
    rig = Rig()
    rig.task.step()
    rig.task.trigger(order(1))
    rig.run()
    rig.task.trigger(Barrier(2, 1_000))
    assert [each for each in story(rig) if isinstance(each, int)] == [0, 1, 2, 3]
    assert rig.drawn == [1, 2]


def test_behind_a_barrier_that_stops_nothing_is_emitted() -> None:
    """No record, no time, no end, no other barrier; and the loop is not woken for it."""
    rig = Rig()
    rig.task.step()
    rig.task.trigger(order(1, stop=True))
    rig.run()
    rig.task.trigger(Barrier(2, 1_000))
    rig.task.splits_assigned([Split("7-9")])
    rig.task.splits_assigned(None)
    rig.clock.now += 10_000
    rig.run()
    assert not rig.task.run_timers()
    assert story(rig)[-1] == order(1, stop=True)
    assert [each for each in story(rig) if isinstance(each, int)] == [0, 1]
    assert splits(rig) == [["2-4", None]]
    assert not rig.task.ended
    assert rig.task.next_wakeup() is None


@pytest.mark.parametrize("stop", [True, False])
def test_a_drain_ends_event_time_before_the_barrier(stop: bool) -> None:
    """So that windows and timers downstream fire into the savepoint."""
    rig = Rig()
    rig.task.step()
    rig.task.trigger(order(1, stop=stop, drain=True))
    *records, mark, barrier = story(rig)
    assert (mark, barrier) == (Watermark(WATERMARK_MAX), order(1, stop=stop, drain=True))
    assert Watermark(WATERMARK_MAX) not in records


def test_a_source_that_has_ended_only_passes_the_barrier_on() -> None:
    """Its event time is over already."""
    rig = Rig()
    rig.run()
    rig.task.splits_assigned(None)
    rig.run()
    assert rig.task.ended
    rig.task.trigger(order(1, stop=True, drain=True))
    assert story(rig)[-3:] == [Watermark(WATERMARK_MAX), EndOfData(), order(1, stop=True, drain=True)]
    assert rig.taken.drawn[0].finished
