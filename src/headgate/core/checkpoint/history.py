"""Records of checkpoints for diagnosis: which subtask acknowledged when, and where time was spent. Data only.

Times that end in `_ms` are milliseconds; a subtask's times but `ack_latency_ms` were measured by the worker,
all others by the job master. `core/checkpoint/slowest.py` reads a record and says why it took so long.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headgate.core.checkpoint.failures import CheckpointFailureReason


class CheckpointStatus(Enum):
    """Whether a checkpoint in the history is in progress, completed or failed."""

    IN_PROGRESS = "in progress"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class VertexFacts:
    """A chain of operators in the plan; ids number the vertices of the graph in the direction of flow."""

    id: int
    name: str
    uids: tuple[str, ...]
    parallelism: int

    @property
    def label(self) -> str:
        return " -> ".join(self.uids)


@dataclass(frozen=True, slots=True)
class EdgeFacts:
    """An exchange between two chains: ids of the sending and receiving vertex, and the partitioner's name."""

    source: int
    target: int
    partitioner: str


@dataclass(frozen=True, slots=True)
class Topology:
    """The graph of a job, through which the barriers of a recorded checkpoint passed."""

    vertices: tuple[VertexFacts, ...]
    edges: tuple[EdgeFacts, ...]

    def vertex(self, number: int) -> VertexFacts:
        """Return the vertex with the id `number`; a placeholder when the graph does not have it."""
        found = (vertex for vertex in self.vertices if vertex.id == number)
        return next(found, VertexFacts(number, f"vertex {number}", (f"vertex {number}",), 0))

    def inputs(self, vertex: int) -> tuple[EdgeFacts, ...]:
        return tuple(edge for edge in self.edges if edge.target == vertex)

    def label(self, task: tuple[int, int]) -> str:
        """Return the name of a task (vertex, subtask) for messages: its uids and number.

        Example:
            >>> Topology((VertexFacts(0, "Count", ("count",), 2),), ()).label((0, 1))
            "'count'[1]"
        """
        return f"'{self.vertex(task[0]).label}'[{task[1]}]"


@dataclass(frozen=True, slots=True)
class SubtaskRecord:
    """Times and sizes that one subtask reported when it acknowledged a checkpoint."""

    vertex: int
    subtask: int
    ack_latency_ms: int  # from the trigger until the job master had it
    start_delay_ms: float = 0.0  # from the trigger to the first barrier
    alignment_ms: float = 0.0  # from the first barrier to the last
    sync_ms: float = 0.0  # the pause of the loop
    async_ms: float = 0.0  # writing in the background
    bytes_processed: int = 0  # of records read between the first barrier and the last
    bytes_persisted: int = 0  # of records in flight that were stored
    bytes_written: int = 0  # new bytes in files
    state_size: int = 0  # bytes of keyed and operator state, new or not
    unaligned: bool = False  # the barrier overtook records here
    finished: bool = False
    slowest_channel: str | None = None  # "uid[subtask]" of the sender whose barrier came last

    @property
    def task(self) -> tuple[int, int]:
        return self.vertex, self.subtask


@dataclass(frozen=True, slots=True)
class StuckLoop:
    """A worker whose loop stood still while a checkpoint was in progress, which may explain a delay."""

    slot: int  # of the worker, which runs this subtask of every vertex
    still_ms: int  # how long the present step of its loop had taken


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """The facts of one checkpoint, in progress or ended: times, acknowledgements, sizes, failure."""

    checkpoint: int
    attempt: int
    kind: str  # value of the `RequestKind`
    status: CheckpointStatus
    trigger_ms: int  # wall clock
    topology: Topology
    duration_ms: int = 0  # from the trigger to the commit of the sinks or the failure, or to now
    stored_ms: int | None = None  # from the trigger until the log held it; None before
    subtasks: tuple[SubtaskRecord, ...] = ()  # ordered by (vertex, subtask)
    missing: tuple[tuple[int, int], ...] = ()  # that had not acknowledged
    reason: str | None = None  # name of the `CheckpointFailureReason`
    detail: str = ""  # what more is known of the failure
    stuck: tuple[StuckLoop, ...] = ()  # workers whose loops stood still meanwhile

    @property
    def size(self) -> int:
        """Bytes of all keyed and operator state in the checkpoint; records in flight do not count."""
        return sum(subtask.state_size for subtask in self.subtasks)

    @property
    def bytes_in_flight(self) -> int:
        """Bytes of the records in flight that were stored with the checkpoint."""
        return sum(subtask.bytes_persisted for subtask in self.subtasks)

    @property
    def unaligned(self) -> bool:
        """Whether a barrier of the checkpoint overtook records at any subtask."""
        return any(subtask.unaligned for subtask in self.subtasks)

    @property
    def last_acknowledged(self) -> SubtaskRecord | None:
        """The subtask that acknowledged last, of several the most downstream; None when none did."""
        return max(self.subtasks, key=lambda seen: (seen.ack_latency_ms, seen.vertex), default=None)

    @property
    def reason_text(self) -> str:
        """Why the checkpoint failed, for people; empty for one that did not."""
        if self.reason is None:
            return ""
        known = CheckpointFailureReason.__members__.get(self.reason)
        return self.reason if known is None else known.text

    def subtask(self, task: tuple[int, int]) -> SubtaskRecord | None:
        """Return the record of a task's acknowledgement; None if the task has not acknowledged."""
        return next((subtask for subtask in self.subtasks if subtask.task == task), None)
