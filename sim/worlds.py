"""Worlds for random jobs: functions that cost virtual time, and jobs that begin from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import override

from headgate.api.jobs.executor_contract import JobSpec
from headgate.restore.point import RestorePoint
from headgate.state.snapshots import CheckpointMetadata
from headgate.testing.simulation.clock import Agenda, SimClock
from headgate.testing.simulation.crash_points import CrashPoints
from headgate.testing.simulation.faults import NO_FAULTS, FaultMix
from headgate.testing.simulation.invariants import Checks
from headgate.testing.simulation.simulated_jobs import Submission
from headgate.testing.simulation.simulated_workers import WorkerProcess
from headgate.testing.simulation.virtual_disk import URI, SimFiles
from headgate.testing.simulation.world import JOB_ID, World


class Spent:
    """Virtual ms that functions have cost, in the one thread of a simulation."""

    ms = 0.0


def cost(virtual_ms: float) -> None:
    """Called by a job's function: in a CostlyWorld its worker's loop stands still for so long."""
    Spent.ms += virtual_ms


class _CostlyClock(SimClock):
    @override
    def precise_ms(self) -> float:
        return super().precise_ms() + Spent.ms


class CostlyWorld(World):
    """A world in which a worker's loop is busy for as long as its functions said that they cost.

    Heartbeats and background threads go on meanwhile, and steps measure the cost, so the loop makes
    shorter ones: a slow operator gives its senders backpressure as in real life.
    """

    def __init__(
        self,
        job: JobSpec,
        seed: int,
        mix: FaultMix = NO_FAULTS,
        checks: Checks | None = None,
        story_max: int | None = 200,
        crash_points: CrashPoints | None = None,
    ) -> None:
        Spent.ms = 0.0
        self._busy_until: dict[str, int] = {}
        super().__init__(job, seed, mix, checks, story_max, crash_points)

    @override
    def new_clock(self) -> SimClock:
        return _CostlyClock(self.line, self.rng, self.rng.randint(-50, 50), self._step_ms)

    @override
    def _invite_loop(self, worker: WorkerProcess, agenda: Agenda) -> None:
        busy_until = self._busy_until.get(worker.name, 0)
        if busy_until <= agenda.now:
            agenda.add(worker.name, worker.since(agenda.now), self._measured(worker))
        agenda.not_before(busy_until)
        agenda.not_before(worker.next_time())

    def _measured(self, worker: WorkerProcess) -> Callable[[], str]:
        def act() -> str:
            before = Spent.ms
            said = worker.act()
            took = Spent.ms - before
            if took:
                self._busy_until[worker.name] = self.now() + round(took)
            return said

        return act


class RestoredWorld(CostlyWorld):
    """A world whose job begins from a checkpoint of another one, and reads that one's files.

    Args:
        job: the changed program.
        seed: decides everything.
        checkpoint: where it begins.
        files: the disk that the other job left behind; copied.
        mix: which faults.
        checks: what must hold.
        story_max: lines of story to keep.
    """

    def __init__(
        self,
        job: JobSpec,
        seed: int,
        checkpoint: CheckpointMetadata,
        files: SimFiles,
        mix: FaultMix = NO_FAULTS,
        checks: Checks | None = None,
        story_max: int | None = 200,
    ) -> None:
        self._point, self._left = RestorePoint(checkpoint, URI), files
        super().__init__(job, seed, mix, checks, story_max)

    @override
    def submission(self) -> Submission:
        # An id of its own, as every execution has: the log and the files of the job before are not its own.
        before = {name.partition("/")[0] for name in self._left.files if name.startswith(JOB_ID)}
        self.files.files.update(self._left.files)
        return Submission(self.job, f"{JOB_ID}-{len(before)}", self._point)
