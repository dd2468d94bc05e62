"""The interface of data planes, which carry records between workers; for sockets and the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headgate.common.ids import Fence
from headgate.runtime.protocol.frames import Frame


class DataPlane(Protocol):
    """Carries frames between the workers of a gang, separately for each attempt.

    Requirements: frames of one peer arrive once and in the order sent, or else the peer is reported as lost;
    a frame of another attempt is never delivered. All methods are called by the worker's loop only.
    """

    @property
    def address(self) -> str:
        """The address at which peers reach this worker; opaque text for `Register.data_address`."""

    def open(self, fence: Fence, peers: Mapping[int, str]) -> None:
        """Begin an attempt and connect to every peer; does not wait for the connections.

        `fence` is job, generation and attempt, newer than in every call before; `peers` has addresses by
        slot; the worker's own slot is skipped. Frames may be sent at once. A peer that cannot be reached,
        fails to authenticate, or is in a newer attempt is reported by :meth:`lost`, like one whose connection
        breaks later. Raises InternalError if an attempt is open already or the fence is not newer.
        """

    def send(self, slot: int, frame: Frame) -> None:
        """Queue a frame for the peer of `slot`; never blocks. The frame's parts must not change afterwards.
        Does nothing for a lost peer, which :meth:`lost` reports. Raises InternalError for an unknown peer.
        """

    def receive(self) -> list[tuple[int, Frame]]:
        """Return the frames received since the last call, as (sender's slot, frame), in order per peer."""

    def lost(self) -> list[tuple[int, str]]:
        """Return (slot, reason) of peers lost or not reached since the last call, each once per attempt."""

    def close_attempt(self) -> None:
        """End the attempt: close its connections, and drop queued and received frames."""

    def close(self) -> None:
        """Close all connections and stop listening. Can be called twice."""
