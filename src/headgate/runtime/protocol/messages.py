"""What job master and workers say to each other: plain data, encoded with msgspec.

Every message of a worker carries the attempt it speaks for; the job master ignores what an older
attempt says. User code travels as bytes inside :class:`Deploy` and is unpickled by the worker only,
behind the authenticated handshake.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.core.alignment.barriers import SavepointOrder as SavepointOrder
from headgate.state.snapshots import InFlightShare, OperatorSubtaskState, SubtaskSnapshot


class Register(msgspec.Struct, frozen=True, tag="register"):
    """Worker: I hold slot `slot` of gang `gang`, and peers reach me at `data_address`."""

    gang: int
    slot: int
    pid: int
    host: str
    data_address: str
    box: str = ""  # a file of my machine that tells of my end, should I die; empty: none


class Deploy(msgspec.Struct, frozen=True, tag="deploy"):
    """Job master: build these subtasks, restore their state, and run."""

    attempt: int  # the deployment
    generation: int  # of the job master
    program: bytes  # the shipped plan (cloudpickle)
    peers: dict[int, str]  # slot -> data address
    # (vertex, subtask) -> operator states to start from; several old subtasks' states for one operator after
    # a change of parallelism
    restored: list[tuple[int, int, list[OperatorSubtaskState]]]
    restored_checkpoint: int | None  # the id they come from, or None
    restored_storage: str | None  # URI of the root that the restored files are named from, or None
    storage: str | None  # URI of the checkpoint directory, or None
    marker: str | None  # token of a file that the worker must see there
    # (vertex, subtask) -> records that were under way and come before all others
    in_flight: list[tuple[int, int, list[InFlightShare]]] = []
    finished: list[tuple[int, int]] = []  # (vertex, subtask) of readers that had read everything


class Deployed(msgspec.Struct, frozen=True, tag="deployed"):
    """Worker: my subtasks are open and running."""

    attempt: int


class Trigger(msgspec.Struct, frozen=True, tag="trigger"):
    """Job master: let the source subtasks take a snapshot for `checkpoint`."""

    attempt: int
    checkpoint: int
    trigger_ms: int  # wall clock at the trigger
    alignment: str = "aligned"  # how the barrier travels, as in `core.alignment.barriers.Alignment`
    timeout_ms: int | None = None  # an aligned barrier that is older overtakes; None: it never does
    savepoint: SavepointOrder | None = None  # what to do when it is one; None: a checkpoint
    completed: int = 0  # newest checkpoint that is complete, 0 for none


class Acknowledge(msgspec.Struct, frozen=True, tag="acknowledge"):
    """Worker: this subtask's part of the checkpoint is durable."""

    attempt: int
    checkpoint: int
    snapshot: SubtaskSnapshot


class Decline(msgspec.Struct, frozen=True, tag="decline"):
    """Worker: this subtask cannot contribute."""

    attempt: int
    checkpoint: int
    vertex: int
    subtask: int
    reason: str
    detail: str


class CheckpointComplete(msgspec.Struct, frozen=True, tag="complete"):
    """Job master: `checkpoint` is in the log and its sinks are committed."""

    attempt: int
    checkpoint: int


class CheckpointAborted(msgspec.Struct, frozen=True, tag="aborted"):
    """Job master: forget `checkpoint`."""

    attempt: int
    checkpoint: int


class Recovered(msgspec.Struct, frozen=True, tag="recovered"):
    """Worker: this subtask has read all records in flight of the restored checkpoint."""

    attempt: int
    vertex: int
    subtask: int


class RequestSplits(msgspec.Struct, frozen=True, tag="request-splits"):
    """Worker: this reader has no split left."""

    attempt: int
    vertex: int
    subtask: int


class AssignSplits(msgspec.Struct, frozen=True, tag="assign-splits"):
    """Job master: read these (id, position); None means that no more will come, [] not now."""

    attempt: int
    vertex: int
    subtask: int
    splits: list[tuple[str, Any]] | None


class Counters(msgspec.Struct, frozen=True):
    """Running totals of one subtask since the attempt began."""

    vertex: int
    subtask: int
    records_in: int
    records_out: int
    skipped: int
    watermark: int | None
    busy_ms: int
    backpressured_ms: int
    longest_step_ms: float


class DataEnded(msgspec.Struct, frozen=True, tag="data-ended"):
    """Worker: this subtask has processed all its input; these are its final totals."""

    attempt: int
    vertex: int
    subtask: int
    counters: Counters


class TaskFailed(msgspec.Struct, frozen=True, tag="task-failed"):
    """Worker: the attempt cannot go on."""

    attempt: int
    vertex: int
    subtask: int
    kind: str  # name of the error's class in `common.errors`
    arguments: list[Any]  # its arguments, for rebuilding it
    lost_peer: int | None  # slot of a peer whose connection broke, if that is the reason


class Told(msgspec.Struct, frozen=True, tag="told"):
    """Worker: the writer of a sink tells the driver this, independently of checkpoints."""

    attempt: int
    uid: str
    subtask: int
    data: bytes


class Printed(msgspec.Struct, frozen=True, tag="printed"):
    """Worker: user code printed these lines, each behind its place; before them so many were left out."""

    attempt: int
    lines: list[str]
    left_out: int


class SlowRecords(msgspec.Struct, frozen=True, tag="slow-records"):
    """Worker: records of a type do not go the fast way between workers; see `runtime.undeclared_rows`."""

    attempt: int
    name: str  # of the type
    pickled: bool  # whether they are pickled


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Job master: drop the attempt's subtasks; the process stays."""

    attempt: int


class Idle(msgspec.Struct, frozen=True, tag="idle"):
    """Worker: nothing of the attempt runs here any more."""

    attempt: int
    stray_threads: list[str]  # of user code, which are left all the same
    changed_limits: list[str] = []  # limits of the process that are not what they were, for people


class Finish(msgspec.Struct, frozen=True, tag="finish"):
    """Job master: the job is over; leave."""

    attempt: int


class Standstill(msgspec.Struct, frozen=True):
    """A call of user code that has not returned for a while."""

    vertex: int
    subtask: int
    operator: str  # name and uid of the operator that is in the call
    still_ms: int  # for how long
    stack: str  # where in the user's code it was found, a line for each frame, the innermost last


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """Worker: I live; `progress` grows whenever my loop turns, `sent_ms` is my monotonic clock."""

    attempt: int
    sent_ms: int
    progress: int
    counters: list[Counters]  # running totals of my subtasks
    standstills: list[Standstill] = []  # calls of user code that do not return
    rss_bytes: int = 0  # memory that I use; 0: not known


class Totals(msgspec.Struct, frozen=True, tag="totals"):
    """Worker: the running totals of my subtasks, which are about to go."""

    attempt: int
    counters: list[Counters]


class HeartbeatSeen(msgspec.Struct, frozen=True, tag="heartbeat-seen"):
    """Job master: renews the worker's lease, counted from the beat of `sent_ms`."""

    sent_ms: int


class QueryState(msgspec.Struct, frozen=True, tag="query-state"):
    """Job master: what does this state hold under this key now?"""

    attempt: int
    query: int  # the answer carries the same number
    vertex: int
    subtask: int
    uid: str  # of the operator
    state: str  # its name
    key: bytes  # encoded as all keys in checkpoints are


class StateAnswer(msgspec.Struct, frozen=True, tag="state-answer"):
    """Worker: what was found."""

    attempt: int
    query: int  # number of the question
    schema: Any = None  # kind and description of the state's serializers
    # the value as these encode a batch of one; None: nothing is stored under the key
    data: bytes | None = None
    kind: str | None = None  # where it cannot be said, the name of the error's class in `common.errors`
    arguments: list[Any] = []  # the error's arguments, for rebuilding it


FromWorker = (
    Register
    | Deployed
    | Recovered
    | Acknowledge
    | Decline
    | RequestSplits
    | DataEnded
    | TaskFailed
    | Idle
    | Heartbeat
    | Totals
    | StateAnswer
    | Told
    | Printed
    | SlowRecords
)
ToWorker = (
    Deploy
    | Trigger
    | CheckpointComplete
    | CheckpointAborted
    | AssignSplits
    | QueryState
    | Stop
    | Finish
    | HeartbeatSeen
)
