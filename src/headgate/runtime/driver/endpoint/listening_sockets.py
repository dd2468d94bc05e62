"""The sockets of the endpoint: so many connections at a time, of which silent ones give way.

A client that opens connections without asking anything, hundreds at once, costs neither others their answer
nor the job its file handles: the one that has waited longest is closed for each that comes when there is no
room. With TLS that holds from the first byte of the handshake on, of which the HTTP server knows nothing.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final, TypeAlias

from headgate.common.files.durable import clock
from headgate.common.process.children import hide

BACKLOG: Final = 1024  # connections that the system holds until they are accepted
AT_A_TIME: Final = 32
"""Accepted before those that have come are read: a client that asks at once is heard before it gives way."""

_NEVER: Final = float("inf")

Peer: TypeAlias = tuple[str | int, ...]  # address of the other end of a connection, as sockets give it


class Connections:
    """Who is connected; used by the endpoint's thread alone. `patience_s` is how long until the first
    request.
    """

    def __init__(self, most: int, patience_s: float) -> None:
        self._most, self._patience_s = most, patience_s
        self._all: dict[Peer, socket.socket] = {}
        self._silent: dict[Peer, float] = {}

    def come(self, connection: socket.socket, peer: Peer) -> None:
        """A connection was accepted."""
        if len(self._all) >= self._most:
            # Without a silent one all are being answered, and the new one has to come again.
            for silent in list(self._silent)[:1]:
                self._cut(silent)
        if len(self._all) >= self._most:
            _end(connection)
            return
        self._all[peer], self._silent[peer] = connection, clock.monotonic() + self._patience_s

    def ready(self, peer: Peer) -> None:
        """It can ask; from now on the HTTP server watches how long that takes."""
        if peer in self._silent:
            self._silent[peer] = _NEVER

    def heard(self, peer: Peer) -> None:
        """It has asked something."""
        self._silent.pop(peer, None)

    def answered(self, peer: Peer) -> None:
        """It may ask again, or leave."""
        if peer in self._all:
            self._silent[peer] = _NEVER

    def left(self, peer: Peer) -> None:
        """It is closed."""
        self._all.pop(peer, None)
        self._silent.pop(peer, None)

    def cut_late(self) -> None:
        """Close those that are not even ready in time."""
        now_s = clock.monotonic()
        for peer in [peer for peer, until_s in self._silent.items() if until_s <= now_s]:
            self._cut(peer)

    def _cut(self, peer: Peer) -> None:
        connection = self._all.get(peer)
        if connection is not None:
            self.left(peer)
            _end(connection)


class ListeningSocket(socket.socket):
    """A listening socket that reports its connections; `clients` is to be set before it listens."""

    clients: Connections | None = None

    def listen(self, backlog: int = BACKLOG) -> None:
        """Listen, never with fewer places than :data:`BACKLOG`."""
        super().listen(max(backlog, BACKLOG))

    def accept(self) -> tuple[socket.socket, Peer]:
        """Return the next connection."""
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
