"""One control connection, the same on both ends: a sending thread, a receiving thread, one end.

The receiving thread owns the socket and is the only one to report: first that the link is up, then
every message, then (unless this side closed it) that it is lost, with the first reason.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headgate.common.errors import ProtocolError
from headgate.common.files.durable import clock
from headgate.runtime.protocol.frames import FrameKind, Part
from headgate.runtime.protocol.wire import MESSAGE_SIZE_MAX, control_frame, encode_message
from headgate.runtime.transport.connection import Connection, FrameSender
from headgate.runtime.transport.sockets import FrameReceiver

LINGER_S: Final = 1.0
"""How long a closed link waits for the peer to take what was sent."""
_QUEUED_BYTES_MAX: Final = 2 * MESSAGE_SIZE_MAX
_DISCARD_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class LinkEvents:
    """Where a link reports to; all are called on its receiving thread, so none may block for long."""

    decode: Callable[[Part], Any]  # from bytes to message
    on_up: Callable[[], None]  # before the first message
    on_message: Callable[[Any], None]  # for each message, in order
    # after the last message, with the reason; not when this side closed the link
    on_lost: Callable[[str], None]
    # at the very end in any case; the argument is the reason if the link was lost by unsound bytes, else None
    on_end: Callable[[ProtocolError | None], None]


class SocketLink:
    """Implements `common.ports.Link` over an authenticated connection; any thread may use it."""

    def __init__(self, connection: Connection, generation: int, name: str, events: LinkEvents) -> None:
        self._connection, self._generation, self._events = connection, generation, events
        self._closing = False
        self._close_lock = threading.Lock()
        self._broken_by_sender: str | None = None
        self._sender = FrameSender(
            lambda _attach: connection,
            generation,
            0,
            f"headgate-control-send-{name}",
            self._sender_ended,
            _QUEUED_BYTES_MAX,
        )
        self._thread = threading.Thread(
            target=self._run, name=f"headgate-control-receive-{name}", daemon=True
        )

    def start(self) -> None:
        """Begin to send and receive."""
        self._sender.start()
        self._thread.start()

    def send(self, message: Any) -> None:
        """Queue a message, encoded at once; never blocks. Does nothing after the end.

        Raises InternalError: the message cannot be encoded or is too large.
        """
        self._sender.send(control_frame(encode_message(message)))

    def close(self) -> None:
        """Send what is queued, then give up the connection; does not wait for that.

        A peer that hangs is cut off after `LINGER_S`. Nothing more is reported from now on.
        """
        with self._close_lock:
            if self._closing:
                return
            self._closing = True
        self._sender.finish()
        # On the receiving thread itself, the end of the callback goes on with `_linger`.
        if self._thread is not threading.current_thread():
            threading.Thread(target=self._cut_later, name=f"{self._thread.name}-cut", daemon=True).start()

    def wait_closed(self, timeout_s: float) -> bool:
        """Wait for the end of a link that was closed or lost; whether it came. Call it before exiting."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _cut_later(self) -> None:
        if not self.wait_closed(LINGER_S):
            self._sender.abort()
            self._connection.abort()

    def _sender_ended(self, reason: str | None) -> None:
        if reason is not None:
            self._broken_by_sender = f"sending failed: {reason}"
            self._connection.abort()

    def _run(self) -> None:
        unsound: ProtocolError | None = None
        try:
            self._events.on_up()
            reason = self._receive_all()
        except ProtocolError as error:
            unsound, reason = error, str(error)
        except Exception as error:  # also a callback's own failure: it must not pass for a healthy link
            reason = f"{type(error).__name__}: {error}"
        if self._closing:
            self._linger()
        self._sender.abort()
        self._connection.abort()
        self._sender.join()
        self._connection.close()
        try:
            if not self._closing:
                self._events.on_lost(self._broken_by_sender or reason)
        finally:
            self._events.on_end(unsound)

    def _receive_all(self) -> str:
        """Deliver messages until the link ends; gives the reason."""
        receiver = FrameReceiver(self._connection.sock, MESSAGE_SIZE_MAX)
        while frames := receiver.receive():
            for header, frame in frames:
                if header.kind is not FrameKind.CONTROL or header.generation != self._generation:
                    raise ProtocolError(
                        f"a frame of kind {header.kind.name} and generation {header.generation} came over"
                        f" a control link, expected CONTROL of generation {self._generation}"
                    )
                message = self._events.decode(frame.payload())
                if self._closing:
                    return "closed here"
                self._events.on_message(message)
        return "the peer closed the connection"

    def _linger(self) -> None:
        # Closing a socket with unread bytes may cut off what the peer has not read yet: read to the end.
        deadline_s = clock.monotonic() + LINGER_S
        self._sender.join(LINGER_S)
        sock = self._connection.sock
        with contextlib.suppress(OSError):
            while (remaining_s := deadline_s - clock.monotonic()) > 0:
                sock.settimeout(remaining_s)
                if not sock.recv(_DISCARD_BYTES):
                    return
