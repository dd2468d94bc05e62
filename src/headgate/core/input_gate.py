"""Which element a subtask reads next: round-robin over channels that have something and may be read.

The gate holds the queues and knows which channels are blocked; what an element means is its
reader's business. Availability is a property that the reader can ask, so nobody waits busily.

Nothing is read before every channel has delivered a first element, and first elements that are no
records are read before those that are. A channel that will never carry a record says so at once;
until it has, event time would wait for it, and what a timer sees would depend on which sender was
quicker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from headgate.common.errors import InternalError


class InputGate:
    """The queues of the input channels of one subtask, numbered from 0.

    Args:
        channels: how many.
        is_records: tells records from events; asked for first elements only.
    """

    __slots__ = ("_blocked", "_is_records", "_queues", "_ready", "_silent")

    def __init__(self, channels: int, is_records: Callable[[Any], bool]) -> None:
        self._is_records = is_records
        self._queues: list[deque[Any]] = [deque() for _ in range(channels)]
        self._ready: deque[int] = deque()
        self._blocked: set[int] = set()
        self._silent = set(range(channels))

    def put(self, channel: int, element: Any) -> None:
        """An element arrived."""
        queue = self._queues[channel]
        queue.append(element)
        if len(queue) == 1 and channel not in self._blocked:
            self._ready.append(channel)
        if channel in self._silent:
            self._silent.discard(channel)
            if not self._silent:
                # A stable sort: among equals the order of arrival stays.
                self._ready = deque(sorted(self._ready, key=lambda c: self._is_records(self._queues[c][0])))

    @property
    def available(self) -> bool:
        """Whether :meth:`poll` would give something."""
        return bool(self._ready) and not self._silent

    def poll(self) -> tuple[int, Any] | None:
        """The next element and its channel; None when nothing may be read."""
        if not self.available:
            return None
        channel = self._ready.popleft()
        if channel in self._blocked:
            raise InternalError(f"polled channel {channel}, which is blocked")
        queue = self._queues[channel]
        element = queue.popleft()
        if queue:
            self._ready.append(channel)
        return channel, element

    def set_blocked(self, blocked: set[int]) -> None:
        """Exactly these channels may not be read from now on."""
        if blocked == self._blocked:
            return
        for channel in sorted(self._blocked - blocked):
            if self._queues[channel]:
                self._ready.append(channel)
        newly = blocked - self._blocked
        if newly:
            self._ready = deque(channel for channel in self._ready if channel not in newly)
        self._blocked = set(blocked)

    def queued(self, channel: int) -> int:
        """How many elements wait on a channel."""
        return len(self._queues[channel])
