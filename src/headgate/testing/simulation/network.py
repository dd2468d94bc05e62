"""The data plane in memory: frames arrive as bytes, late, and in order only between the same two workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from headgate.common.errors import InternalError
from headgate.common.ids import Fence
from headgate.runtime.protocol.frames import Frame, FrameReader, encode_header

I = TypeVar("I")  # noqa: E741 - of item

Item = tuple[int, bytes | str]
"""An item on its way: the attempt, and a frame's bytes or the reason why the connection ended."""


class Surroundings(Protocol):
    """The simulation as its network uses it: virtual time, delays, and a place to report frames to."""

    def now(self) -> int:
        """Return the virtual time in ms."""

    def latency(self) -> int:
        """Draw the delay of the next item on its way (virtual ms), from the seed's random numbers."""

    def saw_frame(self, lane: Lane, attempt: int, frame: Frame) -> None:
        """Check a frame of attempt number `attempt` that arrived on `lane`; may raise Violation."""


class Underway(Generic[I]):
    """Queue of items on their way in one direction, each with its time of arrival."""

    def __init__(self) -> None:
        self._items: deque[tuple[int, I]] = deque()

    def cut(self, keep: int) -> None:
        """Drop all but the first `keep` items, the next to arrive, as when the connection breaks."""
        while len(self._items) > keep:
            self._items.pop()

    def __len__(self) -> int:
        return len(self._items)


class Lane(Underway[Item]):
    """One direction of a simulated connection between two workers: frames on their way, in order."""

    def __init__(self, source: SimDataPlane, target: SimDataPlane, around: Surroundings) -> None:
        super().__init__()
        self.source, self.target = source, target
        self.name = f"frames {source.slot}->{target.slot} ({source.address}>{target.address})"
        self._around = around
        self._reader = FrameReader()

    def push(self, attempt: int, what: bytes | str) -> None:
        """Put an item on its way, to arrive after all that were sent before. `what` is a whole frame's bytes,
        of attempt number `attempt`; or text, the reason why the connection ended.
        """
        due = self._around.now() + self._around.latency()
        if self._items:
            due = max(due, self._items[-1][0])
        self._items.append((due, (attempt, what)))

    @property
    def due(self) -> int | None:
        if not self._items:
            return None
        due, (attempt, _) = self._items[0]
        # Before the receiver opens the attempt, bytes wait in its backlog.
        return None if self.target.alive and self.target.attempt < attempt else due

    def deliver(self) -> str:
        """Take the first item off the lane and hand it to the target's data plane; return words on it for the
        trace. If the target has exited or closed the item's attempt, the source's data plane is told that the
        connection is lost, and the item is dropped. There must be an item.
        """
        _, (attempt, what) = self._items.popleft()
        target = self.target
        if not target.alive:
            self.source.peer_lost(target.slot, attempt, "the peer's process is gone")
            return "to nobody"
        if target.attempt != attempt or not target.is_open:
            self.source.peer_lost(target.slot, attempt, "the peer has closed this attempt")
            return "too late"
        if target.has_lost(self.source.slot):
            return "on a broken connection"
        if isinstance(what, str):
            target.peer_lost(self.source.slot, attempt, what)
            return f"end: {what}"
        [(header, frame)] = self._reader.feed(what)
        assert header.attempt == attempt
        self._around.saw_frame(self, attempt, frame)
        target.arrived(self.source.slot, frame)
        return f"{frame.kind.name} {frame.edge}:{frame.sender}>{frame.receiver} {frame.size}"


class Network:
    """The simulated network: the workers' data planes by address, and the lanes that connect them."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._planes: dict[str, SimDataPlane] = {}
        self._lanes: dict[tuple[str, str], Lane] = {}
        self.lanes: list[Lane] = []

    def plane(self, slot: int, changed: Callable[[], None]) -> SimDataPlane:
        """Return a new data plane, with an address of its own, for the worker of `slot`. `changed` is called
        whenever the plane has a frame or a loss for its worker to fetch.
        """
        plane = SimDataPlane(self, slot, f"n{len(self._planes)}", changed)
        self._planes[plane.address] = plane
        return plane

    def lane(self, source: SimDataPlane, address: str) -> Lane:
        """Return the lane from a data plane to that at an address, made on first use; else KeyError."""
        lane = self._lanes.get((source.address, address))
        if lane is None:
            lane = Lane(source, self._planes[address], self._around)
            self._lanes[source.address, address] = lane
            self.lanes.append(lane)
        return lane

    def sweep(self) -> None:
        """Forget the lanes between processes that have both exited, with what is still on its way there."""
        self.lanes = [lane for lane in self.lanes if lane.source.alive or lane.target.alive]

    def cut(self, first: SimDataPlane, second: SimDataPlane, keep: int) -> None:
        """Break a connection of two workers of whom the first has opened an attempt. Up to `keep` frames
        under way each way still arrive; then each side's data plane reports the other side as lost.
        """
        for source, target in ((first, second), (second, first)):
            lane = self._lanes.get((source.address, target.address))
            if lane is not None and source.attempt:
                lane.cut(keep)
                lane.push(source.attempt, "connection reset")


class SimDataPlane:
    """A simulated worker's data plane; implements `runtime.transport.data_plane_contract.DataPlane`."""

    def __init__(self, network: Network, slot: int, address: str, changed: Callable[[], None]) -> None:
        self._network, self.slot, self.address, self._changed = network, slot, address, changed
        self.alive, self.is_open = True, False
        self.attempt = 0  # of the last `open`; 0 before
        self._fence: Fence | None = None
        self._peers: dict[int, Lane] = {}
        self._inbox: list[tuple[int, Frame]] = []
        self._lost: list[tuple[int, str]] = []
        self._broken: set[int] = set()  # slots

    @property
    def peers(self) -> list[SimDataPlane]:
        return [lane.target for _, lane in sorted(self._peers.items())]

    def open(self, fence: Fence, peers: Mapping[int, str]) -> None:
        if self.is_open or fence.attempt <= self.attempt:
            raise InternalError(f"attempt {fence.attempt} was opened while {self.attempt} is open or newer")
        self._fence, self.attempt, self.is_open = fence, fence.attempt, True
        others = {slot: address for slot, address in sorted(peers.items()) if slot != self.slot}
        self._peers = {slot: self._network.lane(self, address) for slot, address in others.items()}
        for slot, lane in self._peers.items():
            if not lane.target.alive:
                self.peer_lost(slot, self.attempt, "nobody listens there")
            elif lane.target.attempt > self.attempt or (
                lane.target.attempt == self.attempt and not lane.target.is_open
            ):
                self.peer_lost(slot, self.attempt, "the peer has closed this attempt")

    def send(self, slot: int, frame: Frame) -> None:
        if slot not in self._peers:
            raise InternalError(f"no peer of slot {slot} was opened")
        assert self._fence is not None
        if slot in self._broken:
            return
        head = encode_header(frame, self._fence.generation, self._fence.attempt)
        self._peers[slot].push(self.attempt, head + b"".join(bytes(part) for part in frame.parts))

    def receive(self) -> list[tuple[int, Frame]]:
        inbox, self._inbox = self._inbox, []
        return inbox

    def lost(self) -> list[tuple[int, str]]:
        lost, self._lost = self._lost, []
        return lost

    def close_attempt(self) -> None:
        if self.is_open:
            self._hang_up("the peer closed the attempt")
        self.is_open = False
        self._peers, self._inbox, self._lost, self._broken = {}, [], [], set()

    def close(self) -> None:
        self.close_attempt()
        self.alive = False

    def die(self) -> None:
        """Break all connections because the process was killed; frames sent before still arrive."""
        if self.alive and self.is_open:
            self._hang_up("connection reset by a killed peer")
        self.alive = self.is_open = False

    def arrived(self, slot: int, frame: Frame) -> None:
        self._inbox.append((slot, frame))
        self._changed()

    def peer_lost(self, slot: int, attempt: int, reason: str) -> None:
        """Note for `lost` that the connection to the peer of `slot` broke, and why; call `changed`. Ignored
        if `attempt` is not the open attempt, the slot is no peer of it, or its loss was noted before.
        """
        if not self.is_open or attempt != self.attempt or slot not in self._peers or slot in self._broken:
            return
        self._broken.add(slot)
        self._lost.append((slot, reason))
        self._changed()

    def has_lost(self, slot: int) -> bool:
        return slot in self._broken

    def _hang_up(self, reason: str) -> None:
        for slot, lane in self._peers.items():
            if slot not in self._broken:
                lane.push(self.attempt, reason)
