"""Control links in memory: messages arrive as bytes, late, in order, until one end breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from headgate.runtime.protocol.message_codec import decode_from_worker, decode_to_worker, encode_message
from headgate.runtime.protocol.messages import FromWorker, ToWorker
from headgate.testing.simulation.network import Underway

M = TypeVar("M", bound=FromWorker | ToWorker)
S = TypeVar("S", bound=FromWorker | ToWorker)

ControlMessage = FromWorker | ToWorker
Tamper = Callable[[ControlMessage, bytes], str]
"""Fault function of a wire: (message, its bytes) -> "lost", or another word; may repeat the message."""


class Wire(Underway[bytes | str], Generic[M]):
    """One direction of a control link; messages wait while the receiver is paused, are lost if it exited."""

    def __init__(
        self,
        name: str,
        decode: Callable[[bytes], M],
        now: Callable[[], int],
        latency: Callable[[], int],
        receiver_paused: Callable[[], bool],
    ) -> None:
        super().__init__()
        self.name, self._decode = name, decode
        self._now, self._latency, self._receiver_paused = now, latency, receiver_paused
        self.on_message: Callable[[M], None] = _ignore
        self.on_lost: Callable[[str], None] = _ignore
        self.deaf = False
        self.tamper: Tamper = lambda _message, _data: "arrives"  # asked at each delivery
        self.slow_ms = 0  # added to the latency
        self._last_due = 0
        self.delivered: Callable[[ControlMessage], None] = _ignore  # called after each delivery

    def push(self, what: bytes | str) -> None:
        """Send a message's bytes, or as text why the link ended; it arrives in order, after the latency."""
        # In order, whatever the latency; a repeated message delays no other.
        self._last_due = max(self._now() + self._latency() + self.slow_ms, self._last_due)
        self._put(self._last_due, what)

    def repeat(self, what: bytes, after_ms: int) -> None:
        """Send a copy of a message `after_ms` from now, perhaps after messages that were sent later."""
        self._put(self._now() + after_ms, what)

    def _put(self, due: int, what: bytes | str) -> None:
        place = len(self._items)
        while place and self._items[place - 1][0] > due:
            place -= 1
        self._items.insert(place, (due, what))

    @property
    def due(self) -> int | None:
        """Virtual time (ms) at which the first item arrives; None if none does or the receiver is paused."""
        return self._items[0][0] if self._items and not self._receiver_paused() else None

    def deliver(self) -> str:
        """Take the first item to the receiver, unless that exited or a fault loses it; return words on it."""
        _, what = self._items.popleft()
        if self.deaf:
            return "to nobody"
        if isinstance(what, str):
            self.deaf = True
            self.on_lost(what)
            return f"lost: {what}"
        message = self._decode(what)
        if self.tamper(message, what) == "lost":
            return f"loses {described(message)}"
        self.on_message(message)
        self.delivered(message)
        return described(message)


ControlWire = Wire[FromWorker] | Wire[ToWorker]


class SimLink(Generic[S, M]):
    """One end of a simulated control link; implements `common.ports.Link`."""

    def __init__(self, out: Wire[S], back: Wire[M]) -> None:
        self.out, self.back = out, back
        self.sent: Callable[[ControlMessage], None] = _ignore  # called for each message that leaves
        self._closed = False

    def send(self, message: ControlMessage) -> None:
        """Send a message to the other end, unless the link is closed; it is encoded in any case."""
        # Encoded also when it will not arrive: a message that cannot be encoded should be noticed.
        data = encode_message(message)
        self.sent(message)
        if not self._closed and not self.back.deaf:
            self.out.push(data)

    def close(self) -> None:
        """Close the link; the other end is notified."""
        self._end("closed by the other side")

    def die(self) -> None:
        """Break the link because the process at this end was killed; the other end notices."""
        self._end("connection reset")

    def vanish(self) -> None:
        """End the link without news to the other end, as when a machine is lost."""
        self._closed = self.back.deaf = True

    def _end(self, reason: str) -> None:
        if not self._closed:
            self.vanish()
            self.out.push(reason)

    def cut(self, keep: int) -> None:
        """Break the link of two living ends; both notice. Up to `keep` messages under way arrive each way."""
        for wire in (self.out, self.back):
            wire.cut(keep)
            wire.push("connection reset")


def make_link(
    name: str,
    now: Callable[[], int],
    latency: Callable[[], int],
    worker_paused: Callable[[], bool],
    master_paused: Callable[[], bool] = lambda: False,
) -> tuple[SimLink[FromWorker, ToWorker], SimLink[ToWorker, FromWorker]]:
    """Return a link's ends, worker's and master's; paused ends get nothing; `now`, `latency`: virtual ms."""
    up = Wire(f"{name} to master", decode_from_worker, now, latency, master_paused)
    down = Wire(f"{name} to worker", decode_to_worker, now, latency, worker_paused)
    return SimLink(up, down), SimLink(down, up)


def described(message: ControlMessage) -> str:
    """Return a message's type and main fields as text for the trace, equal in all runs of a seed."""
    fields = ("attempt", "checkpoint", "vertex", "subtask", "kind", "splits", "restored_checkpoint")
    words = (f"{field}={getattr(message, field)!r}" for field in fields if hasattr(message, field))
    return " ".join([type(message).__name__, *words])


def _ignore(_: ControlMessage | str) -> None:
    pass
