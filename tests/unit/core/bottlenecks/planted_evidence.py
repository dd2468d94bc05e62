"""Evidence of a small job for tests: a source, a function by key and a sink, in two workers with time left.

Each test changes what its cause would change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headgate.core.bottleneck.areas import IDLE
from headgate.core.bottleneck.evidence import (
    AlignmentSeen,
    Evidence,
    OperatorSeen,
    Role,
    SubtaskSeen,
    VertexSeen,
    WorkerSeen,
)


def operator(uid: str, role: Role = Role.FUNCTION) -> OperatorSeen:
    """One whose label is as in samples of stacks."""
    return OperatorSeen(uid, f"operator {uid!r} (uid {uid!r})", role)


READ, CLEAN, COUNT = operator("read", Role.SOURCE), operator("clean"), operator("count")
WRITE = operator("write", Role.SINK)
VERTICES = (
    VertexSeen(0, (READ, CLEAN)),
    VertexSeen(1, (COUNT,), (0,)),
    VertexSeen(2, (WRITE,), (1,)),
)


@dataclass
class Planted:
    """The evidence, part by part; shares of time are by (vertex, worker)."""

    workers: int = 2
    vertices: Sequence[VertexSeen] = VERTICES
    in_per_s: dict[tuple[int, int], float] = field(default_factory=dict)
    busy: dict[tuple[int, int], float] = field(default_factory=dict)
    backpressured: dict[int, float] = field(default_factory=dict)  # by vertex
    cpu: dict[int, float | None] = field(default_factory=dict)
    garbage: dict[int, float | None] = field(default_factory=dict)
    stacks: dict[int, Mapping[str, int]] = field(default_factory=dict)
    alignment: AlignmentSeen | None = None
    credit: int = 4

    def seen(self) -> Evidence:
        """It as `judge` takes it: 1,000 records a second and 10 % busy where nothing else is said."""
        subtasks = [
            SubtaskSeen(
                vertex.id,
                worker,
                self.in_per_s.get((vertex.id, worker), 1_000.0),
                self.busy.get((vertex.id, worker), 0.1),
                self.backpressured.get(vertex.id, 0.0),
                records=round(30 * self.in_per_s.get((vertex.id, worker), 1_000.0)),
            )
            for vertex in self.vertices
            for worker in range(self.workers)
        ]
        workers = [
            WorkerSeen(
                worker,
                self.cpu.get(worker, 0.4),
                self.garbage.get(worker, 0.01),
                self.stacks.get(worker, {}),
                f"process {worker + 100} on host",
            )
            for worker in range(self.workers)
        ]
        return Evidence(tuple(self.vertices), tuple(subtasks), tuple(workers), self.credit, self.alignment)

    def all_busy(self, vertex: int, busy: float = 0.9, waiting: float = 0.7) -> Planted:
        """A vertex works so much in every worker, and the one before it waits to send."""
        for worker in range(self.workers):
            self.busy[vertex, worker] = busy
        if vertex:
            self.backpressured[vertex - 1] = waiting
        return self

    def all_sampled(self, stacks: Mapping[str, int], idle: int = 5) -> Planted:
        """Every loop is found in these stacks, and else idle."""
        self.stacks = {worker: {**stacks, IDLE: idle} for worker in range(self.workers)}
        return self


def vertices(**changes: bool) -> tuple[VertexSeen, ...]:
    """The usual ones, with changes of the second."""
    return VERTICES[0], replace(VERTICES[1], **changes), VERTICES[2]
