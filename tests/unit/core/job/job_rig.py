"""A job's machine with short names: what happened in one line, the whole list of effects back."""

from __future__ import annotations

from headgate.core.execution import JobEnd
from headgate.core.job import effects as e
from headgate.core.job import events as v
from headgate.core.job.machine import JobMachine
from headgate.core.job.state import Failure, JobLimits, Loss, LossKind, Plan
from headgate.core.job.table import ROWS, Phase
from headgate.core.restart_strategies import FixedDelay, NoRestart, RestartSpec, restart_strategy

ONE, TWO, THREE = Plan("one", 1, 1), Plan("two", 2, 2), Plan("three", 3, 3)
TWO_AGAIN = Plan("two, but another width", 2, 3)
BROKEN, WRONG = Failure("broken"), Failure("wrong use", restart_may_help=False)
PEER = Failure("a peer is lost")
PAUSE, REDEPLOY, RESCALE, HEARTBEAT = 100, 60_000, 40_000, 50_000
TWICE = FixedDelay(attempts=2, delay_ms=PAUSE)

Effects = list[e.Effect]


class Rig:
    """A machine that is validated, and held to its table, after every event."""

    def __init__(
        self,
        plan: Plan = TWO,
        restart: RestartSpec = TWICE,
        has_successor: bool = False,
        same_failure_ends: bool = False,
    ) -> None:
        limits = JobLimits(REDEPLOY, RESCALE, HEARTBEAT, has_successor, same_failure_ends)
        self.core = JobMachine("job", plan, limits, restart_strategy(restart, lambda low, _: low))
        self.now = 0

    def on(self, *events: v.Event) -> Effects:
        """What follows from some events at this moment, all together."""
        return [effect for event in events for effect in self.checked(self.core.handle(event, self.now))]

    def after(self, ms: int) -> Effects:
        """What follows from so much time."""
        self.now += ms
        return self.checked(self.core.tick(self.now))

    def checked(self, effects: Effects) -> Effects:
        """The effects, which the table allows; the machine is sound."""
        allowed = {name for row in self.core.rows for name in ROWS[row].effects}
        assert {type(effect).__name__ for effect in effects} <= allowed, self.core.rows
        self.core.validate()
        return effects

    # -- whole stretches -------------------------------------------------------------------------

    def starting(self) -> Rig:
        """Submitted, and its workers asked for."""
        self.on(v.Submit(None), v.PointCommitted())
        assert self.core.phase is Phase.STARTING
        return self

    def come(self, gang: int = 1) -> Effects:
        """All workers of a gang register."""
        slots = range(self.core.plan.slots)
        return self.on(*(v.Registered(gang, slot, 10 * gang + slot) for slot in slots))

    def deployed(self, attempt: int = 1) -> Effects:
        """All workers say that their subtasks run."""
        return self.on(*(v.Deployed(attempt, slot) for slot in range(self.core.plan.slots)))

    def deploying(self) -> Rig:
        """All workers of the first gang are there."""
        self.starting().come()
        assert self.core.phase is Phase.DEPLOYING
        return self

    def running(self) -> Rig:
        """The first attempt runs."""
        self.deploying().deployed()
        assert self.core.phase is Phase.RUNNING
        return self

    def failed(self) -> Rig:
        """The first attempt has failed; its gang was asked to stop."""
        self.running().on(v.AttemptFailed(1, BROKEN))
        assert self.core.phase is Phase.QUIESCING
        return self

    def idle(self, attempt: int = 1) -> Effects:
        """All workers have dropped an attempt."""
        return self.on(*(v.Idle(attempt, slot) for slot in range(self.core.plan.slots)))

    def restoring(self) -> Rig:
        """The first attempt has failed, its gang is idle, and the restore point is looked for."""
        self.failed().idle()
        self.after(PAUSE)
        assert self.core.phase is Phase.RESTORING
        return self

    def found(self) -> Effects:
        """The restore point is found and committed."""
        return self.on(v.PointFound(None), v.PointCommitted())

    def asks(self, plan: Plan, from_last: bool = False, ticket: int = 1) -> Effects:
        """A rescale to the fit: only the last effects."""
        asked = v.RescaleAsked(ticket, plan.slots, from_last)
        self.on(asked, v.PlanMade(ticket, plan), v.SlotsCounted(ticket), v.Saved(ticket))
        return self.on(v.Fits(ticket))


# -- effects by short names --------------------------------------------------------------------------


def end(attempt: int = 1) -> Effects:
    """The attempt ends."""
    return [e.SuspendCheckpoints(), e.EndAttempt(attempt)]


def failing(failure: Failure, restart_in_ms: int | None, attempt: int = 1) -> e.Report:
    """The report of a failure."""
    return e.Report(e.Failing(attempt, failure, restart_in_ms))


def also(failure: Failure, attempt: int = 1) -> e.Report:
    """The report of a failure that changes nothing."""
    return e.Report(e.AlsoFailed(attempt, failure))


def begin(attempt: int, gang: int, plan: Plan = TWO, point: str | None = None) -> e.BeginAttempt:
    """The deployment of an attempt."""
    return e.BeginAttempt(attempt, gang, plan, point)


def link_lost(slot: int, gang: int = 1) -> Failure:
    """The failure that a lost link is."""
    return Failure(Loss(LossKind.LINK, gang, slot))


def gang_gone(gang: int = 1, why: str | None = None) -> Failure:
    """The failure that the end of a gang is."""
    return Failure(Loss(LossKind.GANG, gang, why=why))


def over(how: str) -> Effects:
    """The end of a job."""
    return [e.EndCheckpoints(JobEnd(how)), e.Report(e.Ended(_KINDS[how]))]


_KINDS = {kind.value: kind for kind in e.OutcomeKind}
ONCE = FixedDelay(attempts=1, delay_ms=PAUSE)
NEVER = NoRestart()
RESTART_OFTEN = FixedDelay(attempts=100, delay_ms=0)
