"""Performs the steps of a rescale in the order that `core/job/rescale.py` decides, and replies to users."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from headgate.common.errors import ConfigError, HeadgateError, OperatingError, UsageError
from headgate.common.ports import Gang
from headgate.common.settings.options import CHECKPOINTING_INTERVAL
from headgate.core.checkpoint.failures import CheckpointFailureReason
from headgate.core.execution import JobState
from headgate.core.job import effects as e
from headgate.core.job import events as v
from headgate.core.job.state import Failure, Plan
from headgate.restore.assignment import check_compatible
from headgate.runtime.job.master_ports import MasterPorts
from headgate.runtime.job.replanning import PlannedJob, Replan
from headgate.runtime.master.attempt.attempts import Attempts
from headgate.runtime.master.attempt.outbox import Outbox, failure_of
from headgate.runtime.master.attempt.waiting_requests import ReplyTo, Tickets
from headgate.runtime.master.checkpoints.checkpoint_master import CheckpointMaster
from headgate.runtime.master.losses import Losses


@runtime_checkable
class KnowsSlots(Protocol):
    """A gang that can tell beforehand whether there are slots for another number of workers."""

    def refusal(self, slots: int) -> str | None:
        """Return why `slots` workers (in all) cannot replace the present ones; None: they can; may block."""


class Rescaling:
    """Performs a job's rescales, step by step, in its job master's loop; `replan` None: all are refused."""

    def __init__(
        self,
        ports: MasterPorts,
        attempts: Attempts,
        checkpoints: CheckpointMaster,
        losses: Losses,
        outbox: Outbox,
        replan: Replan | None,
    ) -> None:
        self._ports, self._attempts, self._checkpoints = ports, attempts, checkpoints
        self._losses, self._outbox, self._tickets = losses, outbox, Tickets[int]()
        self._replan, self._has_storage = replan, checkpoints.has_storage

    def ask(self, parallelism: int, from_last: bool, reply_to: ReplyTo[int]) -> None:
        """Request to run at `parallelism`; `reply_to` is called once, in the loop, with the parallelism or
        the error. The reply comes when all subtasks run; at once: UsageError (no int, or no other plan can be
        made), ConfigError (no checkpoint storage). `from_last`: use the last completed checkpoint where no
        new one can be taken.
        """
        try:
            check_asked(parallelism, self._replan, self._has_storage)
        except HeadgateError as error:
            reply_to(None, error)
            return
        self._outbox.put(v.RescaleAsked(self._tickets.issue(reply_to), parallelism, from_last))

    def perform(
        self, effect: e.MakePlan | e.CountSlots | e.TakeCheckpoint | e.CheckFit | e.AdoptPlan
    ) -> None:
        """Perform one step of a rescale. Its outcome, if any, is an event in the outbox (PlanMade,
        SlotsCounted, Saved or Fits, with the error if the step failed), at once or when background work has
        ended.
        """
        match effect:
            case e.MakePlan(ticket, parallelism):
                self._outbox.put(self._make(ticket, parallelism))
            case e.CountSlots(ticket, plan):
                self._count(ticket, plan.slots)
            case e.TakeCheckpoint(ticket):
                self._checkpoints.requests.for_rescale(ticket)
            case e.CheckFit(ticket, plan):
                self._outbox.put(v.Fits(ticket, self._misfit(self._planned_of(plan))))
            case e.AdoptPlan(plan):
                self._adopt(self._planned_of(plan))

    def answer(self, answer: e.Answer, state: JobState) -> None:
        """Reply to the user who requested a rescale: its parallelism, or the error why it did not happen
        (`state` is the job's, for its text). If the old plan is back the job's listener gets that error, too.
        """
        why = None if answer.failure is None else self._losses.error(answer.failure)
        refusal = refusal_of(answer, why, state)
        if answer.refusal is e.Refusal.REVERTED:
            self._ports.listener.note(str(refusal))
        self._tickets.reply(answer.ticket, answer.parallelism if refusal is None else None, refusal)

    def _planned_of(self, plan: Plan) -> PlannedJob:
        assert isinstance(plan.ident, PlannedJob)
        return plan.ident

    def _make(self, ticket: int, parallelism: int) -> v.PlanMade:
        assert self._replan is not None
        try:
            planned = make_plan(parallelism, self._replan, self._attempts.planned)
        except HeadgateError as error:
            return v.PlanMade(ticket, None, failure_of(error))
        return v.PlanMade(ticket, None if planned is None else plan_of(planned))

    def _count(self, ticket: int, slots: int) -> None:
        def counted(_: None, error: BaseException | None) -> None:
            failure = failure_of(error) if isinstance(error, Exception) else None
            self._ports.post(lambda: self._outbox.put(v.SlotsCounted(ticket, failure)))

        self._ports.background.submit(lambda: count_slots(self._ports.gang, slots), counted)

    def _misfit(self, planned: PlannedJob) -> Failure | None:
        latest = self._checkpoints.points.latest
        try:
            if latest is not None:
                check_compatible(planned.plan, latest.checkpoint)
        except UsageError as error:
            return failure_of(error)
        return None

    def _adopt(self, planned: PlannedJob) -> None:
        self._attempts.replan(planned)
        self._checkpoints.replanned(planned.plan)
        self._ports.listener.rescaled(planned.plan)


def plan_of(planned: PlannedJob) -> Plan:
    plan = planned.plan
    return Plan(planned, plan.slots, sum(vertex.parallelism for vertex in plan.vertices))


def check_asked(parallelism: int, replan: Replan | None, has_storage: bool) -> None:
    # A program without type checks may pass anything, and any other error raised here ends the job.
    if type(parallelism) is not int:
        raise UsageError(f"parallelism is {parallelism!r}; expected a whole number")
    if not has_storage:
        raise ConfigError(
            f"the job takes no checkpoints to go on from; set {CHECKPOINTING_INTERVAL.key}, or stop it "
            "with a savepoint and start it from there"
        )
    if replan is None:
        raise UsageError("this job was started without its program's graph, so it has no other plan")


def make_plan(parallelism: int, replan: Replan, present: PlannedJob) -> PlannedJob | None:
    if parallelism < 1:
        raise UsageError(f"parallelism is {parallelism}; expected at least 1")
    planned = replan(parallelism)
    return None if _widths(planned) == _widths(present) else planned


def count_slots(gang: Gang, slots: int) -> None:
    try:
        reason = gang.refusal(slots) if isinstance(gang, KnowsSlots) else None
    except Exception as error:
        reason = f"it cannot be told whether there are slots: {error}"
    if reason is not None:
        raise UsageError(f"the job was not rescaled: {reason}")


def refusal_of(answer: e.Answer, why: HeadgateError | None, state: JobState) -> HeadgateError | None:
    """Return the error for a refused rescale; None: it is done. `why`: `answer.failure` as error, if any."""
    match answer.refusal:
        case None:
            return None
        case e.Refusal.ONE_AT_A_TIME:
            text = f"the job is being rescaled to parallelism {answer.parallelism} already; wait for that"
        case e.Refusal.NOT_RUNNING:
            reason = CheckpointFailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
            waits = state in (JobState.STARTING, JobState.DEPLOYING, JobState.RECOVERING)
            hint = "; ask for the last checkpoint to be taken" if waits else ""
            text = (
                f"the job is {state.value}, so no checkpoint can be taken to go on from ({reason.name}){hint}"
            )
        case e.Refusal.NOT_SAVED:
            text = f"the job was not rescaled: {why}"
        case e.Refusal.STOPPING:
            text = "the job was not rescaled: it is being stopped with a savepoint"
        case e.Refusal.REVERTED:
            text = (
                f"rescaling to parallelism {answer.parallelism} failed, back to {answer.slots} workers: {why}"
            )
        case e.Refusal.JOB_ENDS:
            text = f"the job is {state.value}"
        case _:
            return why
    return OperatingError(text)


def _widths(planned: PlannedJob) -> list[tuple[int, list[str | None]]]:
    return [(each.parallelism, [node.uid for node in each.chain]) for each in planned.plan.vertices]
