"""The contracts of user functions, and of the contexts and timers that they are given. All methods of one
function instance are called by one thread; an instance belongs to one subtask. :func:`blocking` gives it a
thread of its own.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, cast

from typing_extensions import TypeVar

from headgate.common.errors import PlanError
from headgate.metrics.of_programs import ProgramMetrics

K = TypeVar("K", default=Any)
# A function of any object also takes text, and one that gives text gives objects.
I = TypeVar("I", default=Any, contravariant=True)  # noqa: E741 - input, as in the field's signatures
O = TypeVar("O", default=Any, covariant=True)  # noqa: E741

F = TypeVar("F")
R = TypeVar("R")
T = TypeVar("T")
S = TypeVar("S")

_BLOCKING = "__headgate_blocking__"


class OutputTag(Generic[O]):
    """Name of a side output: functions emit to it, ``stream.side_output(tag)`` reads it; equal names are one.

    Example:
        >>> import headgate as hg
        >>> late = hg.OutputTag("late")
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"OutputTag({self.name!r})"


class RuntimeContext(Protocol):
    """Where a function runs: its operator, subtask and attempt, as passed to `open`.

    Attributes:
        uid: of the operator.
        subtask: number of this parallel copy of the operator, from 0.
        parallelism: how many copies the operator has.
        attempt: number of the deployment by this driver, from 1; each restart or rescale is a new one.
        metrics: counters, gauges and histograms of the function's own, told with the job's.
    """

    uid: str
    subtask: int
    parallelism: int
    attempt: int
    metrics: ProgramMetrics


class TimerService(Protocol):
    """Registers and deletes timers of the current key, and gives the current time."""

    current_watermark: int
    """Event time, as of this record or timer, has passed this point (ms); -2**63: no watermark has come."""

    def now_ms(self) -> int:
        """Return the processing time: ms since 1970 by the worker's wall clock."""

    def register_event_time(self, timestamp: int) -> None:
        """Call `on_timer` for this key once the watermark reaches `timestamp` (ms).

        One timer per key and timestamp. A timer at or before the current watermark fires right
        after the present call returns. At the end of a bounded input all event-time timers fire; an
        `on_timer` that registers the next one for ever is refused there. Where the stream has no event
        time, nothing else fires them, which a warning says once.
        """

    def register_processing_time(self, timestamp: int) -> None:
        """Call `on_timer` for this key at `timestamp` by the wall clock (ms), unless input ends before."""

    def delete_event_time(self, timestamp: int) -> None:
        """Delete this key's event-time timer for `timestamp` (ms), if any, which then does not fire."""

    def delete_processing_time(self, timestamp: int) -> None:
        """Delete this key's processing-time timer for `timestamp` (ms), if any, which then does not fire."""


class KeyedContext(Protocol[K]):
    """The context that a keyed function gets with each record or timer.

    Attributes:
        key: the current key.
        timestamp: event time of the record (None: it has none), or time for which the timer was set; in ms.
        timers: timers of the current key.
    """

    key: K
    timestamp: Any
    timers: TimerService

    def side_output(self, tag: OutputTag[S], value: S) -> None:
        """Emit `value` to the side output that `tag` names, not to the function's main output."""


class OnTimerContext(KeyedContext[K], Protocol[K]):
    """The context that `on_timer` gets: key and timers, and which clock the timer followed.

    Attributes:
        time_domain: "event" or "processing": the clock that the timer was registered with.
    """

    time_domain: str


class RichFunction:
    """Base class of functions with a lifecycle: `open` before the first record, `close` after the last."""

    def open(self, context: RuntimeContext) -> None:
        """Set up what cannot be shipped (connections, models). Operator state is restored: lists can be read
        and changed, broadcast state only read. Keyed state is refused: there is no current key yet.
        """

    def close(self) -> None:
        """Release what `open` set up; also called after a failure, even one before or in `open`."""


class ProcessFunction(RichFunction, ABC, Generic[I, O]):
    """A function with zero or more outputs per record, without keyed state; it may declare operator state."""

    @abstractmethod
    def process(self, record: I, ctx: Any) -> Iterable[O] | None:
        """Handle one record; `ctx` has `timestamp`, `watermark` (ms or None), `side_output(tag, value)`.

        Returns:
            an iterable of outputs, such as a list or a generator; None, ``[]`` and ``()`` are no output.
            One record that is returned, not yielded (a number, an object with fields, text, a dict, a tuple
            with elements) fails the job: it would be split into elements, or cannot be iterated.
        """


class KeyedProcessFunction(RichFunction, ABC, Generic[K, I, O]):
    """A function with zero, one or many outputs per record, with state and timers per key.

    Example:
        >>> import headgate as hg
        >>> class Count(hg.KeyedProcessFunction[str, str, tuple[str, int]]):
        ...     count: hg.ValueState[int] = hg.value_state(default=0)
        ...     def process(self, record, ctx):
        ...         self.count.value += 1
        ...         yield ctx.key, self.count.value
    """

    @abstractmethod
    def process(self, record: I, ctx: KeyedContext[K]) -> Iterable[O] | None:
        """Handle one record; yield or return the outputs.

        The record may be a view of a columnar batch; keeping it is allowed.

        Returns:
            an iterable of outputs, or None for none; one record returned, not yielded, fails the job.
        """

    def on_timer(self, timestamp: int, ctx: OnTimerContext[K]) -> Iterable[O] | None:
        """Handle the timer of `ctx.key` set for `timestamp` (ms); yield or return outputs (None: none)."""
        return None


def blocking(function: F) -> F:
    """Mark a function that waits for something outside: an HTTP request, a database, a file.

    A worker runs all its subtasks, and every barrier and timer, in one loop, which a function that waits
    would hold up. A marked one gets a thread of its own in each subtask, and the loop goes on meanwhile.
    Order, state, timers and exactly-once stay as they are; one call runs at a time in a subtask, so more
    calls at a time take more parallelism. A checkpoint's barrier waits for the calls of at most one slice of
    a batch, which is one record where they are slow.

    What the marked function computes still shares Python's interpreter with the loop: mark what waits, not
    what is expensive.

    Args:
        function: for ``map``, ``filter`` or ``flat_map``; or a process function of any kind (keyed, with a
            broadcast side), its class or an instance. Subclasses are marked, too.

    Returns:
        The same function, marked; where it cannot be marked itself, one that calls it.

    Raises:
        PlanError: `function` is a class of another kind, or neither callable nor a process function.

    Example:
        >>> import time
        >>> import headgate as hg
        >>> from headgate.testing import MiniCluster
        >>> @hg.blocking
        ... def look_up(n: int) -> int:
        ...     time.sleep(0.01)  # the answer of a server
        ...     return 2 * n
        >>> env = hg.Environment(parallelism=2, executor=MiniCluster())
        >>> sorted(env.from_collection([1, 2, 3]).map(look_up).collect())
        [2, 4, 6]
    """
    if isinstance(function, type):
        fits = issubclass(function, RichFunction)
    else:
        fits = callable(function) or isinstance(function, RichFunction)
    if not fits:
        what = function.__name__ if isinstance(function, type) else repr(function)
        raise PlanError(
            f"blocking() got {what}; expected a function of one record, or a ProcessFunction or "
            "KeyedProcessFunction"
        )
    try:
        setattr(function, _BLOCKING, True)
    except (AttributeError, TypeError):  # a builtin or a bound method
        plain: Any = function
        return cast(F, _marked(plain))
    return function


def is_blocking(function: object) -> bool:
    """Return whether :func:`blocking` marked `function`, or the function inside a ``functools.partial``."""
    while getattr(function, _BLOCKING, False) is not True:
        if not isinstance(function, functools.partial):
            return False
        function = function.func
    return True


def _marked(function: Callable[[T], R]) -> Callable[[T], R]:
    @functools.wraps(function)
    def call(record: T) -> R:
        return function(record)

    setattr(call, _BLOCKING, True)
    return call
