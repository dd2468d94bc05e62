"""What may happen to a job; each event is plain data, and names the attempt or gang that it is about."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

from headgate.core.job.state import Failure, Plan, PointId, Storage


@dataclass(frozen=True, slots=True)
class Submit:
    """The job begins, at `point` or at nothing."""

    point: PointId | None


@dataclass(frozen=True, slots=True)
class Registered:
    """A worker connected; `link` is the id of its connection, which no other one ever has."""

    gang: int
    slot: int
    link: int


@dataclass(frozen=True, slots=True)
class Beat:
    """A worker sent a heartbeat; any change of `progress` means that its loop turned."""

    gang: int
    slot: int
    progress: int


@dataclass(frozen=True, slots=True)
class LinkLost:
    """The control link of a registered worker ended."""

    gang: int
    slot: int


@dataclass(frozen=True, slots=True)
class GangExited:
    """All workers of a gang are gone; `why` is None where that was in order."""

    gang: int
    why: Hashable = None


@dataclass(frozen=True, slots=True)
class Deployed:
    """A worker's subtasks run."""

    attempt: int
    slot: int


@dataclass(frozen=True, slots=True)
class DataEnded:
    """A subtask, as (vertex, subtask), has processed all its input."""

    attempt: int
    task: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Idle:
    """A worker dropped the attempt; `leftover` names what user code keeps there."""

    attempt: int
    slot: int
    leftover: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """An attempt cannot go on."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class PeerLost:
    """A worker lost the connection to another one, most likely as a consequence of something else."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class PointFound:
    """Where the log says that the job goes on; None: the job has no checkpoint of its own."""

    point: PointId | None


@dataclass(frozen=True, slots=True)
class PointCommitted:
    """What the restore point holds is committed."""


@dataclass(frozen=True, slots=True)
class PointFailed:
    """The restore point could not be found or committed."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class StorageChanged:
    """What happens in the background on storage is now this."""

    storage: Storage


@dataclass(frozen=True, slots=True)
class CheckpointCommitted:
    """A checkpoint is complete and committed: the job has got further."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class JobDone:
    """The final checkpoint of an attempt is committed, or the savepoint that stops the job."""

    attempt: int
    savepoint: Hashable = None


@dataclass(frozen=True, slots=True)
class Fenced:
    """Another driver has the job."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Cancel:
    """The job is to end now; handed over: only this driver, and another one may go on."""

    handed_over: bool = False


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Somebody wants the job to end with a savepoint."""

    ticket: int


@dataclass(frozen=True, slots=True)
class StopEnded:
    """Who wanted the job to end with a savepoint was answered."""

    ticket: int


@dataclass(frozen=True, slots=True)
class RescaleAsked:
    """Somebody wants another parallelism; from_last: the last completed checkpoint will do."""

    ticket: int
    parallelism: int
    from_last: bool


@dataclass(frozen=True, slots=True)
class PlanMade:
    """The answer to MakePlan: a plan, None where the job runs at this parallelism already, or a failure."""

    ticket: int
    plan: Plan | None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class SlotsCounted:
    """The answer to CountSlots; a failure says why there are too few, or why that cannot be told."""

    ticket: int
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """The answer to TakeCheckpoint."""

    ticket: int
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Fits:
    """The answer to CheckFit; a failure says why the plan cannot take the last checkpoint over."""

    ticket: int
    failure: Failure | None = None


Event: TypeAlias = (
    Submit
    | Registered
    | Beat
    | LinkLost
    | GangExited
    | Deployed
    | DataEnded
    | Idle
    | AttemptFailed
    | PeerLost
    | PointFound
    | PointCommitted
    | PointFailed
    | StorageChanged
    | CheckpointCommitted
    | JobDone
    | Fenced
    | Cancel
    | StopAsked
    | StopEnded
    | RescaleAsked
    | PlanMade
    | SlotsCounted
    | Saved
    | Fits
)
