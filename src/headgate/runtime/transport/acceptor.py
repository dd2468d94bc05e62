"""Accepts connections and admits peers that pass the handshake, all on one thread.

Handshakes run concurrently on non-blocking sockets with a deadline each, so a silent or slow peer costs one
small buffer and delays no other. When too many are pending, the oldest is dropped.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from headgate.common.errors import OperatingError
from headgate.common.files.durable import clock
from headgate.common.process.children import hide
from headgate.runtime.transport.handshake import NONCE_SIZE, Hello, Refusal, ServerHandshake
from headgate.runtime.transport.sockets import Listener, tune

HANDSHAKE_TIMEOUT_MS: Final = 1_000
PENDING_MAX: Final = 256
_ACCEPT_RETRY_S: Final = 0.05


@dataclass(slots=True)
class _Pending:
    handshake: ServerHandshake
    deadline_s: float


class Acceptor:
    """Accepts connections on `listener` in a thread, started at once, which also calls the callbacks.

    None of them may block. `judge` says whether an authenticated peer is refused. `admit` takes over a
    welcome peer's blocking socket, before `judge` runs again; if it raises, the socket is closed.
    """

    def __init__(
        self,
        listener: Listener,
        secret: bytes,  # the job's secret
        purpose: str,  # "data" or "control": peers must connect for the same purpose
        identity: Callable[[], Hello],  # returns this side's Hello, for a peer that is welcome
        judge: Callable[[Hello], Refusal | None],  # None: the authenticated peer is welcome
        admit: Callable[[socket.socket, Hello], None],
        timeout_ms: int = HANDSHAKE_TIMEOUT_MS,  # for a complete handshake
    ) -> None:
        self.listener = listener
        self._secret, self._purpose = secret, purpose
        self._identity, self._judge, self._admit = identity, judge, admit
        self._timeout_s = timeout_ms / 1000
        self._pending: dict[socket.socket, _Pending] = {}
        # Running totals of connections: "admitted", "unauthenticated" (sent garbage or did not prove the
        # secret), "refused" (of another job or attempt, or a second copy), "timed out" (or dropped when too
        # many were pending), "disconnected" (during the handshake).
        self.counts: Counter[str] = Counter()
        self._closing = False
        self._close_lock = threading.Lock()
        self._wake, self._woken = map(hide, socket.socketpair())
        self._selector = selectors.DefaultSelector()
        for sock in (*listener.sockets, self._woken):
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name=f"headgate-{purpose}-accept", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop accepting, close the listener, drop pending handshakes, end the thread. Can be repeated."""
        with self._close_lock:
            if self._closing:
                return
            self._closing = True
            self._wake.send(b"x")
        self._thread.join()
        self._wake.close()
        self._woken.close()  # not by the thread: it may see the flag before the byte is sent

    def _run(self) -> None:
        try:
            while not self._closing:
                for key, _ in self._selector.select(self._next_timeout_s()):
                    sock = key.fileobj
                    if not isinstance(sock, socket.socket) or sock is self._woken:
                        continue
                    if sock in self._pending:
                        self._advance(sock)
                    elif sock.fileno() >= 0:  # else it was dropped earlier in this round
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
            self._drop(sock, "timed out")

    def _accept(self, listening: socket.socket) -> None:
        try:
            sock = hide(listening.accept()[0])
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:
            # Out of file handles: the connection stays in the backlog, so pause instead of spinning.
            clock.sleep(_ACCEPT_RETRY_S)
            return
        if len(self._pending) >= PENDING_MAX:
            self._drop(next(iter(self._pending)), "timed out")
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
        except OperatingError:
            self._drop(sock, "unauthenticated")

    def _decide(self, sock: socket.socket, handshake: ServerHandshake, peer: Hello) -> None:
        refusal = self._judge(peer)
        if refusal is not None:
            self.counts["refused"] += 1  # before the peer can notice
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
        except Exception:  # for example, no thread can be started: the other peers stay
            sock.close()
            self.counts["refused"] += 1
        else:
            self.counts["admitted"] += 1

    @staticmethod
    def _send(sock: socket.socket, data: bytes) -> None:
        # A fresh socket takes the few bytes of an answer at once; a peer for whom it does not is dropped.
        if data and sock.send(data) != len(data):
            raise ConnectionResetError("the peer does not take the handshake's answer")

    def _drop(self, sock: socket.socket, outcome: str | None = None) -> None:
        if outcome is not None:
            self.counts[outcome] += 1
        del self._pending[sock]
        self._selector.unregister(sock)
        sock.close()
