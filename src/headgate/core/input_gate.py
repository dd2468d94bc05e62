"""Which element a subtask reads next: that of a channel that has something and may be read, mostly in turns.

The gate holds the queues and knows which channels are blocked; what an element means only its reader
knows. Availability is a property that the reader can ask, so it never waits busily.

Nothing is read before every channel has delivered a first element, and first elements that are no
records are read before records. A channel that will never carry a record begins with such an element;
until it has, event time would wait for it, and what a timer sees would depend on which sender was
quicker.

Channels take turns, with one exception: records of the channel whose event time is furthest behind are read
before those of channels that are ahead of it. What is ahead only waits in state for the slowest channel's
watermark. A channel is passed over a limited number of times in a row, so no sender is kept waiting for good.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Set
from typing import Final, Generic, TypeVar

from headgate.common.errors import InternalError

T = TypeVar("T")

MOST_PASSED_OVER: Final = 8
"""So many times in a row the channel whose turn it is gives way to one that is further behind."""


class InputGate(Generic[T]):
    """Queues of a subtask's channels (from 0), read in turns once all got one; `is_records`: of a batch.
    `event_time` gives a channel's event time (ms), or None where it has none or nobody waits for it.
    """

    __slots__ = ("_blocked", "_event_time", "_is_records", "_passed_over", "_queues", "_ready", "_silent")

    def __init__(
        self,
        channels: int,
        is_records: Callable[[T], bool],
        event_time: Callable[[int], int | None] = lambda _: None,
    ) -> None:
        self._is_records, self._event_time, self._passed_over = is_records, event_time, 0
        self._queues: list[deque[T]] = [deque() for _ in range(channels)]
        # The channels that may be read, in their turns; any of them is removed in constant time.
        self._ready: OrderedDict[int, None] = OrderedDict()
        self._blocked: set[int] = set()
        self._silent = set(range(channels))

    def put(self, channel: int, element: T) -> None:
        """Queue an element that arrived on `channel`, also while the channel is blocked."""
        queue = self._queues[channel]
        queue.append(element)
        if len(queue) == 1 and channel not in self._blocked:
            self._ready[channel] = None
        if channel in self._silent:
            self._silent.discard(channel)
            if not self._silent:
                # A stable sort: among equals the order of arrival stays.
                ready = sorted(self._ready, key=lambda c: self._is_records(self._queues[c][0]))
                self._ready = OrderedDict.fromkeys(ready)

    @property
    def available(self) -> bool:
        return bool(self._ready) and not self._silent

    def poll(self, wanted: Callable[[T], bool] | None = None) -> tuple[int, T] | None:
        """Take the next element from its queue, and return (channel, element); None: no channel may be read
        now.

        With `wanted` the first channel whose next element it accepts is read; the others keep their turns.
        """
        if not self.available:
            return None
        channel = self._next() if wanted is None else self._first(wanted)
        if channel is None:
            return None
        if channel in self._blocked:
            raise InternalError(f"polled channel {channel}, which is blocked")
        queue = self._queues[channel]
        element = queue.popleft()
        if queue:
            self._ready.move_to_end(channel)
        else:
            del self._ready[channel]
        return channel, element

    def _next(self) -> int:
        turn = next(iter(self._ready))
        if len(self._ready) > 1 and self._passed_over < MOST_PASSED_OVER:
            behind = self._furthest_behind(turn)
            if behind != turn:
                self._passed_over += 1
                return behind
        self._passed_over = 0
        return turn

    def _furthest_behind(self, turn: int) -> int:
        least = self._event_time(turn) if self._is_records(self._queues[turn][0]) else None
        if least is None:
            return turn
        for channel in self._ready:
            time = self._event_time(channel)
            if time is not None and time < least:
                turn, least = channel, time
        return turn

    def _first(self, wanted: Callable[[T], bool]) -> int | None:
        return next((channel for channel in self._ready if wanted(self._queues[channel][0])), None)

    def set_blocked(self, blocked: Set[int]) -> None:
        """Block exactly these channels: they still queue, but are not read; all others may be read."""
        if blocked == self._blocked:
            return
        for channel in sorted(self._blocked - blocked):
            if self._queues[channel]:
                self._ready[channel] = None
        for channel in blocked - self._blocked:
            self._ready.pop(channel, None)
        self._blocked = set(blocked)

    def waiting(self, channel: int) -> Iterator[T]:
        """Return the elements that wait in the queue of `channel`, in order, without taking them."""
        return iter(self._queues[channel])

    def queued(self, channel: int) -> int:
        return len(self._queues[channel])
