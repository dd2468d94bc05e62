"""The subtask of a blocking function: away it neither steps nor draws, and back all is as in the loop."""

from __future__ import annotations

import queue
import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from counted_metrics import counted
from operator_samples import ManualClock, finished, rows
from task_samples import IN, TASK, Rig, Watching

from headgate.common.ports import NoProbe
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.alignment.barriers import Alignment
from headgate.core.alignment.factory import make_handler
from headgate.runtime.protocol import messages as m
from headgate.runtime.protocol.elements import Barrier, EndOfData, Idle, Watermark
from headgate.runtime.worker.assembly import Assembly, Exchange
from headgate.runtime.worker.exchange.output import EdgeReceiver
from headgate.runtime.worker.operators.source_alignment import SourceAlignment
from headgate.runtime.worker.task.chain_runner import CollectedOutput, OnThread, UserThread
from headgate.runtime.worker.task.gate_task import GateTask, InputChannel
from headgate.runtime.worker.task.task import TaskParts
from headgate.runtime.worker.worker import LEAVING_MS, Worker, WorkerState
from headgate.runtime.worker.worker_ports import WorkerPorts

SIGN = Watermark(WATERMARK_MIN)


class ManualThread:
    """A thread that moves when it is told to; implements `SubtaskThread`."""

    def __init__(self) -> None:
        self.jobs: deque[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = deque()
        self.left = self.joined = False

    def submit(self, work: Any, done: Any) -> None:
        assert not self.left
        self.jobs.append((work, done))

    def call(self, work: Any) -> Any:
        assert not self.jobs, "called while it works"
        return work()

    def leave(self) -> None:
        self.left = True

    def join(self) -> None:
        assert not self.jobs
        self.joined = True

    def finish(self) -> None:
        """The work under way comes to its end."""
        work, done = self.jobs.popleft()
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        done(result, error)


class BesideRig(Rig):
    """A gate task of one operator that runs on a manual thread."""

    def __init__(
        self,
        channels: int,
        cost_ms: float = 0,
        *,
        unaligned: bool = False,
        thread: Any = None,
        operator: type[Watching] = Watching,
    ) -> None:
        super().__init__(channels, 100, cost_ms)
        self.thread, self.posted = thread or ManualThread(), queue.SimpleQueue[Callable[[], None]]()
        self.operator = operator(self.clock, cost_ms)
        collected = CollectedOutput()
        self.operator.next = collected.before(EdgeReceiver(self.outputs, [self.edge], True))
        inputs = [InputChannel(100, self._granting(c), IN, c) for c in range(channels)]
        parts = TaskParts(
            TASK,
            [self.operator],
            self.outputs,
            self.services,
            10,
            runner=lambda budget: OnThread(
                lambda: self.thread, self.posted.put, collected, self.clock, budget
            ),
        )
        handler = make_handler(channels, exactly_once=True, unaligned=unaligned, forced=frozenset())
        self.task = GateTask(parts, inputs, handler)
        self.task.open()

    def finish(self) -> None:
        """The work ends, the loop hears of it and goes on."""
        self.thread.finish()
        self.hear()
        self.run()

    def hear(self) -> None:
        """The loop takes up what was posted."""
        while not self.posted.empty():
            self.posted.get()()

    def finish_all(self) -> None:
        """Until nothing is under way any more."""
        while self.thread.jobs:
            self.finish()


def emitted(rig: Rig) -> list[Any]:
    """Records one by one, and events."""
    rig.outputs.flush_due(2**62)
    return [r for e in rig.lane.elements for r in (e.rows() if hasattr(e, "rows") else [e])]


def cuts(rig: Rig) -> dict[int, list[Any]]:
    """Checkpoint -> the records that its snapshot says were seen."""
    return {d.checkpoint: finished(d.pending[0]).list_state["seen"] for d in rig.taken.drawn}


def test_while_it_is_away_the_subtask_takes_no_step() -> None:
    """No snapshot, no output, no credit, no spinning; when it is back everything follows in order."""
    rig = BesideRig(1)
    rig.deliver((0, rows([7, 8])), (0, Barrier(1, 0)))
    assert rig.task.step() is False
    assert (rig.lane.elements, rig.taken.drawn, rig.granted) == ([], [], [0])
    assert rig.task.next_wakeup() == rig.clock.now + 10, "nothing but the timeout of the buffers"
    rig.thread.finish()
    assert rig.task.step() is False, "the loop has not heard of it yet"
    rig.hear()
    assert rig.task.step() is True
    rig.run()
    assert rig.taken.drawn == [], "the second record of the batch is before the barrier, too"
    rig.finish()
    assert cuts(rig) == {1: [7, 8]}
    assert emitted(rig) == [7, 8, SIGN, Barrier(1, 0)]


def test_a_slice_begins_with_one_record_and_grows_with_cheap_ones() -> None:
    """The first call may take long, and a barrier waits for the whole slice."""
    rig = BesideRig(1)
    rig.deliver((0, rows(list(range(7)))))
    sizes = []
    while rig.thread.jobs:
        before = len(rig.records)
        rig.finish()
        sizes.append(len(rig.records) - before)
    assert sizes == [1, 2, 4]


def test_slow_records_go_one_by_one_and_do_not_count_as_steps_of_the_loop() -> None:
    """The work is measured for the length of slices and as busy time; the loop was never held up by it."""
    rig = BesideRig(1, cost_ms=50)
    rig.deliver((0, rows([1, 2, 3])))
    for n in (1, 2, 3):
        rig.finish()
        assert len(rig.records) == n
    counters = rig.task.counters()
    assert (counters.records_in, counters.busy_ms, counters.longest_step_ms) == (3, 150, 0)


def test_waiting_for_the_loop_is_no_work() -> None:
    """Time between the end of the work and the loop's next turn does not shorten slices."""
    rig = BesideRig(1, cost_ms=1)
    rig.deliver((0, rows([1, 2, 3])))
    rig.thread.finish()
    rig.clock.now += 5_000
    rig.hear()
    rig.run()
    assert rig.task.counters().busy_ms == 1
    rig.finish()
    assert rig.records == [1, 2, 3]


STREAM = [
    rows([1, 2, 3]), Watermark(5), Barrier(1, 0), rows([4]), rows([5, 6]), Idle(), Barrier(2, 0),
    Watermark(9), rows([7]), Barrier(3, 0), Watermark(WATERMARK_MAX), EndOfData(),
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_whenever_the_work_ends_the_result_is_that_of_the_loop(seed: int) -> None:
    """Elements arrive and work ends in any order: cuts, outputs and the end are as without a thread."""
    plain, rig, rng = Rig(1), BesideRig(1), random.Random(seed)
    plain.deliver(*((0, element) for element in STREAM))
    left = deque(STREAM)
    while left or rig.thread.jobs:
        if left and (not rig.thread.jobs or rng.random() < 0.5):
            rig.deliver((0, left.popleft()))
        else:
            rig.finish()
    assert cuts(rig) == cuts(plain) == {1: [1, 2, 3], 2: [1, 2, 3, 4, 5, 6], 3: [1, 2, 3, 4, 5, 6, 7]}
    assert emitted(rig) == emitted(plain)
    assert rig.operator.seen.log == plain.operator.seen.log
    assert (rig.reports.ends, rig.task.ended) == (1, True)


@pytest.mark.parametrize("seed", range(40))
def test_barriers_of_two_channels_cut_exactly(seed: int) -> None:
    """Per channel a snapshot holds the records before the barrier and none behind, whenever work ends."""
    rig, rng = BesideRig(2), random.Random(seed)
    streams = [
        deque([rows([c * 10 + 1, c * 10 + 2]), Barrier(1, 0), rows([c * 10 + 3]), Barrier(2, 0)])
        for c in (0, 1)
    ]
    while any(streams) or rig.thread.jobs:
        channel = rng.randrange(3)
        if channel < 2 and streams[channel]:
            rig.deliver((channel, streams[channel].popleft()))
        elif rig.thread.jobs:
            rig.finish()
    seen = {checkpoint: sorted(records) for checkpoint, records in cuts(rig).items()}
    assert seen == {1: [1, 2, 11, 12], 2: [1, 2, 3, 11, 12, 13]}


@pytest.mark.parametrize("seed", range(40))
def test_a_barrier_that_overtakes_takes_along_what_is_not_processed(seed: int) -> None:
    """State and records in flight are together what came before the barrier, whenever work ends."""
    rig, rng = BesideRig(1, unaligned=True), random.Random(seed)
    overtaking = Barrier(1, 0, Alignment.UNALIGNED)
    before = deque([rows([1, 2, 3]), rows([4, 5]), overtaking, rows([6])])
    while before or rig.thread.jobs:
        if before and (not rig.thread.jobs or rng.random() < 0.6):
            rig.deliver((0, before.popleft()))
        else:
            rig.finish()
    captured = [r for batch in rig.taken.captures[1].of(0) if hasattr(batch, "rows") for r in batch.rows()]
    assert cuts(rig)[1] + captured == [1, 2, 3, 4, 5]
    assert rig.taken.captures[1].sealed
    assert rig.records == [1, 2, 3, 4, 5, 6]
    assert [e for e in emitted(rig) if isinstance(e, int)] == [1, 2, 3, 4, 5, 6]


def test_a_barrier_whose_checkpoint_was_given_up_meanwhile_is_not_drawn() -> None:
    """The abort comes while work runs; what follows is drawn as ever."""
    rig = BesideRig(1)
    rig.deliver((0, rows([1])), (0, Barrier(1, 0)))
    rig.task.aborted(1)
    rig.deliver((0, rows([2])), (0, Barrier(2, 0)))
    rig.finish_all()
    assert cuts(rig) == {2: [1, 2]}


def test_operators_hear_of_a_complete_checkpoint_when_they_are_back() -> None:
    """Not while another thread is inside them, and before the next snapshot."""
    rig = BesideRig(1)
    rig.deliver((0, Barrier(1, 0)))
    rig.deliver((0, rows([1])), (0, Barrier(2, 0)))
    rig.task.checkpoint_complete(1)
    assert rig.operator.life == ["open", "snapshot 1"]
    rig.finish()
    assert rig.operator.life == ["open", "snapshot 1", "complete 1", "snapshot 2"]
    rig.task.checkpoint_complete(2)
    assert rig.operator.life[-1] == "complete 2"


def test_timers_wait_and_output_that_is_there_already_does_not() -> None:
    """A buffer's timeout passes while work runs: what was emitted before goes out."""
    rig = BesideRig(1)
    rig.deliver((0, rows([1])))
    rig.finish()
    rig.deliver((0, rows([2])))
    rig.operator.due = rig.clock.now
    rig.clock.now += 10
    assert rig.task.next_processing_time() is None
    assert rig.task.next_wakeup() == rig.clock.now
    assert rig.task.run_timers() is True, "flushed"
    assert rig.task.run_timers() is False
    assert rig.task.next_wakeup() is None
    assert next(e for e in rig.lane.elements if hasattr(e, "rows")).rows() == [1]
    rig.finish()
    assert rig.task.run_timers() is True
    rig.thread.finish()
    assert rig.operator.life[-1] == f"fire {rig.clock.now}"


def test_what_the_work_raises_is_raised_by_the_next_step() -> None:
    """And nothing of the slice is emitted."""
    rig = BesideRig(1)
    rig.deliver((0, rows([1])))

    def fail(batch: Any) -> None:
        rig.operator.next.process(batch)
        raise ValueError("no answer")

    rig.operator.process = fail  # type: ignore[method-assign]
    rig.thread.finish()
    rig.hear()
    with pytest.raises(ValueError, match="no answer"):
        rig.task.step()
    assert emitted(rig) == [SIGN]


def test_what_is_emitted_is_handed_on_before_anything_follows() -> None:
    """A step that the end of the work leads to finds its outputs where they belong."""
    rig = BesideRig(1)
    found: list[int] = []
    rig.task._runner.run(
        lambda: rig.operator.process_some(rows([1, 2])), lambda taken: found.append(rig.outputs.records_out)
    )
    rig.finish()
    assert found == [2]


def test_nothing_is_closed_under_the_feet_of_user_code() -> None:
    """Closed while work runs: the operators are closed behind it, and until then something is left behind."""
    rig = BesideRig(1)
    rig.deliver((0, rows([1])))
    rig.task.close()
    assert (rig.operator.life, rig.task.left_behind, rig.thread.joined) == (["open"], True, False)
    rig.thread.finish()
    rig.hear()
    assert rig.task.left_behind
    rig.thread.finish()
    assert rig.operator.life == ["open", "close"]
    rig.hear()
    assert (rig.task.left_behind, rig.thread.left) == (False, True)
    assert emitted(rig) == [SIGN], "what an ended subtask still brings back is nobody's"


@pytest.mark.parametrize("heard", [True, False])
def test_an_idle_thread_is_joined(heard: bool) -> None:
    """With nothing under way the subtask closes at once."""
    rig = BesideRig(1)
    if heard:
        rig.deliver((0, rows([1])))
        rig.thread.finish()
        rig.hear()
    rig.task.close()
    assert (rig.operator.life[-1], rig.task.left_behind, rig.thread.joined) == ("close", False, True)


CALLS = ("open", "process_some", "watermark", "snapshot", "checkpoint_complete", "close")


class Noting(Watching):
    """Notes which thread looks up each of its methods."""

    def __init__(self, clock: ManualClock, cost_ms: float) -> None:
        super().__init__(clock, cost_ms)
        self.threads: list[tuple[str, str]] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in CALLS:
            return found

        def call(*arguments: Any) -> Any:
            self.threads.append((name, threading.current_thread().name))
            return found(*arguments)

        return call


def test_all_calls_of_an_operator_come_from_one_thread() -> None:
    """Connections that may not change threads can be made in open() and used until close()."""
    rig = BesideRig(1, thread=UserThread("headgate-blocking-op"), operator=Noting)
    for element in (rows([1]), Watermark(3)):
        rig.deliver((0, element))
        rig.posted.get(timeout=30)()
        rig.run()
    rig.deliver((0, Barrier(1, 0)))
    rig.task.checkpoint_complete(1)
    rig.task.close()
    assert rig.operator.threads == [(call, "headgate-blocking-op") for call in CALLS]  # type: ignore[attr-defined]
    assert not any(thread.name == "headgate-blocking-op" for thread in threading.enumerate())


def test_a_thread_hands_back_what_the_call_raised() -> None:
    """And works on afterwards."""
    thread = UserThread("headgate-blocking-op")
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 // 0)
    assert thread.call(lambda: threading.current_thread().name) == "headgate-blocking-op"
    thread.leave()
    thread.join()


# -- the worker


TOTALS = counted()


class Lingering:
    """A subtask whose user code stays away for a while."""

    def __init__(self) -> None:
        self.left_behind = True
        self.head = type("Head", (), {"context": type("Context", (), {"label": "operator 'ask'"})})

    def counters(self) -> m.Counters:
        return TOTALS

    def close(self) -> None: ...


class Link:
    """Keeps what was said."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    def send(self, message: Any) -> None:
        self.said.append(message)


class NoData:
    """No peers."""

    def close_attempt(self) -> None: ...


def stopped(clock: ManualClock) -> tuple[Worker, Lingering, Link]:
    """A worker that was just told to stop while user code ran."""
    link, task = Link(), Lingering()
    ports: Any = (clock, None, NoData(), link, None, NoProbe(), None, None)
    worker = Worker("job", 0, WorkerPorts(*ports))  # type: ignore[arg-type]
    tasks: Any = {TASK: task}
    worker._assembly, worker.attempt = Assembly(tasks, Exchange(), SourceAlignment([], alone=True)), 1
    worker.state = WorkerState.RUNNING
    worker.handle(m.Stop(1))
    return worker, task, link


class Building(Watching):
    """Remembers on which checkpoints its snapshots might build."""

    def may_build_on(self, checkpoint: int) -> None:
        self.life.append(f"build on {checkpoint}")


def test_a_blocking_operator_learns_which_checkpoint_is_complete() -> None:
    """Before each snapshot, as in the loop; else an incremental checkpoint would store everything anew."""
    rig = BesideRig(1, operator=Building)
    for checkpoint, completed in [(1, 0), (2, 1)]:
        rig.deliver((0, Barrier(checkpoint, 0, completed=completed)))
        rig.run()
    assert rig.operator.life == ["open", "build on 0", "snapshot 1", "build on 1", "snapshot 2"]


def test_a_worker_is_idle_when_user_code_has_come_back() -> None:
    """A call that ends in time costs no new worker."""
    clock = ManualClock(1_000)
    worker, task, link = stopped(clock)
    worker.step()
    assert (link.said, worker.next_wakeup()) == ([m.Totals(1, [TOTALS])], 1_000 + LEAVING_MS)
    task.left_behind = False
    worker.step()
    worker.step()
    assert link.said == [m.Totals(1, [TOTALS]), m.Idle(1, [])]
    assert worker.next_wakeup() is None


def test_user_code_that_does_not_come_back_is_reported() -> None:
    """After its time the worker says what is left, so that it is replaced."""
    clock = ManualClock(1_000)
    worker, _, link = stopped(clock)
    clock.now += LEAVING_MS
    worker.step()
    assert link.said == [m.Totals(1, [TOTALS]), m.Idle(1, ["blocking function of operator 'ask'"])]
