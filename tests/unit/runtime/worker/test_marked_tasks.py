"""Subtasks of a job with marks: a gate's corrections at marks and barriers, and sources that begin marks."""

from __future__ import annotations

from typing import Any

import pytest
from operator_samples import context, finished, rows
from task_samples import TASK, CountingReader, Rig, SourceRig

from headgate.api.source import NOTHING_AVAILABLE, Split
from headgate.common.time import WATERMARK_MIN
from headgate.core.alignment.barriers import Alignment, Barrier, SavepointOrder
from headgate.core.marks import NO_EPOCH
from headgate.records.row_batch import RowBatch
from headgate.restore.split_watermarks import COUNTS
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.protocol.elements import EndOfData, Idle, Mark, Watermark
from headgate.runtime.worker.exchange.output import EdgeReceiver
from headgate.runtime.worker.operators.counting_source import CountingSource
from headgate.runtime.worker.operators.operator_contract import Operator
from headgate.runtime.worker.task.marked_tasks import MarkedGateTask, MarkedSourceTask, source_task
from headgate.runtime.worker.task.task import TaskParts
from headgate.state.snapshots import OperatorSubtaskState

SIGN = Watermark(WATERMARK_MIN)


class Total(Operator):
    """Adds numbers up, and sends the total at marks."""

    total = 0

    def process(self, batch: Any) -> None:
        self.total += sum(batch.rows())

    def mark(self, mark: Mark) -> None:
        self.next.process(rows([self.total]))
        self.next.mark(mark)


class TotalRig(Rig):
    """A gate of `channels` channels before a running total."""

    def __init__(self, channels: int, **more: Any) -> None:
        super().__init__(channels, kind=MarkedGateTask, **more)
        total = Total(context(clock=self.clock))
        total.next = self.operator.next
        self.operator.next = total
        self.deliver(*[(channel, SIGN) for channel in range(channels)])

    @property
    def story(self) -> list[Any]:
        """What went out, with totals as numbers, without watermarks and marks that are lost."""
        found = [
            e.rows()[0] if hasattr(e, "rows") and not isinstance(e, Mark) else e for e in self.lane.elements
        ]
        found = [each for each in found if not (isinstance(each, Mark) and each.lost)]
        return [each for each in found if not isinstance(each, Watermark | Idle)]

    @property
    def lost(self) -> list[int]:
        """The epochs that gates below were told not to wait for."""
        return [each.epoch for each in self.lane.elements if isinstance(each, Mark) and each.lost]


def test_a_gate_answers_at_a_mark_for_what_came_before_it_on_all_channels() -> None:
    """And holds back what came after it."""
    rig = TotalRig(2)
    first, second = Mark(7, {("s", "a"): 1}), Mark(7, {("s", "b"): 2})
    rig.deliver((0, rows([1])), (0, first), (0, rows([10])), (1, rows([2])), (1, rows([3])))
    assert rig.story == []
    rig.deliver((1, second), (1, Mark(8)), (0, Mark(8)))
    assert rig.story == [6, Mark(7, {("s", "a"): 1, ("s", "b"): 2}), 16, Mark(8)]


def test_a_barrier_goes_before_a_mark_that_waits_and_is_one_itself() -> None:
    """Each channel has what the other one waits for."""
    rig = TotalRig(2)
    counts = Mark(NO_EPOCH, {("s", "a"): 2})
    rig.deliver((0, rows([1])), (0, Mark(7)), (0, rows([2])), (0, counts), (0, Barrier(1, 0)))
    rig.deliver((1, Barrier(1, 0)), (1, rows([5])), (1, Mark(7)), (1, Mark(8)), (0, Mark(8)))
    assert rig.story == [3, counts, Barrier(1, 0), 8, Mark(8)]
    assert rig.lost == [7]
    assert finished(rig.taken.drawn[0].pending[0]).list_state["seen"] == [1, 2]


def test_barriers_that_may_overtake_are_no_marks() -> None:
    """What was gathered stays gathered, and is in the snapshot."""
    for barrier in (Barrier(1, 0, Alignment.UNALIGNED), Barrier(1, 0, timeout_ms=50)):
        rig = TotalRig(1, unaligned=True)
        rig.deliver((0, rows([1])), (0, barrier), (0, Mark(3)))
        assert rig.story == [barrier.as_unaligned(), 1, Mark(3)]


def test_a_savepoint_is_a_mark_even_where_checkpoints_overtake() -> None:
    """Savepoints of exactly-once jobs align."""
    rig = TotalRig(1, unaligned=True)
    order = Barrier(1, 0, timeout_ms=50, savepoint=SavepointOrder("file:///s"))
    rig.deliver((0, rows([1])), (0, order))
    assert rig.story == [1, Mark(NO_EPOCH), order]


class Gathering(Operator):
    """Sends what it has when a mark or a barrier comes."""

    def __init__(self, where: OperatorContext) -> None:
        super().__init__(where)
        self.gathered: list[Any] = []

    def process(self, batch: Any) -> None:
        self.gathered += batch.rows()

    def pass_on(self) -> None:
        if self.gathered:
            self.next.process(rows(self.gathered))
            self.gathered = []

    def mark(self, mark: Mark) -> None:
        self.pass_on()
        self.next.mark(mark)


def gather_behind(rig: Any) -> None:
    """Have rows wait behind the head of a subtask's chain."""
    head = rig.task.operators[0]
    gathering = Gathering(context(clock=rig.clock))
    gathering.next, head.next = head.next, gathering
    rig.task.operators = [head, gathering]


def values(elements: list[Any]) -> list[Any]:
    """Records one by one, and barriers."""
    parts = [each.rows() if isinstance(each, RowBatch) else [each] for each in elements]
    return [each for part in parts for each in part if isinstance(each, int | Barrier)]


@pytest.mark.parametrize("barrier", [Barrier(1, 0, Alignment.UNALIGNED), Barrier(1, 0, timeout_ms=50)])
def test_rows_that_wait_for_others_belong_before_a_barrier_that_is_no_mark(barrier: Barrier) -> None:
    """It overtakes them, and they are stored with what was in flight."""
    rig = Rig(1, unaligned=True, kind=MarkedGateTask)
    gather_behind(rig)
    rig.deliver((0, SIGN), (0, rows([1])), (0, rows([2])))
    rig.deliver((0, barrier), (0, rows([3])), (0, Mark(3)))
    assert finished(rig.taken.drawn[0].pending[0]).list_state["seen"] == [1, 2]
    assert values(rig.taken.captures[1].of(0, output=True)) == [1, 2]
    assert values(rig.lane.elements) == [barrier.as_unaligned(), 1, 2, 3]


def test_rows_that_wait_in_a_source_go_before_a_barrier() -> None:
    """With checkpoints at least once, too, whose barriers are no marks."""
    rig = SourcesRig(CountingReader())
    gather_behind(rig)
    rig.task.splits_assigned([Split("0-4")])
    assert all(isinstance(each, Mark) for each in rig.run())
    barrier = Barrier(1, 0, Alignment.AT_LEAST_ONCE)
    rig.task.trigger(barrier)
    assert rig.run() == [[0, 1, 2, 3], barrier]


def test_marks_are_not_in_flight() -> None:
    """They are dropped with the attempt: a restored gate begins anew."""
    rig = TotalRig(2, unaligned=True)
    over = Barrier(1, 1_000, Alignment.UNALIGNED)
    for channel in (0, 1):
        rig.task.deliver(channel, rows([1]))
        rig.task.deliver(channel, Mark(3))
    rig.task.deliver(0, over)
    rig.deliver((1, over))
    taken = [element for c in (0, 1) for element in rig.taken.captures[1].of(c)]
    assert taken
    assert not any(isinstance(element, Mark) for element in taken)


def test_the_end_says_which_epochs_it_does_not_count_for() -> None:
    """The greatest that was begun above."""
    rig = TotalRig(2)
    rig.deliver((0, rows([1])), (0, EndOfData(4)), (1, Mark(4)), (1, rows([2])), (1, Mark(5)))
    assert rig.story == [3, Mark(5)]
    rig.deliver((1, EndOfData(6)))
    assert rig.story[-1] == EndOfData(6)


def test_counts_of_dropped_marks_go_ahead_of_the_end() -> None:
    """A source's last mark brings its last counts, and no mark follows that could bring them on."""
    rig = TotalRig(2)
    rig.deliver((0, rows([1])), (0, Mark(NO_EPOCH, {("s", "a"): 1})), (0, EndOfData(4)))
    rig.deliver((1, rows([2])), (1, Mark(NO_EPOCH, {("s", "b"): 1})), (1, EndOfData(4)))
    assert rig.story == [3, Mark(NO_EPOCH, {("s", "a"): 1, ("s", "b"): 1}), EndOfData(4)]


class SourcesRig(SourceRig):
    """A source task that begins marks, an epoch lasting 100 ms."""

    def __init__(self, reader: Any, restored: Any = (), credit: int = 100) -> None:
        super().__init__(reader, credit)
        where = context(clock=self.clock, restored=list(restored))
        operator = CountingSource(where, self)  # type: ignore[arg-type]
        operator.next = EdgeReceiver(self.outputs, [self.edge], True)
        parts = TaskParts(TASK, [operator], self.outputs, self.services, 10)
        task = source_task(parts, 100, finished=False)
        assert isinstance(task, MarkedSourceTask)
        self.task: MarkedSourceTask = task
        self.task.open()

    def create_reader(self, context: Any) -> Any:
        return self.reader

    def run(self) -> list[Any]:
        """Step until nothing happens; what went out since the last call, without watermarks."""
        while self.task.step():
            pass
        self.outputs.flush_due(self.clock.now + 10)
        sent, self.lane.elements = self.lane.elements, []
        return [
            each if isinstance(each, Mark | Barrier | EndOfData) else each.rows()
            for each in sent
            if not isinstance(each, Watermark | Idle)
        ]


def test_a_source_begins_a_mark_for_the_newest_epoch_and_says_how_far_it_is() -> None:
    """One mark, however many epochs have begun."""
    rig = SourcesRig(CountingReader())
    assert rig.run() == []
    rig.task.splits_assigned([Split("0-3"), Split("7-9")])
    story = rig.run()
    assert story[0] == Mark(10)
    assert [row for each in story[1:] for row in each] == [0, 1, 2, 7, 8]
    rig.clock.now = 1_350
    assert rig.run() == [Mark(13, {("op", "0-3"): 2, ("op", "2-3"): 1, ("op", "7-9"): 2})]
    assert rig.task.next_wakeup() is not None
    rig.clock.now = 1_399
    assert rig.run() == []
    rig.clock.now = 1_400
    assert rig.run() == [Mark(14)]


def test_before_a_barrier_and_before_the_end_a_source_tells_its_counts() -> None:
    """So the last answer is of all rows."""
    rig = SourcesRig(CountingReader())
    rig.task.splits_assigned([Split("0-2")])
    rig.run()
    rig.task.trigger(Barrier(1, 1_000))
    assert rig.run() == [Mark(NO_EPOCH, {("op", "0-2"): 2}), Barrier(1, 1_000)]
    rig.task.splits_assigned(None)
    rig.clock.now += 200
    assert rig.run() == [Mark(12), Mark(NO_EPOCH), EndOfData(12)]


def test_counts_go_on_after_a_restore() -> None:
    """They are part of the snapshot."""
    state = OperatorSubtaskState("op", None, {"splits": [["0-3", None, 5], ["4-5", None]]})
    rig = SourcesRig(CountingReader(), [state])
    rig.clock.now = 2_000
    assert rig.run()[0] == Mark(20, {("op", "0-3"): 5})


def test_counts_of_splits_that_were_read_to_their_ends_outlive_a_restore() -> None:
    """The last answer before the restore may be of fewer of their rows."""
    rig = SourcesRig(CountingReader())
    rig.task.splits_assigned([Split("0-2"), Split("5-9")])
    rig.task.head.poll(2)
    state = finished(rig.task.head.snapshot(1))
    assert state.list_state == {"splits": [["5-9", None, 0]], COUNTS: [["0-2", 2]]}
    later = SourcesRig(CountingReader(), [state])
    later.clock.now = 2_000
    assert later.run()[0] == Mark(20, {("op", "0-2"): 2, ("op", "5-9"): 0})


def test_without_credit_and_before_it_knows_its_input_a_source_begins_no_mark() -> None:
    """A mark is never the first element of a channel."""
    rig = SourcesRig(CountingReader(), credit=1)
    rig.clock.now = 5_000
    assert rig.run() == []
    assert rig.reader.poll(1) == NOTHING_AVAILABLE
    rig.task.splits_assigned([Split("0-9")])
    story = rig.run()
    assert story[0] == Mark(50)
