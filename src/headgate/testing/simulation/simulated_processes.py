"""Processes of a simulation, each with a main loop and a background thread, and the scene that they share."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from headgate.common.process.process_exceptions import PastAllHandlers
from headgate.runtime.job.job_settings import JobSettings
from headgate.runtime.protocol.frames import Frame
from headgate.testing.simulation.clock import SimClock, Timeline
from headgate.testing.simulation.links import ControlWire, Tamper
from headgate.testing.simulation.network import Lane, Network
from headgate.testing.simulation.trace import CheckpointTraces, Trace
from headgate.testing.simulation.virtual_disk import URI, SimDisk, SimFiles, Verdict

T = TypeVar("T")

WORK_MS: Final = (0, 1, 5, 40)
"""How long user code on a thread of its own may take."""
PAUSE_LOOK_MS: Final = 5
"""How often it is looked whether a paused process runs again."""

Done = Callable[[T | None, BaseException | None], None]
"""(result of the work, its error): called when some work has ended."""
Report = Callable[[], str]
"""Passes the result of some work on; returns how the work ended, in a word."""


class ProcessKilled(PastAllHandlers):
    """Unwinds the code of a process that was killed; nothing of the product may catch it."""


class FaultInjector(Protocol):
    """Decides what goes wrong in the code of processes and on their wires."""

    def reached(self, process: Process, place: str) -> None:
        """A process is at a named place, where a fault may wait for it."""

    def tampers(self, wire: ControlWire) -> Tamper:
        """Decide for each message on a wire whether it is lost or repeated."""


class Scene(ABC):
    """What the processes of one simulation share: time, chance, network, disk and trace, all by the seed."""

    faults: FaultInjector

    def __init__(self, seed: int, settings: JobSettings, story_max: int | None) -> None:
        self.seed, self.settings = seed, settings
        self.rng = random.Random(f"{seed} order")
        self.line, self.trace = Timeline(), Trace(story_max)
        self.files, self.checkpoint_traces = SimFiles(), CheckpointTraces()
        self.network = Network(self)
        self.at_work: Process | None = None  # whose code runs at this instant
        self._latency_ms = self.rng.choice((0, 1, 5))
        self._step_ms = self.rng.choice((0.1, 2.0, 40.0))

    def now(self) -> int:
        """Return the virtual time in ms."""
        return self.line.now_ms

    def latency(self) -> int:
        """Return how long the next message is on its way."""
        return self.rng.randint(0, self._latency_ms) if self._latency_ms else 0

    def delay(self, most_ms: int) -> int:
        """Return a pause of up to `most_ms`."""
        return self.rng.randint(0, most_ms)

    def new_clock(self) -> SimClock:
        """Return the clocks of a new process, whose wall clock is a little off."""
        return SimClock(self.line, self.rng, self.rng.randint(-50, 50), self._step_ms)

    def note(self, text: str) -> None:
        """Add something to the trace that is no action."""
        self.trace.add(self.now(), text)

    @contextmanager
    def acting(self, process: Process) -> Iterator[None]:
        """Run the code of `process` within."""
        before, self.at_work = self.at_work, process
        try:
            yield
        finally:
            self.at_work = before

    @abstractmethod
    def saw_frame(self, lane: Lane, attempt: int, frame: Frame) -> None:
        """See `network.Surroundings`."""

    @abstractmethod
    def interleave(self, process: Process) -> None:
        """Let others act in the middle of a process's work, for as long as it stands still at least."""

    @abstractmethod
    def disk_gate(self, process: Process, operation: str, name: str) -> Verdict:
        """A process uses the disk: others may act first, and it may go wrong."""

    @abstractmethod
    def disk_done(self, process: Process, operation: str, name: str) -> None:
        """A process has changed the disk."""


class Process:
    """A process with a main loop and a background thread; implements `common.ports.Probe`.

    It is alive until killed or ended. While it is paused it stands still, as after SIGSTOP; while it is held
    only its background work does, as on a hanging disk.
    """

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene, self.name = scene, name
        self.alive, self.paused, self.held = True, False, False
        self.clock = scene.new_clock()
        self.background = SimBackground(self)
        self.posted: deque[Callable[[], None]] = deque()
        self.posted_since = 0
        self.step: int | None = None

    @property
    def runs(self) -> bool:
        """Whether it does anything at present."""
        return self.alive and not self.paused

    def reached(self, place: str) -> None:
        """See `common.ports.Probe`."""
        self.scene.faults.reached(self, place)

    def post(self, callback: Callable[[], None]) -> None:
        """Hand a callback to the main loop."""
        if not self.posted:
            self.posted_since = self.scene.now()
        self.posted.append(callback)

    def drain(self) -> None:
        """Call what was posted."""
        while self.posted:
            self.posted.popleft()()

    def disk(self, uri: str = URI) -> SimDisk:
        """Return the process's way to the shared files below a URI; a StorageError for any other URI."""
        scene = self.scene
        return SimDisk.at(
            uri,
            scene.files,
            lambda operation, name: scene.disk_gate(self, operation, name),
            lambda operation, name: scene.disk_done(self, operation, name),
        )

    @property
    def mid_operation(self) -> bool:
        """Whether its background work is pending: others may act between its steps."""
        return self.background.busy

    def must_live(self) -> None:
        """Raise ProcessKilled where the process was killed meanwhile: its code must not go on."""
        if not self.alive:
            raise ProcessKilled(self.name)


class SimBackground:
    """A background thread of a process; implements `common.ports.Background`."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.name = f"{process.name} background"
        self.busy = False
        self._jobs: deque[tuple[int, Callable[[], Report]]] = deque()

    def submit(self, work: Callable[[], T], done: Done[T]) -> None:
        """See `common.ports.Background`."""
        self._jobs.append((self.process.scene.now(), _attempt(work, done)))

    def since(self, now: int) -> int | None:
        """Return since when the background thread has something to do."""
        if not self._jobs or self.busy or self.process.held or not self.process.runs:
            return None
        return self._jobs[0][0]

    def act(self) -> str:
        """Run one job; others may act meanwhile, wherever it uses the disk."""
        _, attempt = self._jobs.popleft()
        self.busy = True
        with self.process.scene.acting(self.process):
            try:
                report = attempt()
                self.process.must_live()
                return report()
            except ProcessKilled:
                return "killed on the way"
            finally:
                self.busy = False

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done and nothing is being done."""
        return not self._jobs and not self.busy

    def forget(self) -> None:
        """The process was killed: nothing more is begun."""
        self._jobs.clear()


class SimThread:
    """A thread of one subtask; implements `SubtaskThread`.

    Its work happens at once or at the end of a while in which the others act, so that an object which two
    threads must not use at once shows in either case.
    """

    def __init__(self, process: Process, name: str) -> None:
        self._process, self._name = process, f"{process.name} {name}"
        self._rng = random.Random(f"{process.scene.seed} {self._name}")
        self._jobs: deque[Callable[[], Report]] = deque()
        self._busy = False

    def submit(self, work: Callable[[], T], done: Done[T]) -> None:
        """See `common.ports.Background`."""
        self._jobs.append(_attempt(work, done))
        if not self._busy:
            self._begin()

    def call(self, work: Callable[[], T]) -> T:
        """See `SubtaskThread`."""
        assert not self._busy, f"{self._name} is called while it works"
        return work()

    def leave(self) -> None:
        """See `SubtaskThread`."""

    def join(self) -> None:
        """See `SubtaskThread`."""

    def _begin(self) -> None:
        attempt = self._jobs.popleft()
        self._busy = True
        report = attempt() if self._rng.random() < 0.5 else None
        self._end_after(self._rng.choice(WORK_MS), attempt, report)

    def _end_after(self, span_ms: int, attempt: Callable[[], Report], report: Report | None) -> None:
        def end() -> None:
            if not self._process.alive:
                return
            if self._process.paused:
                self._end_after(PAUSE_LOOK_MS, attempt, report)
                return
            try:
                (report or attempt())()
                self._busy = False
                if self._jobs:
                    self._begin()
            except ProcessKilled:
                pass  # with everything else of the process

        self._process.scene.line.after(span_ms, self._name, end)


def _attempt(work: Callable[[], T], done: Done[T]) -> Callable[[], Report]:
    def attempt() -> Report:
        result: T | None = None
        failure: Exception | None = None
        try:
            result = work()
        except Exception as error:
            failure = error

        def report() -> str:
            done(result, failure)
            return "done" if failure is None else f"raised {type(failure).__name__}"

        return report

    return attempt
