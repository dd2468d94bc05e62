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
        """Send a message's bytes, or as text the reason why the link ended. It arrives in the order of
        pushing, after the latency plus `slow_ms`.
        """
        # In order, whatever the latency; a repeated message delays no other.
        self._last_due = max(self._now() + self._latency() + self.slow_ms, self._last_due)
        self._put(self._last_due, what)

    def repeat(self, what: bytes, after_ms: int) -> None:
        """Put a copy of a message on its way, to arrive `after_ms` virtual ms from now, in no fixed order."""
        self._put(self._now() + after_ms, what)

    def _put(self, due: int, what: bytes | str) -> None:
        place = len(self._items)
        while place and self._items[place - 1][0] > due:
            place -= 1
        self._items.insert(place, (due, what))

    @property
    def due(self) -> int | None:
        return self._items[0][0] if self._items and not self._receiver_paused() else None

    def deliver(self) -> str:
        """Take the first item off the wire and hand it to the receiver; return words on it for the trace. It
        is dropped if the receiver's end is closed or broken, or `tamper` says "lost". There must be an item.
        """
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
        # Encoded also when it will not arrive: a message that cannot be encoded should be noticed.
        data = encode_message(message)
        self.sent(message)
        if not self._closed and not self.back.deaf:
            self.out.push(data)

    def close(self) -> None:
        self._end("closed by the other side")

    def die(self) -> None:
        self._end("connection reset")

    def vanish(self) -> None:
        self._closed = self.back.deaf = True

    def _end(self, reason: str) -> None:
        if not self._closed:
            self.vanish()
            self.out.push(reason)

    def cut(self, keep: int) -> None:
        """Break the link of two living ends: up to `keep` messages each way still arrive, both notice."""
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
    """Return the worker's and the job master's end of a new control link; `name` is for the trace. `now` and
    `latency` give virtual ms; an end whose process is paused receives nothing for that time.
    """
    up = Wire(f"{name} to master", decode_from_worker, now, latency, master_paused)
    down = Wire(f"{name} to worker", decode_to_worker, now, latency, worker_paused)
    return SimLink(up, down), SimLink(down, up)


def described(message: ControlMessage) -> str:
    fields = ("attempt", "checkpoint", "vertex", "subtask", "kind", "splits", "restored_checkpoint")
    words = (f"{field}={getattr(message, field)!r}" for field in fields if hasattr(message, field))
    return " ".join([type(message).__name__, *words])


def _ignore(_: ControlMessage | str) -> None:
    pass
