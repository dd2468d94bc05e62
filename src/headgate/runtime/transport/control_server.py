"""The job master's end of the control links: lets workers in and hands their messages on.

It knows no messages' meaning. A garbage peer, a wrong secret, a worker of another job or generation, and
a second copy of a connected worker are turned away and counted; the others notice nothing.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from headgate.common.errors import ProtocolError
from headgate.common.files.durable import clock
from headgate.runtime.protocol.wire import decode_from_worker
from headgate.runtime.transport.acceptor import HANDSHAKE_TIMEOUT_MS, Acceptor, AcceptorStatistics
from headgate.runtime.transport.connection import Connection
from headgate.runtime.transport.control_link import LINGER_S, LinkEvents, SocketLink
from headgate.runtime.transport.handshake import Hello, Refusal, Verdict, judge_hello
from headgate.runtime.transport.sockets import listen

PURPOSE: Final = "control"


class WorkerKey(NamedTuple):
    """Which worker process: one slot of one gang."""

    gang: int
    slot: int


@dataclass(frozen=True, slots=True)
class ControlStatistics:
    """Running totals of a control server."""

    acceptor: AcceptorStatistics  # what came to the listener
    connected: int  # workers connected now
    lost: int  # links that ended without being closed here
    protocol_errors: int  # links ended because of unsound bytes


class ControlServer:
    """Accepts the control links of workers.

    The callbacks run on the link's own receiving thread, per worker in the order connected, messages,
    lost; they must not block for long, and may use any link. A callback that raises ends its link.

    `on_lost`: (worker, reason) when a link broke; not when it was closed here.
    """

    def __init__(
        self,
        secret: bytes,  # the job's secret
        bind_host: str,  # interface to listen on
        hello: Hello,  # the job master; workers of another job or generation are refused
        on_message: Callable[[WorkerKey, Any], None],  # (worker, message) for everything a worker says
        on_connected: Callable[[WorkerKey, Hello, SocketLink], None],  # (worker, its Hello, the link to it)
        on_lost: Callable[[WorkerKey, str], None],
        handshake_timeout_ms: int = HANDSHAKE_TIMEOUT_MS,  # for workers that come in
    ) -> None:
        self._identity = hello
        self._on_message, self._on_connected, self._on_lost = on_message, on_connected, on_lost
        self._lock = threading.Lock()
        self._links: dict[WorkerKey, SocketLink] = {}
        self._closed = False
        self._lost = self._protocol_errors = 0
        self._acceptor = Acceptor(
            listen(bind_host), secret, PURPOSE, lambda: hello, self._judge, self._admit, handshake_timeout_ms
        )

    @property
    def address(self) -> str:
        """Where workers reach the job master."""
        return self._acceptor.listener.address

    def statistics(self) -> ControlStatistics:
        """What happened so far."""
        with self._lock:
            return ControlStatistics(
                self._acceptor.statistics(), len(self._links), self._lost, self._protocol_errors
            )

    def close(self) -> None:
        """Stop accepting; send what is queued on every link and close it. May be called twice.

        Waits at most about two seconds, however many workers hang; not to be called by a callback.
        """
        self._acceptor.close()
        with self._lock:
            self._closed = True
            links = list(self._links.values())
        for link in links:
            link.close()
        deadline_s = clock.monotonic() + 2 * LINGER_S  # each is cut off after one
        for link in links:
            link.wait_closed(max(0.0, deadline_s - clock.monotonic()))

    def _judge(self, peer: Hello) -> Refusal | None:
        refusal = judge_hello(self._identity, peer, compare_attempt=False)
        if refusal is not None:
            return refusal
        with self._lock:
            if WorkerKey(peer.gang, peer.slot) in self._links:
                reason = (
                    f"slot {peer.slot} of gang {peer.gang} is connected already: this is a second copy of it"
                )
                return Refusal(Verdict.REFUSED, reason)
        return None

    def _admit(self, sock: socket.socket, peer: Hello) -> None:
        worker = WorkerKey(peer.gang, peer.slot)
        events = LinkEvents(
            decode=decode_from_worker,
            on_up=lambda: self._on_connected(worker, peer, link),
            on_message=lambda message: self._on_message(worker, message),
            on_lost=lambda reason: self._link_lost(worker, link, reason),
            on_end=lambda unsound: self._link_ended(worker, link, unsound),
        )
        name = f"{peer.gang}-{peer.slot}"
        link = SocketLink(Connection(sock), self._identity.generation, name, events)
        with self._lock:
            self._links[worker] = link
        try:
            link.start()
        except RuntimeError:  # no thread can be started
            self._link_ended(worker, link, None)
            raise

    def _link_lost(self, worker: WorkerKey, link: SocketLink, reason: str) -> None:
        # Out of the table first: who hears of the loss may expect the worker to come back.
        with self._lock:
            self._lost += 1
            self._forget(worker, link)
        self._on_lost(worker, reason)

    def _link_ended(self, worker: WorkerKey, link: SocketLink, unsound: ProtocolError | None) -> None:
        with self._lock:
            self._protocol_errors += unsound is not None
            self._forget(worker, link)

    def _forget(self, worker: WorkerKey, link: SocketLink) -> None:
        if self._links.get(worker) is link:
            del self._links[worker]
