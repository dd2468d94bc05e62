"""Which element a subtask reads next: round-robin over channels that have something and may be read.

The gate holds the queues and knows which channels are blocked; what an element means is its
reader's business. Availability is a property that the reader can ask, so nobody waits busily.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from headgate.common.errors import InternalError


class InputGate:
    """The queues of the input channels of one subtask, numbered from 0."""

    __slots__ = ("_queues", "_ready", "_blocked")

    def __init__(self, channels: int) -> None:
        self._queues: list[deque[Any]] = [deque() for _ in range(channels)]
        self._ready: deque[int] = deque()
        self._blocked: set[int] = set()

    def put(self, channel: int, element: Any) -> None:
        """An element arrived."""
        queue = self._queues[channel]
        queue.append(element)
        if len(queue) == 1 and channel not in self._blocked:
            self._ready.append(channel)

    @property
    def available(self) -> bool:
        """Whether :meth:`poll` would give something."""
        return bool(self._ready)

    def poll(self) -> tuple[int, Any] | None:
        """The next element and its channel; None when nothing may be read."""
        if not self._ready:
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
