"""The contracts of functions with a broadcast side: records of a second stream reach every subtask. The
broadcast side changes broadcast state, the main side only reads it. So each subtask changes its copy by the
same records, and all copies are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from headgate.api.declared.operator_state import BroadcastState  # noqa: F401 - for the examples
from headgate.api.functions import I, K, KeyedContext, O, OnTimerContext, OutputTag, RichFunction

E = TypeVar("E")
B = TypeVar("B", default=Any, contravariant=True)
R = TypeVar("R")
S = TypeVar("S")


class BroadcastContext(Protocol):
    """The context that a broadcast function without a key gets with each record, on both of its sides.

    Attributes:
        timestamp: event time of the record in ms; None when its stream has none.
        watermark: event time has passed this point (ms); None when the record's stream has no event time.
    """

    timestamp: int | None
    watermark: int | None

    def side_output(self, tag: OutputTag[E], value: E) -> None:
        """Emit `value` to the side output that `tag` names, not to the function's main output."""


class KeyedBroadcastContext(KeyedContext[K], Protocol[K]):
    """The context of `process_broadcast` in a keyed function: no current key, but a call for all keys.

    There is a key only while :meth:`apply_to_all_keys` calls its function; outside of it `key`, keyed state
    and the registering of timers raise RuntimeError.
    """

    def apply_to_all_keys(self, state: S, function: Callable[[K, S], Iterable[R] | None]) -> list[R]:
        """Call `function` for every key of this subtask that has an entry in `state`.

        During a call its key is the current one: for `state`, for all other keyed state of the function, and
        for timers. The loop of the worker stands still until all keys had their turn.

        Args:
            state: one of the function's keyed states, as in ``self.count``.
            function: called with the key and the state; yields or returns outputs, or returns None.

        Returns:
            The outputs of all calls, in no particular order of keys; yield them to emit them.

        Raises:
            TypeError: `state` is none of the function's keyed states; `function` returned one record, not an
                iterable of records; or `function` calls this method again.
        """


class BroadcastProcessFunction(RichFunction, ABC, Generic[I, B, O]):
    """A function over a stream and a broadcast stream, without keyed state: zero or more outputs per record.

    Example:
        >>> import headgate as hg
        >>> from headgate.testing import OperatorHarness
        >>> class Priced(hg.BroadcastProcessFunction[str, tuple[str, int], tuple[str, int | None]]):
        ...     prices: BroadcastState[str, int] = hg.broadcast_state()
        ...     def process(self, record, ctx):
        ...         yield record, self.prices.get(record)
        ...     def process_broadcast(self, record, ctx):
        ...         self.prices.put(*record)
        >>> harness = OperatorHarness(Priced())
        >>> harness.process("tea"); harness.process_broadcast(("tea", 3)); harness.process("tea")
        >>> harness.take()
        [('tea', None), ('tea', 3)]
    """

    @abstractmethod
    def process(self, record: I, ctx: BroadcastContext) -> Iterable[O] | None:
        """Handle one record of the main side; yield or return the outputs (None means none).

        Broadcast state is read-only here, as it is in `open`: a change raises TypeError.
        """

    @abstractmethod
    def process_broadcast(self, record: B, ctx: BroadcastContext) -> Iterable[O] | None:
        """Handle one record of the broadcast side, which every subtask gets; may change broadcast state.

        Changes of broadcast state must depend on nothing but the record and that state, or the copies of the
        subtasks would differ. Every subtask emits the outputs.
        """


class KeyedBroadcastProcessFunction(RichFunction, ABC, Generic[K, I, B, O]):
    """A function over a keyed stream and a broadcast one, with state and timers per key on the main side.

    Example:
        >>> import headgate as hg
        >>> from headgate.testing import OperatorHarness
        >>> class Limited(hg.KeyedBroadcastProcessFunction[str, dict, int, str]):
        ...     limit: BroadcastState[str, int] = hg.broadcast_state()
        ...     count = hg.value_state(default=0)
        ...     def process(self, record, ctx):
        ...         self.count.value += 1
        ...         if self.count.value > self.limit.get("calls", 10):
        ...             yield f"{ctx.key} has to wait"
        ...     def process_broadcast(self, record, ctx):
        ...         self.limit.put("calls", record)
        ...         yield from ctx.apply_to_all_keys(self.count, self.judge)
        ...     def judge(self, key, count):
        ...         if count.value > self.limit.get("calls", 10):
        ...             yield f"{key} has to wait from now on"
        >>> harness = OperatorHarness(Limited(), key="user")
        >>> harness.process_batch([{"user": "ada"}, {"user": "ada"}, {"user": "bob"}])
        >>> harness.process_broadcast(1)
        >>> harness.process({"user": "bob"})
        >>> harness.take()
        ['ada has to wait from now on', 'bob has to wait']
    """

    @abstractmethod
    def process(self, record: I, ctx: KeyedContext[K]) -> Iterable[O] | None:
        """Handle one record of the main side; yield or return the outputs (None means none).

        Broadcast state is read-only here, as it is in `open` and `on_timer`: a change raises TypeError.
        """

    @abstractmethod
    def process_broadcast(self, record: B, ctx: KeyedBroadcastContext[K]) -> Iterable[O] | None:
        """Handle one record of the broadcast side, which every subtask gets; may change broadcast state.

        Changes of broadcast state must depend on nothing but the record and that state, or the copies of the
        subtasks would differ. Every subtask emits the outputs.
        """

    def on_timer(self, timestamp: int, ctx: OnTimerContext[K]) -> Iterable[O] | None:
        """Handle the timer of `ctx.key` set for `timestamp` (ms); yield or return outputs (None: none)."""
        return None
