"""Workers of one job in one thread: production's workers, gates and channels, without a driver's machinery.

A simulation of a whole job takes half a second; this takes a tenth. What it leaves out is what decides about
jobs: job master, coordinator, processes, clocks that differ. `headgate.testing.simulation` has those.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from headgate.common.ids import Fence, JobId
from headgate.common.ports import NoProbe
from headgate.runtime.protocol import messages as m
from headgate.runtime.protocol.frames import Frame
from headgate.runtime.worker.worker import Worker
from headgate.runtime.worker.worker_ports import WorkerPorts
from headgate.testing.simulation.virtual_disk import SimDisk, SimFiles

JOB = JobId("plans")


class VirtualClock:
    """One clock of all workers, in ms; whoever runs them advances it."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now

    def precise_ms(self) -> float:
        return float(self.now)


class Lanes:
    """What workers have sent each other, and has not arrived: (sender, receiver) -> frames in order."""

    def __init__(self) -> None:
        self.queues: dict[tuple[int, int], deque[Frame]] = {}

    def waiting(self) -> list[tuple[int, int]]:
        """The lanes on which something is under way."""
        return [lane for lane, frames in self.queues.items() if frames]


class _Data:
    """A data plane of a worker, over lanes in memory."""

    address = "memory"

    def __init__(self, slot: int, lanes: Lanes) -> None:
        self._slot, self._lanes = slot, lanes
        self.arrived: list[tuple[int, Frame]] = []

    def open(self, fence: Fence, peers: Mapping[int, str]) -> None:
        """Nothing has to be connected."""

    def send(self, slot: int, frame: Frame) -> None:
        self._lanes.queues.setdefault((self._slot, slot), deque()).append(frame)

    def receive(self) -> list[tuple[int, Frame]]:
        arrived, self.arrived = self.arrived, []
        return arrived

    def lost(self) -> list[tuple[int, str]]:
        return []

    def close_attempt(self) -> None:
        """Lanes end with the gang."""

    def close(self) -> None:
        """Nothing is connected."""


class _Link:
    def __init__(self, received: Callable[[Any], None]) -> None:
        self.send = received

    def close(self) -> None:
        """Nothing is connected."""


class _AtOnce:
    """Background work that is done at once; its callbacks come in the loop."""

    def __init__(self, post: Callable[[Callable[[], None]], None]) -> None:
        self._post = post

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        try:
            result = work()
        except Exception as error:
            found = error
            self._post(lambda: done(None, found))
        else:
            self._post(lambda: done(result, None))


class Slot:
    """One worker, and what waits for its loop."""

    def __init__(
        self, number: int, clock: VirtualClock, lanes: Lanes, files: SimFiles, received: Callable[[Any], None]
    ) -> None:
        self.posted: deque[Callable[[], None]] = deque()
        self.data = _Data(number, lanes)
        self._clock = clock
        self._idle_until: tuple[int | None] | None = None
        ports = WorkerPorts(
            clock,
            _AtOnce(self.posted.append),
            self.data,
            _Link(received),
            lambda uri: SimDisk.at(uri, files),
            NoProbe(),
            self.posted.append,
            _no_thread,
            threads=list,
        )
        self.worker = Worker(JOB, number, ports)

    @property
    def may_work(self) -> bool:
        """Whether a step may do something."""
        if self._idle_until is None or self.posted or self.data.arrived:
            return True
        (due,) = self._idle_until
        return due is not None and due <= self._clock.now

    @property
    def due(self) -> int | None:
        """When a step may do something although nothing arrives."""
        return None if self._idle_until is None else self._idle_until[0]

    def handle(self, message: m.ToWorker) -> None:
        """Pass a message of the driver on to the worker."""
        self._idle_until = None
        self.worker.handle(message)

    def step(self) -> None:
        """Let the worker take a turn."""
        while self.posted:
            self.posted.popleft()()
        worked = self.worker.step()
        self._idle_until = None if worked else (self.worker.next_wakeup(),)


def _no_thread(name: str) -> Any:
    raise AssertionError(f"{name}: plans of tables have no blocking functions")
