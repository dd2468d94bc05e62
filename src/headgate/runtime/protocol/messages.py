"""The messages between job master and workers: plain data, encoded with msgspec.

A worker's message (but not :class:`Register`) carries its attempt; of older ones the job master uses only
heartbeats, printed lines and log lines. User code is pickled inside :class:`Deploy`, for workers only.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.common.plain_data import Description, Plain
from headgate.common.process.kept_lines import LogLine
from headgate.core.alignment.barriers import SavepointOrder as SavepointOrder
from headgate.metrics import metric_table as table
from headgate.metrics.histograms import Histogram
from headgate.metrics.of_parts import Part
from headgate.metrics.of_programs import Told
from headgate.runtime.protocol.visits import Visit
from headgate.state.snapshots import InFlightShare, OperatorSubtaskState, SubtaskSnapshot

_RECORDS_IN: Final = table.NUMBERS.index(table.RECORDS_IN.at())
_RECORDS_OUT: Final = table.NUMBERS.index(table.RECORDS_OUT.at())
_SKIPPED: Final = table.NUMBERS.index(table.BAD_RECORDS.at())
_WATERMARK: Final = table.NUMBERS.index(table.WATERMARK.at("input"))
_BUSY: Final = table.NUMBERS.index(table.BUSY.at())
_BACKPRESSURED: Final = table.NUMBERS.index(table.BACKPRESSURED.at())
_TIMES: Final = tuple(
    table.NUMBERS.index(metric.at())
    for metric in (table.BUSY, table.BACKPRESSURED, table.IDLE, table.WAITING)
)
_LONGEST_STEP: Final = table.NUMBERS.index(table.LONGEST_STEP.at())
_STEPS: Final = table.HISTOGRAMS.index(table.STEPS.at())


class _OfAttempt(msgspec.Struct, frozen=True):
    attempt: int  # the deployment that the message is about


class _OfCheckpoint(_OfAttempt, frozen=True):
    checkpoint: int


class _OfSubtask(_OfAttempt, frozen=True):
    vertex: int
    subtask: int


class Register(msgspec.Struct, frozen=True, tag="register"):
    """Worker to job master: this process runs slot `slot` of gang `gang`; peers connect to `data_address`."""

    gang: int
    slot: int
    pid: int
    host: str
    data_address: str
    box: str = ""  # path of this process's black box (why it died, if it dies); empty: none


class Deploy(_OfAttempt, frozen=True, tag="deploy"):
    """Job master to worker: build this slot's subtasks by `program`, restore their state, and run them."""

    generation: int  # of the job master
    program: bytes  # the pickled program with its plan (cloudpickle)
    peers: dict[int, str]  # slot -> data address
    # (vertex, subtask) -> operator states to start from; several old subtasks' states for one operator after
    # a change of parallelism
    restored: list[tuple[int, int, list[OperatorSubtaskState]]]
    restored_checkpoint: int | None  # id of the restored checkpoint, or None
    restored_storage: str | None  # URI to which names of restored files are relative, or None
    storage: str | None  # URI of the checkpoint directory; None: state goes into acknowledgements
    marker: str | None  # token of a file that the worker must see in that directory
    numbers: list[str]  # series of metrics (`metrics.metric_table`), in the order of `Counters.values`
    histograms: list[str]  # series of metrics, in the order of `Counters.histograms`
    # (vertex, subtask) -> in-flight records, to be processed before all others
    in_flight: list[tuple[int, int, list[InFlightShare]]] = []
    finished: list[tuple[int, int]] = []  # (vertex, subtask) of readers that had read all input


class Deployed(_OfAttempt, frozen=True, tag="deployed"):
    """Worker to job master: all subtasks of this attempt are open and run."""


class Trigger(_OfCheckpoint, frozen=True, tag="trigger"):
    """Job master to worker: have source subtasks snapshot state and emit the barrier of `checkpoint`."""

    trigger_ms: int  # wall clock at the trigger
    alignment: str = "aligned"  # how the barrier travels, as in `core.alignment.barriers.Alignment`
    timeout_ms: int | None = None  # age at which an aligned barrier becomes unaligned; None: never
    savepoint: SavepointOrder | None = None  # where and how to write a savepoint; None: a checkpoint
    completed: int = 0  # newest complete checkpoint, 0 for none


class Acknowledge(_OfCheckpoint, frozen=True, tag="acknowledge"):
    """Worker to job master: a subtask's part of the checkpoint is durable; `snapshot` says where."""

    snapshot: SubtaskSnapshot


class Decline(_OfCheckpoint, frozen=True, tag="decline"):
    """Worker to job master: this subtask cannot take part in the checkpoint; `reason` names the failure."""

    vertex: int
    subtask: int
    reason: str
    detail: str


class CheckpointComplete(_OfCheckpoint, frozen=True, tag="complete"):
    """Job master to worker: `checkpoint` is in the log, and its output is committed."""


class CheckpointAborted(_OfCheckpoint, frozen=True, tag="aborted"):
    """Job master to worker: `checkpoint` was aborted; drop its snapshots, and take none if it comes later."""


class Recovered(_OfSubtask, frozen=True, tag="recovered"):
    """Worker to job master: this subtask has processed all in-flight records of the restored checkpoint."""


class RequestSplits(_OfSubtask, frozen=True, tag="request-splits"):
    """Worker to job master: this source subtask has read all its splits and asks for more."""


class AssignSplits(_OfSubtask, frozen=True, tag="assign-splits"):
    """Job master to worker: splits to read, as (id, position); None: no more will come; []: none now."""

    splits: list[tuple[str, Plain]] | None


class Counters(msgspec.Struct, frozen=True, array_like=True):
    """The metrics of one subtask since the attempt began, as whole numbers in the order of `Deploy`'s series.
    Each histogram is a list of cells and their counts, as `Histogram.sparse` returns. The properties hold
    only for the order of `metrics.metric_table`, in which the driver asks for the series.
    """

    vertex: int
    subtask: int
    values: list[int]
    histograms: list[list[int]]  # cells and their counts, as `Histogram.sparse` gives them
    told: list[Told] = []  # metrics of the program's functions
    parts: list[Part] = []  # metrics of splits and channels

    @property
    def records_in(self) -> int:
        """Records that the subtask has processed, or as a source has read."""
        return self.values[_RECORDS_IN]

    @property
    def records_out(self) -> int:
        """Records that the subtask has emitted, or as a sink has written."""
        return self.values[_RECORDS_OUT]

    @property
    def skipped(self) -> int:
        """Records that the source has skipped, because they could not be decoded."""
        return self.values[_SKIPPED]

    @property
    def watermark(self) -> int | None:
        """Event time of the input in ms; None: not known."""
        mark = self.values[_WATERMARK]
        return None if mark == table.WATERMARK.unknown else mark

    @property
    def busy_ms(self) -> int:
        """Milliseconds in which the subtask has worked since the attempt began."""
        return self.values[_BUSY]

    @property
    def backpressured_ms(self) -> int:
        """Milliseconds in which the subtask had work but could not emit, because a receiver was slower."""
        return self.values[_BACKPRESSURED]

    @property
    def lived_ms(self) -> int:
        """Milliseconds that the subtask has lived, by its four times; newer counters have no less."""
        return sum(self.values[kind] for kind in _TIMES)

    @property
    def longest_step_ms(self) -> float:
        """Milliseconds of the subtask's longest step since the attempt began; it blocked its worker's loop so
        long. A step is what the worker's loop does for one subtask before it turns to the next.
        """
        return self.values[_LONGEST_STEP] / 1000

    @property
    def steps(self) -> Histogram:
        """The durations of the subtask's steps in microseconds; each step blocks its worker's loop."""
        return Histogram(self.histograms[_STEPS])


class DataEnded(_OfSubtask, frozen=True, tag="data-ended"):
    """Worker to job master: this subtask has processed all its input, with these final totals."""

    counters: Counters


class TaskFailed(_OfSubtask, frozen=True, tag="task-failed"):
    """Worker to job master: a subtask (vertex -1: the worker) failed, so that the attempt must end."""

    kind: str  # name of the error's class in `common.errors`
    arguments: list[Plain]  # its arguments, for rebuilding it
    lost_peer: int | None  # slot of the worker whose broken connection is the reason, if so


class WriterMessage(_OfAttempt, frozen=True, tag="told"):
    """Worker to job master: bytes that the writer of sink `uid` sent to the driver, at any time."""

    uid: str
    subtask: int
    data: bytes


class Printed(_OfAttempt, frozen=True, tag="printed"):
    """Worker to job master: lines that user code printed; `left_out` lines before them were dropped."""

    lines: list[str]
    left_out: int


class Logged(_OfAttempt, frozen=True, tag="logged"):
    """Worker to job master: new lines of its log; `left_out` lines meanwhile were dropped."""

    lines: list[LogLine]
    left_out: int


class SlowRecords(_OfAttempt, frozen=True, tag="slow-records"):
    """Worker to job master: records of type `name` are encoded slowly; a worker sends it once for a type."""

    name: str  # name of the type
    pickled: bool  # whether its records are pickled


class Stop(_OfAttempt, frozen=True, tag="stop"):
    """Job master to worker: stop and drop the attempt's subtasks; the process stays for the next attempt."""


class Idle(_OfAttempt, frozen=True, tag="idle"):
    """Worker to job master: after `Stop`, the attempt's subtasks have ended here; user code may still run."""

    stray_threads: list[str]  # user code that still runs: threads and blocking functions
    changed_limits: list[str] = []  # limits of the process that user code has changed, as text


class Finish(_OfAttempt, frozen=True, tag="finish"):
    """Job master to worker: the job has ended; the process is to exit."""


class Standstill(msgspec.Struct, frozen=True):
    """A call of user code (or a step of its subtask) that has lasted for a second or longer."""

    vertex: int
    subtask: int
    operator: str  # name and uid of the operator whose code was called
    still_ms: int  # how long the call has lasted
    stack: str  # stack in the user's code, a line per frame, innermost last


class Heartbeat(_OfAttempt, frozen=True, tag="heartbeat"):
    """Worker to job master: still alive; `progress` counts turns of its loop, `sent_ms` is its clock."""

    sent_ms: int  # monotonic
    progress: int
    counters: list[Counters]  # running totals of the worker's subtasks
    standstills: list[Standstill] = []  # calls of user code that do not return
    rss_bytes: int = 0  # resident memory of the process; 0: not known
    # group of sources -> the least event time of its subtasks here that still read; None: they do not run
    event_times: dict[str, int] | None = None
    cpu_ms: int = 0  # processor time of the process, all its threads
    gc_us: int = 0  # time in which the garbage collector has held it up
    stacks: tuple[int, dict[str, int]] | None = None  # number of the sampling, how often each stack was found


class Totals(_OfAttempt, frozen=True, tag="totals"):
    """Worker to job master: the final totals of its subtasks, sent as an attempt ends."""

    counters: list[Counters]


class Traced(_OfAttempt, frozen=True, tag="traced"):
    """Worker to job master: visits of traced records that have ended since the last heartbeat."""

    visits: list[Visit]


class HeartbeatSeen(msgspec.Struct, frozen=True, tag="heartbeat-seen"):
    """Job master to worker: the heartbeat of `sent_ms` arrived, which renews the worker's lease to run."""

    sent_ms: int
    attempt: int = 0  # that of the heartbeat
    # group of sources -> the least event time that the other workers have reported; None: not known
    event_times: dict[str, int] | None = None
    sampling: int = 0  # number of the sampling of stacks that is wanted; 0: none
    log_levels: dict[str, str] | None = None  # logger -> level that it is to have for now; None: none was set
    tracing: tuple[int, int] = (
        0,
        0,
    )  # number of the tracing that is wanted, and one record in how many; 0: no


class QueryState(_OfAttempt, frozen=True, tag="query-state"):
    """Job master to worker: return the present value under a key in an operator's keyed state."""

    query: int  # number of the query, which its answer carries, too
    vertex: int
    subtask: int
    uid: str  # of the operator
    state: str  # name of the state
    key: bytes  # encoded as all keys in checkpoints are


class StateAnswer(_OfAttempt, frozen=True, tag="state-answer"):
    """Worker to job master: the answer to `QueryState`: value `data` (None: no value), or error `kind`."""

    query: int  # number of the query
    schema: Description = {}  # kind and description of the state's serializers
    # the value, encoded by these as a batch of one; None: nothing is stored under the key
    data: bytes | None = None
    kind: str | None = None  # of a failed query, the name of the error's class in `common.errors`
    arguments: list[Plain] = []  # the error's arguments, for rebuilding it


_AboutJob = WriterMessage | Printed | Logged | SlowRecords | StateAnswer | Traced
_AboutAttempt = Register | Deployed | TaskFailed | Idle | Heartbeat | Totals
FromWorker = _AboutJob | _AboutAttempt | Recovered | Acknowledge | Decline | RequestSplits | DataEnded

_AboutCheckpoint = Trigger | CheckpointComplete | CheckpointAborted
ToWorker = Deploy | _AboutCheckpoint | AssignSplits | QueryState | Stop | Finish | HeartbeatSeen
