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
    """Decides which faults hit the code of simulated processes and the control messages between them."""

    def reached(self, process: Process, place: str) -> None:
        """Inject the fault that waits for `place`, if any, when production code of `process` gets there. It
        may raise an error for production to handle, or kill the process and raise ProcessKilled.
        """

    def tampers(self, wire: ControlWire) -> Tamper:
        """Return a function that decides at each delivery on `wire` if the message is lost or repeated."""


class Scene(ABC):
    """Shared state of one simulation: virtual time, randomness, network, disk and trace, all from `seed`."""

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
        return self.line.now_ms

    def latency(self) -> int:
        return self.rng.randint(0, self._latency_ms) if self._latency_ms else 0

    def delay(self, most_ms: int) -> int:
        return self.rng.randint(0, most_ms)

    def new_clock(self) -> SimClock:
        return SimClock(self.line, self.rng, self.rng.randint(-50, 50), self._step_ms)

    def note(self, text: str) -> None:
        self.trace.add(self.now(), text)

    @contextmanager
    def acting(self, process: Process) -> Iterator[None]:
        """Mark `process` as the one whose code runs in the block; then restore the mark from before."""
        before, self.at_work = self.at_work, process
        try:
            yield
        finally:
            self.at_work = before

    @abstractmethod
    def saw_frame(self, lane: Lane, attempt: int, frame: Frame) -> None:
        """Check a frame of attempt number `attempt` that arrived on `lane`; may raise Violation."""

    @abstractmethod
    def interleave(self, process: Process) -> None:
        """Let other processes act amid work of `process`: at random, and always while it is paused. Raises
        ProcessKilled if it was killed meanwhile.
        """

    @abstractmethod
    def disk_gate(self, process: Process, operation: str, name: str) -> Verdict:
        """Return the outcome of the disk operation that `process` is about to do on file `name` (from the
        root). Others may act before, if :attr:`Process.mid_operation`. Raises ProcessKilled if the process
        was killed meanwhile or by a fault, Violation if the operation would delete a file that is needed.
        """

    @abstractmethod
    def disk_done(self, process: Process, operation: str, name: str) -> None:
        """Report that `process` wrote or deleted file `name`: Violation if the files are out of order now,
        ProcessKilled if a test wanted the process dead after this operation.
        """


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
        return self.alive and not self.paused

    def reached(self, place: str) -> None:
        self.scene.faults.reached(self, place)

    def post(self, callback: Callable[[], None]) -> None:
        """Have the process's main loop call `callback` at its next turn, after those posted before."""
        if not self.posted:
            self.posted_since = self.scene.now()
        self.posted.append(callback)

    def drain(self) -> None:
        """Call all posted callbacks in order, also new ones; an error leaves the later ones posted."""
        while self.posted:
            self.posted.popleft()()

    def disk(self, uri: str = URI) -> SimDisk:
        """Return this process's disk below `uri`, with its faults; StorageError if not below `URI`."""
        scene = self.scene
        return SimDisk.at(
            uri,
            scene.files,
            lambda operation, name: scene.disk_gate(self, operation, name),
            lambda operation, name: scene.disk_done(self, operation, name),
        )

    @property
    def mid_operation(self) -> bool:
        """Whether work is under way before whose disk operations other processes may act."""
        return self.background.busy

    def must_live(self) -> None:
        if not self.alive:
            raise ProcessKilled(self.name)


class SimBackground:
    """The background thread of a simulated process, run in turns; implements `common.ports.Background`."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.name = f"{process.name} background"
        self.busy = False
        self._jobs: deque[tuple[int, Callable[[], Report]]] = deque()

    def submit(self, work: Callable[[], T], done: Done[T]) -> None:
        self._jobs.append((self.process.scene.now(), _attempt(work, done)))

    def since(self, now: int) -> int | None:
        """Return since when (virtual ms) the first queued work waits; None if none can run at present."""
        if not self._jobs or self.busy or self.process.held or not self.process.runs:
            return None
        return self._jobs[0][0]

    def act(self) -> str:
        """Run the first queued work (there must be one) and, unless the process is killed meanwhile, its
        callback. Others may act before its disk operations. Return a word for the trace.
        """
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
        return not self._jobs and not self.busy

    def forget(self) -> None:
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
        self._jobs.append(_attempt(work, done))
        if not self._busy:
            self._begin()

    def call(self, work: Callable[[], T]) -> T:
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
