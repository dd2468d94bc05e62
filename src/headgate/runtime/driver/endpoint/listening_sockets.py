"""The sockets of the endpoint: so many connections at a time, of which those that say nothing give way.

Who opens connections without asking anything, hundreds at once, costs neither others their answer nor the job
its file handles: the one that has waited longest is cut for each that comes when there is no room. With TLS
that holds from the first byte of the handshake on, which the server behind knows nothing of.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final, TypeAlias

from headgate.common.files.durable import clock
from headgate.common.process.children import hide

BACKLOG: Final = 1024
"""Connections that the system holds until they are accepted."""

AT_A_TIME: Final = 32
"""Accepted before those that have come are listened to: who asks at once is heard before it must give way."""

_NEVER: Final = float("inf")


Peer: TypeAlias = tuple[str | int, ...]
"""Address of the other end of a connection, as sockets give it."""


class Guests:
    """Who is connected; used by the endpoint's thread alone.

    Args:
        patience_s: how long a connection may take to be ready for a request.
    """

    def __init__(self, most: int, patience_s: float) -> None:
        self._most, self._patience_s = most, patience_s
        self._all: dict[Peer, socket.socket] = {}
        self._silent: dict[Peer, float] = {}

    def come(self, guest: socket.socket, peer: Peer) -> None:
        """A connection was accepted."""
        if len(self._all) >= self._most:
            # Without a silent one all are being answered, and the new one has to come again.
            for silent in list(self._silent)[:1]:
                self._cut(silent)
        if len(self._all) >= self._most:
            _end(guest)
            return
        self._all[peer], self._silent[peer] = guest, clock.monotonic() + self._patience_s

    def ready(self, peer: Peer) -> None:
        """It can ask, and somebody else looks how long it takes to do so."""
        if peer in self._silent:
            self._silent[peer] = _NEVER

    def heard(self, peer: Peer) -> None:
        """It has asked something."""
        self._silent.pop(peer, None)

    def answered(self, peer: Peer) -> None:
        """It may ask again, or go."""
        if peer in self._all:
            self._silent[peer] = _NEVER

    def left(self, peer: Peer) -> None:
        """It is closed."""
        self._all.pop(peer, None)
        self._silent.pop(peer, None)

    def cut_late(self) -> None:
        """Those go that are not even ready."""
        now_s = clock.monotonic()
        for peer in [peer for peer, until_s in self._silent.items() if until_s <= now_s]:
            self._cut(peer)

    def _cut(self, peer: Peer) -> None:
        guest = self._all.get(peer)
        if guest is not None:
            self.left(peer)
            _end(guest)


class Door(socket.socket):
    """A listening socket that tells of its connections.

    Attributes:
        guests: to be set before it is listened to.
    """

    guests: Guests | None = None

    def listen(self, backlog: int = BACKLOG) -> None:
        """Never with fewer places than :data:`BACKLOG`, whoever asks."""
        super().listen(max(backlog, BACKLOG))

    def accept(self) -> tuple[socket.socket, Peer]:
        """The next connection."""
        accepted, peer = super().accept()
        if self.guests is None:
            return accepted, peer
        made = hide(_Guest(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach()))
        made.leaves = (self.guests, peer)
        self.guests.come(made, peer)
        return made, peer


class _Guest(socket.socket):
    leaves: tuple[Guests, Peer] | None = None

    def close(self) -> None:
        super().close()
        leaves, self.leaves = self.leaves, None
        if leaves is not None:
            leaves[0].left(leaves[1])


def _end(guest: socket.socket) -> None:
    """Whoever reads from it sees its end; closing is theirs."""
    with suppress(OSError):
        guest.shutdown(socket.SHUT_RDWR)
