"""The job master's server for control links: admits workers and passes their messages on.

Peers that send garbage or have a wrong secret, workers of another job or generation, and a second copy of a
connected worker are refused, without effect on the connected workers.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from headgate.common.files.durable import clock
from headgate.runtime.protocol.message_codec import decode_from_worker
from headgate.runtime.protocol.messages import FromWorker
from headgate.runtime.transport.acceptor import HANDSHAKE_TIMEOUT_MS, Acceptor
from headgate.runtime.transport.connection import Connection
from headgate.runtime.transport.control_link import LINGER_S, LinkEvents, SocketLink
from headgate.runtime.transport.handshake import Hello, Refusal, Verdict, judge_hello
from headgate.runtime.transport.sockets import listen

PURPOSE: Final = "control"


class WorkerKey(NamedTuple):
    """The identity of a worker process on control links: its gang and its slot in it."""

    gang: int
    slot: int


class ControlServer:
    """Accepts the control links of workers, from its creation until :meth:`close`.

    Callbacks run in the receiving thread of the worker's link, in the order connected, messages, lost; they
    must not block for long, and may use any link. A callback that raises ends its link.
    """

    def __init__(
        self,
        secret: bytes,  # the job's secret
        bind_host: str,  # interface to listen on
        hello: Hello,  # the job master; workers of another job or generation are refused
        on_message: Callable[[WorkerKey, FromWorker], None],
        on_connected: Callable[[WorkerKey, Hello, SocketLink[FromWorker]], None],
        on_lost: Callable[[WorkerKey, str], None],  # with the reason when a link broke, unless closed here
        handshake_timeout_ms: int = HANDSHAKE_TIMEOUT_MS,
    ) -> None:
        self._identity = hello
        self._on_message, self._on_connected, self._on_lost = on_message, on_connected, on_lost
        self._lock = threading.Lock()
        self._links: dict[WorkerKey, SocketLink[FromWorker]] = {}
        self._acceptor = Acceptor(
            listen(bind_host), secret, PURPOSE, lambda: hello, self._judge, self._admit, handshake_timeout_ms
        )
        self.counts = self._acceptor.counts

    @property
    def address(self) -> str:
        return self._acceptor.listener.address

    def close(self) -> None:
        """Stop accepting, then send the queued messages of all links and close them. Can be called twice.
        Waits at most two seconds, however many workers hang; not to be called in a callback.
        """
        self._acceptor.close()
        with self._lock:
            links = list(self._links.values())
        for link in links:
            link.close()
        deadline_s = clock.monotonic() + 2 * LINGER_S  # each is disconnected after one
        for link in links:
            link.wait_closed(max(0.0, deadline_s - clock.monotonic()))

    def _judge(self, peer: Hello) -> Refusal | None:
        refusal = judge_hello(self._identity, peer, compare_attempt=False)
        if refusal is not None:
            return refusal
        with self._lock:
            if WorkerKey(peer.gang, peer.slot) in self._links:
                there = f"slot {peer.slot} of gang {peer.gang} is connected already"
                return Refusal(Verdict.REFUSED, f"{there}: this is a second copy of it")
        return None

    def _admit(self, sock: socket.socket, peer: Hello) -> None:
        worker = WorkerKey(peer.gang, peer.slot)
        events = LinkEvents(
            decode=decode_from_worker,
            on_up=lambda: self._on_connected(worker, peer, link),
            on_message=lambda message: self._on_message(worker, message),
            on_lost=lambda reason: self._link_lost(worker, link, reason),
            on_end=lambda: self._forget(worker, link),
        )
        name = f"{peer.gang}-{peer.slot}"
        link = SocketLink(Connection(sock), self._identity.generation, name, events)
        with self._lock:
            self._links[worker] = link
        try:
            link.start()
        except RuntimeError:  # no thread can be started
            self._forget(worker, link)
            raise

    def _link_lost(self, worker: WorkerKey, link: SocketLink[FromWorker], reason: str) -> None:
        # Removed from the table first: the worker may reconnect as soon as the loss is reported.
        self._forget(worker, link)
        self._on_lost(worker, reason)

    def _forget(self, worker: WorkerKey, link: SocketLink[FromWorker]) -> None:
        with self._lock:
            if self._links.get(worker) is link:
                del self._links[worker]
