"""The data of a job's state machine: job, attempt, gang, rescale, outcome.

What ends with a deployment is in its :class:`Attempt`, what ends with the workers in their :class:`Gang`.
Plans, restore points, links and errors have opaque ids here; the job master keeps the objects. Fields
that end in `_ms` are monotonic times.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final, TypeAlias

from headgate.core.job.table import Phase, Row
from headgate.core.liveness import HeartbeatMonitor
from headgate.core.machine import Machine
from headgate.core.restart_strategies import RestartStrategy
from headgate.core.same_failures import Fingerprint, SameFailures

FINISH_MS: Final = 10_000  # how long workers may take to leave before their gang is cancelled
GANG_EXIT_MS: Final = 15_000  # how long a cancelled gang may take to exit before it is taken for fenced
CAUSE_WAIT_MS: Final = 500  # how long a lost connection between two workers waits for its cause
REASON_WAIT_MS: Final = 2_000  # how long the end of a worker's control link waits for the gang's end

PointId: TypeAlias = Hashable


class Cause(Enum):
    """Why the next attempt begins."""

    FIRST = "first"
    FAILURE = "failure"
    RESCALE = "rescale"
    REVERT = "revert"  # a rescale failed, and the plan of before runs again


class Work(Enum):
    """What the job master does in the background before the next attempt can begin."""

    FIND = "find the point"
    COMMIT = "commit the point"


class Storage(Enum):
    """Whether the job's storage is quiet, busy or storing a checkpoint; only when quiet a job restores."""

    QUIET = "quiet"
    BUSY = "busy"  # something is read, committed or explained: no restore point may be chosen
    STORING = "storing"  # a checkpoint is being stored: it is not known yet whether it counts


class Asked(IntEnum):
    """What a gang of workers was last requested to do, in increasing harshness."""

    NOTHING = 0
    STOP = 1  # drop the subtasks, keep the processes
    LEAVE = 2  # exit in an orderly way
    DIE = 3


class LossKind(Enum):
    """How the state machine itself finds out that an attempt cannot go on."""

    LINK = "the control link of a worker ended"
    HEARTBEAT = "a worker sent no heartbeat for too long"
    GANG = "all workers of a gang have exited"
    LATE = "the plan of another parallelism did not run in time"


@dataclass(frozen=True, slots=True)
class Loss:
    """A failure found by the state machine; `slot`: the worker (-1: all), `why`: the launcher's reason."""

    kind: LossKind
    gang: int
    slot: int = -1  # of the worker; -1: all of them
    why: Hashable = None  # the gang launcher's reason; of a late plan, how many workers it has


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt cannot go on: `what` is a :class:`Loss`, or the opaque id of a reported error."""

    what: Hashable  # an opaque id of an error, or the loss that the state machine found out itself
    restart_may_help: bool = True  # whether the same program may get further in another attempt
    fingerprint: Fingerprint | None = None  # distinguishes this failure from others; None: nothing does


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan that an attempt runs, known by an opaque id, with its number of workers and subtasks."""

    ident: Hashable  # its id for the job master
    slots: int
    tasks: int


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Limits of a job, in ms: to drop an attempt, to start a rescaled plan, of a worker's silence."""

    redeploy_ms: int  # how long living workers may take to drop an attempt
    rescale_ms: int  # how long another parallelism may take to run
    heartbeat_ms: int  # silence after which a worker has lapsed; also the standstill that is reported
    has_successor: bool = False  # another driver goes on with a job that fails here
    same_failure_ends: bool = False  # a failure that is always the same ends the job


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A failure that counts from `due_ms` on, unless its cause is reported before."""

    failure: Failure
    due_ms: int


@dataclass(slots=True)
class Attempt:
    """One deployment of a job's subtasks to a gang of workers; each restart or rescale makes a new one."""

    number: int
    cause: Cause
    gang: int  # its number
    plan: Plan
    point: PointId | None  # where it begins; None: from nothing
    deployed: set[int] = field(default_factory=set)  # slots whose subtasks run
    idle: set[int] = field(default_factory=set)  # slots that dropped it after it ended
    data_ended: set[tuple[int, int]] = field(default_factory=set)  # subtasks
    suspicion: Suspicion | None = None
    ended: bool = False
    reverted: bool = False  # its plan was given up with it


@dataclass(slots=True)
class Gang:
    """The worker processes that were started together; alive until reported, or taken, to have exited."""

    number: int
    slots: int
    registered: dict[int, int] = field(default_factory=dict)  # slot -> link id
    lost: set[int] = field(default_factory=set)  # slots
    asked: Asked = Asked.NOTHING
    due_ms: int | None = None  # until when it must have done what was asked

    @property
    def full(self) -> bool:
        return len(self.registered) == self.slots

    @property
    def usable(self) -> bool:
        """Whether another attempt can run in this gang: no worker is missing, was lost or told to exit."""
        return self.full and not self.lost and self.asked <= Asked.STOP


class Step(Enum):
    """The steps of a rescale, in their order."""

    MAKING = "making the plan"
    COUNTING = "counting slots"
    SAVING = "taking a checkpoint"
    CHECKING = "checking the fit"
    ADOPTED = "adopted"


@dataclass(slots=True)
class Rescale:
    """A pending change of parallelism by request `ticket`; `before` is the plan to return to if it fails."""

    ticket: int
    parallelism: int
    from_last: bool  # the last completed checkpoint will do where no new one can be taken
    step: Step = Step.MAKING
    saved: bool = False  # a checkpoint was taken for it
    plan: Plan | None = None  # at that parallelism; None: not made yet
    before: Plan | None = None  # what comes back if the new plan does not run; None before the switch
    due_ms: int | None = None  # until when all subtasks must run; None: that time has not begun


class OutcomeKind(Enum):
    """How a job ends."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(slots=True)
class Outcome:
    """How the job ends, set when its end begins; `handed_over`, `fenced`: another driver goes on with it."""

    kind: OutcomeKind
    failure: Failure | None = None  # kept when it is cancelled while failing
    savepoint: Hashable = None  # that it was stopped with
    handed_over: bool = False  # only this driver ends, on request
    fenced: bool = False  # another driver has the job


@dataclass(slots=True)
class Job:
    """All data of one job's state machine, shared by the functions that decide."""

    life: Machine[Phase, Row]  # the phase, and the only way to change it
    limits: JobLimits
    strategy: RestartStrategy
    same: SameFailures
    monitor: HeartbeatMonitor[int]  # heartbeats, by slot of the present gang
    fingerprint_of: Callable[[Loss], Fingerprint | None]  # asked when a loss counts as the failure
    plan: Plan  # of the next attempt, or the present one
    initial: PointId | None = None  # where the job goes on while it has no checkpoint of its own
    point: PointId | None = None  # where the next attempt begins, or the present one
    cause: Cause = Cause.FIRST  # of the next attempt, or the present one
    attempts: int = 0
    gangs: int = 0
    restarts: int = 0  # attempts that began because of a failure
    attempt: Attempt | None = None  # the latest
    gang: Gang | None = None
    pause_until_ms: int | None = None  # when the next attempt may begin; None: at once
    work: Work | None = None  # in the background, for the next attempt
    storage: Storage = Storage.QUIET
    stops: set[int] = field(default_factory=set)  # tickets of pending stops with savepoint
    rescale: Rescale | None = None
    outcome: Outcome | None = None
    ticked_ms: int | None = None  # when time was reported last
    taken: list[Row] = field(default_factory=list)  # rows of the last call

    @property
    def phase(self) -> Phase:
        return self.life.state

    def take(self, row: Row, detail: str = "") -> None:
        """Record that `row` of the table is taken, and change the phase by it; InternalError if it is illegal
        in the present phase. `detail` is a text for the trace.
        """
        self.life.move(row, detail)
        self.taken.append(row)

    @property
    def adopted(self) -> bool:
        return self.rescale is not None and self.rescale.step is Step.ADOPTED

    @property
    def gang_is_idle(self) -> bool:
        """Whether all workers of the gang have dropped the last attempt and fit the next one's plan."""
        gang, attempt = self.gang, self.attempt
        if gang is None or attempt is None or not gang.usable or gang.slots != self.plan.slots:
            return False
        return attempt.gang == gang.number and attempt.idle == set(gang.registered)
