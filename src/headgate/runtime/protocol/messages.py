"""The messages between job master and workers: plain data, encoded with msgspec.

A worker's messages carry the attempt they are about; the job master ignores those of an older attempt. User
code travels as bytes inside :class:`Deploy` and is unpickled by the worker only, after the authenticated
handshake.
"""

from __future__ import annotations

import msgspec

from headgate.common.plain_data import Description, Plain
from headgate.core.alignment.barriers import SavepointOrder as SavepointOrder
from headgate.state.snapshots import InFlightShare, OperatorSubtaskState, SubtaskSnapshot


class _OfAttempt(msgspec.Struct, frozen=True):
    attempt: int  # the deployment that the message is about


class _OfCheckpoint(_OfAttempt, frozen=True):
    checkpoint: int


class _OfSubtask(_OfAttempt, frozen=True):
    vertex: int
    subtask: int


class Register(msgspec.Struct, frozen=True, tag="register"):
    """Worker: I hold slot `slot` of gang `gang`, and peers reach me at `data_address`."""

    gang: int
    slot: int
    pid: int
    host: str
    data_address: str
    box: str = ""  # a file of my machine with the reason, should I die; empty: none


class Deploy(_OfAttempt, frozen=True, tag="deploy"):
    """Job master: build these subtasks, restore their state, and run."""

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
    # (vertex, subtask) -> records that were in flight and come before all others
    in_flight: list[tuple[int, int, list[InFlightShare]]] = []
    finished: list[tuple[int, int]] = []  # (vertex, subtask) of readers that had read everything


class Deployed(_OfAttempt, frozen=True, tag="deployed"):
    """Worker: my subtasks are open and running."""


class Trigger(_OfCheckpoint, frozen=True, tag="trigger"):
    """Job master: let the source subtasks take a snapshot for `checkpoint`."""

    trigger_ms: int  # wall clock at the trigger
    alignment: str = "aligned"  # how the barrier travels, as in `core.alignment.barriers.Alignment`
    timeout_ms: int | None = None  # an aligned barrier that is older overtakes; None: it never does
    savepoint: SavepointOrder | None = None  # what to do when it is one; None: a checkpoint
    completed: int = 0  # newest checkpoint that is complete, 0 for none


class Acknowledge(_OfCheckpoint, frozen=True, tag="acknowledge"):
    """Worker: this subtask's part of the checkpoint is durable."""

    snapshot: SubtaskSnapshot


class Decline(_OfCheckpoint, frozen=True, tag="decline"):
    """Worker: this subtask cannot contribute."""

    vertex: int
    subtask: int
    reason: str
    detail: str


class CheckpointComplete(_OfCheckpoint, frozen=True, tag="complete"):
    """Job master: `checkpoint` is in the log and its sinks are committed."""


class CheckpointAborted(_OfCheckpoint, frozen=True, tag="aborted"):
    """Job master: forget `checkpoint`."""


class Recovered(_OfSubtask, frozen=True, tag="recovered"):
    """Worker: this subtask has read all records in flight of the restored checkpoint."""


class RequestSplits(_OfSubtask, frozen=True, tag="request-splits"):
    """Worker: this reader has no split left."""


class AssignSplits(_OfSubtask, frozen=True, tag="assign-splits"):
    """Job master: read these (id, position); None means that no more will come, [] not now."""

    splits: list[tuple[str, Plain]] | None


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


class DataEnded(_OfSubtask, frozen=True, tag="data-ended"):
    """Worker: this subtask has processed all its input; these are its final totals."""

    counters: Counters


class TaskFailed(_OfSubtask, frozen=True, tag="task-failed"):
    """Worker: the attempt cannot go on."""

    kind: str  # name of the error's class in `common.errors`
    arguments: list[Plain]  # its arguments, for rebuilding it
    lost_peer: int | None  # slot of a peer whose connection broke, if that is the reason


class Told(_OfAttempt, frozen=True, tag="told"):
    """Worker: the writer of a sink sends this to the driver, independently of checkpoints."""

    uid: str
    subtask: int
    data: bytes


class Printed(_OfAttempt, frozen=True, tag="printed"):
    """Worker: user code printed these lines, each after its place; before them so many were left out."""

    lines: list[str]
    left_out: int


class SlowRecords(_OfAttempt, frozen=True, tag="slow-records"):
    """Worker: records of a type are encoded slowly; see `runtime.protocol.undeclared_rows`."""

    name: str  # of the type
    pickled: bool  # whether they are pickled


class Stop(_OfAttempt, frozen=True, tag="stop"):
    """Job master: drop the attempt's subtasks; the process stays."""


class Idle(_OfAttempt, frozen=True, tag="idle"):
    """Worker: nothing of the attempt runs here any more."""

    stray_threads: list[str]  # leftover threads of user code
    changed_limits: list[str] = []  # limits of the process that have changed, for people


class Finish(_OfAttempt, frozen=True, tag="finish"):
    """Job master: the job is over; leave."""


class Standstill(msgspec.Struct, frozen=True):
    """A call of user code that has not returned for a while."""

    vertex: int
    subtask: int
    operator: str  # name and uid of the operator that is in the call
    still_ms: int  # for how long
    stack: str  # its place in the user's code, a line for each frame, the innermost last


class Heartbeat(_OfAttempt, frozen=True, tag="heartbeat"):
    """Worker: I live; `progress` grows whenever my loop turns, `sent_ms` is my monotonic clock."""

    sent_ms: int
    progress: int
    counters: list[Counters]  # running totals of my subtasks
    standstills: list[Standstill] = []  # calls of user code that do not return
    rss_bytes: int = 0  # memory that I use; 0: not known


class Totals(_OfAttempt, frozen=True, tag="totals"):
    """Worker: the last totals of my subtasks."""

    counters: list[Counters]


class HeartbeatSeen(msgspec.Struct, frozen=True, tag="heartbeat-seen"):
    """Job master: renews the worker's lease, counted from the beat of `sent_ms`."""

    sent_ms: int


class QueryState(_OfAttempt, frozen=True, tag="query-state"):
    """Job master: what is the present value of this state under this key?"""

    query: int  # the answer carries the same number
    vertex: int
    subtask: int
    uid: str  # of the operator
    state: str  # its name
    key: bytes  # encoded as all keys in checkpoints are


class StateAnswer(_OfAttempt, frozen=True, tag="state-answer"):
    """Worker: the value of a state, or why there is none."""

    query: int  # number of the question
    schema: Description = {}  # kind and description of the state's serializers
    # the value as these encode a batch of one; None: nothing is stored under the key
    data: bytes | None = None
    kind: str | None = None  # of a failed query, the name of the error's class in `common.errors`
    arguments: list[Plain] = []  # the error's arguments, for rebuilding it


_AboutJob = Told | Printed | SlowRecords | StateAnswer
_AboutAttempt = Register | Deployed | TaskFailed | Idle | Heartbeat | Totals
FromWorker = _AboutJob | _AboutAttempt | Recovered | Acknowledge | Decline | RequestSplits | DataEnded

_AboutCheckpoint = Trigger | CheckpointComplete | CheckpointAborted
ToWorker = Deploy | _AboutCheckpoint | AssignSplits | QueryState | Stop | Finish | HeartbeatSeen
