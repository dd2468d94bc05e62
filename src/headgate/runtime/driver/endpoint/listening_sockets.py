"""The sockets of the HTTP endpoint: a limited number of connections, of which silent ones are closed first.

A client that opens hundreds of connections without a request keeps no other client from its answer, and takes
few file handles from the job: when the limit is reached, each new connection closes the longest silent one.
With TLS this holds from the first byte of the handshake, of which the HTTP server knows nothing.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final, TypeAlias

from headgate.common.files.durable import clock
from headgate.common.process.children import hide

BACKLOG: Final = 1024  # connections that the system holds until they are accepted
AT_A_TIME: Final = 32
"""Connections accepted in one turn before any is read: who sends a request at once is not cut as silent."""

_NEVER: Final = float("inf")

Peer: TypeAlias = tuple[str | int, ...]  # address of the other end of a connection, as sockets give it


class Connections:
    """The open connections of the endpoint, at most `most`; used by the endpoint's thread alone. A connection
    is silent while its client owes the next request. `patience_s`: how long a connection may take until it is
    ready for its first request (TLS included).
    """

    def __init__(self, most: int, patience_s: float) -> None:
        self._most, self._patience_s = most, patience_s
        self._all: dict[Peer, socket.socket] = {}
        self._silent: dict[Peer, float] = {}

    def come(self, connection: socket.socket, peer: Peer) -> None:
        """Register a connection that was accepted from `peer`, its address. At the limit the longest silent
        one is closed in its place; without a silent one `connection` itself.
        """
        if len(self._all) >= self._most:
            # Without a silent one all are being answered, and the new one has to come again.
            for silent in list(self._silent)[:1]:
                self._cut(silent)
        if len(self._all) >= self._most:
            _end(connection)
            return
        self._all[peer], self._silent[peer] = connection, clock.monotonic() + self._patience_s

    def ready(self, peer: Peer) -> None:
        """Record that a connection is established (TLS included); the HTTP server now limits its wait."""
        if peer in self._silent:
            self._silent[peer] = _NEVER

    def heard(self, peer: Peer) -> None:
        self._silent.pop(peer, None)

    def answered(self, peer: Peer) -> None:
        if peer in self._all:
            self._silent[peer] = _NEVER

    def left(self, peer: Peer) -> None:
        self._all.pop(peer, None)
        self._silent.pop(peer, None)

    def cut_late(self) -> None:
        """Close the connections that were not established (TLS included) within `patience_s`."""
        now_s = clock.monotonic()
        for peer in [peer for peer, until_s in self._silent.items() if until_s <= now_s]:
            self._cut(peer)

    def _cut(self, peer: Peer) -> None:
        connection = self._all.get(peer)
        if connection is not None:
            self.left(peer)
            _end(connection)


class ListeningSocket(socket.socket):
    """A listening socket that registers accepted connections with `clients`, which must be set before."""

    clients: Connections | None = None

    def listen(self, backlog: int = BACKLOG) -> None:
        super().listen(max(backlog, BACKLOG))

    def accept(self) -> tuple[socket.socket, Peer]:
        accepted, peer = super().accept()
        if self.clients is None:
            return accepted, peer
        made = hide(_Connection(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach()))
        made.leaves = (self.clients, peer)
        self.clients.come(made, peer)
        return made, peer


class _Connection(socket.socket):
    leaves: tuple[Connections, Peer] | None = None

    def close(self) -> None:
        super().close()
        leaves, self.leaves = self.leaves, None
        if leaves is not None:
            leaves[0].left(leaves[1])


def _end(connection: socket.socket) -> None:
    with suppress(OSError):  # its reader sees the end, and closes it
        connection.shutdown(socket.SHUT_RDWR)
