"""Control links in memory: messages as bytes, late, in order, until one end breaks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from headgate.runtime.protocol.messages import FromWorker, ToWorker
from headgate.runtime.protocol.wire import decode_from_worker, decode_to_worker, encode_message

M = TypeVar("M", bound=FromWorker | ToWorker)
S = TypeVar("S", bound=FromWorker | ToWorker)

ControlMessage = FromWorker | ToWorker
Tamper = Callable[[ControlMessage, bytes], str]
"""(message, its bytes) -> "lost" or anything else; may have the message repeated."""


class Wire(Generic[M]):
    """One direction of a link.

    Attributes:
        receiver_paused: asked before delivery; bytes wait while the receiver stands still.
        tamper: asked at each delivery whether the message is lost.
        slow_ms: added to the latency.
        delivered: told of each message that arrived.
    """

    def __init__(
        self,
        name: str,
        decode: Callable[[bytes], M],
        now: Callable[[], int],
        latency: Callable[[], int],
        receiver_paused: Callable[[], bool],
    ) -> None:
        self.name = name
        self._decode, self._now, self._latency = decode, now, latency
        self.receiver_paused = receiver_paused
        self._items: deque[tuple[int, bytes | str]] = deque()
        self.on_message: Callable[[M], None] = _nobody
        self.on_lost: Callable[[str], None] = _nobody
        self.deaf = False
        self.tamper: Tamper = _deliver_once
        self.slow_ms = self._last_due = 0
        self.delivered: Callable[[ControlMessage], None] = _nobody

    def push(self, what: bytes | str) -> None:
        """A message, or why the link ended."""
        # In order, whatever the latency; a repeated message keeps nobody up.
        self._last_due = max(self._now() + self._latency() + self.slow_ms, self._last_due)
        self._put(self._last_due, what)

    def repeat(self, what: bytes, after_ms: int) -> None:
        """A copy of a message arrives later, perhaps after messages that were sent after it."""
        self._put(self._now() + after_ms, what)

    def _put(self, due: int, what: bytes | str) -> None:
        place = len(self._items)
        while place and self._items[place - 1][0] > due:
            place -= 1
        self._items.insert(place, (due, what))

    def cut(self, keep: int) -> None:
        """Lose what is on its way, but for the first `keep` items."""
        while len(self._items) > keep:
            self._items.pop()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def due(self) -> int | None:
        """When the first item arrives."""
        return self._items[0][0] if self._items and not self.receiver_paused() else None

    def deliver(self) -> str:
        """The first item arrives; gives a word for the story."""
        _, what = self._items.popleft()
        if self.deaf:
            return "to nobody"
        if isinstance(what, str):
            self.deaf = True
            self.on_lost(what)
            return f"lost: {what}"
        message = self._decode(what)
        fate = self.tamper(message, what)
        if fate == "lost":
            return f"loses {tell(message)}"
        self.on_message(message)
        self.delivered(message)
        return tell(message)


ControlWire = Wire[FromWorker] | Wire[ToWorker]


class SimLink(Generic[S, M]):
    """One end of a link; implements `common.ports.Link`.

    Attributes:
        sent: told of each message that leaves.
    """

    def __init__(self, out: Wire[S], back: Wire[M]) -> None:
        self.out, self.back = out, back
        self.sent: Callable[[ControlMessage], None] = _nobody
        self._closed = False

    def send(self, message: ControlMessage) -> None:
        """See `common.ports.Link`."""
        # Encoded also when nobody will get it: what cannot travel should be noticed.
        data = encode_message(message)
        self.sent(message)
        if not self._closed and not self.back.deaf:
            self.out.push(data)

    def close(self) -> None:
        """See `common.ports.Link`."""
        if not self._closed:
            self._closed = self.back.deaf = True
            self.out.push("closed by the other side")

    def vanish(self) -> None:
        """The machine at this end is gone, and nothing tells the other end."""
        self._closed = self.back.deaf = True

    def die(self) -> None:
        """The process at this end was killed."""
        if not self._closed:
            self._closed = self.back.deaf = True
            self.out.push("connection reset")

    def cut(self, keep: int) -> None:
        """Break the link between two living ends; each hears of it."""
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
    """The worker's and the job master's end of a new link."""
    up = Wire(f"{name} to master", decode_from_worker, now, latency, master_paused)
    down = Wire(f"{name} to worker", decode_to_worker, now, latency, worker_paused)
    return SimLink(up, down), SimLink(down, up)


def tell(message: ControlMessage) -> str:
    """A message in a few words that do not depend on the process."""
    words = [type(message).__name__]
    for field in ("attempt", "checkpoint", "vertex", "subtask", "kind", "splits", "restored_checkpoint"):
        if hasattr(message, field):
            words.append(f"{field}={getattr(message, field)!r}")
    return " ".join(words)


def _deliver_once(_message: ControlMessage, _data: bytes) -> str:
    return "arrives"


def _nobody(_: ControlMessage | str) -> None:
    """Nobody listens yet."""
