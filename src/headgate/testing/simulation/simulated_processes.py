"""Simulated processes, each with a main loop and a background thread, and the scene that they share."""

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
"""Durations (ms) that user code on a subtask's own thread may take."""
PAUSE_LOOK_MS: Final = 5
"""Interval (ms) at which a thread checks whether its paused process runs again."""

Done = Callable[[T | None, BaseException | None], None]
"""Callback (result, error) for background work that has ended; error is None if it succeeded."""
Report = Callable[[], str]
"""Function that passes the result of finished work to its callback; returns a word for the trace."""


class ProcessKilled(PastAllHandlers):
    """Ends the code of a process that was killed; no handler of the job may catch it."""


class FaultInjector(Protocol):
    """Decides which faults hit the code of processes and the messages between them."""

    def reached(self, process: Process, place: str) -> None:
        """Inject the fault that waits for this named place, if any; it may raise, or kill the process."""

    def tampers(self, wire: ControlWire) -> Tamper:
        """Return a function that decides for each message on a wire whether it is lost or repeated."""


class Scene(ABC):
    """Shared state of one simulation: time, randomness, network, disk and trace, all from the seed."""

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
        """Draw the delay of the next message, in ms, from the seed's random numbers."""
        return self.rng.randint(0, self._latency_ms) if self._latency_ms else 0

    def delay(self, most_ms: int) -> int:
        """Draw a random pause, from 0 to `most_ms` ms, from the seed's random numbers."""
        return self.rng.randint(0, most_ms)

    def new_clock(self) -> SimClock:
        """Return the clocks of a new process, with a wall clock that is up to 50 ms off."""
        return SimClock(self.line, self.rng, self.rng.randint(-50, 50), self._step_ms)

    def note(self, text: str) -> None:
        """Add a line to the trace, about an event other than the actions that the simulation picks."""
        self.trace.add(self.now(), text)

    @contextmanager
    def acting(self, process: Process) -> Iterator[None]:
        """Mark `process` as the one whose code runs in the block."""
        before, self.at_work = self.at_work, process
        try:
            yield
        finally:
            self.at_work = before

    @abstractmethod
    def saw_frame(self, lane: Lane, attempt: int, frame: Frame) -> None:
        """Report a frame of `attempt` that arrived on the connection `lane`, for the checks."""

    @abstractmethod
    def interleave(self, process: Process) -> None:
        """Let others act amid this one's work, at least while it is paused; ProcessKilled if it has died."""

    @abstractmethod
    def disk_gate(self, process: Process, operation: str, name: str) -> Verdict:
        """Let others act before a disk operation of `process`; return its outcome, or raise ProcessKilled."""

    @abstractmethod
    def disk_done(self, process: Process, operation: str, name: str) -> None:
        """Report that `process` has changed a file, for the checks; may raise ProcessKilled."""


class Process:
    """A simulated process with a main loop and a background thread; implements `common.ports.Probe`.

    It is alive until killed or ended. While it is paused it stands still, as after SIGSTOP; while it is held
    only its background work stands still, as on a hanging disk.
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
        """Whether the process can act now: it lives and is not paused."""
        return self.alive and not self.paused

    def reached(self, place: str) -> None:
        """Report that production code is at `place`; a fault injected there may raise, also ProcessKilled."""
        self.scene.faults.reached(self, place)

    def post(self, callback: Callable[[], None]) -> None:
        """Have the process's main loop call `callback` at its next turn, after those posted before."""
        if not self.posted:
            self.posted_since = self.scene.now()
        self.posted.append(callback)

    def drain(self) -> None:
        """Call all posted callbacks in order, also those that these post; an error leaves the rest posted."""
        while self.posted:
            self.posted.popleft()()

    def disk(self, uri: str = URI) -> SimDisk:
        """Return this process's disk below a URI of the simulation; StorageError for any other URI."""
        scene = self.scene
        return SimDisk.at(
            uri,
            scene.files,
            lambda operation, name: scene.disk_gate(self, operation, name),
            lambda operation, name: scene.disk_done(self, operation, name),
        )

    @property
    def mid_operation(self) -> bool:
        """Whether background work is running, so that other processes may act at its disk operations."""
        return self.background.busy

    def must_live(self) -> None:
        """Raise ProcessKilled if the process was killed meanwhile, so that its code does not go on."""
        if not self.alive:
            raise ProcessKilled(self.name)


class SimBackground:
    """The background thread of a simulated process; implements `common.ports.Background`."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.name = f"{process.name} background"
        self.busy = False
        self._jobs: deque[tuple[int, Callable[[], Report]]] = deque()

    def submit(self, work: Callable[[], T], done: Done[T]) -> None:
        """Queue work; `done` gets its result or error, unless the process dies or forgets it before."""
        self._jobs.append((self.process.scene.now(), _attempt(work, done)))

    def since(self, now: int) -> int | None:
        """Return since when (ms) the background thread has work that can run; None if it has none."""
        if not self._jobs or self.busy or self.process.held or not self.process.runs:
            return None
        return self._jobs[0][0]

    def act(self) -> str:
        """Run the first queued work and its callback; others act at its disk operations. Return a word."""
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
        """Whether no work is queued or running."""
        return not self._jobs and not self.busy

    def forget(self) -> None:
        """Drop all queued work, as at each exit of the process; work that runs is not stopped."""
        self._jobs.clear()


class SimThread:
    """The thread of a subtask with a blocking function, simulated; implements `SubtaskThread`.

    Its work happens at once or at the end of a span in which other threads act, so that an object that two
    threads must not use at once shows in either case.
    """

    def __init__(self, process: Process, name: str) -> None:
        self._process, self._name = process, f"{process.name} {name}"
        self._rng = random.Random(f"{process.scene.seed} {self._name}")
        self._jobs: deque[Callable[[], Report]] = deque()
        self._busy = False

    def submit(self, work: Callable[[], T], done: Done[T]) -> None:
        """Queue work for this thread; `done` then gets its result or error, unless the process dies."""
        self._jobs.append(_attempt(work, done))
        if not self._busy:
            self._begin()

    def call(self, work: Callable[[], T]) -> T:
        """Run `work` at once; return its result or raise its error. AssertionError if the thread is busy."""
        assert not self._busy, f"{self._name} is called while it works"
        return work()

    def leave(self) -> None:
        """Do nothing: a simulated thread needs no end."""

    def join(self) -> None:
        """Return at once: a simulated thread needs no end."""

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
