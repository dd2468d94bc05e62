"""A control connection between job master and worker, with a sending and a receiving thread at both ends.

The receiving thread owns the socket and alone reports: that the link is up, then every message, then, unless
this side closed the link, that it is lost, with the first reason.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from headgate.common.errors import ProtocolError
from headgate.common.files.durable import clock
from headgate.runtime.protocol.frames import FrameKind, Part
from headgate.runtime.protocol.message_codec import (
    MESSAGE_SIZE_MAX,
    control_frame,
    decode_to_worker,
    encode_message,
)
from headgate.runtime.protocol.messages import FromWorker, ToWorker
from headgate.runtime.transport.connection import DIAL_TIMEOUT_MS, Connection, FrameSender, dial
from headgate.runtime.transport.handshake import Hello, judge_hello
from headgate.runtime.transport.sockets import FrameReceiver

LINGER_S: Final = 1.0
"""How long a closed link waits until the peer has received the queued messages."""
_QUEUED_BYTES_MAX: Final = 2 * MESSAGE_SIZE_MAX
_DISCARD_BYTES: Final = 64 * 1024


M = TypeVar("M", bound=FromWorker | ToWorker)


@dataclass(frozen=True, slots=True)
class LinkEvents(Generic[M]):
    """Callbacks of a control link, run in its receiving thread, not to block; no `on_lost` if closed here."""

    decode: Callable[[Part], M]  # returns the message of received bytes
    on_up: Callable[[], None]  # before the first message
    on_message: Callable[[M], None]  # called for each message, in order
    # after the last message, with the reason; not when this side closed the link
    on_lost: Callable[[str], None]
    on_end: Callable[[], None]  # called last in any case


class SocketLink(Generic[M]):
    """A control link (`common.ports.Link`) that receives messages of type `M`; for use by any thread. Frames
    must carry `generation`, the job master's; `name` is part of its threads' names.
    """

    def __init__(self, connection: Connection, generation: int, name: str, events: LinkEvents[M]) -> None:
        self._connection, self._generation, self._events = connection, generation, events
        self._closing = False
        self._close_lock = threading.Lock()
        self._broken_by_sender: str | None = None
        sending, ended = f"headgate-control-send-{name}", self._sender_ended
        self._sender = FrameSender(lambda _: connection, generation, 0, sending, ended, _QUEUED_BYTES_MAX)
        receiving = f"headgate-control-receive-{name}"
        self._thread = threading.Thread(target=self._run, name=receiving, daemon=True)

    def start(self) -> None:
        self._sender.start()
        self._thread.start()

    def send(self, message: FromWorker | ToWorker) -> None:
        """Queue a message, encoded at once; never blocks. Does nothing once the link has ended.
        Raises InternalError if the message cannot be encoded or is too large.
        """
        self._sender.send(control_frame(encode_message(message)))

    def close(self) -> None:
        """Send the queued messages, then close the connection; does not wait for that.
        A peer that hangs is disconnected after `LINGER_S`. No callback begins then but `on_end`.
        """
        with self._close_lock:
            if self._closing:
                return
            self._closing = True
        self._sender.finish()
        # In the receiving thread itself, `_linger` follows the end of the callback.
        if self._thread is not threading.current_thread():
            threading.Thread(target=self._abort_later, name=f"{self._thread.name}-abort", daemon=True).start()

    def wait_closed(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until a closed link has ended; return whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _abort_later(self) -> None:
        if not self.wait_closed(LINGER_S):
            self._sender.abort()
            self._connection.abort()

    def _sender_ended(self, reason: str | None) -> None:
        if reason is not None:
            self._broken_by_sender = f"sending failed: {reason}"
            self._connection.abort()

    def _run(self) -> None:
        try:
            self._events.on_up()
            reason = self._receive_all()
        except ProtocolError as error:
            reason = str(error)
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
            self._events.on_end()

    def _receive_all(self) -> str:
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
        # Closing a socket with unread bytes may discard bytes that the peer has not read yet: read to the
        # end.
        deadline_s = clock.monotonic() + LINGER_S
        self._sender.join(LINGER_S)
        sock = self._connection.sock
        with contextlib.suppress(OSError):
            while (remaining_s := deadline_s - clock.monotonic()) > 0:
                sock.settimeout(remaining_s)
                if not sock.recv(_DISCARD_BYTES):
                    return


def connect_control(
    address: str,  # of the `ControlServer`
    secret: bytes,  # the job's secret
    hello: Hello,  # this worker, with purpose `"control"`
    on_message: Callable[[ToWorker], None],
    on_lost: Callable[[str], None],  # with the reason when the link broke; not when it was closed here
    timeout_ms: int = DIAL_TIMEOUT_MS,  # for each endpoint and handshake
) -> SocketLink[ToWorker]:
    """Connect a worker to its job master, and return the control link (for messages between the two).

    Both callbacks run in the link's receiving thread, possibly before this function returns; they must not
    block for long. A callback that raises ends the link. `on_lost` gets the reason, unless the link was
    closed here. `hello` is the worker's identity; `timeout_ms` is as for :func:`dial`.

    Raises ProtocolError: the listener is not the job master of this job, or refused; FencedError: this
    worker's generation was replaced; OperatingError: no process could be reached at the address.
    """
    connection, master = dial(address, secret, hello, timeout_ms)
    # The server refuses an unknown peer, and so does the worker.
    refusal = judge_hello(hello, master, compare_attempt=False)
    if refusal is not None:
        connection.close()
        raise ProtocolError(f"the job master at {address} is not the one expected: {refusal.reason}")
    events = LinkEvents(decode_to_worker, lambda: None, on_message, on_lost, lambda: None)
    link = SocketLink(connection, hello.generation, f"{hello.gang}-{hello.slot}-master", events)
    link.start()
    return link
