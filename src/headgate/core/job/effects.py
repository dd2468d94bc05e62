"""What the shell does for a job, in the order in which the machine returns it; each effect is plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headgate.core.execution import JobEnd
from headgate.core.job.state import Attempt, Failure, OutcomeKind, Plan, PointId
from headgate.core.same_failures import SameFailure


class Effect:
    """Something to do."""

    __slots__ = ()


# -- gang and links ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubmitGang(Effect):
    """Ask for workers; the links of every earlier gang are closed first."""

    gang: int
    slots: int


@dataclass(frozen=True, slots=True)
class CancelGang(Effect):
    """Cancel a gang: close its links, and have its launcher end it."""

    gang: int


@dataclass(frozen=True, slots=True)
class AdmitWorker(Effect):
    """This link is the worker of this slot."""

    gang: int
    slot: int
    link: int


@dataclass(frozen=True, slots=True)
class CloseLink(Effect):
    """Close a connection that has no place here, or not any more."""

    link: int


@dataclass(frozen=True, slots=True)
class AnswerBeat(Effect):
    """Answer a heartbeat, which renews the worker's lease."""

    gang: int
    slot: int


# -- attempt -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BeginAttempt(Effect):
    """Make the enumerators and deploy; what goes wrong comes back as AttemptFailed."""

    attempt: int
    gang: int
    plan: Plan
    point: PointId | None

    @classmethod
    def of(cls, attempt: Attempt) -> BeginAttempt:
        """Return the effect that begins an attempt which has its gang."""
        return cls(attempt.number, attempt.gang, attempt.plan, attempt.point)


@dataclass(frozen=True, slots=True)
class Stop(Effect):
    """Have the workers of a gang drop an attempt; the processes stay."""

    gang: int
    attempt: int


@dataclass(frozen=True, slots=True)
class LetLeave(Effect):
    """Have the workers of a gang leave."""

    gang: int
    attempt: int


@dataclass(frozen=True, slots=True)
class EndAttempt(Effect):
    """Close the enumerators of an attempt."""

    attempt: int


# -- checkpoints ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartCheckpoints(Effect):
    """All subtasks of an attempt run: checkpoints may begin."""

    attempt: int


@dataclass(frozen=True, slots=True)
class SuspendCheckpoints(Effect):
    """The attempt ends: begin no checkpoint, and give up those that are not being stored."""


@dataclass(frozen=True, slots=True)
class RequestFinal(Effect):
    """All input has ended: take the checkpoint that ends the job."""


@dataclass(frozen=True, slots=True)
class FindPoint(Effect):
    """Read where the log says that the job goes on: PointFound or PointFailed follows."""


@dataclass(frozen=True, slots=True)
class CommitPoint(Effect):
    """Commit what a restore point holds once more: PointCommitted or PointFailed follows."""

    point: PointId | None


@dataclass(frozen=True, slots=True)
class InterruptCommits(Effect):
    """Stop what is being committed: that is another driver's business now."""


@dataclass(frozen=True, slots=True)
class EndCheckpoints(Effect):
    """Keep or delete the job's checkpoints, and answer everyone who waits for one."""

    how: JobEnd


# -- rescale -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MakePlan(Effect):
    """Make the plan at another parallelism: PlanMade follows."""

    ticket: int
    parallelism: int


@dataclass(frozen=True, slots=True)
class CountSlots(Effect):
    """Find out whether there are slots for a plan: SlotsCounted follows."""

    ticket: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class TakeCheckpoint(Effect):
    """Take a checkpoint to go on from: Saved follows."""

    ticket: int


@dataclass(frozen=True, slots=True)
class CheckFit(Effect):
    """Check a plan against the last checkpoint: Fits follows."""

    ticket: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class AdoptPlan(Effect):
    """The next attempt runs this plan."""

    plan: Plan


class Refusal(Enum):
    """Why a rescale came to nothing."""

    ONE_AT_A_TIME = "another one is pending"
    NOT_RUNNING = "the job does not run"
    NO_PLAN = "there is no such plan"
    NO_SLOTS = "there are too few slots"
    NOT_SAVED = "no checkpoint was taken"
    DOES_NOT_FIT = "the plan cannot take the checkpoint over"
    STOPPING = "the job is being stopped with a savepoint"
    REVERTED = "the new plan did not run, and the old one is back"
    JOB_ENDS = "the job ends"


@dataclass(frozen=True, slots=True)
class Answer(Effect):
    """Answer who asked for a rescale, once.

    `parallelism` is the one at which the job runs now, which the pending rescale would bring
    (ONE_AT_A_TIME), or which failed (REVERTED).
    """

    ticket: int
    parallelism: int
    refusal: Refusal | None = None  # None: done
    failure: Failure | None = None
    slots: int = 0  # workers of the plan that is back (REVERTED)


# -- reports -------------------------------------------------------------------------------------


class Fact:
    """Something that people may want to know."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Failing(Fact):
    """An attempt failed, or the job did; restart_in_ms None: there will be no other attempt."""

    attempt: int
    failure: Failure
    restart_in_ms: int | None


@dataclass(frozen=True, slots=True)
class Reverting(Fact):
    """The attempt of an adopted plan failed: the next one runs the old plan at once, which is no restart."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class AlsoFailed(Fact):
    """A failure that changes nothing, since the attempt is over."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class PointNotReached(Fact):
    """The restore point could not be found or committed; it is tried again."""

    failure: Failure
    retry_in_ms: int


@dataclass(frozen=True, slots=True)
class LeftBehind(Fact):
    """User code left something in a worker, which is therefore replaced."""

    slot: int
    leftover: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopStands(Fact):
    """A worker sends heartbeats, but its loop does not turn."""

    slot: int
    still_ms: int


@dataclass(frozen=True, slots=True)
class LoopTurns(Fact):
    """The loop of a worker that was reported turns again."""

    slot: int


@dataclass(frozen=True, slots=True)
class Repeats(Fact):
    """The failure that is reported next has come again and again."""

    same: SameFailure


@dataclass(frozen=True, slots=True)
class Rescaling(Fact):
    """The attempt ends for another plan."""

    before: Plan
    plan: Plan


@dataclass(frozen=True, slots=True)
class Ended(Fact):
    """The job is over."""

    how: OutcomeKind


@dataclass(frozen=True, slots=True)
class Report(Effect):
    """Something for people: progress display, log, history."""

    fact: Fact
