"""What the shell does for a job, in the order in which the machine returns it; each effect is plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from headgate.core.job.state import Attempt, Failure, OutcomeKind, Plan, PointId
from headgate.core.same_failures import SameFailure

# -- gang and links ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubmitGang:
    """Ask for workers; the links of every earlier gang are closed first."""

    gang: int
    slots: int


@dataclass(frozen=True, slots=True)
class CancelGang:
    """End a gang by force: close its links, and have its launcher end it."""

    gang: int


@dataclass(frozen=True, slots=True)
class AdmitWorker:
    """This link is the worker of this slot."""

    gang: int
    slot: int
    link: int


@dataclass(frozen=True, slots=True)
class CloseLink:
    """Close a connection that has no place here, or not any more."""

    link: int


@dataclass(frozen=True, slots=True)
class AnswerBeat:
    """Answer a heartbeat, which renews the worker's lease."""

    gang: int
    slot: int


# -- attempt -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BeginAttempt:
    """Make the enumerators and deploy; what goes wrong comes back as AttemptFailed."""

    attempt: int
    gang: int
    plan: Plan
    point: PointId | None

    @classmethod
    def of(cls, attempt: Attempt) -> BeginAttempt:
        """For an attempt that has its gang."""
        return cls(attempt.number, attempt.gang, attempt.plan, attempt.point)


@dataclass(frozen=True, slots=True)
class Stop:
    """Tell the workers of a gang to drop an attempt; the processes stay."""

    gang: int
    attempt: int


@dataclass(frozen=True, slots=True)
class LetLeave:
    """Tell the workers of a gang to leave."""

    gang: int
    attempt: int


@dataclass(frozen=True, slots=True)
class EndAttempt:
    """Close the enumerators of an attempt."""

    attempt: int


# -- checkpoints ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartCheckpoints:
    """All subtasks of an attempt run: checkpoints may begin."""

    attempt: int


@dataclass(frozen=True, slots=True)
class SuspendCheckpoints:
    """The attempt ends: begin no checkpoint, and give up those that are not being stored."""


@dataclass(frozen=True, slots=True)
class RequestFinal:
    """All input has ended: take the checkpoint that ends the job."""


@dataclass(frozen=True, slots=True)
class FindPoint:
    """Read where the log says that the job goes on: PointFound or PointFailed follows."""


@dataclass(frozen=True, slots=True)
class CommitPoint:
    """Commit what a restore point holds once more: PointCommitted or PointFailed follows."""

    point: PointId | None


@dataclass(frozen=True, slots=True)
class InterruptCommits:
    """Stop what is being committed: that is another driver's business now."""


class CheckpointsEnd(Enum):
    """What becomes of the checkpoints of a job that is over."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUSPENDED = "suspended"
    """Another driver goes on: all stay."""


@dataclass(frozen=True, slots=True)
class EndCheckpoints:
    """Keep or delete the job's checkpoints, and answer everybody who waits for one."""

    how: CheckpointsEnd


# -- rescale -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MakePlan:
    """Make the plan at another parallelism: PlanMade follows."""

    ticket: int
    parallelism: int


@dataclass(frozen=True, slots=True)
class CountSlots:
    """Find out whether there are slots for a plan: SlotsCounted follows."""

    ticket: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class TakeCheckpoint:
    """Take a checkpoint to go on from: Saved follows."""

    ticket: int


@dataclass(frozen=True, slots=True)
class CheckFit:
    """Check a plan against the last checkpoint: Fits follows."""

    ticket: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class AdoptPlan:
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
class Answer:
    """Answer who asked for a rescale, once.

    Attributes:
        ticket: whose.
        parallelism: at which the job runs now, at which the pending rescale would have it run
            (ONE_AT_A_TIME), or which failed (REVERTED).
        refusal: None: done.
        failure: more about the refusal.
        slots: workers of the plan that is back (REVERTED).
    """

    ticket: int
    parallelism: int
    refusal: Refusal | None = None
    failure: Failure | None = None
    slots: int = 0


# -- reports -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failing:
    """An attempt failed, or the job did; restart_in_ms None: there will be no other attempt."""

    attempt: int
    failure: Failure
    restart_in_ms: int | None


@dataclass(frozen=True, slots=True)
class Reverting:
    """The attempt of an adopted plan failed: the next one runs the old plan at once, which is no restart."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class AlsoFailed:
    """A failure that changes nothing, since the attempt is over."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class PointNotReached:
    """The restore point could not be found or committed; it is tried again."""

    failure: Failure
    retry_in_ms: int


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """User code left something in a worker, which is therefore replaced."""

    slot: int
    leftover: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopStands:
    """A worker sends heartbeats, but its loop does not turn."""

    slot: int
    still_ms: int


@dataclass(frozen=True, slots=True)
class LoopTurns:
    """The loop of a worker that was reported turns again."""

    slot: int


@dataclass(frozen=True, slots=True)
class Repeats:
    """The failure that is reported next has come again and again."""

    same: SameFailure


@dataclass(frozen=True, slots=True)
class Rescaling:
    """The attempt ends for another plan."""

    before: Plan
    plan: Plan


@dataclass(frozen=True, slots=True)
class Ended:
    """The job is over."""

    how: OutcomeKind


Fact: TypeAlias = (
    Failing
    | Reverting
    | AlsoFailed
    | PointNotReached
    | LeftBehind
    | LoopStands
    | LoopTurns
    | Repeats
    | Rescaling
    | Ended  # the last one
)


@dataclass(frozen=True, slots=True)
class Report:
    """Something for people: progress display, log, history."""

    fact: Fact


Effect: TypeAlias = (
    SubmitGang
    | CancelGang
    | AdmitWorker
    | CloseLink
    | AnswerBeat
    | BeginAttempt
    | Stop
    | LetLeave
    | EndAttempt
    | StartCheckpoints
    | SuspendCheckpoints
    | RequestFinal
    | FindPoint
    | CommitPoint
    | InterruptCommits
    | EndCheckpoints
    | MakePlan
    | CountSlots
    | TakeCheckpoint
    | CheckFit
    | AdoptPlan
    | Answer
    | Report
)
