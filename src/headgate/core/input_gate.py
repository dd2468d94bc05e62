"""Which element a subtask reads next: the first of a channel that has something and may be read.

The gate holds the queues and knows which channels are blocked; what an element means only its reader
knows. Availability is a property that the reader can ask, so it never waits busily.

Nothing is read before every channel has delivered a first element, and first elements that are no
records are read before records. A channel that will never carry a record begins with such an element;
until it has, event time would wait for it, and what a timer sees would depend on which sender was
quicker.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Set
from typing import Generic, TypeVar

from headgate.common.errors import InternalError
from headgate.common.time import WATERMARK_MIN
from headgate.core.channel_turns import ChannelTurns

T = TypeVar("T")


class InputGate(Generic[T]):
    """Queues of a subtask's channels (from 0), read once all got one; `is_records`: of a batch. `position` is
    that of :class:`ChannelTurns`.
    """

    __slots__ = ("_blocked", "_is_records", "_queues", "_ready", "_silent", "_turns")

    def __init__(
        self,
        channels: int,
        is_records: Callable[[T], bool],
        position: Callable[[int], tuple[int, bool]] = lambda _: (WATERMARK_MIN, True),
    ) -> None:
        self._is_records, self._turns = is_records, ChannelTurns(position)
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
        return self._turns.next(self._ready) if self._is_records(self._queues[turn][0]) else turn

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
