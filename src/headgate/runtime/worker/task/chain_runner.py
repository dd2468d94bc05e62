"""Runs a subtask's chain: in the worker's loop, or in the background on a thread of the subtask's own.

User code that waits for something outside would hold up every other subtask of the worker, so a chain
that begins with a function marked as blocking is called on its own thread. The subtask is *away*
meanwhile: it takes no other step and no snapshot. What the chain emits is collected, and the loop hands it
on when the chain is back. So only the chain itself is used by two threads, and those two take turns.
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
from headgate.records.batch import Batch
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState, Receiver, StateTypes
from headgate.runtime.worker.task.step_budget import StepBudget

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

Work = Callable[[], int | None]
"""Calls operators; gives how many records it took, or None where none are counted."""

Post = Callable[[Callable[[], None]], None]


class SubtaskThread(Background, Protocol):
    """A thread that belongs to one subtask."""

    def call(self, work: Callable[[], T]) -> T:
        """Run `work` there and wait for it; only while nothing else runs there."""

    def leave(self) -> None:
        """End when all that was submitted is done; does not wait for it."""

    def join(self) -> None:
        """Wait for the end."""


class UserThread(BackgroundThread):
    """The :class:`SubtaskThread` of production."""

    def call(self, work: Callable[[], T]) -> T:
        """Run `work` on the thread and wait for it."""
        answer: Future[T] = Future()

        def done(result: T, error: BaseException | None) -> None:
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)

        self.submit(work, done)
        return answer.result()

    def leave(self) -> None:
        """End when all that was submitted is done; does not wait for it."""
        self._queue.put(None)

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()


class ChainRunner:
    """Calls a chain's operators for its subtask; this one does so in the loop."""

    # ident of a thread other than the loop's that is in a call, and since when (ms)
    calling: tuple[int, float] | None = None
    away = False  # whether work is pending whose end the subtask has to wait for
    left_behind = False  # whether the runner was ended while user code ran on its thread, which still does

    def __init__(self, budget: StepBudget) -> None:
        self._budget = budget

    @property
    def longest_ms(self) -> float:
        """The longest time for which the loop was held up."""
        return self._budget.longest_ms

    def run(self, work: Work, then: Callable[[int], None]) -> None:
        """Do `work`, then in the loop `then` with the number of records."""
        with self._budget.step() as step:
            step.records = work() or 0
        then(step.records)

    def when_back(self, action: Callable[[], None]) -> None:
        """Call `action` in the loop: at once, or after the pending work and earlier actions."""
        action()

    def settle(self) -> bool:
        """Take up work that has come to its end; False when none has. Raises what the work raised."""
        return False

    def call(self, work: Callable[[], T]) -> T:
        """Do `work` where the operators live, and wait for it; not while :attr:`away`."""
        return work()

    def end(self, close: Callable[[], None]) -> None:
        """End after `close`, which raises what it raises unless it has to come later."""
        close()

    def called_from_loop(self, operators: Sequence[Operator]) -> Sequence[Operator]:
        """Return the operators as the loop may ask them for snapshots: one thread makes all calls of an
        operator.
        """
        return operators


class CollectedOutput:
    """What a chain emits on a thread of its own, over all its outputs, in order."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []

    def before(self, receiver: Receiver) -> Receiver:
        """Return a receiver that keeps for `receiver` what it gets."""
        return _Collecting(self._calls, receiver)

    def hand_on(self) -> None:
        """Give the receivers what was kept; in the loop."""
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

    def watermark(self, timestamp: int) -> None:
        self._calls.append(partial(self._receiver.watermark, timestamp))

    def idle(self) -> None:
        self._calls.append(self._receiver.idle)

    def end_of_data(self) -> None:
        self._calls.append(self._receiver.end_of_data)


class OnThread(ChainRunner):
    """Calls the chain on a thread of the subtask's own, slice by slice, at first with one record each.

    User code that hangs is left behind when the runner ends: nothing is closed while a call uses it.
    """

    longest_ms = 0.0  # the work itself does not hold the loop up

    def __init__(
        self,
        make_thread: Callable[[], SubtaskThread],  # makes it, when it is first needed
        post: Post,  # hands a callback to the loop, from any thread, and wakes it
        collected: CollectedOutput,  # keeps what the chain emits
        clock: Clock,  # measures
        budget: StepBudget,
    ) -> None:
        super().__init__(budget)
        self._make_thread, self._post, self._collected, self._clock = make_thread, post, collected, clock
        self._made: SubtaskThread | None = None
        self._then: Callable[[int], None] = lambda _: None
        self._outcome: tuple[tuple[int, float] | None, BaseException | None] | None = None
        self._later: deque[Callable[[], None]] = deque()
        budget.records = 1

    def run(self, work: Work, then: Callable[[int], None]) -> None:
        """Submit `work`; `then` follows when the loop settles it."""
        self._budget.step()  # the time of being blocked ends here
        self.away, self._then = True, then
        self._thread().submit(lambda: self._measured(work), self._done)

    def when_back(self, action: Callable[[], None]) -> None:
        """Call `action` after the pending work and earlier actions."""
        if self.away:
            self._later.append(action)
        else:
            action()

    def settle(self) -> bool:
        """Account for work that has ended, hand on what it emitted, and do what waited for it."""
        if self._outcome is None:
            return False
        began = self._clock.precise_ms()
        (result, error), self._outcome = self._outcome, None
        self.away = False
        if error is not None:
            raise error
        assert result is not None
        records, took_ms = result
        self._budget.took(records, took_ms)
        self._collected.hand_on()
        self._then(records)
        while self._later and not self.away:
            self._later.popleft()()
        self._held_up_since(began)
        return True

    def call(self, work: Callable[[], T]) -> T:
        """Do `work` on the thread, wait for it, and hand on what it emitted."""
        assert not self.away
        began = self._clock.precise_ms()
        given = self._thread().call(work)
        self._collected.hand_on()
        self._held_up_since(began)
        return given

    def end(self, close: Callable[[], None]) -> None:
        """Close at once, or when the pending call has returned."""
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
        """Return the operators that take their snapshots on the thread."""
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
        """On the thread."""
        self._post(lambda: self._arrived(result, error))

    def _arrived(self, result: tuple[int, float] | None, error: BaseException | None) -> None:
        # Taken up by the subtask's next step, so that an error is attributed to the subtask. A subtask that
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
        self.longest_ms = max(self.longest_ms, self._clock.precise_ms() - began_ms)


class _SnapshotOnThread(Operator):
    """Asks an operator for its snapshot on the thread where it lives."""

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
