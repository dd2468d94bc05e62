"""One established connection: connecting to a peer, the thread that sends queued frames, and closing."""

from __future__ import annotations

import contextlib
import itertools
import queue
import secrets
import socket
import threading
from collections.abc import Callable
from typing import Final

from headgate.common.errors import OperatingError
from headgate.common.files.durable import clock
from headgate.runtime.protocol.frames import Frame, Part, encode_header
from headgate.runtime.transport.handshake import NONCE_SIZE, Hello, greet
from headgate.runtime.transport.sockets import connect, send_parts

DIAL_TIMEOUT_MS: Final = 10_000
_HANDSHAKE_TRIES: Final = 3
_BATCH_BYTES: Final = 1024 * 1024
_BATCH_FRAMES: Final = 256


class Connection:
    """A connected socket that any thread may abort, while only one thread closes it.

    The lock keeps an abort from hitting a file handle that was closed and belongs to another file by then.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._lock = threading.Lock()
        self._closed = False

    def abort(self) -> None:
        """Shut down both directions, from any thread; it wakes every thread that is blocked on the socket."""
        self._shutdown(socket.SHUT_RDWR)

    def end_output(self) -> None:
        self._shutdown(socket.SHUT_WR)

    def _shutdown(self, how: int) -> None:
        with self._lock:
            if not self._closed:
                with contextlib.suppress(OSError):
                    self.sock.shutdown(how)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self.sock.close()


def dial(
    address: str,  # as in `Listener.address`
    secret: bytes,  # the job's secret
    hello: Hello,  # identity of this side
    timeout_ms: int = DIAL_TIMEOUT_MS,  # for each endpoint and handshake; then no further try begins
    attach: Callable[[Connection], None] | None = None,
) -> tuple[Connection, Hello]:
    """Connect to an address and run the handshake; return the connection and the peer's Hello (its identity).

    A broken handshake is retried, because a listener drops slow peers, and on a busy machine every process is
    slow at times. A refusal is final. `hello` is this side's identity; `timeout_ms` limits each connecting
    and handshake, and no try begins after it. `attach` gets the connection before the handshake, so that
    another thread can abort it; it cancels dialling by raising.

    Raises ProtocolError: the peer is not of this job or refused, or `address` is not for this machine;
    FencedError: this side was replaced, as the peer says; OperatingError: no peer could be reached.
    """
    deadline_s = clock.monotonic() + timeout_ms / 1000
    for tries in itertools.count(1):
        remaining_ms = max(1, round((deadline_s - clock.monotonic()) * 1000))
        try:
            connection = Connection(connect(address, remaining_ms))
        except OSError as error:
            raise OperatingError(f"no connection to {address}: {error}") from error
        try:
            if attach is not None:
                attach(connection)
            nonce = secrets.token_bytes(NONCE_SIZE)
            return connection, greet(connection.sock, secret, hello, nonce, remaining_ms)
        except OSError as error:
            connection.close()
            if tries >= _HANDSHAKE_TRIES or clock.monotonic() >= deadline_s:
                raise OperatingError(
                    f"no handshake with {address} after {tries} tries: {error}:"
                    " the peer is stopped, overloaded, or no Headgate process"
                ) from error
        except BaseException:
            connection.close()
            raise
    raise AssertionError("unreachable")


class FrameSender:
    """A thread that sends queued frames over one connection, as many as possible per system call.

    `establish` returns the connection; it runs in the thread, so that it may block. It gets a function that
    registers a connection not ready yet, so that :meth:`abort` reaches it. `on_end` is called once in the
    thread at its end, the connection still open: with None after `finish`, `abort`'s reason, or the error.
    """

    def __init__(
        self,
        establish: Callable[[Callable[[Connection], None]], Connection],
        generation: int,  # of the job master, for every frame's header
        attempt: int,  # for every frame's header
        name: str,  # of the thread
        on_end: Callable[[str | None], None],
        queued_bytes_max: int | None = None,  # limit, then the peer counts as broken; None: bounded by credit
    ) -> None:
        self._establish, self._on_end = establish, on_end
        self._generation, self._attempt = generation, attempt
        self._queued_bytes_max, self._queued_bytes = queued_bytes_max, 0
        self._queue: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._ended = self._aborted = False
        self._reason: str | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, frame: Frame) -> None:
        """Queue a frame, from any thread; never blocks. Ignored after the end, or :meth:`finish` or `abort`.
        If more than `queued_bytes_max` bytes are queued, the peer counts as broken: the sender is aborted.
        """
        if self._ended:
            return
        if self._queued_bytes_max is not None:
            with self._lock:
                self._queued_bytes += frame.size
                overfull = self._queued_bytes > self._queued_bytes_max
            if overfull:
                self.abort(f"the peer left more than {self._queued_bytes_max} bytes unread")
                return
        self._queue.put(frame)

    def finish(self) -> None:
        """Send the queued frames, shut down the sending direction, and end the thread; does not wait."""
        self._ended = True
        self._queue.put(None)

    def abort(self, reason: str | None = None) -> None:
        """Drop queued frames, abort the connection, end the thread; does not wait. `on_end` gets `reason`."""
        with self._lock:
            self._ended = self._aborted = True
            self._reason = self._reason or reason
            connection = self._connection
        self._queue.put(None)
        if connection is not None:
            connection.abort()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the thread's end, `timeout_s` at most (None: without limit); return whether it has ended.
        False at once if the thread was not started, or this is called in it.
        """
        if self._thread is threading.current_thread() or self._thread.ident is None:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _attach(self, connection: Connection) -> None:
        with self._lock:
            self._connection = connection
            if self._aborted:
                raise OperatingError("the connection was given up before it was ready")

    def _run(self) -> None:
        reason: str | None = None
        try:
            connection = self._establish(self._attach)
            self._attach(connection)
            self._send_queued(connection)
        except Exception as error:  # whatever ends this thread must reach the loop as a lost peer
            reason = str(error) or type(error).__name__
        self._ended = True
        with self._lock:
            if self._aborted:
                reason = self._reason
        self._on_end(reason)

    def _send_queued(self, connection: Connection) -> None:
        while not self._aborted:
            parts, size, last = self._take_batch()
            if parts and not self._aborted:
                send_parts(connection.sock, parts)
            if self._queued_bytes_max is not None:
                with self._lock:
                    self._queued_bytes -= size
            if last:
                connection.end_output()
                return

    def _take_batch(self) -> tuple[list[Part], int, bool]:
        parts: list[Part] = []
        size = count = 0
        frame = self._queue.get()
        while frame is not None:
            parts.append(encode_header(frame, self._generation, self._attempt))
            parts.extend(frame.parts)
            size += frame.size
            count += 1
            if size >= _BATCH_BYTES or count >= _BATCH_FRAMES:
                return parts, size, False
            try:
                frame = self._queue.get_nowait()
            except queue.Empty:
                return parts, size, False
        return parts, size, True
