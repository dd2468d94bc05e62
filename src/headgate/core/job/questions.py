"""Read-only queries on a job's state machine, which may be asked at any time."""

from __future__ import annotations

from collections.abc import Hashable

from headgate.common.errors import InternalError
from headgate.core.execution import JobState
from headgate.core.job.state import Cause, Job, Outcome, OutcomeKind, Plan, PointId
from headgate.core.job.table import Phase, Row
from headgate.core.job.validate import broken
from headgate.core.same_failures import SameFailure

_WORDS = {
    Phase.CREATED: JobState.CREATED,
    Phase.STARTING: JobState.STARTING,
    Phase.DEPLOYING: JobState.DEPLOYING,
    Phase.RUNNING: JobState.RUNNING,
}
_BETWEEN = {Cause.FIRST: JobState.STARTING, Cause.RESCALE: JobState.RESCALING}
_LEAVING = {
    OutcomeKind.FINISHED: JobState.FINISHING,
    OutcomeKind.FAILED: JobState.FAILING,
    OutcomeKind.CANCELLED: JobState.CANCELLING,
}
_OVER = {
    OutcomeKind.FINISHED: JobState.FINISHED,
    OutcomeKind.FAILED: JobState.FAILED,
    OutcomeKind.CANCELLED: JobState.CANCELLED,
}


def word(phase: Phase, cause: Cause, ends: OutcomeKind | None) -> JobState:
    """Return a job's public state; `cause` is why its next or present attempt begins, `ends` how it ends."""
    if ends is not None:
        return (_OVER if phase is Phase.OVER else _LEAVING)[ends]
    return _WORDS.get(phase) or _BETWEEN.get(cause, JobState.RECOVERING)


class Questions:
    """Base class of the job's state machine: queries that change nothing, allowed between any two calls."""

    def __init__(self, job: Job) -> None:
        self._job = job

    @property
    def phase(self) -> Phase:
        return self._job.phase

    @property
    def state(self) -> JobState:
        outcome = self._job.outcome
        return word(self._job.phase, self._job.cause, None if outcome is None else outcome.kind)

    @property
    def attempt(self) -> int:
        return self._job.attempts

    @property
    def restarts(self) -> int:
        return self._job.restarts

    @property
    def plan(self) -> Plan:
        return self._job.plan

    @property
    def point(self) -> PointId | None:
        """The restore point of the present attempt or, between attempts, the next one; None: no state."""
        return self._job.point

    @property
    def outcome(self) -> Outcome | None:
        """How the job ends; None while its end is not decided."""
        return self._job.outcome

    @property
    def goes_on(self) -> bool:
        """Whether the job's end here is decided, and another driver continues the job or may: after a
        handover, a lost leadership, or, with high availability, any failure.
        """
        outcome = self._job.outcome
        if outcome is None:
            return False
        if outcome.kind is OutcomeKind.FAILED:
            return outcome.fenced or self._job.limits.has_successor
        return outcome.kind is OutcomeKind.CANCELLED and (outcome.handed_over or outcome.fenced)

    @property
    def repeating(self) -> SameFailure | None:
        """The newest failure that occurred at least three times since the last checkpoint; else None."""
        return self._job.same.repeating

    @property
    def stopping(self) -> bool:
        return bool(self._job.stops)

    @property
    def rows(self) -> tuple[Row, ...]:
        """Rows of the transition table (`table.py`) that the last event or tick took, in order."""
        return tuple(self._job.taken)

    @property
    def trace(self) -> tuple[str, ...]:
        return self._job.life.history

    def hears(self, attempt: int) -> bool:
        """Return whether reports of attempt number `attempt` count: it is the latest, and deploys or runs."""
        living = self._job.phase in (Phase.DEPLOYING, Phase.RUNNING)
        return living and attempt == self._job.attempts

    def counts(self, attempt: int) -> bool:
        """Return whether counters of attempt number `attempt` are valid: it is the latest, ended or not, and
        its plan is still the job's. Other counters must not be shown.
        """
        latest = self._job.attempt
        return latest is not None and latest.number == attempt and latest.plan == self._job.plan

    def may_fail(self, attempt: int) -> bool:
        """Return whether a failure of this attempt may matter: it is the latest, and no end is decided."""
        return attempt == self._job.attempts and self._job.outcome is None

    def next_wakeup(self) -> int | None:
        """Return when `tick` must be called at the latest (monotonic ms), for heartbeats, deadlines, pauses
        and suspected failures; None: only an event can bring something about.
        """
        job = self._job
        times = [job.monitor.next_wakeup(), job.pause_until_ms]
        if job.attempt is not None and job.attempt.suspicion is not None:
            times.append(job.attempt.suspicion.due_ms)
        if job.rescale is not None:
            times.append(job.rescale.due_ms)
        if job.gang is not None:
            times.append(job.gang.due_ms)
        return min((time for time in times if time is not None), default=None)

    def validate(self) -> None:
        """Raise InternalError, with the last moves, if an invariant of `core/job/validate.py` is broken."""
        found = broken(self._job, self.next_wakeup())
        if found:
            raise InternalError(self._job.life.explain(f"broke: {'; '.join(found)}"))

    def describe(self, now_ms: int = 0) -> tuple[Hashable, ...]:
        """Return all fields that decide on later effects, as plain values that two states can be compared by;
        times are relative to `now_ms`. For tests.
        """
        job = self._job

        def left(due_ms: int | None) -> int | None:
            return None if due_ms is None else due_ms - now_ms

        attempt, gang, rescale, outcome = job.attempt, job.gang, job.rescale, job.outcome
        return (
            (job.phase, job.cause, job.work, job.storage, left(job.pause_until_ms)),
            (job.plan, job.initial, job.point, job.attempts, job.gangs, job.restarts),
            attempt
            and (
                (attempt.number, attempt.cause, attempt.gang, attempt.plan, attempt.point),
                (attempt.ended, attempt.reverted),
                frozenset(attempt.idle)
                if attempt.ended
                else (frozenset(attempt.deployed), frozenset(attempt.data_ended)),
                attempt.suspicion and (attempt.suspicion.failure, left(attempt.suspicion.due_ms)),
            ),
            gang
            and (
                (gang.number, gang.slots, gang.asked, left(gang.due_ms)),
                (tuple(sorted(gang.registered.items())), frozenset(gang.lost)),
            ),
            rescale
            and (
                (rescale.ticket, rescale.parallelism, rescale.from_last, rescale.saved),
                (rescale.step, rescale.plan, rescale.before, left(rescale.due_ms)),
            ),
            outcome
            and (outcome.kind, outcome.failure, outcome.savepoint, outcome.handed_over, outcome.fenced),
            (frozenset(job.stops), job.same.describe(), job.strategy.describe(now_ms)),
            job.monitor.describe(now_ms),
        )
