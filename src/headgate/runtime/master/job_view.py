"""Read access to the state of a job master's job, for the job's driver and its status; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.api.jobs.executor_contract import RepeatingFailure
from headgate.common.errors import HeadgateError
from headgate.core.execution import JobState
from headgate.core.job.machine import JobMachine
from headgate.graph.physical import PhysicalPlan
from headgate.runtime.job.job_settings import JobSettings
from headgate.runtime.master.attempt.attempts import Attempts
from headgate.runtime.master.attempt.enumerators import Enumerators
from headgate.runtime.master.attempt.members import Members
from headgate.runtime.master.losses import Losses
from headgate.runtime.master.reports import Reports
from headgate.runtime.protocol import messages as m


class JobView:
    """The read-only facts about a job master's job, for its driver and its status; read in the loop only."""

    settings: JobSettings
    _machine: JobMachine
    _members: Members
    _attempts: Attempts
    _losses: Losses
    _reports: Reports

    @property
    def state(self) -> JobState:
        return self._machine.state

    @property
    def error(self) -> HeadgateError | None:
        """The error with which the job failed, or was failing when it was cancelled; else None."""
        outcome = self._machine.outcome
        return None if outcome is None or outcome.failure is None else self._losses.error(outcome.failure)

    @property
    def savepoint(self) -> str | None:
        """URI of the savepoint with which the job was stopped; None: it was not, or not yet."""
        outcome = self._machine.outcome
        return None if outcome is None or outcome.savepoint is None else str(outcome.savepoint)

    @property
    def last_failure(self) -> str | None:
        """Text of the error of the latest failed attempt, or failed rescale; None if nothing has failed."""
        return self._reports.last_failure

    @property
    def restarts(self) -> int:
        """How many deployments followed a failure; those for a rescale do not count."""
        return self._machine.restarts

    @property
    def goes_on(self) -> bool:
        """Whether the job has ended only in this driver, and goes on or may go on in another one (HA)."""
        return self._machine.goes_on

    @property
    def attempt(self) -> int:
        """The number of the latest deployment, from 1; 0 before the first."""
        return self._machine.attempt

    @property
    def plan(self) -> PhysicalPlan:
        """The physical plan (chains, subtasks and exchanges) of the present attempt or the next."""
        return self._attempts.plan

    @property
    def sources(self) -> Enumerators:
        """The split enumerators of the present attempt, one per source; empty before the first attempt,
        between two attempts, and after the job's end.
        """
        return self._attempts.sources

    @property
    def repeating(self) -> RepeatingFailure | None:
        """The failure that ended the latest attempts alike, as a report for users; None: none repeats."""
        same = self._machine.repeating
        return None if same is None else self._reports.repeating(same)

    @property
    def restored_totals(self) -> Mapping[str, tuple[int, int]]:
        return self._attempts.restored_totals

    @property
    def members(self) -> Members:
        return self._members

    def heartbeats(self) -> dict[int, m.Heartbeat]:
        """Return the last heartbeat of each worker that has sent one, by slot."""
        beats = [(member.register.slot, member.beat) for member in self._members.members()]
        return {slot: beat for slot, beat in beats if beat is not None}

    def counters(self) -> list[m.Counters]:
        return self._members.counters()

    def standstills(self) -> list[m.Standstill]:
        """Return the calls of user code that had blocked a worker's loop for 1 s at its last heartbeat."""
        return [still for member in self._members.members() for still in member.standstills]
