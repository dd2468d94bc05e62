"""Runs a subtask's chain: in the worker's loop, or in a thread of the subtask's own.

User code that waits for something outside would block every other subtask of the worker, so a chain that
begins with a function marked as blocking is called in its own thread. The subtask is *away* meanwhile: it
takes no other step and no snapshot. The chain's output is collected, and the loop passes it on when the chain
is back. So only the chain itself is used by two threads, and those two take turns.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol, TypeVar

from headgate.common.errors import HeadgateError
from headgate.common.ports import Background, Clock
from headgate.common.process.system import BackgroundThread
from headgate.core.marks import Mark
from headgate.records.batch import Batch
from headgate.runtime.worker.exchange.traced_output import Sending, traced
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState, Receiver, StateTypes
from headgate.runtime.worker.task.step_budget import StepBudget

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

Work = Callable[[], int | None]
"""Calls operators; returns how many records it processed, or None if none are counted."""

Post = Callable[[Callable[[], None]], None]


class SubtaskThread(Background, Protocol):
    """The thread of one subtask whose chain begins with a blocking function: calls the operators, in order.
    The subtask's :class:`OnThread` makes it for its first call, and ends it; the simulator has its own kind.
    """

    def call(self, work: Callable[[], T]) -> T:
        """Run `work` after all submitted work; wait for it, and return its result or raise its error."""

    def leave(self) -> None:
        """Have the thread end once all submitted work is done, without waiting; submit nothing after that."""

    def join(self) -> None:
        """Wait for the end of the thread, after :meth:`leave`."""


class UserThread(BackgroundThread):
    """The :class:`SubtaskThread` of production, a real thread."""

    def call(self, work: Callable[[], T]) -> T:
        answer: Future[T] = Future()

        def done(result: T, error: BaseException | None) -> None:
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

        self.submit(work, done)
        return answer.result()

    def leave(self) -> None:
        self._queue.put(None)

    def join(self) -> None:
        self._thread.join()


class ChainRunner:
    """Calls the operators of one subtask in the worker's loop, in measured steps.
    :class:`OnThread` calls them in a thread: only there is work ever pending (the subtask is `away`).
    """

    # id of a thread other than the loop's that is in a call, and since when (ms)
    calling: tuple[int, float] | None = None
    away = False  # whether pending work in another thread makes the subtask wait
    left_behind = False  # whether the runner has ended, but user code still runs in its thread

    def __init__(self, budget: StepBudget) -> None:
        self._budget = budget

    def run(self, work: Work, then: Callable[[int], None]) -> None:
        """Do `work`, then call `then` in the loop with how many records it counted (0 for None); raise its
        error. :class:`OnThread` returns at once, as `away`: :meth:`settle` then calls `then` or raises.
        """
        with self._budget.step() as step:
            step.records = work() or 0
        then(step.records)

    def when_back(self, action: Callable[[], None]) -> None:
        """Call `action` in the loop: now or, while `away`, in a later :meth:`settle`, in order of calls."""
        action()

    def settle(self) -> bool:
        """If pending work has ended, pass output on and call `then` and waiting actions, or raise its error.
        Return whether any had ended; False here, where none is ever pending.
        """
        return False

    def call(self, work: Callable[[], T]) -> T:
        """Do `work` where operators are called; wait; return its result or raise. Not while `away`."""
        return work()

    def end(self, close: Callable[[], None]) -> None:
        """Call `close` where the operators are called, raise its error, and end the runner; called once.
        :class:`OnThread` does not wait if work is pending: `close` then follows, its error is only logged.
        """
        close()

    def called_from_loop(self, operators: Sequence[Operator]) -> Sequence[Operator]:
        return operators


class CollectedOutput:
    """Collects what a chain emits in another thread, in order, until the loop passes it on to the outputs."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []

    def before(self, receiver: Receiver) -> Receiver:
        """Return a receiver whose input goes to `receiver` at the next :meth:`hand_on`."""
        return _Collecting(self._calls, receiver)

    def hand_on(self) -> None:
        calls = self._calls.copy()
        self._calls.clear()
        for call in calls:
            call()


class _Collecting:
    __slots__ = ("_calls", "_receiver")

    def __init__(self, calls: list[Callable[[], None]], receiver: Receiver) -> None:
        self._calls, self._receiver = calls, receiver

    def process(self, batch: Batch) -> None:
        self._calls.append(partial(self._receiver.process, batch))

    def traced(self, batch: Batch, sending: Sending) -> None:
        self._calls.append(partial(traced, self._receiver, batch, sending))

    def watermark(self, timestamp: int) -> None:
        self._calls.append(partial(self._receiver.watermark, timestamp))

    def idle(self) -> None:
        self._calls.append(self._receiver.idle)

    def mark(self, mark: Mark) -> None:
        self._calls.append(partial(self._receiver.mark, mark))

    def end_of_data(self) -> None:
        self._calls.append(self._receiver.end_of_data)


class OnThread(ChainRunner):
    """Calls the chain in a thread of the subtask's own, slice by slice, at first with one record each.
    The loop gets the output from `collected`, by callbacks that `post` queues for it. User code that hangs
    keeps its thread when the runner ends: nothing is closed while a call uses it.
    """

    def __init__(
        self,
        make_thread: Callable[[], SubtaskThread],  # creates the thread, when it is first needed
        post: Post,  # has the loop call a callback, from any thread, and wakes it
        collected: CollectedOutput,  # collects the chain's output
        clock: Clock,  # measures durations
        budget: StepBudget,
    ) -> None:
        super().__init__(budget)
        self._make_thread, self._post, self._collected, self._clock = make_thread, post, collected, clock
        self._made: SubtaskThread | None = None
        self._then: Callable[[int], None] = lambda _: None
        self._began = 0.0
        self._outcome: tuple[tuple[int, float] | None, BaseException | None] | None = None
        self._later: deque[Callable[[], None]] = deque()
        budget.records = 1

    def run(self, work: Work, then: Callable[[int], None]) -> None:
        self.away, self._then, self._began = True, then, self._budget.times.begin()
        self._thread().submit(lambda: self._measured(work), self._done)

    def when_back(self, action: Callable[[], None]) -> None:
        if self.away:
            self._later.append(action)
        else:
            action()

    def settle(self) -> bool:
        if self._outcome is None:
            return False
        began = self._clock.precise_ms()
        (result, error), self._outcome = self._outcome, None
        self.away = False
        if error is not None:
            raise error
        assert result is not None
        records, took_ms = result
        self._budget.times.came_back(self._began, took_ms)
        self._budget.took(records, took_ms)
        self._collected.hand_on()
        self._then(records)
        while self._later and not self.away:
            self._later.popleft()()
        self._held_up_since(began)
        return True

    def call(self, work: Callable[[], T]) -> T:
        assert not self.away
        began = self._clock.precise_ms()
        given = self._thread().call(work)
        self._collected.hand_on()
        self._held_up_since(began)
        return given

    def end(self, close: Callable[[], None]) -> None:
        thread = self._thread()
        if not self.away or self._outcome is not None:
            try:
                thread.call(close)
            finally:
                thread.leave()
                thread.join()
            return
        self.left_behind = True
        thread.submit(close, lambda _, error: self._post(lambda: self._closed(error)))
        thread.leave()

    def called_from_loop(self, operators: Sequence[Operator]) -> Sequence[Operator]:
        """Return the operators wrapped so that they take their snapshots in the thread."""
        return [_SnapshotOnThread(operator, self) for operator in operators]

    def _thread(self) -> SubtaskThread:
        if self._made is None:
            self._made = self._make_thread()
        return self._made

    def _measured(self, work: Work) -> tuple[int, float]:
        began = self._clock.precise_ms()
        self.calling = threading.get_ident(), began
        try:
            records = work() or 0
        finally:
            self.calling = None
        return records, self._clock.precise_ms() - began

    def _done(self, result: tuple[int, float] | None, error: BaseException | None) -> None:
        # called in the thread
        self._post(lambda: self._arrived(result, error))

    def _arrived(self, result: tuple[int, float] | None, error: BaseException | None) -> None:
        # Processed by the subtask's next step, so that an error is attributed to the subtask. A subtask that
        # was ended meanwhile takes no next step.
        self._outcome = (result, error)

    def _closed(self, error: BaseException | None) -> None:
        self.left_behind = False
        if error is not None:
            _LOG.warning(
                "closing a blocking function after its last call raised %s",
                error if isinstance(error, HeadgateError) else repr(error),
            )

    def _held_up_since(self, began_ms: float) -> None:
        self._budget.times.held_up(self._clock.precise_ms() - began_ms)


class _SnapshotOnThread(Operator):
    """An operator whose snapshot is taken in the thread where the chain runs."""

    def __init__(self, operator: Operator, runner: OnThread) -> None:
        super().__init__(operator.context)
        self._operator, self._runner = operator, runner
        self._completed: int | None = 0

    def may_build_on(self, checkpoint: int | None) -> None:
        self._completed = checkpoint  # passed on with the next snapshot, which goes to the thread anyway

    def snapshot(self, checkpoint: int) -> PendingState | None:
        return self._runner.call(lambda: self._snapshot(checkpoint))

    def _snapshot(self, checkpoint: int) -> PendingState | None:
        self._operator.may_build_on(self._completed)
        return self._operator.snapshot(checkpoint)

    def state_types(self) -> StateTypes:
        return self._operator.state_types()
