"""Events of the job's state machine, as plain data; each names the attempt or gang that it is about."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from headgate.core.job.state import Failure, Plan, PointId, Storage


class Event:
    """Base class of all events: something that happened, to be handled by the job's state machine."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Submit(Event):
    """The job was submitted; it restores `point`, or begins without state (None)."""

    point: PointId | None


@dataclass(frozen=True, slots=True)
class Registered(Event):
    """A worker process connected; `link` is the id of its connection, which no other one ever has."""

    gang: int
    slot: int
    link: int


@dataclass(frozen=True, slots=True)
class Beat(Event):
    """A worker sent a heartbeat; a changed `progress` means that its loop turned since the one before."""

    gang: int
    slot: int
    progress: int


@dataclass(frozen=True, slots=True)
class LinkLost(Event):
    """The control link of a registered worker ended: a living attempt fails within 2 s."""

    gang: int
    slot: int


@dataclass(frozen=True, slots=True)
class GangExited(Event):
    """All worker processes of a gang have exited; `why` is the launcher's reason, None if it was expected."""

    gang: int
    why: Hashable = None


@dataclass(frozen=True, slots=True)
class Deployed(Event):
    """A worker reports that its subtasks of an attempt run; after the last worker checkpoints may begin."""

    attempt: int
    slot: int


@dataclass(frozen=True, slots=True)
class DataEnded(Event):
    """Subtask `task`, (vertex, subtask), has processed all input; after the last one RequestFinal follows."""

    attempt: int
    task: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Idle(Event):
    """A worker dropped an ended attempt's subtasks; `leftover`: what user code left there, as threads."""

    attempt: int
    slot: int
    leftover: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AttemptFailed(Event):
    """An attempt cannot go on because of `failure`: the job restarts, reverts a rescale, or fails."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class PeerLost(Event):
    """A worker lost its link to another worker: a failure, unless its cause is reported within 500 ms."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class PointFound(Event):
    """The restore point was read from the log; None: the job has no checkpoint of its own."""

    point: PointId | None


@dataclass(frozen=True, slots=True)
class PointCommitted(Event):
    """The output that belongs to the restore point is committed, so the next attempt may begin."""


@dataclass(frozen=True, slots=True)
class PointFailed(Event):
    """The restore point could not be found or committed: it is tried again later, or the job fails."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class StorageChanged(Event):
    """The job's storage is now `storage`, as background work of the job master on it began or ended."""

    storage: Storage


@dataclass(frozen=True, slots=True)
class CheckpointCommitted(Event):
    """A checkpoint is complete and committed: equal failures are counted anew from it."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class JobDone(Event):
    """The final checkpoint, or the savepoint that stops the job, is committed: the job is finished."""

    attempt: int
    savepoint: Hashable = None  # its URI; None: the final checkpoint ended the job


@dataclass(frozen=True, slots=True)
class Fenced(Event):
    """Another driver leads the job now, or may, so this one must stop."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Cancel(Event):
    """The job is to end now; with `handed_over` only in this driver, if high availability has a successor."""

    handed_over: bool = False


@dataclass(frozen=True, slots=True)
class StopAsked(Event):
    """A requester asked to stop the job with a savepoint; until StopEnded no rescale is adopted."""

    ticket: int


@dataclass(frozen=True, slots=True)
class StopEnded(Event):
    """The request to stop with a savepoint was answered, with success or failure."""

    ticket: int


@dataclass(frozen=True, slots=True)
class RescaleAsked(Event):
    """A requester asked to rescale; with `from_last` the last checkpoint is used if none can be taken."""

    ticket: int
    parallelism: int
    from_last: bool


@dataclass(frozen=True, slots=True)
class PlanMade(Event):
    """Result of MakePlan: a plan, None where the job runs at this parallelism already, or a failure."""

    ticket: int
    plan: Plan | None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class SlotsCounted(Event):
    """Result of CountSlots; a failure says why there are too few slots, or why they cannot be counted."""

    ticket: int
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Saved(Event):
    """Result of TakeCheckpoint: a checkpoint for the rescale was taken, unless there is a failure."""

    ticket: int
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Fits(Event):
    """Result of CheckFit; a failure says why the plan cannot restore the last checkpoint."""

    ticket: int
    failure: Failure | None = None
