"""Processes of a simulation, each with a main loop and a background thread, and the scene that they share."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from headgate.common.ports import Probe
from headgate.common.process.interruptions import PastAllHandlers
from headgate.runtime.job.job_settings import JobSettings
from headgate.runtime.protocol.frames import Frame
from headgate.testing.simulation.chronicle import Chronicle
from headgate.testing.simulation.clock import SimClock, Timeline
from headgate.testing.simulation.links import ControlWire, Tamper
from headgate.testing.simulation.network import Lane, Network
from headgate.testing.simulation.trace import Trace
from headgate.testing.simulation.virtual_disk import URI, SimDisk, SimFiles, Verdict

T = TypeVar("T")

WORK_MS: Final = (0, 1, 5, 40)
"""How long user code on a thread of its own may take."""
PAUSE_LOOK_MS: Final = 5
"""How often it is looked whether a paused process runs again."""

Done = Callable[[Any, BaseException | None], None]
"""(result of the work, its error): called when some work has ended."""
Work = tuple[Callable[[], T], Done]


class ProcessKilled(PastAllHandlers):
    """Unwinds the code of a process that was killed; nothing of the product may catch it."""


class Scene(ABC):
    """What the processes of one simulation share: time, chance, network, disk and story.

    Args:
        seed: decides everything.
        settings: of the job.
        story_max: lines of story to keep; None keeps all.

    Attributes:
        files: what is durable.
        at_work: the process whose code runs at this instant; None between two actions.
    """

    def __init__(self, seed: int, settings: JobSettings, story_max: int | None) -> None:
        self.seed, self.settings = seed, settings
        self.rng = random.Random(f"{seed} order")
        self.line, self.trace = Timeline(), Trace(story_max)
        self.files, self.chronicle = SimFiles(), Chronicle()
        self.network = Network(self)
        self.at_work: Process | None = None
        self._latency_ms = self.rng.choice((0, 1, 5))
        self._step_ms = self.rng.choice((0.1, 2.0, 40.0))

    def now(self) -> int:
        """Virtual ms."""
        return self.line.now_ms

    def latency(self) -> int:
        """How long the next message is on its way."""
        return self.rng.randint(0, self._latency_ms) if self._latency_ms else 0

    def delay(self, most_ms: int) -> int:
        """A pause of up to `most_ms`."""
        return self.rng.randint(0, most_ms)

    def new_clock(self) -> SimClock:
        """The clocks of a new process, whose wall clock is a little off."""
        return SimClock(self.line, self.rng, self.rng.randint(-50, 50), self._step_ms)

    def note(self, text: str) -> None:
        """Add something to the story that is no action."""
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
    def probe(self, process: Process) -> Probe:
        """The probe of a process."""

    @abstractmethod
    def reached(self, process: Process, place: str) -> None:
        """A process is at a named place, where a fault may wait for it."""

    @abstractmethod
    def tampers(self, wire: ControlWire) -> Tamper:
        """What becomes of the messages on a wire."""

    @abstractmethod
    def interleave(self, process: Process) -> None:
        """Let others act in the middle of a process's work, for as long as it stands still at least."""

    @abstractmethod
    def disk_gate(self, process: Process, operation: str, name: str) -> Verdict:
        """A process touches the disk: others may act first, and it may go wrong."""

    @abstractmethod
    def disk_done(self, process: Process, operation: str, name: str) -> None:
        """A process has changed the disk."""


class Process:
    """What all processes share.

    Attributes:
        name: for the story.
        alive: until killed or ended.
        paused: whether it stands still, as after SIGSTOP.
        held: whether only its background work stands still, as on a hanging disk.
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
        """This process's way to the shared files below a URI.

        Raises:
            StorageError: there is nothing below it in a simulation.
        """
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
        """The code of a process that was killed meanwhile must not go on.

        Raises:
            ProcessKilled: it was killed.
        """
        if not self.alive:
            raise ProcessKilled(self.name)


class SimBackground:
    """A background thread of a process; implements `common.ports.Background`."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.name = f"{process.name} background"
        self.busy = False
        self._jobs: deque[tuple[int, Work[Any]]] = deque()

    def submit(self, work: Callable[[], T], done: Done) -> None:
        """See `common.ports.Background`."""
        self._jobs.append((self.process.scene.now(), (work, done)))

    def since(self, now: int) -> int | None:
        """Since when there is something to do."""
        if not self._jobs or self.busy or self.process.held or not self.process.runs:
            return None
        return self._jobs[0][0]

    def act(self) -> str:
        """Run one job; others may act meanwhile, wherever it touches the disk."""
        _, (work, done) = self._jobs.popleft()
        self.busy = True
        result, failure = None, None
        with self.process.scene.acting(self.process):
            try:
                try:
                    result = work()
                    self.process.must_live()
                except Exception as error:
                    failure = error
                done(result, failure)
            except ProcessKilled:
                return "killed on the way"
            finally:
                self.busy = False
        return "done" if failure is None else f"raised {type(failure).__name__}"

    @property
    def idle(self) -> bool:
        """Whether nothing is to be done and nothing is being done."""
        return not self._jobs and not self.busy

    def forget(self) -> None:
        """The process was killed: nothing more is begun."""
        self._jobs.clear()


class SimThread:
    """A thread of one subtask; implements `SubtaskThread`.

    Its work happens at once or at the end of a while in which the others act: what two threads must
    not touch shows in either case.
    """

    def __init__(self, process: Process, name: str) -> None:
        self._process, self._name = process, f"{process.name} {name}"
        self._rng = random.Random(f"{process.scene.seed} {self._name}")
        self._jobs: deque[Work[Any]] = deque()
        self._busy = False

    def submit(self, work: Callable[[], T], done: Done) -> None:
        """See `common.ports.Background`."""
        self._jobs.append((work, done))
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
        work, done = self._jobs.popleft()
        self._busy = True
        outcome = _attempted(work) if self._rng.random() < 0.5 else None
        self._end_after(self._rng.choice(WORK_MS), work, done, outcome)

    def _end_after(
        self,
        span_ms: int,
        work: Callable[[], T],
        done: Done,
        outcome: tuple[T | None, BaseException | None] | None,
    ) -> None:
        def end() -> None:
            if not self._process.alive:
                return
            if self._process.paused:
                self._end_after(PAUSE_LOOK_MS, work, done, outcome)
                return
            try:
                done(*(outcome or _attempted(work)))
                self._busy = False
                if self._jobs:
                    self._begin()
            except ProcessKilled:
                pass  # with everything else of the process

        self._process.scene.line.after(span_ms, self._name, end)


def _attempted(work: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return work(), None
    except Exception as error:
        return None, error
