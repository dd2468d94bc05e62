"""A whole job in one thread: the seed picks who acts next, when time passes, and what goes wrong."""

from __future__ import annotations

import random
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headgate.api.jobs.executor_contract import JobSpec
from headgate.checkpoint.storage import reachability
from headgate.common.ports import Probe
from headgate.runtime.job.job_settings import job_settings
from headgate.runtime.master.job_master import JobMaster
from headgate.runtime.protocol.frames import Frame
from headgate.testing.simulation.agenda import Agenda
from headgate.testing.simulation.chronicle import Chronicle
from headgate.testing.simulation.clock import SimClock, Timeline
from headgate.testing.simulation.crash_points import CrashPoints
from headgate.testing.simulation.drivers import DriverProcess, Submission
from headgate.testing.simulation.faults import NO_FAULTS, FaultMix, Faults
from headgate.testing.simulation.invariants import Checks, Violation
from headgate.testing.simulation.links import Wire
from headgate.testing.simulation.network import Lane, Network
from headgate.testing.simulation.simulated_processes import Process, WorkerProcess
from headgate.testing.simulation.supervisor import Supervisor
from headgate.testing.simulation.trace import Trace
from headgate.testing.simulation.virtual_disk import SimFiles, Verdict

JOB_ID = "simulated"
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
        restarts: of the job, by one of its drivers.
        drivers: how many there were.
        checkpoints: completed.
        faults: what was done to it, in order.
        violation: what should not have happened, if anything.
        story: the last lines.
        checkpoint_story: who did what when for the checkpoint that the violation is about, or the last one.
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
    drivers: int = 1
    checkpoint_story: list[str] = field(default_factory=list)


class World:
    """One simulation.

    Args:
        job: what runs, from `Environment.execute`.
        seed: decides everything.
        mix: which faults, and how many.
        checks: what must hold; told of everything that can be seen from outside.
        story_max: lines of story to keep; None keeps all.
        crash_points: kills the driver at a place that is counted and not drawn.
        elects: whether drivers win an election before they lead; None: the seed says, where drivers change.

    Attributes:
        files: what is durable.
        workers: processes of all gangs that were not forgotten.
        supervisor: starts drivers.
        at_work: whose code runs at this instant; None between two actions.
    """

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
        self.seed, self.job = seed, job
        self.rng = random.Random(f"{seed} order")
        self.line, self.trace = Timeline(), Trace(story_max)
        self.files, self.settings = SimFiles(), job_settings(job.config)
        self.network = Network(self)
        self.workers: list[WorkerProcess] = []
        self.at_work: Process | None = None
        self.checks = checks if checks is not None else Checks()
        self.faults = Faults(self, mix, random.Random(f"{seed} faults"))
        self.chronicle = Chronicle()
        self.crash_points = crash_points
        self._latency_ms = self.rng.choice((0, 1, 5))
        self._step_ms = self.rng.choice((0.1, 2.0, 40.0))
        self._weights: dict[str, float] = {}
        self._under_way: list[tuple[Process, int]] = []
        if elects is None:
            elects = self.faults.drivers_change and self.rng.random() < 0.5
        self.supervisor = Supervisor(self, self.submission(), elects)

    def submission(self) -> Submission:
        """What the first driver is to run."""
        return Submission(self.job, JOB_ID)

    @property
    def driver(self) -> DriverProcess:
        """The driver whose code runs, or that ended the job, or the newest one."""
        if isinstance(self.at_work, DriverProcess):
            return self.at_work
        return self.supervisor.finished or self.supervisor.drivers[-1]

    @property
    def master(self) -> JobMaster:
        """The job master of :attr:`driver`."""
        master = self.driver.master
        assert master is not None, f"{self.driver.name} has no job master yet"
        return master

    @property
    def job_id(self) -> str:
        """Id of the execution that is the last so far."""
        return self.supervisor.submission.job_id

    def run(self) -> Outcome:
        """Run the job to its end, or to the first violation."""
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
        masters = [driver.master for driver in self.supervisor.drivers if driver.master is not None]
        return Outcome(
            self.seed,
            self.trace.digest,
            self.trace.count,
            self.now(),
            sum(master.restarts for master in masters),
            self.checks.completed,
            list(self.faults.done),
            violation,
            self.trace.story(),
            len(self.supervisor.drivers),
            self.chronicle.story(violation),
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

    @contextmanager
    def acting(self, process: Process) -> Iterator[None]:
        """The code of `process` runs within."""
        before, self.at_work = self.at_work, process
        try:
            yield
        finally:
            self.at_work = before

    def disk_gate(self, process: Process, operation: str, name: str) -> Verdict:
        """A process touches the disk: others may act first, and it may go wrong."""
        process.must_live()
        step = None if self.crash_points is None else self.crash_points.disk(process, operation, name)
        if process.mid_operation:
            self.interleave(process)
        process.must_live()
        verdict = self.faults.disk(process, operation, name)
        name = shown(name)
        self.trace.add(self.now(), f"{process.name} {operation} {name} {verdict}")
        self.chronicle.file(self.now(), process.name, operation, name, verdict)
        self.checks.touched(self, process, operation, name, verdict)
        process.step = step
        return verdict

    def disk_done(self, process: Process, operation: str, name: str) -> None:
        """A process has changed the disk."""
        with self.acting(process):
            self.checks.changed(self, process, operation, name)
        if self.crash_points is not None and process.step is not None:
            self.crash_points.after(process.step)
            process.must_live()

    def zombie_survives(self) -> bool:
        """Whether a process that stands still cannot be reached by a kill."""
        return self.rng.random() < 0.5

    def saw_frame(self, lane: Lane, attempt: int, frame: Frame) -> None:
        """See `network.Surroundings`."""
        self.checks.frame(lane, attempt, frame)

    def note(self, text: str) -> None:
        """Something for the story that is no action."""
        self.trace.add(self.now(), text)

    def claimed(self, driver: DriverProcess) -> None:
        """A driver has claimed the log."""
        self.note(f"{driver.name} has claimed {driver.job_id} as generation {driver.generation}")

    def begins_anew(self, submission: Submission) -> None:
        """The job was stopped on purpose, and is started once more from where it was."""
        begins = "nothing" if submission.point is None else str(submission.point.checkpoint.checkpoint)
        self.note(f"the user starts the job again as {submission.job_id}, from {begins}")

    def interleave(self, process: Process) -> None:
        """Let others act in the middle of a process's work, for as long as it stands still at least."""
        self._under_way.append((process, self.now()))
        try:
            for _ in range(self.rng.choice((0, 0, 1, 2, 6))):
                if not self._act():
                    break
            while process.paused and process.alive and self._act():
                pass
        finally:
            self._under_way.pop()
        process.must_live()

    def forget_the_dead(self) -> None:
        """Nothing comes from processes that are gone once their last words have arrived."""
        self.workers = [worker for worker in self.workers if worker.alive or worker.unheard]
        self.network.sweep()

    def living(self) -> list[WorkerProcess]:
        """Workers that exist."""
        return [worker for worker in self.workers if worker.alive]

    # -- the loop

    @property
    def over(self) -> bool:
        """Whether the job is, and every process of it has left."""
        return self.supervisor.done and not self.supervisor.living() and not self.living()

    def _run_to_end(self) -> None:
        healed_at = None
        while not self.over:
            if healed_at is None and (self.faults.spent or self.trace.count > STEPS_MAX):
                healed_at = self.trace.count
                self.faults.heal()
            if healed_at is not None and self.trace.count - healed_at > HEALED_STEPS_MAX:
                raise Violation(
                    f"no progress: {HEALED_STEPS_MAX} events after the last fault {self._standing()}"
                )
            if self.supervisor.done:
                self.faults.heal()
            if not self._act():
                raise Violation(f"deadlock: nothing can ever happen any more while {self._standing()}")

    def _standing(self) -> str:
        drivers = [
            f"{driver.name} is {'standing by' if driver.master is None else driver.master.state.value}"
            for driver in self.supervisor.living()
        ]
        return f"{', '.join(drivers) or 'there is no driver'}, with {len(self.living())} workers"

    def _act(self) -> bool:
        """One action, or the passing of time; False when nothing is left to happen."""
        self.faults.maybe_strike()
        now = self.now()
        agenda = self._agenda(now)
        ready, weights, oldest = agenda.ready, list(map(self._weight, agenda.names)), agenda.oldest
        waits = bool(ready)
        if self._under_way and not self._under_way[-1][0].paused:
            waits, oldest = True, min(oldest, self._under_way[-1][1])
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
            said = act()
            self.trace.add(self.now(), f"{agenda.names[chosen]}: {said}")
        elif target is not None:
            self.line.advance(target)
        return True

    def _agenda(self, now: int) -> Agenda:
        """Whoever can act now, and when the next one can that cannot yet."""
        agenda = Agenda(now)
        planned = self.line.due()
        if planned is not None:
            agenda.add(planned[1], planned[0], lambda: self.line.take()())
        agenda.not_before(self.line.next_time())
        for lane in self.network.lanes:
            due = lane.due
            if due is not None:
                agenda.add(lane.name, due, lane.deliver)
        for driver in self.supervisor.drivers:
            if driver.alive:
                for name, since, action in driver.actions(now):
                    agenda.add(name, since, action)
                for time in driver.next_times():
                    agenda.not_before(time)
        for worker in self.workers:
            self._invite(worker, agenda)
        return agenda

    def _invite(self, worker: WorkerProcess, agenda: Agenda) -> None:
        """Enter what a worker and the messages from and to it can do."""
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
        """Enter the next turn of a worker's loop."""
        agenda.add(worker.name, worker.since(agenda.now), worker.act)
        agenda.not_before(worker.next_time())

    def _deliver(self, worker: WorkerProcess, wire: Wire) -> str:
        if self.crash_points is None:
            return wire.deliver()
        step = self.crash_points.message(worker.driver, wire.name)
        said = wire.deliver()
        self.crash_points.after(step)
        return said

    def _weight(self, name: str) -> float:
        weight = self._weights.get(name)
        if weight is None:
            weight = self._weights[name] = self.rng.choice((0.2, 1.0, 1.0, 4.0))
        return weight


def shown(name: str) -> str:
    """A file's name as traces have it: names of trial files are drawn outside of any seed."""
    folder, slash, last = name.rpartition("/")
    is_trial = folder.rpartition("/")[2] == reachability.FOLDER and "marker" not in last
    return f"{folder}{slash}*" if is_trial else name
