"""What all subtasks share, and the source's part: splits, deferred barriers, ends, timers, lives."""

from __future__ import annotations

from typing import Any

import pytest
from operator_samples import ManualClock, finished, rows
from task_samples import TASK, CountingReader, Reports, Rig, SourceRig, Taken, Watching

from headgate.api.source import END_OF_INPUT, NOTHING_AVAILABLE, Split
from headgate.common.errors import UserFunctionError
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.alignment.handler_contract import SUBSUMED
from headgate.runtime.protocol.elements import Barrier, EndOfData, Watermark
from headgate.runtime.worker.exchange.output import Outputs
from headgate.runtime.worker.in_flight.recovered import RecoveredInput
from headgate.runtime.worker.snapshot.finishing import AttemptServices
from headgate.runtime.worker.snapshot.snapshot_writer import BarrierMetrics
from headgate.runtime.worker.task.source_task import SPLIT_RETRY_MS
from headgate.runtime.worker.task.task import Task, TaskParts

SIGN = Watermark(WATERMARK_MIN)


def emitted(rig: SourceRig) -> list[Any]:
    """Records one by one, and events."""
    return [r for e in rig.lane.elements for r in (e.rows() if hasattr(e, "rows") else [e])]


def splits_of(rig: SourceRig, at: int = 0) -> Any:
    """The splits in a snapshot."""
    return finished(rig.taken.drawn[at].pending[0]).list_state["splits"]


def test_splits_are_asked_for_once_and_read() -> None:
    """A reader with nothing asks, reads what it gets, and asks again when that is read."""
    rig = SourceRig(CountingReader())
    for _ in range(3):
        assert rig.task.step() is False
        rig.clock.now += 5
    assert rig.reports.requests == 1
    rig.task.splits_assigned([Split("0-3")])
    while rig.task.step():
        pass
    assert rig.reports.requests == 2
    rig.task.splits_assigned(None)
    while rig.task.step():
        pass
    assert emitted(rig) == [0, 1, 2, Watermark(WATERMARK_MAX), EndOfData()]
    assert (rig.reports.ends, rig.task.ended, rig.reports.requests) == (1, True, 2)


def test_not_now_is_asked_again_after_a_pause() -> None:
    """An empty answer is no end."""
    rig = SourceRig(CountingReader())
    rig.task.step()
    rig.task.splits_assigned([])
    assert rig.task.next_wakeup() == rig.clock.now + 10  # the first sign, which waits for the timeout
    rig.clock.now += SPLIT_RETRY_MS - 1
    rig.task.step()
    assert rig.reports.requests == 1
    rig.clock.now += 1
    rig.task.step()
    assert rig.reports.requests == 2


def test_a_barrier_waits_until_the_reader_knows_whether_it_reads() -> None:
    """The barrier comes before the splits are taken over: in its checkpoint the enumerator holds them."""
    rig = SourceRig(CountingReader())
    rig.task.step()
    rig.task.trigger(Barrier(1, 990))
    assert rig.taken.drawn == []
    rig.task.splits_assigned([Split("0-4")])
    assert splits_of(rig) == []
    rig.task.step()
    rig.task.trigger(Barrier(2, 995))
    assert splits_of(rig, 1) == [["2-4", None]]
    assert emitted(rig) == [SIGN, Barrier(1, 990), 0, 1, Barrier(2, 995)]
    assert rig.taken.drawn[1].metrics.start_delay_ms == 5


def test_a_newer_barrier_takes_the_place_of_a_waiting_one() -> None:
    """Two checkpoints at a time: the older is declined, so that nobody waits for it until it expires."""
    rig = SourceRig(CountingReader())
    rig.task.trigger(Barrier(1, 0))
    rig.task.trigger(Barrier(2, 0))
    assert rig.reports.declined == [(1, SUBSUMED)]
    rig.task.splits_assigned(None)
    assert [drawn.checkpoint for drawn in rig.taken.drawn] == [2]


class Scripted(CountingReader):
    """Gives what it is told, whatever its splits."""

    def __init__(self, *polls: Any) -> None:
        super().__init__()
        self.polls = list(polls)

    def poll(self, max_records: int) -> Any:
        return self.polls.pop(0) if self.polls else NOTHING_AVAILABLE


@pytest.mark.parametrize("polls", [(END_OF_INPUT,), ([7], NOTHING_AVAILABLE)], ids=["ends", "reads"])
def test_a_reader_without_splits_is_not_waited_for(polls: Any) -> None:
    """It reads, or ends, without being given anything: barriers that waited for its first answer go out."""
    rig = SourceRig(Scripted(*polls))
    rig.task.trigger(Barrier(1, 0))
    assert rig.taken.drawn == []
    rig.task.step()
    assert [drawn.checkpoint for drawn in rig.taken.drawn] == [1]
    rig.task.trigger(Barrier(2, 0))
    assert [drawn.checkpoint for drawn in rig.taken.drawn] == [1, 2]


def test_a_restored_reader_needs_no_answer() -> None:
    """With splits from the checkpoint it knows what to read."""
    reader = CountingReader()
    reader.splits = [[0, 2]]
    rig = SourceRig(reader)
    rig.task.trigger(Barrier(1, 0))
    assert splits_of(rig) == [["0-2", None]]


def test_a_source_stops_for_its_receivers() -> None:
    """Without credit nothing is read, and the time counts as backpressure."""
    reader = CountingReader()
    reader.splits = [[0, 100]]
    rig = SourceRig(reader, credit=1)
    for n in range(5):
        rig.task.step()
        rig.outputs.barrier(Barrier(n + 1, 0))
    assert reader.splits[0][0] == 4
    assert rig.task.next_wakeup() is None
    rig.clock.now += 30
    rig.edge.channels[0].grant(1)
    assert rig.task.step()
    assert rig.task.counters().backpressured_ms == 30


def test_an_ended_source_still_draws() -> None:
    """The final checkpoint goes through everybody."""
    rig = SourceRig(Scripted(END_OF_INPUT))
    rig.task.step()
    rig.task.trigger(Barrier(9, 0))
    assert emitted(rig)[-1] == Barrier(9, 0)
    assert rig.task.step() is False


def test_a_waiting_barrier_outlives_the_end_of_a_newer_checkpoint() -> None:
    """The newer one may have failed before it was triggered here; the older one is still wanted."""
    rig = SourceRig(CountingReader())
    rig.task.trigger(Barrier(1, 0))
    rig.task.aborted(2)
    rig.task.splits_assigned([])
    assert emitted(rig)[-1] == Barrier(1, 0)


# -- timers


def test_processing_time_timers_wait_for_a_free_output_and_wake_nobody_until_then() -> None:
    """A timer that cannot emit must not keep the loop spinning either."""
    rig = Rig(1, credit=1)
    rig.deliver((0, SIGN))
    rig.operator.due = rig.clock.now
    assert rig.task.next_processing_time() == rig.clock.now
    for n in (1, 2):
        rig.operator.next.process(rows([n]))
        rig.outputs.barrier(Barrier(n, 0))
    assert not rig.outputs.available
    assert rig.task.next_processing_time() is None
    assert rig.task.run_timers() is False
    rig.edge.channels[0].grant(1)
    assert rig.task.run_timers() is True
    assert rig.operator.life[-1] == f"fire {rig.clock.now}"


def test_after_the_last_record_no_timer_fires() -> None:
    """What processing time would bring after the end belongs to nobody: the result must not depend on it."""
    rig = Rig(1)
    rig.operator.due = rig.clock.now + 5
    rig.deliver((0, Watermark(WATERMARK_MAX)), (0, EndOfData()))
    rig.clock.now += 100
    assert rig.task.next_processing_time() is None
    assert rig.task.run_timers() is False


# -- lives


class Rebel(Watching):
    """Raises where it is told to."""

    def __init__(self, clock: ManualClock, where: str = "") -> None:
        super().__init__(clock)
        self.where = where

    def open(self) -> None:
        super().open()
        self.rebel("open")

    def snapshot(self, checkpoint: int) -> Any:
        self.rebel("snapshot")
        return super().snapshot(checkpoint)

    def checkpoint_complete(self, checkpoint: int) -> None:
        self.rebel("complete")

    def close(self) -> None:
        super().close()
        self.rebel("close")

    def rebel(self, where: str) -> None:
        """Raise if this is the place."""
        if self.where == where:
            raise RuntimeError(f"no {where}")


class IdleTask(Task):
    """A subtask without input."""

    def _input_waits(self) -> bool:
        return False

    def _take_input(self) -> bool:
        return False

    def _recovery_done(self, recovered: RecoveredInput) -> None:
        """Has none."""


def chain_of(*wheres: str) -> tuple[Task, list[Rebel]]:
    """A subtask of rebels."""
    clock = ManualClock()
    operators = [Rebel(clock, where) for where in wheres]
    services = AttemptServices(clock, Reports(), Taken())
    return IdleTask(TaskParts(TASK, operators, Outputs(10), services, 10)), operators


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("open", "in open()"),
        ("snapshot", "for checkpoint 4"),
        ("complete", "at the completion of checkpoint 4"),
        ("close", "in close()"),
    ],
)
def test_errors_between_records_name_the_operator(where: str, text: str) -> None:
    """User code that raises beside records is shown like any other, with what it was doing."""
    task, _ = chain_of("", where, "")
    with pytest.raises(UserFunctionError, match=f"no {where}") as caught:
        task.open()
        task.snapshots.take(Barrier(4, 0), BarrierMetrics(0, 0, False), task.records, False)
        task.checkpoint_complete(4)
        task.close()
    assert caught.value.record == f"none ({text})"
    assert caught.value.attempt == 3


def test_only_what_began_to_open_is_closed() -> None:
    """Opened last first; after a failure those that never opened have nothing to close."""
    task, operators = chain_of("", "open", "")
    with pytest.raises(UserFunctionError):
        task.open()
    task.close()
    assert [operator.life for operator in operators] == [[], ["open", "close"], ["open", "close"]]


def test_one_bad_close_does_not_keep_others_open() -> None:
    """All are closed; the first error is told."""
    task, operators = chain_of("close", "", "close")
    task.open()
    with pytest.raises(UserFunctionError, match="no close"):
        task.close()
    assert all(operator.life[-1] == "close" for operator in operators)
