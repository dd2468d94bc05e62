"""The contract of data planes between workers; sockets and the simulator implement it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headgate.common.ids import Fence
from headgate.runtime.protocol.frames import Frame


class DataPlane(Protocol):
    """Carries frames between the workers of a gang, attempt by attempt.

    Demands on an implementation: frames from one peer arrive once and in the order they were sent, or
    not at all and then the peer is reported as lost; a frame of another attempt is never delivered.
    All methods are called by the worker's loop only.
    """

    @property
    def address(self) -> str:
        """Where peers reach this worker; opaque text for `Register.data_address`."""

    def open(self, fence: Fence, peers: Mapping[int, str]) -> None:
        """Begin an attempt and connect to every peer; does not wait for the connections.

        Frames may be sent at once. A peer that cannot be reached, does not prove that it belongs to the
        job, or has moved on to a newer attempt is reported by :meth:`lost` like one that broke later.

        The fence is newer than that of every call before. `peers` has addresses by slot; the own slot may be
        among them and is skipped. Raises InternalError: an attempt is open already, or the fence is not
        newer.
        """

    def send(self, slot: int, frame: Frame) -> None:
        """Queue a frame for a peer; never blocks. The frame's parts must not change afterwards.

        Nothing happens when the peer is lost, which :meth:`lost` reports. Raises InternalError: no such peer
        was opened.
        """

    def receive(self) -> list[tuple[int, Frame]]:
        """Return the frames since the last call, as (sender's slot, frame), in order per peer."""

    def lost(self) -> list[tuple[int, str]]:
        """Return the peers whose connection broke since the last call, once per attempt, with the reason."""

    def close_attempt(self) -> None:
        """End the attempt: close its connections, drop queued and received frames."""

    def close(self) -> None:
        """End everything; the address is no longer reachable. May be called twice."""
