"""One simulated job in one thread: the seed picks who acts next, when time passes, and which faults occur."""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass, field

from typing_extensions import override

from headgate.api.jobs.executor_contract import JobSpec
from headgate.checkpoint.storage import reachability
from headgate.runtime.job.job_settings import job_settings
from headgate.runtime.protocol.frames import Frame
from headgate.testing.simulation.clock import Agenda
from headgate.testing.simulation.crash_points import CrashPoints
from headgate.testing.simulation.drivers import DriverProcess, JobScene
from headgate.testing.simulation.faults import NO_FAULTS, FaultMix, Faults
from headgate.testing.simulation.invariants import Checks, Violation
from headgate.testing.simulation.links import ControlWire
from headgate.testing.simulation.network import Lane
from headgate.testing.simulation.simulated_jobs import Submission
from headgate.testing.simulation.simulated_processes import Process
from headgate.testing.simulation.simulated_workers import WorkerProcess
from headgate.testing.simulation.supervisor import Supervisor
from headgate.testing.simulation.virtual_disk import Verdict

JOB_ID = "simulated"
SLACK_MS = 8
"""Virtual ms for which a possible action may wait before time stops passing."""
STEPS_MAX = 400_000
HEALED_STEPS_MAX = 100_000
"""Number of events after the last fault within which the job must end."""


@dataclass(slots=True)
class Outcome:
    """Result of one simulation: counts over all drivers, the injected faults, and a violation, if any."""

    seed: int  # that decides everything
    digest: str  # of the trace; equal for equal seeds
    events: int
    virtual_ms: int  # from the beginning to the end
    restarts: int  # of the job
    checkpoints: int  # completed
    faults: list[str] = field(default_factory=list)  # in order
    violation: str | None = None
    story: list[str] = field(default_factory=list)  # the last lines of the trace
    drivers: int = 1  # that were started
    checkpoint_story: list[str] = field(default_factory=list)  # of the violation's checkpoint, or the last


class World(JobScene):
    """One simulation: picks who acts next, and connects processes, faults and checks.

    `checks` sees everything that can be seen from outside. `crash_points` kills the driver at a counted step,
    besides what `mix` injects. Whether drivers elect a leader is up to the seed, where drivers change, unless
    `elects` decides it.
    """

    checks: Checks
    faults: Faults
    supervisor: Supervisor

    def __init__(
        self,
        job: JobSpec,
        seed: int,
        mix: FaultMix = NO_FAULTS,
        checks: Checks | None = None,
        story_max: int | None = 200,
        crash_points: CrashPoints | None = None,
        elects: bool | None = None,
    ) -> None:
        super().__init__(seed, job_settings(job.config), story_max)
        self.job = job
        self.checks, self.crash_points = checks or Checks(), crash_points or CrashPoints()
        self.faults = Faults(self, mix, random.Random(f"{seed} faults"), self.checks, self.crash_points)
        self._weights: dict[str, float] = {}
        self._interrupted: list[tuple[Process, int]] = []
        if elects is None:
            elects = self.faults.drivers_change and self.rng.random() < 0.5
        self.supervisor = Supervisor(self, self.checks, self.submission(), elects)

    def submission(self) -> Submission:
        return Submission(self.job, JOB_ID)

    def run(self) -> Outcome:
        """Run the job until it has ended and all its processes have exited, or to the first violation; return
        how it went. Raises nothing for either: an exception, too, counts as a violation. To be called once.
        """
        violation = None
        try:
            self.checks.begins(self)
            self.supervisor.start()
            self._run_to_end()
            self.checks.ended(self)
        except Violation as found:
            violation = str(found)
        except Exception as error:
            violation = "a loop raised:\n" + "".join(traceback.format_exception(error))
        masters = [driver.master for driver in self.drivers if driver.master is not None]
        return Outcome(
            self.seed,
            self.trace.digest,
            self.trace.count,
            self.now(),
            sum(master.restarts for master in masters),
            self.checks.completed,
            list(self.faults_done),
            violation,
            self.trace.story(),
            len(self.drivers),
            self.checkpoint_traces.story(violation),
        )

    @override
    def triggered(self, driver: DriverProcess, checkpoint: int) -> None:
        self.crash_points.triggered(driver, checkpoint)

    @override
    def disk_gate(self, process: Process, operation: str, name: str) -> Verdict:
        process.must_live()
        step = self.crash_points.disk(process, operation, name)
        if process.mid_operation:
            self.interleave(process)
        process.must_live()
        verdict = self.faults.disk(process, operation, name)
        name = shown(name)
        self.trace.add(self.now(), f"{process.name} {operation} {name} {verdict}")
        self.checkpoint_traces.file(self.now(), process.name, operation, name, verdict)
        self.checks.used(process, operation, name, verdict)
        process.step = step
        return verdict

    @override
    def disk_done(self, process: Process, operation: str, name: str) -> None:
        with self.acting(process):
            self.checks.changed(process, operation, name)
        if process.step is not None:
            self.crash_points.after(process.step)
            process.must_live()

    @override
    def saw_frame(self, lane: Lane, attempt: int, frame: Frame) -> None:
        self.checks.frame(lane, attempt, frame)

    @override
    def interleave(self, process: Process) -> None:
        self._interrupted.append((process, self.now()))
        try:
            for _ in range(self.rng.choice((0, 0, 1, 2, 6))):
                if not self._act():
                    break
            while process.paused and process.alive and self._act():
                pass
        finally:
            self._interrupted.pop()
        process.must_live()

    @property
    def ended(self) -> bool:
        return self.done and not self.living_drivers() and not self.living()

    def _run_to_end(self) -> None:
        healed_at = None
        while not self.ended:
            if healed_at is None and (self.faults.spent or self.trace.count > STEPS_MAX):
                healed_at = self.trace.count
                self.faults.heal()
            if healed_at is not None and self.trace.count - healed_at > HEALED_STEPS_MAX:
                raise Violation(
                    f"no progress: {HEALED_STEPS_MAX} events after the last fault {self._standing()}"
                )
            if self.done:
                self.faults.heal()
            if not self._act():
                raise Violation(f"deadlock: nothing can ever happen any more while {self._standing()}")

    def _standing(self) -> str:
        drivers = [
            f"{driver.name} is {'standing by' if driver.master is None else driver.master.state.value}"
            for driver in self.living_drivers()
        ]
        return f"{', '.join(drivers) or 'there is no driver'}, with {len(self.living())} workers"

    def _act(self) -> bool:
        self.faults.maybe_inject()
        now = self.now()
        agenda = self._agenda(now)
        ready, weights, oldest = agenda.ready, list(map(self._weight, agenda.names)), agenda.oldest
        waits = bool(ready)
        if self._interrupted and not self._interrupted[-1][0].paused:
            waits, oldest = True, min(oldest, self._interrupted[-1][1])
        target = agenda.following
        if target is not None and (not waits or target - oldest <= SLACK_MS):
            ready.append(None)
            agenda.names.append("time")
            weights.append(1.0)
        if not ready:
            return False
        chosen = self.rng.choices(range(len(ready)), weights)[0]
        act = ready[chosen]
        if act is not None:
            word = act()
            self.trace.add(self.now(), f"{agenda.names[chosen]}: {word}")
        elif target is not None:
            self.line.advance(target)
        return True

    def _agenda(self, now: int) -> Agenda:
        agenda = Agenda(now)
        if planned := self.line.due():
            agenda.add(planned[1], planned[0], lambda: self.line.take()())
        agenda.not_before(self.line.next_time())
        for lane in self.network.lanes:
            due = lane.due
            if due is not None:
                agenda.add(lane.name, due, lane.deliver)
        for driver in self.drivers:
            if driver.alive:
                for name, since, action in driver.actions(now):
                    agenda.add(name, since, action)
                for time in driver.next_times():
                    agenda.not_before(time)
        for worker in self.workers:
            self._invite(worker, agenda)
        return agenda

    def _invite(self, worker: WorkerProcess, agenda: Agenda) -> None:
        now = agenda.now
        if worker.runs:
            self._invite_loop(worker, agenda)
            agenda.add(worker.beat_name, worker.beat_at, worker.beat)
            agenda.add(worker.background.name, worker.background.since(now), worker.background.act)
        for wire in (worker.link.out, worker.link.back):
            due = wire.due
            if due is not None:
                agenda.add(wire.name, due, lambda wire=wire: self._deliver(worker, wire))  # type: ignore[misc]

    def _invite_loop(self, worker: WorkerProcess, agenda: Agenda) -> None:
        agenda.add(worker.name, worker.since(agenda.now), worker.act)
        agenda.not_before(worker.next_time())

    def _deliver(self, worker: WorkerProcess, wire: ControlWire) -> str:
        step = self.crash_points.message(worker.driver, wire.name)
        word = wire.deliver()
        self.crash_points.after(step)
        return word

    def _weight(self, name: str) -> float:
        weight = self._weights.get(name)
        if weight is None:
            weight = self._weights[name] = self.rng.choice((0.2, 1.0, 1.0, 4.0))
        return weight


def shown(name: str) -> str:
    """Return a file's name for traces, with the last part of a trial file's name, which is random, as "*"."""
    folder, slash, last = name.rpartition("/")
    is_trial = folder.rpartition("/")[2] == reachability.FOLDER and "marker" not in last
    return f"{folder}{slash}*" if is_trial else name
