"""Who gets the next turn of a subtask: timers, buffers that waited long enough, and input share the loop."""

from __future__ import annotations

from operator_samples import rows
from task_samples import Rig, Watching
from test_blocking_functions import BesideRig

from headgate.common.time import WATERMARK_MIN
from headgate.records.batch import Batch
from headgate.runtime.protocol.elements import Watermark
from headgate.runtime.worker.task.gate_task import ELEMENTS_MAX, GateTask

SIGN = Watermark(WATERMARK_MIN)
STEP_MS = 10
"""The desired duration of a step."""


class AlwaysDue(Watching):
    """Registers a timer for now whenever one fires."""

    def fire_processing_time(self, now_ms: int) -> None:
        super().fire_processing_time(now_ms)
        self.due = now_ms


def waiting(rig: Rig, batches: int) -> None:
    """A sign of life and batches wait on channel 0."""
    for element in (SIGN, *(rows([n]) for n in range(batches))):
        rig.task.deliver(0, element)


def test_small_batches_are_taken_together() -> None:
    """A turn of the loop for each would be too few turns where many senders send small batches."""
    rig = Rig(1)
    waiting(rig, ELEMENTS_MAX + 4)
    assert rig.task.step()
    assert rig.records == list(range(ELEMENTS_MAX - 1))  # and the sign of life
    assert rig.task.step()
    assert rig.records == list(range(ELEMENTS_MAX + 4))
    assert not rig.task.step()


def test_no_batch_is_begun_when_the_time_of_a_step_is_over() -> None:
    """Else barriers, timers and the other subtasks of the loop would wait for all of them."""
    rig = Rig(1, cost_ms=STEP_MS // 2)
    waiting(rig, 5)
    taken = []
    while rig.task.step():
        taken.append(len(rig.records))
    assert taken == [2, 4, 5]


def test_no_batch_is_begun_where_its_output_would_wait() -> None:
    """What has been read and not been sent is memory that nothing bounds."""
    rig = Rig(1)
    waiting(rig, 5)
    rig.outputs.pause_while(lambda: len(rig.records) == 3)
    assert rig.task.step()
    assert rig.records == [0, 1, 2]
    assert not rig.task.step()


def test_no_batch_is_begun_when_a_timer_is_due() -> None:
    """A timer for now is not to wait for a batch that came after it was set, nor for the end of the input."""
    rig = Rig(1)
    before = rig.operator.process

    def process(batch: Batch) -> None:
        before(batch)
        rig.operator.due = rig.clock.now

    rig.operator.process = process  # type: ignore[method-assign]
    waiting(rig, 3)
    rig.task.step()
    assert (rig.records, rig.operator.life) == ([0], ["open"])
    rig.task.step()
    assert rig.operator.life == ["open", f"fire {rig.clock.now}"]


def test_a_timer_that_is_due_does_not_wait_until_there_is_no_input() -> None:
    """Under load there is always input; a timeout that waits for a gap never comes."""
    rig = Rig(1, cost_ms=STEP_MS)
    waiting(rig, 4)
    rig.task.step()
    rig.operator.due = due = rig.clock.now
    assert rig.task.step()
    assert rig.operator.life == ["open", f"fire {due}"]
    assert rig.records == [0, 1]
    rig.run()
    assert rig.records == [0, 1, 2, 3]


def test_input_does_not_wait_until_no_timer_is_due() -> None:
    """A function may register a timer for now each time one fires."""
    rig = Rig(1)
    always = AlwaysDue(rig.clock, STEP_MS)
    always.next, rig.operator = rig.operator.next, always
    rig.task.operators, rig.task.head = [always], always
    always.due = rig.clock.now
    waiting(rig, 5)
    for _ in range(6):
        rig.task.step()
    assert rig.records == [0, 1, 2, 3, 4]
    assert len(always.life) >= 3


def test_beside_the_loop_timers_and_input_take_turns() -> None:
    """Each goes away for a while, and when one is back the other has its turn."""
    rig = BesideRig(1, operator=AlwaysDue)
    rig.operator.due = rig.clock.now
    waiting(rig, 3)
    for _ in range(8):
        rig.task.step()
        if rig.thread.jobs:
            rig.finish()
    assert rig.records == [0, 1, 2]
    assert rig.operator.life.count(f"fire {rig.clock.now}") >= 3


def test_a_buffer_leaves_after_its_timeout_though_input_never_ends() -> None:
    """A receiver that gets few records waits for the time that they carry, and others wait for it."""
    rig = Rig(1)
    rig.operator.process = lambda batch: None  # type: ignore[method-assign]
    waiting(rig, 2 * ELEMENTS_MAX)
    rig.task.step()
    assert rig.lane.elements == []
    rig.clock.now += 10
    assert rig.task.step()
    assert rig.lane.elements == [SIGN]


def test_what_a_timeout_flushed_keeps_the_loop_turning() -> None:
    """The receiver may be a subtask of the same loop that had its turn before, and nobody else wakes it."""
    rig = Rig(1)
    receiver = Rig(1)
    rig.lane.deliver = lambda element: receiver.task.deliver(0, element)  # type: ignore[method-assign]
    rig.deliver((0, SIGN), (0, rows([1])))
    rig.clock.now += 10
    assert isinstance(receiver.task, GateTask)
    assert not receiver.task.step()
    assert rig.task.step() or rig.task.run_timers()
    assert receiver.task.step()


class Thrifty(Watching):
    """Has so many slices to do when there is time."""

    spare = 3

    @property
    def has_spare_work(self) -> bool:
        return self.spare > 0

    def do_spare_work(self) -> None:
        self.spare -= 1
        self.life.append("spare")


def test_spare_work_is_done_where_there_is_no_input_and_keeps_the_loop_turning() -> None:
    """Input comes first; when there is none a slice is done in each turn until all is."""
    rig = Rig(1)
    thrifty = Thrifty(rig.clock)
    thrifty.next, rig.operator = rig.operator.next, thrifty
    rig.task.operators, rig.task.head = [thrifty], thrifty
    waiting(rig, 2)
    while rig.records != [0, 1]:
        assert rig.task.step()
    assert thrifty.life == []
    assert [rig.task.step() for _ in range(4)] == [True, True, True, False]
    assert thrifty.life == ["spare"] * 3
