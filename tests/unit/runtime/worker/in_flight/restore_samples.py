"""Jobs of one sender and one receiver, checkpoints with records in flight between them, whole restores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headgate.common.ids import EdgeId, VertexId
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.graph.logical import KeyedProcessNode, MapNode, Node
from headgate.graph.partitioners import Broadcast, ByKeyGroup, Forward, Partitioner, Rebalance
from headgate.graph.physical import Edge, PhysicalPlan, Vertex
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Idle, Watermark
from headgate.runtime.worker.in_flight.channels import PartReader
from headgate.runtime.worker.in_flight.gathering import StreamKey
from headgate.runtime.worker.in_flight.recovered import RecoveredInput
from headgate.runtime.worker.in_flight.stored_parts import encode_elements
from headgate.state.snapshots import CheckpointMetadata, InFlightPart, InFlightShare, InFlightStream, Inline

GROUPS = 16
CODEC = ElementCodec()
WAYS: dict[str, Partitioner] = {
    "keyed": ByKeyGroup(lambda record: record[1]),
    "forward": Forward(),
    "rebalance": Rebalance(),
    "broadcast": Broadcast(),
}

Record = tuple[Any, int]
"""(name, key): what is in flight in these jobs."""


def groups_of(batch: Batch) -> Any:
    """Key groups by the record's key."""
    return np.array([key_group(record[1], GROUPS) for record in batch.rows()], np.uint16)


def batch(*records: tuple[Any, int, int, int]) -> RowBatch:
    """Of (name, key, timestamp, watermark before it)."""
    return RowBatch(
        [(name, key) for name, key, _, _ in records],
        np.array([time for _, _, time, _ in records], np.int64),
        np.array([mark for _, _, _, mark in records], np.int64),
    )


def plan(way: str, senders: int, receivers: int) -> PhysicalPlan:
    """Sender "a" and receiver "b"; `way` is a key of `WAYS` or "chained"."""
    sender: Node = MapNode(0, "a", uid="a")
    receiver: Node = MapNode(1, "b", uid="b")
    if way == "keyed":
        receiver = KeyedProcessNode(1, "b", uid="b")
    if way == "chained":
        assert senders == receivers
        return PhysicalPlan((Vertex(VertexId(0), (sender, receiver), senders),), (), GROUPS, senders)
    vertices = (Vertex(VertexId(0), (sender,), senders), Vertex(VertexId(1), (receiver,), receivers))
    edge = Edge(EdgeId(0), VertexId(0), 0, None, VertexId(1), WAYS[way])
    return PhysicalPlan(vertices, (edge,), GROUPS, max(senders, receivers))


def part(elements: Sequence[Any], keyed: bool) -> InFlightPart:
    """A part as a checkpoint holds it."""
    pieces, records = encode_elements(elements, CODEC, groups_of if keyed else None)
    data = b"".join(bytes(piece) for piece in pieces)
    return InFlightPart(Inline(data), len(data), records)


def stream(
    key: StreamKey, elements: Sequence[Any] = (), watermark: int | None = None, **more: Any
) -> InFlightStream:
    """A stream in two parts at most, as a checkpoint holds it."""
    keyed = bool(more.get("keyed"))
    middle = len(elements) // 2
    parts = [part(some, keyed) for some in (elements[:middle], elements[middle:]) if some]
    names = {name: getattr(key, name) for name in StreamKey.__dataclass_fields__}
    return InFlightStream(**names, parts=parts, watermark=watermark, **more)


def checkpoint(in_flight: Sequence[InFlightStream], **changes: Any) -> CheckpointMetadata:
    """A checkpoint with these streams."""
    values: dict[str, Any] = {
        "job": "j",
        "job_name": "streaks",
        "checkpoint": 7,
        "generation": 1,
        "attempt": 1,
        "trigger_ms": 0,
        "max_parallelism": GROUPS,
        "format_fingerprint": "",
        "parallelism": {},
        "operators": {},
        "enumerators": {},
        "state_types": {},
        "in_flight": list(in_flight),
    }
    return CheckpointMetadata(**{**values, **changes})


def recovered(
    shares: Sequence[InFlightShare],
    subtask: int = 0,
    position_of: Callable[[str], int] = lambda _uid: 0,
    reads: list[Any] | None = None,
) -> RecoveredInput:
    """The input of one subtask; `reads` remembers which handles were read."""

    def read(handle: Any) -> bytes:
        if reads is not None:
            reads.append(handle)
        assert isinstance(handle, Inline)
        return handle.data

    return RecoveredInput(shares, position_of, PartReader(lambda _stream: CODEC, read, GROUPS), subtask)


@dataclass
class Seen:
    """What a subtask's receiver saw, record by record, and its clock."""

    input: RecoveredInput
    names: list[Any] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    late: list[Any] = field(default_factory=list)
    clock: int = -(2**63)

    def poll(self) -> bool:
        """One piece more; False when there is none."""
        polled = self.input.poll()
        if polled is None:
            return False
        _, given, mark = polled
        if given is not None:
            self.process(given)
        self.clock = max(self.clock, mark)
        return True

    def process(self, given: Batch) -> None:
        """Records come in."""
        assert given.watermarks is not None
        assert given.timestamps is not None
        assert np.all(np.diff(given.watermarks) >= 0)
        for (name, key), time, mark in zip(given.rows(), given.timestamps, given.watermarks, strict=True):
            self.clock = max(self.clock, int(mark))
            self.names.append(name)
            self.keys.append(key)
            if time <= self.clock:
                self.late.append(name)

    def run(self) -> None:
        """Everything."""
        while self.poll():
            pass
        assert self.input.poll() is None


def owner(key: int, parallelism: int) -> int:
    """The subtask that owns a key."""
    group = key_group(key, GROUPS)
    ranges = [key_group_range(GROUPS, parallelism, index) for index in range(parallelism)]
    return next(index for index, (first, last) in enumerate(ranges) if first <= group <= last)


__all__ = ["Idle", "Watermark"]
