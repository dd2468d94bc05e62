"""Effects of the job's state machine: what the job master must do, in list order, each as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headgate.core.execution import JobEnd
from headgate.core.job.state import Attempt, Failure, OutcomeKind, Plan, PointId
from headgate.core.same_failures import SameFailure


class Effect:
    """Base class of all effects: something that the job master must do."""

    __slots__ = ()


# -- gang and links ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubmitGang(Effect):
    """Start gang number `gang`, of `slots` worker processes; first close the connections of earlier gangs."""

    gang: int
    slots: int


@dataclass(frozen=True, slots=True)
class CancelGang(Effect):
    """Cancel a gang of worker processes: close its connections, and have its launcher end it."""

    gang: int


@dataclass(frozen=True, slots=True)
class AdmitWorker(Effect):
    """Accept connection `link` as that of the worker in slot `slot` of gang `gang`."""

    gang: int
    slot: int
    link: int


@dataclass(frozen=True, slots=True)
class CloseLink(Effect):
    """Close a connection: of a lost worker, or of a process that is no worker of the present gang."""

    link: int


@dataclass(frozen=True, slots=True)
class AnswerBeat(Effect):
    """Answer a worker's heartbeat, which renews the worker's lease."""

    gang: int
    slot: int


# -- attempt -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BeginAttempt(Effect):
    """Create enumerators, deploy the plan, restore `point` (None: no state); failures are AttemptFailed."""

    attempt: int
    gang: int
    plan: Plan
    point: PointId | None

    @classmethod
    def of(cls, attempt: Attempt) -> BeginAttempt:
        return cls(attempt.number, attempt.gang, attempt.plan, attempt.point)


@dataclass(frozen=True, slots=True)
class Stop(Effect):
    """Have the workers of a gang drop the subtasks of an attempt; the processes stay, and report Idle."""

    gang: int
    attempt: int


@dataclass(frozen=True, slots=True)
class LetLeave(Effect):
    """Have a gang's worker processes exit in an orderly way; `attempt` is the job's latest (0: none)."""

    gang: int
    attempt: int


@dataclass(frozen=True, slots=True)
class EndAttempt(Effect):
    """Close the enumerators (source coordinators) of an attempt, which has ended."""

    attempt: int


# -- checkpoints ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartCheckpoints(Effect):
    """Allow checkpoints to begin: all subtasks of `attempt` run."""

    attempt: int


@dataclass(frozen=True, slots=True)
class SuspendCheckpoints(Effect):
    """Begin no checkpoint, and abort those that are not being stored, because the attempt ends."""


@dataclass(frozen=True, slots=True)
class RequestFinal(Effect):
    """Take the final checkpoint, after which the job ends: all input has ended."""


@dataclass(frozen=True, slots=True)
class FindPoint(Effect):
    """Read from the log which checkpoint the job restores; event PointFound or PointFailed follows."""


@dataclass(frozen=True, slots=True)
class CommitPoint(Effect):
    """Commit again the output of the checkpoint to restore, if any; PointCommitted or PointFailed follows."""

    point: PointId | None


@dataclass(frozen=True, slots=True)
class InterruptCommits(Effect):
    """Stop the commits that are in progress: another driver leads the job and will do them."""


@dataclass(frozen=True, slots=True)
class EndCheckpoints(Effect):
    """Keep or delete checkpoints, as settings say for a job that ended as `how`; answer pending requests."""

    how: JobEnd


# -- rescale -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MakePlan(Effect):
    """Make the job's plan at another parallelism, for the rescale of request `ticket`; PlanMade follows."""

    ticket: int
    parallelism: int


@dataclass(frozen=True, slots=True)
class CountSlots(Effect):
    """Find out whether `plan`'s workers, for rescale request `ticket`, have room; SlotsCounted follows."""

    ticket: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class TakeCheckpoint(Effect):
    """Take the checkpoint from which a rescaled job goes on; Saved follows, with the failure if it failed."""

    ticket: int


@dataclass(frozen=True, slots=True)
class CheckFit(Effect):
    """Check whether a rescale's plan can restore the last checkpoint; the event Fits follows."""

    ticket: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class AdoptPlan(Effect):
    """Use `plan` from the next attempt on: that of a rescale, or, after one that failed, the old one."""

    plan: Plan


class Refusal(Enum):
    """Why a rescale (a change of parallelism) was refused or failed."""

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
    """Answer the requester of a rescale, exactly once.

    `parallelism` is the requested one, but with ONE_AT_A_TIME that of the rescale that is pending.
    """

    ticket: int
    parallelism: int
    refusal: Refusal | None = None  # None: done
    failure: Failure | None = None
    slots: int = 0  # workers of the plan that is back (REVERTED)


# -- reports -------------------------------------------------------------------------------------


class Fact:
    """Base class of all facts about a job that are reported to people."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Failing(Fact):
    """An attempt or the job failed; `restart_in_ms` None: there will be no other attempt."""

    attempt: int
    failure: Failure
    restart_in_ms: int | None


@dataclass(frozen=True, slots=True)
class Reverting(Fact):
    """The attempt with a rescale's plan failed: the next one runs the old plan at once, and is no restart."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class AlsoFailed(Fact):
    """A failure after its attempt had ended: of a subtask, which has no consequences, or a lost worker."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class PointNotReached(Fact):
    """The restore point could not be found or committed; the job tries again in `retry_in_ms`."""

    failure: Failure
    retry_in_ms: int


@dataclass(frozen=True, slots=True)
class LeftBehind(Fact):
    """User code left threads or changed limits (`leftover`: texts) in a worker, whose gang is replaced."""

    slot: int
    leftover: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopStands(Fact):
    """A worker sends heartbeats, but its loop has stood still for `still_ms`, which has no other effect."""

    slot: int
    still_ms: int


@dataclass(frozen=True, slots=True)
class LoopTurns(Fact):
    """The loop of a worker that was reported by LoopStands turns again."""

    slot: int


@dataclass(frozen=True, slots=True)
class Repeats(Fact):
    """The failure that is reported next has occurred several times in the same way."""

    same: SameFailure


@dataclass(frozen=True, slots=True)
class Rescaling(Fact):
    """The job goes on with another plan; an attempt that lives ends for it."""

    before: Plan
    plan: Plan


@dataclass(frozen=True, slots=True)
class Ended(Fact):
    """The job has ended, and all its workers have exited, or are taken for exited."""

    how: OutcomeKind


@dataclass(frozen=True, slots=True)
class Report(Effect):
    """Report a fact about the job to people: in the progress display, log and history."""

    fact: Fact
