"""The transition table of a job: which row may be taken in which phase, the next phase, and the effects.

The code takes rows of this table and nothing else: a row that is not listed for the present phase raises
with the trace of the last moves. `docs/machines/job.md` shows the table and its diagram, generated from here.
The condition under which a row is taken is named here, and stands in the function that takes it.

A job is in QUIESCING when its last attempt has ended and something of it is still waited for (the pause,
storage, the gang), and in RESTORING while the next restore point is found and committed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Phase(Enum):
    """The phases of a job's life, from created to over."""

    CREATED = "created"
    QUIESCING = "quiescing"  # the last attempt has ended: waits for pause, storage, gang
    RESTORING = "restoring"  # the next restore point is found and committed
    STARTING = "starting"  # workers register
    DEPLOYING = "deploying"  # workers start their subtasks
    RUNNING = "running"
    LEAVING = "leaving"  # the end is decided: workers leave
    OVER = "over"


class Row(Enum):
    """The rows of the transition table, named after what has happened."""

    SUBMITTED = "submitted"
    POINT_FOUND = "point found"
    GANG_WANTED = "point committed, no gang"
    REDEPLOYED = "point committed, gang idle"
    GANG_SPOILED = "point committed, gang unusable"
    POINT_FAILED = "point failed, tried again"
    RECOVERY_FAILED = "point failed for good"
    REGISTERED = "worker registered"
    COMPLETE = "last worker registered"
    DEPLOYED = "worker deployed"
    ALL_DEPLOYED = "last worker deployed"
    DATA_ENDED = "a subtask's data ended"
    FAILED = "failure, restart allowed"
    REVERTED = "failure of an adopted plan"
    GAVE_UP = "failure, no restart"
    SUSPECTED = "unexplained loss"
    ADOPTED = "fits, attempt ends"
    ADOPTED_BETWEEN = "fits between two attempts"
    QUIET = "all quiet"
    IDLE = "worker idle"
    SPOILED = "gang cannot be used again"
    LEFT = "worker left"
    GANG_EXITED = "gang exited"
    LATE_FAILURE = "late failure"
    HOPELESS = "late failure, no restart helps"
    OVERDUE = "gang overdue"
    TAKEN_FOR_EXITED = "cancelled gang overdue"
    PAUSED = "pause over"
    DONE = "final or stop committed"
    CANCELLED = "cancelled"
    LOST_LEADERSHIP = "fenced"
    CANCELLED_AGAIN = "cancelled while leaving"
    FENCED_LEAVING = "fenced while leaving"
    ENDED = "all exited"
    LATE_WORK = "background work ended"
    UNKNOWN_SENDER = "unknown sender registered"
    BEAT = "heartbeat"
    STANDSTILL = "a loop stands still, or turns again"
    RESCALE_STEP = "step of a rescale"
    RESCALE_REFUSED = "rescale refused"


BEFORE_LEAVING: Final = tuple(phase for phase in Phase if phase not in (Phase.LEAVING, Phase.OVER))
BETWEEN: Final = (Phase.QUIESCING, Phase.RESTORING)
LIVE: Final = (Phase.STARTING, Phase.DEPLOYING, Phase.RUNNING)
_DEPLOYED: Final = (Phase.DEPLOYING, Phase.RUNNING)
_GANG: Final = (*BETWEEN, *LIVE, Phase.LEAVING)

_END: Final = ("SuspendCheckpoints", "EndAttempt")
_LOST: Final = ("CloseLink", "Report", *_END)
_FREE: Final = ("Stop", "CancelGang")
_DISMISS: Final = ("LetLeave", "CancelGang", "Answer")


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the transition table: phases, next phase, event with its condition, possible effects."""

    phases: tuple[Phase, ...]  # in which it may be taken
    to: Phase | None  # None: the same
    event: str  # what has happened, and under which condition this row is taken
    effects: tuple[str, ...] = ()  # that it may bring about; not necessarily all of them


ROWS: Final[dict[Row, Line]] = {
    Row.SUBMITTED: Line((Phase.CREATED,), Phase.RESTORING, "Submit", ("CommitPoint",)),
    Row.POINT_FOUND: Line(
        (Phase.RESTORING,), None, "PointFound: that one, or the initial one", ("CommitPoint",)
    ),
    Row.GANG_WANTED: Line(
        (Phase.RESTORING,), Phase.STARTING, "PointCommitted, no gang is alive", ("SubmitGang",)
    ),
    Row.REDEPLOYED: Line(
        (Phase.RESTORING,), Phase.DEPLOYING, "PointCommitted, the gang is usable and idle", ("BeginAttempt",)
    ),
    Row.GANG_SPOILED: Line(
        (Phase.RESTORING,), Phase.QUIESCING, "PointCommitted, the gang cannot be used again", ("CancelGang",)
    ),
    Row.POINT_FAILED: Line(
        (Phase.RESTORING,),
        Phase.QUIESCING,
        "PointFailed, restart allowed: after a pause, with the old plan if another one was adopted",
        ("AdoptPlan", "Answer", "CancelGang", "Report"),
    ),
    Row.RECOVERY_FAILED: Line(
        (Phase.RESTORING,), Phase.LEAVING, "PointFailed, no restart", (*_DISMISS, "Report")
    ),
    Row.REGISTERED: Line(
        (Phase.STARTING,), None, "Registered, a free slot of the present gang", ("AdmitWorker",)
    ),
    Row.COMPLETE: Line((Phase.STARTING,), Phase.DEPLOYING, "Registered, the last slot", ("BeginAttempt",)),
    Row.DEPLOYED: Line((Phase.DEPLOYING,), None, "Deployed, not the last slot"),
    Row.ALL_DEPLOYED: Line(
        (Phase.DEPLOYING,),
        Phase.RUNNING,
        "Deployed, the last slot",
        ("StartCheckpoints", "Answer", "RequestFinal"),
    ),
    Row.DATA_ENDED: Line(_DEPLOYED, None, "DataEnded; the last one while running", ("RequestFinal",)),
    Row.FAILED: Line(
        LIVE,
        Phase.QUIESCING,
        "AttemptFailed, HeartbeatLost, GangExited or an overdue suspicion; the restart strategy allows",
        (*_LOST, *_FREE),
    ),
    Row.REVERTED: Line(
        (Phase.STARTING, Phase.DEPLOYING),
        Phase.QUIESCING,
        "any failure of an adopted plan, or it does not run in time: no pause, no restart counted",
        (*_LOST, "AdoptPlan", *_FREE, "Answer"),
    ),
    Row.GAVE_UP: Line(
        LIVE,
        Phase.LEAVING,
        "as 'failure', but no restart helps, or none is allowed",
        (*_LOST, *_DISMISS),
    ),
    Row.SUSPECTED: Line(
        LIVE,
        None,
        "PeerLost, the first: the failure after 500 ms; LinkLost: after 2 s, unless the gang's end says why",
        ("CloseLink",),
    ),
    Row.ADOPTED: Line(
        LIVE,
        Phase.QUIESCING,
        "Fits, no stop is pending: no pause, no restart counted",
        (*_END, "AdoptPlan", *_FREE, "LetLeave", "Report"),
    ),
    Row.ADOPTED_BETWEEN: Line(
        BETWEEN,
        None,
        "Fits, no stop is pending: the pause ends, the cause stays",
        ("AdoptPlan", "LetLeave", "CancelGang", "Report"),
    ),
    Row.QUIET: Line(
        (Phase.QUIESCING,), Phase.RESTORING, "pause over, storage quiet, gang exited or idle", ("FindPoint",)
    ),
    Row.IDLE: Line((Phase.QUIESCING,), None, "Idle, nothing left behind"),
    Row.SPOILED: Line(
        BETWEEN,
        None,
        "Idle with leftover user threads; LinkLost or a lapsed heartbeat unless the gang was asked to leave",
        ("CloseLink", "CancelGang", "Report"),
    ),
    Row.LEFT: Line(
        (*BETWEEN, Phase.LEAVING), None, "LinkLost or a lapsed heartbeat otherwise", ("CloseLink",)
    ),
    Row.GANG_EXITED: Line((*BETWEEN, Phase.LEAVING), None, "GangExited"),
    Row.LATE_FAILURE: Line(BETWEEN, None, "AttemptFailed of the ended attempt", ("Report",)),
    Row.HOPELESS: Line(
        BETWEEN,
        Phase.LEAVING,
        "AttemptFailed of the ended attempt, no restart helps, its plan was not given up",
        ("Report", *_DISMISS),
    ),
    Row.OVERDUE: Line(
        (*BETWEEN, Phase.LEAVING), None, "the gang did not stop or leave in time", ("CancelGang",)
    ),
    Row.TAKEN_FOR_EXITED: Line(
        (*BETWEEN, Phase.LEAVING), None, "the cancelled gang was not reported to have exited in time"
    ),
    Row.PAUSED: Line((Phase.QUIESCING,), None, "the restart delay is over"),
    Row.DONE: Line(
        (Phase.RUNNING,),
        Phase.LEAVING,
        "JobDone: the final checkpoint or the stop is committed",
        (*_END, *_DISMISS),
    ),
    Row.CANCELLED: Line(BEFORE_LEAVING, Phase.LEAVING, "Cancel", (*_END, *_DISMISS)),
    Row.LOST_LEADERSHIP: Line(
        BEFORE_LEAVING, Phase.LEAVING, "Fenced", ("InterruptCommits", "Report", *_END, *_DISMISS)
    ),
    Row.CANCELLED_AGAIN: Line((Phase.LEAVING,), None, "Cancel: deadlines and failure stay"),
    Row.FENCED_LEAVING: Line(
        (Phase.LEAVING,), None, "Fenced: the outcome stays, checkpoints too", ("InterruptCommits",)
    ),
    Row.ENDED: Line(
        (Phase.LEAVING,), Phase.OVER, "gang exited, nothing is being stored", ("EndCheckpoints", "Report")
    ),
    Row.LATE_WORK: Line((Phase.LEAVING, Phase.OVER), None, "PointFound, PointCommitted, PointFailed"),
    Row.UNKNOWN_SENDER: Line(tuple(Phase), None, "Registered of another gang, or twice", ("CloseLink",)),
    Row.BEAT: Line(_GANG, None, "Beat of a worker that is not lost", ("AnswerBeat",)),
    Row.STANDSTILL: Line(_GANG, None, "no progress for the heartbeat timeout; progress again", ("Report",)),
    Row.RESCALE_STEP: Line(
        (*BETWEEN, *LIVE),
        None,
        "RescaleAsked, PlanMade, SlotsCounted, Saved",
        ("MakePlan", "CountSlots", "TakeCheckpoint", "CheckFit"),
    ),
    Row.RESCALE_REFUSED: Line(
        tuple(Phase), None, "RescaleAsked, PlanMade, SlotsCounted, Saved, Fits: no, or not now", ("Answer",)
    ),
}
"""All rows, in the order of the docs."""

MOVES: Final = {(phase, row): line.to or phase for row, line in ROWS.items() for phase in line.phases}
"""(phase, row) -> next phase; what is not listed must not happen."""
