"""Accepts connections and lets in only who passes the handshake, all on one thread.

Handshakes run side by side on non-blocking sockets with a deadline each, so a silent or slow peer
costs one small buffer and nobody's time. When too many are pending, the oldest gives way.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from headgate.common.errors import OperatingError
from headgate.common.files.durable import clock
from headgate.common.process.children import hide
from headgate.runtime.transport.handshake import NONCE_SIZE, Hello, Refusal, ServerHandshake
from headgate.runtime.transport.sockets import Listener, tune

HANDSHAKE_TIMEOUT_MS: Final = 1_000
PENDING_MAX: Final = 256
_ACCEPT_RETRY_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class AcceptorStatistics:
    """Running totals of one acceptor."""

    accepted: int = 0  # connections that came in
    admitted: int = 0  # passed the handshake and were welcome
    unauthenticated: int = 0  # spoke garbage or did not prove the secret
    refused: int = 0  # authenticated, but of another job, attempt, or a second copy
    timed_out: int = 0  # too slow, or gave way when too many were pending
    disconnected: int = 0  # left during the handshake
    last_refusal: str = ""  # the newest reason of any of these, for the log


@dataclass(slots=True)
class _Pending:
    handshake: ServerHandshake
    deadline_s: float


class Acceptor:
    """Owns a listener and its thread.

    Args:
        judge: whether an authenticated peer is welcome; None if so. Called on the acceptor's thread.
        admit: takes over the blocking socket of a welcome peer; called on the acceptor's thread, right
            after `judge` and before any other `judge`. It must not block.
    """

    def __init__(
        self,
        listener: Listener,  # what to accept from; closed with the acceptor
        secret: bytes,  # the job's secret
        purpose: str,  # what peers must come for
        identity: Callable[[], Hello],  # gives this side's Hello for a peer that is welcome
        judge: Callable[[Hello], Refusal | None],
        admit: Callable[[socket.socket, Hello], None],
        timeout_ms: int = HANDSHAKE_TIMEOUT_MS,  # for a whole handshake
    ) -> None:
        self.listener = listener
        self._secret, self._purpose = secret, purpose
        self._identity, self._judge, self._admit = identity, judge, admit
        self._timeout_s = timeout_ms / 1000
        self._pending: dict[socket.socket, _Pending] = {}
        self._statistics = AcceptorStatistics()
        self._closing = False
        self._close_lock = threading.Lock()
        self._wake, self._woken = map(hide, socket.socketpair())
        self._selector = selectors.DefaultSelector()
        for sock in (*listener.sockets, self._woken):
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name=f"headgate-{purpose}-accept", daemon=True)
        self._thread.start()

    def statistics(self) -> AcceptorStatistics:
        """What happened so far."""
        return self._statistics

    def close(self) -> None:
        """Stop accepting, drop pending handshakes, end the thread. May be called twice."""
        with self._close_lock:
            if self._closing:
                return
            self._closing = True
            self._wake.send(b"x")
        self._thread.join()
        self._wake.close()
        self._woken.close()  # not by the thread: it may see the flag before the byte is sent

    def _count(self, field: str, reason: str = "") -> None:
        # Only the acceptor's thread writes; a reader sees one whole struct or the next.
        value = getattr(self._statistics, field) + 1
        changes = {field: value, "last_refusal": reason} if reason else {field: value}
        self._statistics = replace(self._statistics, **changes)

    def _run(self) -> None:
        try:
            while not self._closing:
                for key, _ in self._selector.select(self._next_timeout_s()):
                    sock = key.fileobj
                    if not isinstance(sock, socket.socket) or sock is self._woken:
                        continue
                    if sock in self._pending:
                        self._advance(sock)
                    elif sock.fileno() >= 0:  # else it gave way earlier in this round
                        self._accept(sock)
                self._expire()
        finally:
            self.listener.close()
            for sock in list(self._pending):
                self._drop(sock)
            self._selector.close()

    def _next_timeout_s(self) -> float | None:
        # All deadlines have the same distance from their start, so the oldest is the first.
        for pending in self._pending.values():
            return max(0.0, pending.deadline_s - clock.monotonic())
        return None

    def _expire(self) -> None:
        now_s = clock.monotonic()
        for sock, pending in list(self._pending.items()):
            if pending.deadline_s > now_s:
                break
            self._drop(sock, "timed_out", f"a peer did not finish the handshake in {self._timeout_s} s")

    def _accept(self, listening: socket.socket) -> None:
        try:
            sock = hide(listening.accept()[0])
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            # Out of file handles: the connection stays in the backlog, so pause instead of spinning.
            clock.sleep(_ACCEPT_RETRY_S)
            return
        self._count("accepted")
        if len(self._pending) >= PENDING_MAX:
            oldest = next(iter(self._pending))
            self._drop(
                oldest, "timed_out", f"a peer gave way: more than {PENDING_MAX} handshakes were pending"
            )
        sock.setblocking(False)
        handshake = ServerHandshake(self._secret, self._purpose, secrets.token_bytes(NONCE_SIZE))
        self._pending[sock] = _Pending(handshake, clock.monotonic() + self._timeout_s)
        self._selector.register(sock, selectors.EVENT_READ)

    def _advance(self, sock: socket.socket) -> None:
        handshake = self._pending[sock].handshake
        try:
            data = sock.recv(handshake.needs)
            if not data:
                self._drop(sock, "disconnected")
                return
            self._send(sock, handshake.receive(data))
            if handshake.peer is not None:
                self._decide(sock, handshake, handshake.peer)
        except BlockingIOError:
            return
        except OSError:
            self._drop(sock, "disconnected")
        except OperatingError as error:
            self._drop(sock, "unauthenticated", str(error))

    def _decide(self, sock: socket.socket, handshake: ServerHandshake, peer: Hello) -> None:
        refusal = self._judge(peer)
        if refusal is not None:
            self._count("refused", refusal.reason)
            with contextlib.suppress(OSError):
                self._send(sock, handshake.refuse(refusal))
            self._drop(sock)
            return
        self._send(sock, handshake.welcome(self._identity()))
        self._selector.unregister(sock)
        del self._pending[sock]
        tune(sock)
        try:
            self._admit(sock, peer)
        except Exception as error:  # say, no thread can be started: this peer goes, the others stay
            sock.close()
            self._count("refused", f"slot {peer.slot} could not be taken in: {error}")
        else:
            self._count("admitted")

    @staticmethod
    def _send(sock: socket.socket, data: bytes) -> None:
        # A fresh socket takes the few bytes of an answer at once; a peer for whom it does not is dropped.
        if data and sock.send(data) != len(data):
            raise ConnectionResetError("the peer does not take the handshake's answer")

    def _drop(self, sock: socket.socket, field: str = "", reason: str = "") -> None:
        if field:
            self._count(field, reason)  # before the peer can notice
        del self._pending[sock]
        self._selector.unregister(sock)
        sock.close()
