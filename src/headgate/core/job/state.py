"""The facts of one job's life, one owner for each fact: job, attempt, gang, rescale, outcome.

What dies with a deployment lies in its :class:`Attempt`, what dies with the workers in their :class:`Gang`.
Plans, restore points, links and errors are known by their ids only; the shell keeps what they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final, TypeAlias

from headgate.core.job.table import MOVES, Phase, Row
from headgate.core.liveness import HeartbeatMonitor
from headgate.core.machine import Machine
from headgate.core.restart_strategies import RestartStrategy
from headgate.core.same_failures import Fingerprint, SameFailures

FINISH_MS: Final = 10_000
"""How long workers may take to leave before their gang is cancelled."""
GANG_EXIT_MS: Final = 15_000
"""How long a cancelled gang may take to be reported gone before it is taken for fenced."""
CAUSE_WAIT_MS: Final = 500
"""How long a lost connection between two workers waits for the failure that caused it."""
REASON_WAIT_MS: Final = 2_000
"""How long the end of a worker's control link waits for the reason of the gang's end."""

PointId: TypeAlias = Hashable
"""What the shell knows a restore point by."""


class Cause(Enum):
    """Why the next attempt begins."""

    FIRST = "first"
    FAILURE = "failure"
    RESCALE = "rescale"
    REVERT = "revert"
    """A rescale failed, and the plan of before runs again."""


class Work(Enum):
    """What the shell does in the background for the next attempt."""

    FIND = "find the point"
    COMMIT = "commit the point"


class Storage(Enum):
    """What happens in the background on the job's storage and committers."""

    QUIET = "quiet"
    BUSY = "busy"
    """Something is read, committed or explained: no restore point may be chosen."""
    STORING = "storing"
    """A checkpoint is being stored: it is not known yet whether it counts."""


class Asked(IntEnum):
    """What a gang was asked for last; each one is harsher than the one before."""

    NOTHING = 0
    STOP = 1
    LEAVE = 2
    DIE = 3


class LossKind(Enum):
    """How the machine itself finds out that an attempt cannot go on."""

    LINK = "the control link of a worker ended"
    HEARTBEAT = "a worker sent no heartbeat for too long"
    GANG = "all workers of a gang are gone"
    LATE = "the plan of another parallelism did not run in time"


@dataclass(frozen=True, slots=True)
class Loss:
    """A failure that no worker reported.

    Attributes:
        slot: of the worker; -1 where it is about all of them.
        why: what the gang's launcher said, as an opaque id; of a late plan, how many workers it has.
    """

    kind: LossKind
    gang: int
    slot: int = -1
    why: Hashable = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt cannot go on.

    Attributes:
        what: an opaque id of the shell's error, or the loss that the machine found out itself.
        restart_may_help: whether the same program may get further in another attempt.
        fingerprint: what tells this failure from others; None where nothing does.
    """

    what: Hashable
    restart_may_help: bool = True
    fingerprint: Fingerprint | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What an attempt runs.

    Attributes:
        ident: what the shell knows it by.
    """

    ident: Hashable
    slots: int
    tasks: int


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Settings that decide.

    Attributes:
        redeploy_ms: how long living workers may take to drop an attempt.
        rescale_ms: how long another parallelism may take to run.
        heartbeat_ms: silence after which a worker has lapsed; also the standstill that is reported.
        has_successor: whether another driver goes on with a job that fails here.
        same_failure_ends: whether a failure that is always the same ends the job.
    """

    redeploy_ms: int
    rescale_ms: int
    heartbeat_ms: int
    has_successor: bool = False
    same_failure_ends: bool = False


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A failure that may have a better explanation.

    Attributes:
        failure: what the attempt fails with where none comes.
        due_ms: until when an explanation is waited for (monotonic).
    """

    failure: Failure
    due_ms: int


@dataclass(slots=True)
class Attempt:
    """One deployment; never used again.

    Attributes:
        cause: why it began.
        gang: number of its gang.
        point: where it begins; None: from nothing.
        deployed: slots whose subtasks run.
        idle: slots that dropped everything of it, after it ended.
        data_ended: subtasks that have processed all their input.
        suspicion: an unexplained loss.
        ended: whether it is over.
        reverted: whether its plan was given up with it.
    """

    number: int
    cause: Cause
    gang: int
    plan: Plan
    point: PointId | None
    deployed: set[int] = field(default_factory=set)
    idle: set[int] = field(default_factory=set)
    data_ended: set[tuple[int, int]] = field(default_factory=set)
    suspicion: Suspicion | None = None
    ended: bool = False
    reverted: bool = False


@dataclass(slots=True)
class Gang:
    """Workers that live and die together; it is alive until it is reported gone, or taken for gone.

    Attributes:
        registered: slot -> id of the link of a worker that is there.
        lost: slots whose worker is lost for good.
        asked: for what.
        due_ms: until when it must have done that (monotonic); None: it was asked for nothing.
    """

    number: int
    slots: int
    registered: dict[int, int] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    asked: Asked = Asked.NOTHING
    due_ms: int | None = None

    @property
    def full(self) -> bool:
        """Whether every slot has its worker."""
        return len(self.registered) == self.slots

    @property
    def usable(self) -> bool:
        """Whether another attempt can run in it: all workers there, none lost, none told to go."""
        return self.full and not self.lost and self.asked <= Asked.STOP


class Step(Enum):
    """How far a rescale is."""

    MAKING = "making the plan"
    COUNTING = "counting slots"
    SAVING = "taking a checkpoint"
    CHECKING = "checking the fit"
    ADOPTED = "adopted"


@dataclass(slots=True)
class Rescale:
    """A change of parallelism that somebody waits for.

    Attributes:
        from_last: whether the last completed checkpoint will do where no new one can be taken.
        step: how far it is.
        saved: whether a checkpoint was taken for it.
        plan: at that parallelism; None: not made yet.
        before: the plan that comes back if this one does not run; None until it was adopted.
        due_ms: until when all subtasks must run (monotonic); None: the time does not run yet.
    """

    ticket: int
    parallelism: int
    from_last: bool
    step: Step = Step.MAKING
    saved: bool = False
    plan: Plan | None = None
    before: Plan | None = None
    due_ms: int | None = None


class OutcomeKind(Enum):
    """How a job ends."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(slots=True)
class Outcome:
    """How the job ends, known from the moment on when it begins to leave.

    Attributes:
        kind: the word for it.
        failure: why it failed; kept when it is cancelled while failing.
        savepoint: id of the one that it was stopped with.
        handed_over: whether only this driver ends, on request.
        fenced: whether another driver has the job.
    """

    kind: OutcomeKind
    failure: Failure | None = None
    savepoint: Hashable = None
    handed_over: bool = False
    fenced: bool = False


@dataclass(slots=True)
class Job:
    """Everything that decides about one job.

    Attributes:
        life: the phase, and the only way to change it.
        monitor: who sends heartbeats, by slot of the present gang.
        fingerprint_of: what tells the loss of a worker from others; asked when it counts as the failure.
        plan: what the next attempt runs, or the present one.
        initial: where the job began; where it goes on while it has no checkpoint of its own.
        point: where the next attempt begins, or the present one.
        cause: why the next attempt begins, or the present one.
        attempts: how many have begun.
        restarts: attempts that began because of a failure.
        attempt: the latest one.
        gang: the present one; None: it is gone, or there was none.
        pause_until_ms: when the next attempt may begin (monotonic); None: at once.
        work: what is done in the background for the next attempt.
        storage: what happens on storage.
        stops: tickets of stops with savepoint that have not been answered.
        rescale: the one that is not answered.
        outcome: how the job ends; None: it goes on.
        ticked_ms: the last time that :meth:`JobMachine.tick` was told.
        taken: rows of the table that the last call took.
    """

    life: Machine[Phase, Row]
    limits: JobLimits
    strategy: RestartStrategy
    same: SameFailures
    monitor: HeartbeatMonitor[int]
    fingerprint_of: Callable[[Loss], Fingerprint | None]
    plan: Plan
    initial: PointId | None = None
    point: PointId | None = None
    cause: Cause = Cause.FIRST
    attempts: int = 0
    gangs: int = 0
    restarts: int = 0
    attempt: Attempt | None = None
    gang: Gang | None = None
    pause_until_ms: int | None = None
    work: Work | None = None
    storage: Storage = Storage.QUIET
    stops: set[int] = field(default_factory=set)
    rescale: Rescale | None = None
    outcome: Outcome | None = None
    ticked_ms: int | None = None
    taken: list[Row] = field(default_factory=list)

    @property
    def phase(self) -> Phase:
        """Where the job is in its life."""
        return self.life.state

    def take(self, row: Row, detail: str = "") -> None:
        """Take one row of the table."""
        self.life.move(row, detail)
        self.taken.append(row)

    @property
    def adopted(self) -> bool:
        """Whether the plan of a rescale was adopted and does not run yet."""
        return self.rescale is not None and self.rescale.step is Step.ADOPTED

    @property
    def gang_is_idle(self) -> bool:
        """Whether the next attempt can be deployed into the living gang."""
        gang, attempt = self.gang, self.attempt
        if gang is None or attempt is None or not gang.usable or gang.slots != self.plan.slots:
            return False
        return attempt.gang == gang.number and attempt.idle == set(gang.registered)


def nothing_told(_loss: Loss) -> Fingerprint | None:
    """Nothing tells one lost worker from another."""
    return None


def new_job(
    name: str,
    plan: Plan,
    limits: JobLimits,
    strategy: RestartStrategy,
    same: SameFailures | None = None,
    fingerprint_of: Callable[[Loss], Fingerprint | None] = nothing_told,
) -> Job:
    """A job that was not submitted yet."""
    beat = limits.heartbeat_ms
    return Job(
        life=Machine(f"job {name}", Phase.CREATED, MOVES),
        limits=limits,
        strategy=strategy,
        same=same or SameFailures(None),
        monitor=HeartbeatMonitor(beat, stuck_ms=beat),
        fingerprint_of=fingerprint_of,
        plan=plan,
    )
