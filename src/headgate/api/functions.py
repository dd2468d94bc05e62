"""The contracts of user functions, and what the framework hands to them.

All methods of one function instance are called by one thread; an instance belongs to one subtask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
# A function of any object also takes text, and one that gives text gives objects.
I = TypeVar("I", default=Any, contravariant=True)  # noqa: E741 - input, as in the field's signatures
O = TypeVar("O", default=Any, covariant=True)  # noqa: E741


class OutputTag(Generic[O]):
    """Names a side output.

    Example:
        >>> import headgate as hg
        >>> late = hg.OutputTag("late")
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"OutputTag({self.name!r})"


class RuntimeContext(Protocol):
    """Where a function runs.

    Attributes:
        uid: of the operator.
        subtask: which parallel copy, from 0.
        parallelism: how many copies.
        attempt: the deployment, from 1; grows with every restart.
    """

    uid: str
    subtask: int
    parallelism: int
    attempt: int


class TimerService(Protocol):
    """Timers of the current key."""

    current_watermark: int
    """Event time has passed this point (ms); -2**63 before the first watermark."""

    def now_ms(self) -> int:
        """Processing time: wall-clock ms."""
        ...

    def register_event_time(self, timestamp: int) -> None:
        """Call `on_timer` for this key once the watermark reaches `timestamp` (ms).

        One timer per key and timestamp. A timer at or behind the current watermark fires right
        after the present call returns. At the end of a bounded input all timers fire; an
        `on_timer` that registers the next one for ever is refused there.
        """
        ...

    def register_processing_time(self, timestamp: int) -> None:
        """Call `on_timer` for this key once the wall clock reaches `timestamp` (ms)."""
        ...

    def delete_event_time(self, timestamp: int) -> None:
        """Forget a timer; an absent one is no error."""
        ...

    def delete_processing_time(self, timestamp: int) -> None:
        """Forget a timer; an absent one is no error."""
        ...


class KeyedContext(Protocol[K]):
    """What a keyed function sees besides the record.

    Attributes:
        key: the current key.
        timestamp: event time of the record or timer in ms; None when the stream has none.
        timers: timers of the current key.
    """

    key: K
    timestamp: Any
    timers: TimerService

    def side_output(self, tag: OutputTag[Any], value: Any) -> None:
        """Emit `value` to a side output instead of the main one."""
        ...


class OnTimerContext(KeyedContext[K], Protocol[K]):
    """The context of `on_timer`.

    Attributes:
        time_domain: "event" or "processing".
    """

    time_domain: str


class RichFunction:
    """A function with a life: `open` before the first record, `close` after the last."""

    def open(self, context: RuntimeContext) -> None:
        """Set up what cannot be shipped (connections, models). State is not accessible yet."""

    def close(self) -> None:
        """Release what `open` set up; also called after a failure."""


class ProcessFunction(RichFunction, ABC, Generic[I, O]):
    """Zero, one or many outputs per record, without keyed state."""

    @abstractmethod
    def process(self, record: I, ctx: Any) -> Iterable[O] | None:
        """Handle one record; yield or return the outputs (None means none)."""


class KeyedProcessFunction(RichFunction, ABC, Generic[K, I, O]):
    """Zero, one or many outputs per record, with state and timers per key.

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
        """Handle one record; yield or return the outputs (None means none).

        The record may be a view of a columnar batch; keeping it is allowed.
        """

    def on_timer(self, timestamp: int, ctx: OnTimerContext[K]) -> Iterable[O] | None:
        """A timer of `ctx.key` fired."""
        return None
