"""A whole job in one thread: the seed picks who acts next, when time passes, and what goes wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headgate.api.executor import JobSpec
from headgate.checkpoint.service import CheckpointService
from headgate.checkpoint.storage import reachability
from headgate.common.ids import JobId
from headgate.common.ports import Probe
from headgate.runtime.job_master import JobMaster
from headgate.runtime.job_settings import job_settings
from headgate.runtime.master_ports import MasterPorts
from headgate.runtime.network.frames import Frame
from headgate.runtime.program import Program
from headgate.testing.simulation.checks import Checks, Violation
from headgate.testing.simulation.clock import SimClock, SimRandom, Timeline
from headgate.testing.simulation.disk import SimFiles, Verdict
from headgate.testing.simulation.faults import NO_FAULTS, FaultMix, Faults
from headgate.testing.simulation.gang import SimGang
from headgate.testing.simulation.network import Lane, Network
from headgate.testing.simulation.processes import DriverProcess, Process, SimBackground, WorkerProcess
from headgate.testing.simulation.trace import Trace

JOB_ID = "simulated"
MARKER = "marker"
SLACK_MS = 8
"""How long, in virtual time, something may wait for its turn."""
STEPS_MAX = 400_000
HEALED_STEPS_MAX = 100_000
"""Events after the last fault until the job must have ended."""


@dataclass(slots=True)
class Outcome:
    """How a simulation ended.

    Attributes:
        seed: what it was made from.
        digest: of the trace; equal for equal seeds.
        events: how many there were.
        virtual_ms: how long it took inside.
        restarts: of the job.
        checkpoints: completed.
        faults: what was done to it, in order.
        violation: what should not have happened, if anything.
        story: the last lines.
    """

    seed: int
    digest: str
    events: int
    virtual_ms: int
    restarts: int
    checkpoints: int
    faults: list[str] = field(default_factory=list)
    violation: str | None = None
    story: list[str] = field(default_factory=list)


class World:
    """One simulation.

    Args:
        job: what runs, from `Environment.execute`.
        seed: decides everything.
        mix: which faults, and how many.
        checks: what must hold; told of everything that can be seen from outside.
        story_max: lines of story to keep; None keeps all.
    """

    def __init__(
        self,
        job: JobSpec,
        seed: int,
        mix: FaultMix = NO_FAULTS,
        checks: Checks | None = None,
        story_max: int | None = 200,
    ) -> None:
        self.seed, self.job, self.job_id = seed, job, JOB_ID
        self.rng = random.Random(f"{seed} order")
        self.line, self.trace = Timeline(), Trace(story_max)
        self.files, self.settings = SimFiles(), job_settings(job.config)
        self.network = Network(self)
        self.gang = SimGang(self)
        self.checks = checks if checks is not None else Checks()
        self.faults = Faults(self, mix, random.Random(f"{seed} faults"))
        self._latency_ms = self.rng.choice((0, 1, 5))
        self._step_ms = self.rng.choice((0.1, 2.0, 40.0))
        self._weights: dict[str, float] = {}
        self.driver = DriverProcess(self)
        self.master = self._make_master()

    def run(self) -> Outcome:
        """Run the job to its end, or to the first violation."""
        violation = None
        self.checks.begins(self)
        try:
            self.master.submit()
            self._run_to_end()
            self.checks.ended(self)
        except Violation as found:
            violation = str(found)
        except Exception as error:
            import traceback

            violation = "the driver's loop raised:\n" + "".join(traceback.format_exception(error))
        return Outcome(
            self.seed,
            self.trace.digest,
            self.trace.count,
            self.now(),
            self.master.restarts,
            self.checks.completed,
            list(self.faults.done),
            violation,
            self.trace.story(),
        )

    # -- what the parts ask for

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

    def probe(self, process: Process) -> Probe:
        """The probe of a process."""
        return self.faults.probe(process)

    def disk_gate(self, process: Process, operation: str, name: str) -> Verdict:
        """A process touches the disk: others may act first, and it may go wrong."""
        if process.background.busy:
            self.interleave(process)
        verdict = self.faults.disk(process, operation, name)
        self.trace.add(self.now(), f"{process.name} {operation} {name} {verdict}")
        self.checks.touched(self, operation, name, verdict)
        return verdict

    def zombie_survives(self) -> bool:
        """Whether a process that stands still cannot be reached by a kill."""
        return self.rng.random() < 0.5

    def saw_frame(self, lane: Lane, attempt: int, frame: Frame) -> None:
        """See `network.Surroundings`."""
        self.checks.frame(lane, attempt, frame)

    def note(self, text: str) -> None:
        """Something for the story that is no action."""
        self.trace.add(self.now(), text)

    def interleave(self, process: Process) -> None:
        """Let others act in the middle of a process's background work."""
        for _ in range(self.rng.choice((0, 0, 1, 2, 6))):
            if not self._act():
                break
        self.faults.die_if_killed(process)

    # -- the loop

    def _run_to_end(self) -> None:
        healed_at = None
        while not (self.master.state.terminal and not self.gang.living()):
            if healed_at is None and (self.faults.spent or self.trace.count > STEPS_MAX):
                healed_at = self.trace.count
                self.faults.heal()
            if healed_at is not None and self.trace.count - healed_at > HEALED_STEPS_MAX:
                raise Violation(
                    f"no progress: {HEALED_STEPS_MAX} events after the last fault the job is still "
                    f"{self.master.state.value}"
                )
            if self.master.state.terminal:
                self.faults.heal()
            if not self._act():
                raise Violation(
                    f"deadlock: nothing can ever happen any more while the job is {self.master.state.value}"
                )

    def _act(self) -> bool:
        """One action, or the passing of time; False when nothing is left to happen."""
        self.faults.maybe_strike()
        now = self.now()
        ready: list[tuple[str, Callable[[], Any] | None]] = []
        weights, oldest = [], now
        for name, since, action in self._actions(now):
            ready.append((name, action))
            weights.append(self._weight(name))
            oldest = min(oldest, since)
        target = self._next_time(now)
        if target is not None and (not ready or target - oldest <= SLACK_MS):
            ready.append(("time", None))
            weights.append(1.0)
        if not ready:
            return False
        chosen, act = self.rng.choices(ready, weights)[0]
        if act is not None:
            said = act()
            self.trace.add(self.now(), f"{chosen}: {said}")
        elif target is not None:
            self.line.advance(target)
        return True

    def _actions(self, now: int) -> Iterator[tuple[str, int, Callable[[], Any]]]:
        """Whoever can act, since when, and how."""
        planned = self.line.due()
        if planned is not None:
            yield planned[1], planned[0], lambda: self.line.take()()
        for lane in self.network.lanes:
            due = lane.due
            if due is not None and due <= now:
                yield lane.name, due, lane.deliver
        driver = self.driver
        parts: list[tuple[str, int | None, Callable[[], Any]]] = [
            (driver.name, driver.since(now), driver.act),
            (driver.background.name, driver.background.since(now), driver.background.act),
        ]
        for worker in self.gang.workers:
            parts += self._actions_of(worker, now)
        for name, since, action in parts:
            if since is not None:
                yield name, since, action

    def _actions_of(
        self, worker: WorkerProcess, now: int
    ) -> Iterator[tuple[str, int | None, Callable[[], Any]]]:
        background: SimBackground = worker.background
        if worker.runs:
            yield worker.name, worker.since(now), worker.act
            yield f"{worker.name} heartbeat", worker.beat_since(now), worker.beat
            yield background.name, background.since(now), background.act
        for wire in (worker.link.out, worker.link.back):
            due = wire.due
            if due is not None and due <= now:
                yield wire.name, due, wire.deliver

    def _next_time(self, now: int) -> int | None:
        """The next moment at which something becomes possible that is not now."""
        times = [self.line.next_time(), self.driver.next_time()]
        times += [lane.due for lane in self.network.lanes]
        for worker in self.gang.workers:
            times += [worker.link.out.due, worker.link.back.due]
            if worker.runs:
                times += [worker.next_time(), worker.beat_at]
        return min((time for time in times if time is not None and time > now), default=None)

    def _weight(self, name: str) -> float:
        weight = self._weights.get(name)
        if weight is None:
            weight = self._weights[name] = self.rng.choice((0.2, 1.0, 1.0, 4.0))
        return weight

    def _make_master(self) -> JobMaster:
        job, settings, driver = self.job, self.settings, self.driver
        probe, service, permit, marker = self.probe(driver), None, None, None
        if settings.storage is not None:
            disk, marker = driver.disk(), MARKER
            reachability.write_marker(disk, marker)
            service = CheckpointService(disk, JobId(JOB_ID), probe)
            permit = service.claim()
        ports = MasterPorts(
            driver.clock,
            driver.background,
            self.gang,
            SimRandom(random.Random(f"{self.seed} chance")),
            probe,
            driver.post,
            self.checks.listener(self),
        )
        program = Program(JOB_ID, job.plan, settings.worker, job.record_types)
        driver.master = JobMaster(
            JobId(JOB_ID), job.name, job.plan, program, settings, ports, service, permit, None, marker
        )
        return driver.master
