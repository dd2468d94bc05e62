"""Between two attempts: what must have come to rest, and in which order the next one begins.

In order: what still runs is stopped (the living gang is told to drop its subtasks, a broken one is
cancelled); storage and committers are quiet, the gang is idle or gone, and the pause is over; the
restore point is read from the log and its committables are committed once more; then the gang is
deployed again, or a new one asked for. A failure and a change of parallelism go the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headgate.core.execution import JobEvent, JobState
from headgate.runtime.attempts import Attempts, PlannedJob
from headgate.runtime.checkpoint_master import CheckpointMaster
from headgate.runtime.control import messages as m
from headgate.runtime.gang_keeper import GangKeeper
from headgate.runtime.master_ports import MasterPorts, RestorePoint

FINISH_MS = 10_000
"""How long workers may take to leave before the gang is cancelled."""


class RecoveryHost(Protocol):
    """What is asked of the job master."""

    @property
    def state(self) -> JobState:
        """Where the job is in its life."""
        ...

    def resume(self, event: JobEvent) -> None:
        """Everything is at rest: begin the next attempt, in the living gang or in a new one."""
        ...

    def gang_exited(self, gang: int, error: str | None) -> None:
        """All workers of a gang are gone."""
        ...


class Recovery:
    """Used by the job master's loop.

    Args:
        host: the job master.
        gang: its workers.
        attempts: its deployments.
        checkpoints: storage and committers.
        ports: doors of the job master.
        redeploy_timeout_ms: how long a living gang may take to become idle.
    """

    def __init__(
        self,
        host: RecoveryHost,
        gang: GangKeeper,
        attempts: Attempts,
        checkpoints: CheckpointMaster,
        ports: MasterPorts,
        redeploy_timeout_ms: int,
    ) -> None:
        self._host, self._gang, self._attempts = host, gang, attempts
        self._checkpoints, self._clock, self._listener = checkpoints, ports.clock, ports.listener
        self._redeploy_timeout_ms = redeploy_timeout_ms
        self._initial = attempts.point
        self._restart_at: int | None = None
        self._recommitting = False

    # -- ending an attempt -----------------------------------------------------------------------

    def stop_subtasks(self) -> None:
        """The attempt is over; its workers stay for the next one if they can."""
        self._gang.expect(self._redeploy_timeout_ms)
        self._gang.broadcast(m.Stop(self._attempts.number))
        if self._gang.roster.broken and self._gang.alive:
            self.force_gang_out()

    def dismiss_gang(self) -> None:
        """The workers are not needed any more; they may leave in order."""
        self._gang.expect(FINISH_MS)
        if self._gang.whole:
            self._gang.broadcast(m.Finish(self._attempts.number))
        elif self._gang.alive:
            self.force_gang_out()

    def make_room(self, planned: PlannedJob) -> None:
        """The next attempt runs `planned`: workers stay if it needs as many, and leave otherwise."""
        if self._gang.whole and planned.plan.slots == self._attempts.plan.slots:
            self.stop_subtasks()
        else:
            self.dismiss_gang()

    def adopt(self, planned: PlannedJob) -> None:
        """The next attempt runs `planned`."""
        self._attempts.replan(planned)
        self._checkpoints.replanned(planned.plan)
        self._gang.resize(planned.plan.slots)
        for member in self._gang.roster.members():
            member.counters = {}
        self._listener.rescaled(planned.plan)

    def force_gang_out(self) -> None:
        """The workers must go."""
        if self._gang.force_out():
            self._host.gang_exited(self._gang.roster.gang, "it did not end in time and was fenced")

    # -- beginning the next ----------------------------------------------------------------------

    def schedule(self, delay_ms: int) -> None:
        """The next attempt begins when this pause is over, at the earliest."""
        self._restart_at = self._clock.monotonic_ms() + delay_ms

    def failed(self) -> None:
        """The restore point could not be found or committed."""
        self._recommitting = False

    def try_restart(self) -> None:
        """Go on as soon as nothing of the last attempt is left and the pause is over."""
        if not self._host.state.between_attempts or self._recommitting or not self._checkpoints.quiet:
            return
        if self._restart_at is not None and self._clock.monotonic_ms() < self._restart_at:
            return
        if self._gang.redeployable:
            self._recover(JobEvent.REDEPLOY)
        elif not self._gang.alive:
            self._recover(JobEvent.SUBMIT)

    def restore_from(self, point: RestorePoint | None, then: Callable[[], None]) -> None:
        """The next attempt begins at `point`, whose committables are committed first."""
        self._attempts.point = point
        self._checkpoints.recommit(point, then)

    def _recover(self, event: JobEvent) -> None:
        def go_on() -> None:
            self._recommitting = False
            if not self._host.state.between_attempts:
                return
            if event is JobEvent.REDEPLOY and not self._gang.whole:
                self.try_restart()
                return
            self._host.resume(event)

        def found(latest: RestorePoint | None) -> None:
            self.restore_from(self._initial if latest is None else latest, go_on)

        self._recommitting = True
        self._checkpoints.find_latest(found)

    # -- time ------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Time passed between two attempts."""
        if self._restart_at is not None and self._clock.monotonic_ms() >= self._restart_at:
            # What follows waits for news, not for time; to wake up for it would be to wake up all the time.
            self._restart_at = None
        if self._gang.overdue and not self._gang.redeployable:
            self.force_gang_out()
        self.try_restart()

    def wakeups(self) -> list[int | None]:
        """When :meth:`tick` has something to do."""
        return [self._restart_at, None if self._gang.redeployable else self._gang.deadline()]
