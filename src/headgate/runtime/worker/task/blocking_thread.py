"""Where a subtask's chain runs: in the worker's loop, or beside it on a thread of the subtask's own.

User code that waits for something outside would hold up every other subtask of the worker, so a chain
that begins with a function marked as blocking is called on its own thread. The subtask is *away*
meanwhile: it takes no other step, and draws no snapshot. What the chain emits is collected, and
handed on by the loop when it is back. So nothing but the chain itself is touched by two threads, and
those two take turns.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from headgate.common.errors import HeadgateError
from headgate.common.ports import Clock
from headgate.common.process.system import BackgroundThread
from headgate.records.batch import Batch
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState, Receiver
from headgate.runtime.worker.task.step_budget import Pace

_LOG = logging.getLogger(__name__)

T = TypeVar("T")

Work = Callable[[], int | None]
"""Calls operators; gives how many records it took, or None where none are counted."""

Post = Callable[[Callable[[], None]], None]


class SideThread(Protocol):
    """A thread that belongs to one subtask, or the like of it."""

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """As `common.ports.Background`."""
        ...

    def call(self, work: Callable[[], T]) -> T:
        """Run `work` there and wait for it; only while nothing else runs there."""
        ...

    def leave(self) -> None:
        """End when all that was submitted is done; does not wait for it."""
        ...

    def join(self) -> None:
        """Wait for the end."""
        ...


class UserThread(BackgroundThread):
    """Production's :class:`SideThread`."""

    def call(self, work: Callable[[], T]) -> T:
        """See :class:`SideThread`."""
        answer: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self.submit(work, lambda result, error: answer.put((result, error)))
        result, error = answer.get()
        if error is not None:
            raise error
        given: T = result
        return given

    def leave(self) -> None:
        """See :class:`SideThread`."""
        self._queue.put(None)

    def join(self) -> None:
        """See :class:`SideThread`."""
        self._thread.join()


class Runner(Protocol):
    """Calls a chain's operators for its subtask.

    Attributes:
        away: whether work is under way whose end the subtask has to wait for.
        left_behind: whether it was ended while user code ran on a thread, which still does.
        longest_ms: the longest time for which the loop was held up.
        calling: ident of a thread beside the loop that is in a call, and since when (ms); else None.
    """

    @property
    def calling(self) -> tuple[int, float] | None:
        """See the class."""
        ...

    @property
    def away(self) -> bool:
        """See the class."""
        ...

    @property
    def left_behind(self) -> bool:
        """See the class."""
        ...

    @property
    def longest_ms(self) -> float:
        """See the class."""
        ...

    def run(self, work: Work, then: Callable[[int], None]) -> None:
        """Do `work`, then in the loop `then` with the number of records."""
        ...

    def when_back(self, action: Callable[[], None]) -> None:
        """Call `action` in the loop: at once, or when what is under way has come to its end."""
        ...

    def settle(self) -> bool:
        """Take up what has come to its end; False when nothing has. Raises what the work raised."""
        ...

    def call(self, work: Callable[[], T]) -> T:
        """Do `work` where the operators live, and wait for it; not while :attr:`away`."""
        ...

    def end(self, close: Callable[[], None]) -> None:
        """Nothing follows but `close`, which raises what it raises unless it has to come later."""
        ...

    def at_home(self, operators: Sequence[Operator]) -> Sequence[Operator]:
        """The operators for who draws snapshots: all calls of one operator come from one thread."""
        ...


class AtOnce:
    """In the loop; see :class:`Runner`."""

    away = left_behind = False
    calling = None

    def __init__(self, pace: Pace) -> None:
        self._pace = pace

    @property
    def longest_ms(self) -> float:
        """See :class:`Runner`."""
        return self._pace.longest_ms

    def run(self, work: Work, then: Callable[[int], None]) -> None:
        """See :class:`Runner`."""
        with self._pace.step() as step:
            step.records = work() or 0
        then(step.records)

    def when_back(self, action: Callable[[], None]) -> None:
        """See :class:`Runner`."""
        action()

    def settle(self) -> bool:
        """See :class:`Runner`."""
        return False

    def call(self, work: Callable[[], T]) -> T:
        """See :class:`Runner`."""
        return work()

    def end(self, close: Callable[[], None]) -> None:
        """See :class:`Runner`."""
        close()

    def at_home(self, operators: Sequence[Operator]) -> Sequence[Operator]:
        """See :class:`Runner`."""
        return operators


class Collected:
    """What a chain emits while it runs beside the loop, over all its outputs, in order."""

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def before(self, receiver: Receiver) -> Receiver:
        """A receiver that keeps for `receiver` what it gets."""
        return _Collecting(self._calls, receiver)

    def hand_on(self) -> None:
        """Give the receivers what was kept; in the loop."""
        calls = list(self._calls)
        self._calls.clear()
        for receive, arguments in calls:
            receive(*arguments)


class _Collecting:
    __slots__ = ("_calls", "_receiver")

    def __init__(self, calls: list[tuple[Callable[..., None], tuple[Any, ...]]], receiver: Receiver) -> None:
        self._calls, self._receiver = calls, receiver

    def process(self, batch: Batch) -> None:
        self._calls.append((self._receiver.process, (batch,)))

    def watermark(self, timestamp: int) -> None:
        self._calls.append((self._receiver.watermark, (timestamp,)))

    def idle(self) -> None:
        self._calls.append((self._receiver.idle, ()))

    def end_of_data(self) -> None:
        self._calls.append((self._receiver.end_of_data, ()))


class Beside:
    """On a thread of the subtask's own, which is made when it is first needed; see :class:`Runner`.

    Args:
        make_thread: makes it.
        post: hands a callback to the loop, from any thread, and wakes it.
        collected: keeps what the chain emits.
        clock: measures.
        pace: of the subtask; its slices begin with one record, since the first one may take long.

    Attributes:
        away: see :class:`Runner`.
        left_behind: see :class:`Runner`.
        longest_ms: see :class:`Runner`; the work itself does not hold the loop up.
        calling: see :class:`Runner`.
    """

    def __init__(
        self,
        make_thread: Callable[[], SideThread],
        post: Post,
        collected: Collected,
        clock: Clock,
        pace: Pace,
    ) -> None:
        self._make_thread, self._post, self._collected = make_thread, post, collected
        self._clock, self._pace = clock, pace
        self.away = self.left_behind = False
        self.longest_ms = 0.0
        self.calling: tuple[int, float] | None = None
        self._made: SideThread | None = None
        self._then: Callable[[int], None] = _nothing
        self._outcome: tuple[Any, BaseException | None] | None = None
        self._later: deque[Callable[[], None]] = deque()
        pace.records = 1

    def run(self, work: Work, then: Callable[[int], None]) -> None:
        """See :class:`Runner`."""
        self._pace.step()  # what it was blocked for is over
        self.away, self._then = True, then
        self._thread().submit(lambda: self._measured(work), self._done)

    def when_back(self, action: Callable[[], None]) -> None:
        """See :class:`Runner`; actions keep their order."""
        if self.away:
            self._later.append(action)
        else:
            action()

    def settle(self) -> bool:
        """See :class:`Runner`."""
        if self._outcome is None:
            return False
        began = self._clock.precise_ms()
        (result, error), self._outcome = self._outcome, None
        self.away = False
        if error is not None:
            raise error
        records, took_ms = result
        self._pace.took(records, took_ms)
        self._collected.hand_on()
        self._then(records)
        while self._later and not self.away:
            self._later.popleft()()
        self._held_up_since(began)
        return True

    def call(self, work: Callable[[], T]) -> T:
        """See :class:`Runner`."""
        assert not self.away
        began = self._clock.precise_ms()
        given = self._thread().call(work)
        self._collected.hand_on()
        self._held_up_since(began)
        return given

    def end(self, close: Callable[[], None]) -> None:
        """See :class:`Runner`; nothing is closed under the feet of user code that still runs."""
        thread = self._thread()
        if not self.away or self._outcome is not None:
            try:
                thread.call(close)
            finally:
                thread.leave()
                thread.join()
            return
        self.left_behind = True
        thread.submit(close, lambda _, error: self._post(lambda: self._gone(error)))
        thread.leave()

    def at_home(self, operators: Sequence[Operator]) -> Sequence[Operator]:
        """See :class:`Runner`."""
        return [_AtHome(operator, self) for operator in operators]

    def _thread(self) -> SideThread:
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

    def _done(self, result: Any, error: BaseException | None) -> None:
        """On the thread."""
        self._post(lambda: self._arrived(result, error))

    def _arrived(self, result: Any, error: BaseException | None) -> None:
        # Taken up by the subtask's next step: what goes wrong then is blamed on the subtask. Of a subtask
        # that was ended meanwhile there is no next step.
        self._outcome = (result, error)

    def _gone(self, error: BaseException | None) -> None:
        self.left_behind = False
        if error is not None:
            _LOG.warning(
                "closing a blocking function after its last call raised %s",
                error if isinstance(error, HeadgateError) else repr(error),
            )

    def _held_up_since(self, began_ms: float) -> None:
        self.longest_ms = max(self.longest_ms, self._clock.precise_ms() - began_ms)


class _AtHome(Operator):
    """Asks an operator for its snapshot on the thread where it lives."""

    def __init__(self, operator: Operator, runner: Beside) -> None:
        super().__init__(operator.context)
        self._operator, self._runner = operator, runner
        self._completed: int | None = 0

    def may_build_on(self, checkpoint: int | None) -> None:
        """See :class:`Operator`; passed on with the next snapshot, which goes to the thread anyway."""
        self._completed = checkpoint

    def snapshot(self, checkpoint: int) -> PendingState | None:
        """See :class:`Operator`."""
        return self._runner.call(lambda: self._snapshot(checkpoint))

    def _snapshot(self, checkpoint: int) -> PendingState | None:
        self._operator.may_build_on(self._completed)
        return self._operator.snapshot(checkpoint)

    def state_types(self) -> dict[str, Any]:
        """See :class:`Operator`."""
        return self._operator.state_types()


def _nothing(_: int) -> None:
    """Nothing is to be done when the work has come to its end."""
