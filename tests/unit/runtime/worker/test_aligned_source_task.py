"""A source subtask that is restored too far ahead of others: it reads nothing, and takes part in all else."""

from __future__ import annotations

from typing import Any

from operator_samples import context
from task_samples import TASK, CountingReader, SourceRig

from headgate.api.source import Split
from headgate.api.streams.event_time import WatermarkStrategy
from headgate.core.alignment.barriers import Barrier
from headgate.runtime.protocol.elements import Watermark
from headgate.runtime.worker.exchange.output import EdgeReceiver
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.operators.source_alignment import AlignedTimestamps, SourceAlignment
from headgate.runtime.worker.task.aligned_source import AlignedSourceTask
from headgate.runtime.worker.task.marked_tasks import source_task
from headgate.runtime.worker.task.task import TaskParts
from headgate.state.snapshots import OperatorSubtaskState

AHEAD = 10_000


class Rig(SourceRig):
    """Such a subtask, at event time `AHEAD`, while another worker is at 0 and the limit is 100 ms."""

    def __init__(self, *, finished: bool = False) -> None:
        super().__init__(CountingReader())
        source: Any = type("Source", (), {"create_reader": lambda _, where: self.reader})()
        head = SourceOperator(context(clock=self.clock), source)
        restored = [OperatorSubtaskState("time", watermark=AHEAD)]
        strategy = WatermarkStrategy(int, max_drift_ms=100)
        self.stamps = AlignedTimestamps(context("time", clock=self.clock, restored=restored), strategy)
        self.stamps.source, head.next = head, self.stamps
        self.stamps.next = EdgeReceiver(self.outputs, [self.edge], True)
        self.alignment = SourceAlignment([self.stamps], alone=False)
        self.alignment.others_reached({"default": 0})
        parts = TaskParts(TASK, [head, self.stamps], self.outputs, self.services, 10)
        self.task = source_task(parts, 100, finished=finished)
        assert isinstance(self.task, AlignedSourceTask)
        self.task.open()

    def run(self) -> None:
        """Step until there is nothing to do, and send what is due."""
        while self.task.step():
            pass
        self.clock.now += 100
        self.task.run_timers()

    @property
    def watermarks(self) -> list[int]:
        """Those that were sent."""
        return [each.timestamp for each in self.lane.elements if isinstance(each, Watermark)]


def test_it_asks_for_a_split_so_that_barriers_need_not_wait() -> None:
    """Without a split it does not know whether it will read anything; held back it would never learn that."""
    rig = Rig()
    rig.task.trigger(Barrier(1, 1_000))
    rig.run()
    assert rig.reports.requests == 1
    rig.task.splits_assigned([])
    assert [taken.checkpoint for taken in rig.taken.drawn] == [1]


def test_the_restored_watermark_comes_before_any_batch() -> None:
    """What is read elsewhere would wait for it; the subtask reads nothing before others come nearer."""
    rig = Rig()
    rig.run()
    rig.task.splits_assigned([Split("10000-10004")])
    rig.run()
    assert rig.watermarks == [AHEAD - 1]
    rig.alignment.others_reached({"default": AHEAD})
    rig.run()
    assert rig.watermarks[-1] == 10_002


def test_who_had_ended_before_the_restore_says_so() -> None:
    """Nobody has to wait for its event time."""
    rig = Rig(finished=True)
    rig.run()
    assert rig.task.ended
