"""Runs a subtask's chain: in the worker's loop, or in the background on a thread of the subtask's own.

User code that waits for something outside would hold up every other subtask of the worker, so a chain
that begins with a function marked as blocking is called on its own thread. The subtask is *away*
meanwhile: it takes no other step and no snapshot. What the chain emits is collected, and the loop hands it
on when the chain is back. So only the chain itself is touched by two threads, and those two take turns.
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
from headgate.common.ports import Clock
from headgate.common.process.system import BackgroundThread
from headgate.records.batch import Batch
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState, Receiver, StateTypes
from headgate.runtime.worker.task.step_budget import StepBudget

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

Work = Callable[[], int | None]
"""Calls operators; gives how many records it took, or None where none are counted."""

Post = Callable[[Callable[[], None]], None]


class SubtaskThread(Protocol):
    """A thread that belongs to one subtask."""

    def submit(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        """Run `work` on the thread, then call `done` there; see `common.ports.Background`."""

    def call(self, work: Callable[[], T]) -> T:
        """Run `work` there and wait for it; only while nothing else runs there."""

    def leave(self) -> None:
        """End when all that was submitted is done; does not wait for it."""

    def join(self) -> None:
        """Wait for the end."""


class UserThread(BackgroundThread):
    """Production's :class:`SubtaskThread`."""

    def call(self, work: Callable[[], T]) -> T:
        """See :class:`SubtaskThread`."""
        answer: Future[T] = Future()
        self.submit(work, lambda result, error: _answer(answer, result, error))
        return answer.result()

    def leave(self) -> None:
        """See :class:`SubtaskThread`."""
        self._queue.put(None)

    def join(self) -> None:
        """See :class:`SubtaskThread`."""
        self._thread.join()


class ChainRunner(Protocol):
    """Calls a chain's operators for its subtask."""

    @property
    def calling(self) -> tuple[int, float] | None:
        """Ident of a thread other than the loop's that is in a call, and since when (ms); else None."""

    @property
    def away(self) -> bool:
        """Whether work is pending whose end the subtask has to wait for."""

    @property
    def left_behind(self) -> bool:
        """Whether the runner was ended while user code ran on its thread, which still does."""

    @property
    def longest_ms(self) -> float:
        """The longest time for which the loop was held up."""

    def run(self, work: Work, then: Callable[[int], None]) -> None:
        """Do `work`, then in the loop `then` with the number of records."""

    def when_back(self, action: Callable[[], None]) -> None:
        """Call `action` in the loop: at once, or when the pending work has come to its end."""

    def settle(self) -> bool:
        """Take up work that has come to its end; False when none has. Raises what the work raised."""

    def call(self, work: Callable[[], T]) -> T:
        """Do `work` where the operators live, and wait for it; not while :attr:`away`."""

    def end(self, close: Callable[[], None]) -> None:
        """End after `close`, which raises what it raises unless it has to come later."""

    def called_from_loop(self, operators: Sequence[Operator]) -> Sequence[Operator]:
        """The operators as the loop may ask them for snapshots: one thread makes all calls of an operator."""


class InLoop:
    """A :class:`ChainRunner` that calls the chain in the loop."""

    away = left_behind = False
    calling = None

    def __init__(self, budget: StepBudget) -> None:
        self._budget = budget

    @property
    def longest_ms(self) -> float:
        """See :class:`ChainRunner`."""
        return self._budget.longest_ms

    def run(self, work: Work, then: Callable[[int], None]) -> None:
        """See :class:`ChainRunner`."""
        with self._budget.step() as step:
            step.records = work() or 0
        then(step.records)

    def when_back(self, action: Callable[[], None]) -> None:
        """See :class:`ChainRunner`."""
        action()

    def settle(self) -> bool:
        """See :class:`ChainRunner`."""
        return False

    def call(self, work: Callable[[], T]) -> T:
        """See :class:`ChainRunner`."""
        return work()

    def end(self, close: Callable[[], None]) -> None:
        """See :class:`ChainRunner`."""
        close()

    def called_from_loop(self, operators: Sequence[Operator]) -> Sequence[Operator]:
        """See :class:`ChainRunner`."""
        return operators


class CollectedOutput:
    """Keeps what a chain emits on a thread of its own, over all its outputs, in order."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []

    def before(self, receiver: Receiver) -> Receiver:
        """Make a receiver that keeps for `receiver` what it gets."""
        return _Collecting(self._calls, receiver)

    def hand_on(self) -> None:
        """Give the receivers what was kept; in the loop."""
        calls = list(self._calls)
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


class OnThread:
    """A :class:`ChainRunner` that calls the chain on a thread of the subtask's own.

    `budget`: of the subtask; its slices begin with one record, since the first one may take long.
    """

    def __init__(
        self,
        make_thread: Callable[[], SubtaskThread],  # makes it, when it is first needed
        post: Post,  # hands a callback to the loop, from any thread, and wakes it
        collected: CollectedOutput,  # keeps what the chain emits
        clock: Clock,  # measures
        budget: StepBudget,
    ) -> None:
        self._make_thread, self._post, self._collected = make_thread, post, collected
        self._clock, self._budget = clock, budget
        self.away = self.left_behind = False
        self.longest_ms = 0.0  # the work itself does not hold the loop up
        self.calling: tuple[int, float] | None = None
        self._made: SubtaskThread | None = None
        self._then: Callable[[int], None] = _nothing
        self._outcome: tuple[tuple[int, float] | None, BaseException | None] | None = None
        self._later: deque[Callable[[], None]] = deque()
        budget.records = 1

    def run(self, work: Work, then: Callable[[int], None]) -> None:
        """See :class:`ChainRunner`."""
        self._budget.step()  # the time of being blocked ends here
        self.away, self._then = True, then
        self._thread().submit(lambda: self._measured(work), self._done)

    def when_back(self, action: Callable[[], None]) -> None:
        """See :class:`ChainRunner`; actions keep their order."""
        if self.away:
            self._later.append(action)
        else:
            action()

    def settle(self) -> bool:
        """See :class:`ChainRunner`."""
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
        """See :class:`ChainRunner`."""
        assert not self.away
        began = self._clock.precise_ms()
        given = self._thread().call(work)
        self._collected.hand_on()
        self._held_up_since(began)
        return given

    def end(self, close: Callable[[], None]) -> None:
        """See :class:`ChainRunner`; nothing is closed while user code still uses it."""
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
        """See :class:`ChainRunner`."""
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
        """See :class:`Operator`; passed on with the next snapshot, which goes to the thread anyway."""
        self._completed = checkpoint

    def snapshot(self, checkpoint: int) -> PendingState | None:
        return self._runner.call(lambda: self._snapshot(checkpoint))

    def _snapshot(self, checkpoint: int) -> PendingState | None:
        self._operator.may_build_on(self._completed)
        return self._operator.snapshot(checkpoint)

    def state_types(self) -> StateTypes:
        return self._operator.state_types()


def _answer(answer: Future[T], result: T, error: BaseException | None) -> None:
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


def _nothing(_: int) -> None:
    """Nothing follows the work."""
