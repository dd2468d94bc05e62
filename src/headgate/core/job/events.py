"""What may happen to a job; each event is plain data, and names the attempt or gang that it is about."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from headgate.core.job.state import Failure, Plan, PointId, Storage


class Event:
    """Something that happened, to be handled by the machine."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Submit(Event):
    """The job begins, at `point` or at nothing."""

    point: PointId | None


@dataclass(frozen=True, slots=True)
class Registered(Event):
    """A worker connected; `link` is the id of its connection, which no other one ever has."""

    gang: int
    slot: int
    link: int


@dataclass(frozen=True, slots=True)
class Beat(Event):
    """A worker sent a heartbeat; any change of `progress` means that its loop turned."""

    gang: int
    slot: int
    progress: int


@dataclass(frozen=True, slots=True)
class LinkLost(Event):
    """The control link of a registered worker ended."""

    gang: int
    slot: int


@dataclass(frozen=True, slots=True)
class GangExited(Event):
    """All workers of a gang have exited; `why` is None where that was in order."""

    gang: int
    why: Hashable = None


@dataclass(frozen=True, slots=True)
class Deployed(Event):
    """A worker reports that its subtasks run."""

    attempt: int
    slot: int


@dataclass(frozen=True, slots=True)
class DataEnded(Event):
    """A subtask, as (vertex, subtask), has processed all its input."""

    attempt: int
    task: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Idle(Event):
    """A worker dropped the attempt; `leftover` names what user code keeps there."""

    attempt: int
    slot: int
    leftover: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AttemptFailed(Event):
    """An attempt cannot go on."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class PeerLost(Event):
    """A worker lost the connection to another one, most likely as a consequence of something else."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class PointFound(Event):
    """Where the log says that the job goes on; None: the job has no checkpoint of its own."""

    point: PointId | None


@dataclass(frozen=True, slots=True)
class PointCommitted(Event):
    """What the restore point holds is committed."""


@dataclass(frozen=True, slots=True)
class PointFailed(Event):
    """The restore point could not be found or committed."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class StorageChanged(Event):
    """What happens in the background on storage is now this."""

    storage: Storage


@dataclass(frozen=True, slots=True)
class CheckpointCommitted(Event):
    """A checkpoint is complete and committed: the job has got further."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class JobDone(Event):
    """The final checkpoint of an attempt is committed, or the savepoint that stops the job."""

    attempt: int
    savepoint: Hashable = None


@dataclass(frozen=True, slots=True)
class Fenced(Event):
    """Another driver has the job."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Cancel(Event):
    """The job is to end now; handed over: only this driver, and another one may go on."""

    handed_over: bool = False


@dataclass(frozen=True, slots=True)
class StopAsked(Event):
    """A requester wants the job to end with a savepoint."""

    ticket: int


@dataclass(frozen=True, slots=True)
class StopEnded(Event):
    """The requester of a stop with savepoint was answered."""

    ticket: int


@dataclass(frozen=True, slots=True)
class RescaleAsked(Event):
    """A requester wants another parallelism; from_last: the last completed checkpoint will do."""

    ticket: int
    parallelism: int
    from_last: bool


@dataclass(frozen=True, slots=True)
class PlanMade(Event):
    """The answer to MakePlan: a plan, None where the job runs at this parallelism already, or a failure."""

    ticket: int
    plan: Plan | None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class SlotsCounted(Event):
    """The answer to CountSlots; a failure says why there are too few, or why they cannot be counted."""

    ticket: int
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Saved(Event):
    """The answer to TakeCheckpoint."""

    ticket: int
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Fits(Event):
    """The answer to CheckFit; a failure says why the plan cannot take the last checkpoint over."""

    ticket: int
    failure: Failure | None = None
