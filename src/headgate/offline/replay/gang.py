"""The workers of a replay: production's workers in one thread, joined by lanes in memory.

They take turns in a fixed order and share a clock that only the replay moves, so a replay goes the same way
each time, whatever the machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from headgate.common.errors import InternalError
from headgate.common.ids import Fence, JobId
from headgate.common.ports import Disk, NoProbe, UserCode
from headgate.runtime.protocol import messages as m
from headgate.runtime.protocol.frames import Frame
from headgate.runtime.worker.worker import Worker
from headgate.runtime.worker.worker_ports import WorkerPorts

Received = Callable[[int, Any], None]
"""Is called with the slot of a worker, and a message that it sent to the job master."""


class ReplayClock:
    """The one clock of a replay, in ms: it begins at the time of the snapshot, and stands unless moved."""

    def __init__(self, now_ms: int) -> None:
        self.now = now_ms

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now

    def precise_ms(self) -> float:
        return float(self.now)

    def advance_to(self, now_ms: int) -> None:
        self.now = max(self.now, now_ms)


class _Lanes:
    """The data plane of one worker: `arrived` is what others have sent it; `peers` are the others' lanes."""

    address = "memory"

    def __init__(self, slot: int, peers: dict[int, _Lanes]) -> None:
        self._slot, self._peers = slot, peers
        self.arrived: list[tuple[int, Frame]] = []

    def open(self, fence: Fence, peers: Mapping[int, str]) -> None:
        """Do nothing: there is nothing to connect."""

    def send(self, slot: int, frame: Frame) -> None:
        self._peers[slot].arrived.append((self._slot, frame))

    def receive(self) -> list[tuple[int, Frame]]:
        arrived, self.arrived = self.arrived, []
        return arrived

    def lost(self) -> list[tuple[int, str]]:
        return []

    def close_attempt(self) -> None:
        self.arrived.clear()

    def close(self) -> None:
        """Do nothing: nothing is connected."""


class _Link:
    """The control link of one worker: passes its messages on to the replay."""

    def __init__(self, slot: int, received: Received) -> None:
        self._slot, self._received = slot, received

    def send(self, message: Any) -> None:
        self._received(self._slot, message)

    def close(self) -> None:
        """Do nothing: nothing is connected."""


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


class Gang:
    """As many workers as the plan has slots; :meth:`turn` lets each of them take a step.

    `received` gets their messages to the job master, `code` has the modules of the program, `disks` opens
    the storage of the snapshot.
    """

    def __init__(
        self,
        job: str,
        slots: int,
        clock: ReplayClock,
        received: Received,
        code: UserCode,
        disks: Callable[[str], Disk],
    ) -> None:
        self.clock = clock
        lanes: dict[int, _Lanes] = {}
        self._posted: list[deque[Callable[[], None]]] = [deque() for _ in range(slots)]
        for slot in range(slots):
            lanes[slot] = _Lanes(slot, lanes)
        self.workers = [
            Worker(JobId(job), slot, self._ports(slot, lanes[slot], received, code, disks))
            for slot in range(slots)
        ]

    def _ports(
        self, slot: int, lanes: _Lanes, received: Received, code: UserCode, disks: Callable[[str], Disk]
    ) -> WorkerPorts:
        post = self._posted[slot].append
        return WorkerPorts(
            self.clock,
            _AtOnce(post),
            lanes,
            _Link(slot, received),
            disks,
            NoProbe(),
            post,
            _no_thread,
            code,
            threads=list,
        )

    def handle(self, slot: int, message: m.ToWorker) -> None:
        self.workers[slot].handle(message)

    def turn(self) -> bool:
        """Let each worker take one step, in the order of slots; return whether any of them did something."""
        worked = False
        for worker, posted in zip(self.workers, self._posted, strict=True):
            while posted:
                posted.popleft()()
                worked = True
            worked |= worker.step()
        return worked

    def next_wakeup(self) -> int | None:
        """Return when a worker has something to do although nothing arrives (ms); None: never."""
        times = [due for worker in self.workers if (due := worker.next_wakeup()) is not None]
        return min(times, default=None)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


def _no_thread(name: str) -> Any:
    raise InternalError(f"{name}: a replay refuses what needs a thread of its own; please report this")
