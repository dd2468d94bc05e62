"""The data plane over sockets: carries frames between the workers of a gang, separately for each attempt.

Every worker connects to every peer, and sends only on the connection that it opened: two one-way connections
per pair, so that the two need not agree on who connects. Each peer has one sending and one receiving thread;
`sockets.py` says why they block. Queues are bounded by the credit protocol of the layer above.

Peers learn of a new attempt at different times. A connection for a newer attempt is kept unread, its bytes
bounded by the socket buffer, until :meth:`SocketDataPlane.open` catches up or a timeout; one for an older
attempt is refused as fenced.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from headgate.common.errors import FencedError, InternalError, OperatingError, ProtocolError
from headgate.common.files.durable import clock
from headgate.common.ids import AttemptId, Fence, Generation, JobId
from headgate.runtime.protocol.frames import FRAME_SIZE_MAX_DEFAULT, Frame, FrameHeader
from headgate.runtime.transport.acceptor import HANDSHAKE_TIMEOUT_MS, Acceptor
from headgate.runtime.transport.connection import Connection, FrameSender, dial
from headgate.runtime.transport.handshake import Hello, Refusal, Verdict, judge_hello
from headgate.runtime.transport.sockets import FrameReceiver, listen

PURPOSE: Final = "data"
HELD_MAX: Final = 1024
"""Limit of connections that wait unread for an attempt that has not been opened here yet."""
HOLD_TIMEOUT_MS: Final = 30_000
_JOIN_TIMEOUT_S: Final = 2.0


class _Key(NamedTuple):
    """A peer in one attempt; keys sort by generation and attempt, oldest first."""

    generation: int
    attempt: int
    slot: int


@dataclass(slots=True)
class _Incoming:
    """A connection that a peer opened, and the thread that reads it."""

    key: _Key
    hello: Hello
    connection: Connection
    held: bool = True
    thread: threading.Thread | None = None


class SocketDataPlane:
    """Carries frames between workers by sockets (:class:`DataPlane`); one per worker process, until `close`.

    Its worker's loop calls it. It listens and authenticates peers in threads of its own from its creation on,
    so that peers which open an attempt earlier can connect.
    """

    def __init__(
        self,
        secret: bytes,  # the job's secret
        bind_host: str,  # interface to listen on
        slot: int,  # of this worker
        on_wake: Callable[[], None],  # called in a network thread after a frame or a loss; must not block
        frame_size_max: int = FRAME_SIZE_MAX_DEFAULT,  # bytes of the largest payload to accept
        handshake_timeout_ms: int = HANDSHAKE_TIMEOUT_MS,  # for peers that connect
        hold_timeout_ms: int = HOLD_TIMEOUT_MS,  # how long a peer of a newer attempt may wait for `open`
    ) -> None:
        self._secret, self._slot, self._on_wake = secret, slot, on_wake
        self._frame_size_max = frame_size_max
        self._hold_timeout_s = hold_timeout_ms / 1000
        self._changed = threading.Condition()
        # All below is guarded by `_changed`; the fence stays after the attempt's end, to refuse what is late.
        self._fence = Fence(JobId(""), Generation(0), AttemptId(-1))
        self._open = self._closed = False
        self._peers: frozenset[int] = frozenset()
        self._incoming: dict[_Key, _Incoming] = {}
        self._outgoing: dict[int, FrameSender] = {}
        self._inbox: list[tuple[int, Frame]] = []
        self._lost: list[tuple[int, str]] = []
        self._lost_slots: set[int] = set()
        self._acceptor = Acceptor(
            listen(bind_host), secret, PURPOSE, self._hello, self._judge, self._admit, handshake_timeout_ms
        )
        # The acceptor's counts, connections that ended by "unsound" bytes, and "frames dropped": of
        # another generation or attempt, or after the attempt's end.
        self.counts = self._acceptor.counts

    @property
    def address(self) -> str:
        return self._acceptor.listener.address

    def _held(self) -> int:
        return sum(incoming.held for incoming in self._incoming.values())

    # --- called by the loop

    def open(self, fence: Fence, peers: Mapping[int, str]) -> None:
        with self._changed:
            if self._closed or self._open:
                state = "closed" if self._closed else "open"
                raise InternalError(f"{fence} was opened while the data plane was {state}")
            if (fence.generation, fence.attempt) <= (self._fence.generation, self._fence.attempt):
                raise InternalError(f"{fence} was opened after {self._fence}")
            self._fence, self._open = fence, True
            self._peers = frozenset(peers) - {self._slot}
            self._outgoing = {slot: self._sender(fence, slot, peers[slot]) for slot in sorted(self._peers)}
            senders = list(self._outgoing.values())
            self._changed.notify_all()
        for sender in senders:
            sender.start()

    def send(self, slot: int, frame: Frame) -> None:
        sender = self._outgoing.get(slot)
        if sender is None:
            raise InternalError(f"a frame was sent to slot {slot}, which is no open peer of {self._fence}")
        sender.send(frame)

    def receive(self) -> list[tuple[int, Frame]]:
        with self._changed:
            inbox, self._inbox = self._inbox, []
        return inbox

    def lost(self) -> list[tuple[int, str]]:
        with self._changed:
            lost, self._lost = self._lost, []
        return lost

    def close_attempt(self) -> None:
        # Waits up to 4 s for the attempt's threads to end.
        with self._changed:
            self._open = False
            current = (self._fence.generation, self._fence.attempt)
            incoming = [i for i in self._incoming.values() if i.key[:2] <= current]
            senders, self._outgoing = list(self._outgoing.values()), {}
            self._inbox, self._lost = [], []
            self._lost_slots.clear()
            self._changed.notify_all()
        for sender in senders:
            sender.abort()
        self._end(incoming)
        deadline_s = clock.monotonic() + _JOIN_TIMEOUT_S
        for sender in senders:
            # A thread that still waits for a silent host to accept ends by itself when that fails.
            sender.join(max(0.0, deadline_s - clock.monotonic()))

    def close(self) -> None:
        self._acceptor.close()
        with self._changed:
            self._closed = True
        self.close_attempt()
        with self._changed:
            incoming = list(self._incoming.values())
        self._end(incoming)

    def _end(self, incoming: list[_Incoming]) -> None:
        for each in incoming:
            each.connection.abort()
        deadline_s = clock.monotonic() + _JOIN_TIMEOUT_S
        for each in incoming:
            if each.thread is not None:
                each.thread.join(max(0.0, deadline_s - clock.monotonic()))
        with self._changed:
            for each in incoming:
                self._incoming.pop(each.key, None)

    # --- outgoing connections

    def _sender(self, fence: Fence, slot: int, address: str) -> FrameSender:
        hello = Hello(fence.job, fence.generation, fence.attempt, self._slot, 0, PURPOSE)
        connection: Connection | None = None

        def establish(attach: Callable[[Connection], None]) -> Connection:
            nonlocal connection
            connection, peer = dial(address, self._secret, hello, attach=attach)
            if peer.slot != slot:
                reason = f"{address} is slot {peer.slot}, expected {slot}: the address is out of date"
                raise ProtocolError(reason)
            return connection

        def ended(reason: str | None) -> None:
            if connection is not None:
                connection.close()
            if reason is not None:
                self._lose(fence, slot, f"sending to slot {slot}: {reason}")

        name = f"headgate-data-send-{self._slot}-{slot}"
        return FrameSender(establish, fence.generation, fence.attempt, name, ended)

    def _lose(self, fence: Fence, slot: int, reason: str) -> None:
        with self._changed:
            if not self._open or fence != self._fence or slot in self._lost_slots:
                return
            self._lost_slots.add(slot)
            self._lost.append((slot, reason))
        self._on_wake()

    # --- incoming connections: the first three run on the acceptor's thread

    def _hello(self) -> Hello:
        with self._changed:  # a condition's lock is reentrant: callers may hold it
            job, generation, attempt = self._fence
        return Hello(job, generation, max(0, attempt), self._slot, 0, PURPOSE)

    def _judge(self, peer: Hello) -> Refusal | None:
        key = _Key(peer.generation, peer.attempt, peer.slot)
        with self._changed:
            refused: str | None = None
            if self._closed:
                refused = f"slot {self._slot} is shutting down"
            elif key in self._incoming:
                refused = f"slot {peer.slot} is connected already in attempt {peer.attempt}"
            elif key[:2] > (self._fence.generation, self._fence.attempt):
                if self._held() >= HELD_MAX:
                    refused = f"more than {HELD_MAX} connections wait for a newer attempt"
            elif (refusal := judge_hello(self._hello(), peer)) is not None:
                return refusal
            elif not self._open:
                return Refusal(Verdict.FENCED, f"attempt {peer.attempt} is over on slot {self._slot}")
            elif peer.slot not in self._peers:
                refused = f"slot {peer.slot} is no peer of slot {self._slot}"
            return None if refused is None else Refusal(Verdict.REFUSED, refused)

    def _admit(self, sock: socket.socket, peer: Hello) -> None:
        key = _Key(peer.generation, peer.attempt, peer.slot)
        incoming = _Incoming(key, peer, Connection(sock))
        name = f"headgate-data-receive-{self._slot}-{peer.slot}"
        incoming.thread = threading.Thread(target=self._read, args=(incoming,), name=name, daemon=True)
        with self._changed:  # started before another thread can find and join it
            incoming.thread.start()
            self._incoming[key] = incoming

    def _read(self, incoming: _Incoming) -> None:
        fence, slot = None, incoming.key.slot
        try:
            fence = self._wait_until_open(incoming)
            receiver = FrameReceiver(incoming.connection.sock, self._frame_size_max)
            while frames := receiver.receive():
                self._deliver(fence, slot, frames)
            reason = "the peer closed the connection"
        except Exception as error:  # whatever ends this thread must reach the loop as a lost peer
            reason = str(error) or type(error).__name__
            if isinstance(error, ProtocolError):
                with self._changed:
                    self.counts["unsound"] += 1
        incoming.connection.close()
        if fence is not None:
            self._lose(fence, slot, f"receiving from slot {slot}: {reason}")
            return
        with self._changed:
            self._incoming.pop(incoming.key, None)

    def _wait_until_open(self, incoming: _Incoming) -> Fence:
        deadline_s = clock.monotonic() + self._hold_timeout_s
        key = incoming.key
        with self._changed:
            while not self._closed and (self._fence.generation, self._fence.attempt) < key[:2]:
                remaining_s = deadline_s - clock.monotonic()
                if remaining_s <= 0:
                    late = f"attempt {key.attempt} was not opened here within {self._hold_timeout_s} s"
                    raise OperatingError(late)
                self._changed.wait(remaining_s)
            refusal = judge_hello(self._hello(), incoming.hello)
            if self._closed or not self._open or refusal is not None:
                raise FencedError(refusal.reason if refusal else f"attempt {key.attempt} is over here")
            if key.slot not in self._peers:
                raise ProtocolError(f"slot {key.slot} connected, but is no peer in attempt {key.attempt}")
            incoming.held = False
            return self._fence

    def _deliver(self, fence: Fence, slot: int, frames: list[tuple[FrameHeader, Frame]]) -> None:
        expected = (fence.generation, fence.attempt)
        good = [(slot, frame) for header, frame in frames if header[1:3] == expected]
        with self._changed:
            if not self._open or fence != self._fence:
                good = []
            self.counts["frames dropped"] += len(frames) - len(good)
            if not good:
                return
            wake = not self._inbox
            self._inbox += good
        if wake:
            self._on_wake()
