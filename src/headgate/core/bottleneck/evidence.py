"""What is known of a running job over the last seconds, as plain values: its graph, subtasks and workers.

Shares are of 0 to 1, and of the time that has passed. Subtask number i of each vertex runs in worker i, whose
one loop all of them share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from headgate.core.bottleneck.areas import IDLE


class Role(Enum):
    """What an operator is to its job: a source, a function in between, or a sink."""

    SOURCE = "source"
    FUNCTION = "function"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class OperatorSeen:
    """An operator: its uid, and the label by which stacks name it."""

    uid: str
    label: str
    role: Role = Role.FUNCTION


@dataclass(frozen=True, slots=True)
class VertexSeen:
    """A chain of operators, and the vertices that send to it."""

    id: int
    operators: tuple[OperatorSeen, ...]
    senders: tuple[int, ...] = ()
    own_thread: bool = False  # it runs in threads of its own, as its function is marked as blocking
    many_calls: bool = False  # it waits for calls that run at the same time, as its function is asynchronous

    @property
    def name(self) -> str:
        """The uids of its operators, as all messages join them."""
        return " -> ".join(operator.uid for operator in self.operators)


@dataclass(frozen=True, slots=True)
class SubtaskSeen:
    """One subtask: the records that it takes, and the shares of its time."""

    vertex: int
    worker: int  # which is the number of the subtask, too
    in_per_s: float
    busy: float
    backpressured: float = 0.0
    idle: float = 0.0
    records: int = 0  # of the last half minute, or since the job began or failed

    @property
    def per_record(self) -> float:
        """The share of its time that a record per second takes."""
        return self.busy / self.in_per_s


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """One worker process; `stacks` are samples of its loop, with how often each came."""

    worker: int
    cpu: float | None = None  # processors that it uses, all its threads
    garbage: float | None = None  # share of the time in which the garbage collector holds it up
    stacks: Mapping[str, int] = field(default_factory=dict)
    process: str = ""  # host and process id, for people

    @property
    def sampled_load(self) -> float | None:
        """The share of the samples in which the loop was at work; None without samples."""
        taken = sum(self.stacks.values())
        return None if taken == 0 else 1 - self.stacks.get(IDLE, 0) / taken


@dataclass(frozen=True, slots=True)
class AlignmentSeen:
    """The subtask that alignment held up longest: the share of the time in which inputs were blocked."""

    vertex: int
    subtask: int
    share: float
    checkpoints: int  # with how many checkpoints
    last: str | None = None  # "uid[subtask]" of the sender whose barrier most often came last


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of a job; subtasks of which nothing is known are left out."""

    vertices: tuple[VertexSeen, ...]  # in the direction of flow
    subtasks: tuple[SubtaskSeen, ...]
    workers: tuple[WorkerSeen, ...]
    credit_initial: int = 4
    alignment: AlignmentSeen | None = None

    def vertex(self, number: int) -> VertexSeen:
        return next(vertex for vertex in self.vertices if vertex.id == number)

    def of_vertex(self, number: int) -> list[SubtaskSeen]:
        return [subtask for subtask in self.subtasks if subtask.vertex == number]

    def of_worker(self, number: int) -> list[SubtaskSeen]:
        return [subtask for subtask in self.subtasks if subtask.worker == number]

    def load(self, worker: WorkerSeen) -> float:
        """Return the share of its time in which a worker's loop is at work.

        It is the sum over the subtasks that run in the loop, or what samples say, if that is more: they also
        see the loop take frames in, which is no subtask's step. Native code that keeps the interpreter's lock
        hides from them, as RocksDB does.
        """
        in_loop = [each for each in self.of_worker(worker.worker) if not self.vertex(each.vertex).own_thread]
        return min(1.0, max(worker.sampled_load or 0.0, sum(each.busy for each in in_loop)))

    def waiting_before(self, vertex: VertexSeen) -> float:
        """Return for which share of its time the subtask waits that waits longest to send to `vertex`."""
        senders = [each for number in vertex.senders for each in self.of_vertex(number)]
        return max((each.backpressured for each in senders), default=0.0)


def mean(values: Iterable[float]) -> float:
    """Return the mean of some values, of which there is at least one."""
    found = list(values)
    return sum(found) / len(found)
