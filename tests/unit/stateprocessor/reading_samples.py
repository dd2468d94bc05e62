"""Snapshots of one operator with every kind of state, drawn from real backends into a folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import headgate as hg
from bench.state_operator import Nobody
from headgate.checkpoint.layout import METADATA
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.format_config import fingerprint
from headgate.common.ids import AttemptId, Fence, Generation, JobId, SubtaskId, SubtaskIndex, VertexId
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.core.alignment.barriers import SavepointOrder
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.snapshot.snapshot_writer import BarrierMetrics, SnapshotWriter, TakenSnapshot
from headgate.state.backends import ChangelogBackends, HeapBackends, RocksBackends
from headgate.state.snapshots import CheckpointMetadata, KeyedStateHandle, OperatorSubtaskState
from headgate.stateprocessor.source import FilteringReader, SavepointPartition, SavepointSource
from headgate.testing.manual_clock import ManualClock

GROUPS = 16
UID = "op"
PLAIN = ("total", "seen", "counts", "free", "timers")
WITH_STAMPS = ("late", "late_seen", "late_counts")
BACKENDS = ("heap", "changelog", "rocksdb", "incremental", "logged-rocksdb")


class Everything(hg.KeyedProcessFunction[Any, Any, Any]):
    """Counts a key in every kind of state; a record says what is done with it."""

    total: hg.ValueState[int] = hg.value_state(default=0)
    seen: hg.ListState[str] = hg.list_state()
    counts: hg.MapState[str, int] = hg.map_state()
    free: hg.ValueState[Any] = hg.value_state()
    late: hg.ValueState[int] = hg.value_state(default=0, ttl=hg.StateTtl("10h"))
    late_seen: hg.ListState[str] = hg.list_state(ttl=hg.StateTtl("10h"))
    late_counts: hg.MapState[str, int] = hg.map_state(ttl=hg.StateTtl("10h"))

    def process(self, record: Any, ctx: Any) -> Any:
        key, number = record
        if number < 0:
            for state in (self.total, self.seen, self.counts, self.free, self.late, self.late_seen):
                state.clear()
            self.late_counts.clear()
            return
        for value in (self.total, self.late):
            value.value += number
        for elements in (self.seen, self.late_seen):
            elements.add(f"{key}-{number}")
        for entries in (self.counts, self.late_counts):
            entries.put(f"m{number % 3}", number)
        self.free.value = (number, str(key))
        ctx.timers.register_event_time(1_000 + number)
        ctx.timers.register_processing_time(2**50 + number % 2)


def _key_of(record: Any) -> Any:
    return record[0]


class Subtasks:
    """The subtasks of the operator, on one backend.

    Args:
        folder: of checkpoints and local files.
        backend: one of :data:`BACKENDS`.
        parallelism: how many there are.
    """

    def __init__(self, folder: Path, backend: str, parallelism: int = 2) -> None:
        self.folder, self.clock = folder, ManualClock()
        self._disk, self._parallelism = LocalDisk(folder / "storage"), parallelism
        inner: Any = HeapBackends()
        if "rocks" in backend or backend == "incremental":
            inner = RocksBackends(8 << 20, str(folder / f"local-{backend}"), backend != "rocksdb")
        logged = backend in ("changelog", "logged-rocksdb")
        self._backends = ChangelogBackends(inner, 10**9, self.clock, 0) if logged else inner
        self._operators = [self._operator(subtask) for subtask in range(parallelism)]
        self._completed = 0

    def _operator(self, subtask: int) -> KeyedProcessOperator:
        context = OperatorContext(
            UID, UID, subtask, self._parallelism, 1, "job", GROUPS, self.clock, [], self._disk,
            backends=self._backends,
        )  # fmt: skip
        operator = KeyedProcessOperator(context, Everything(), _key_of)
        operator.next = Nobody()
        operator.open()
        return operator

    def take(self, records: Iterable[tuple[Any, int]]) -> None:
        """Records, each to the subtask of its key; a second goes by."""
        self.clock.advance(1_000)
        for subtask, operator in enumerate(self._operators):
            low, high = key_group_range(GROUPS, self._parallelism, subtask)
            mine = [record for record in records if low <= key_group(record[0], GROUPS) <= high]
            if mine:
                operator.process(RowBatch(mine))

    def checkpoint(self) -> Path:
        """A checkpoint on the last one."""
        number = self._completed + 1
        states = [self._drawn(subtask, number, None) for subtask in range(self._parallelism)]
        self._completed = number
        return self._described(self.folder / "storage" / "job" / f"chk-{number}", states, "checkpoint")

    def savepoint(self, form: str = "canonical") -> Path:
        """A savepoint."""
        place = self.folder / f"savepoint-{form}-{self._completed}"
        order = SavepointOrder(place.as_uri(), form)
        states = [self._drawn(subtask, 99, order) for subtask in range(self._parallelism)]
        return self._described(place, states, "savepoint", form)

    def _drawn(self, subtask: int, number: int, order: SavepointOrder | None) -> OperatorSubtaskState:
        operator = self._operators[subtask]
        operator.may_build_on(self._completed if order is None else None)
        pending = operator.snapshot(number)
        assert pending is not None
        drawn = TakenSnapshot(
            SubtaskId(VertexId(0), SubtaskIndex(subtask)), number, [pending], 0.0,
            (0, 0), {}, False, BarrierMetrics(0.0, 0.0, False),
            savepoint=order,
        )  # fmt: skip
        writer = SnapshotWriter(self._disk, 2_000, Fence(JobId("job"), Generation(1), AttemptId(1)))
        return writer.finish(drawn, self.clock).operators[0]

    def _described(
        self, place: Path, states: list[OperatorSubtaskState], kind: str, form: str | None = None
    ) -> Path:
        write_metadata(place, states, kind, form)
        return place

    def close(self) -> None:
        """Let go of the state."""
        for operator in self._operators:
            operator.close()


def write_metadata(
    place: Path, states: list[OperatorSubtaskState], kind: str, form: str | None, **more: Any
) -> None:
    """What makes files a snapshot."""
    metadata = CheckpointMetadata(
        "job", "job", 1, 1, 1, 0, GROUPS, fingerprint(), {UID: len(states)}, {UID: states}, {}, {},
        kind=kind, format=form, **more,
    )  # fmt: skip
    place.mkdir(parents=True, exist_ok=True)
    (place / METADATA).write_bytes(encode_metadata(metadata))


# -- reading


def source(path: Path, state: str, **options: str) -> SavepointSource:
    """The data source, as Spark makes it."""
    return SavepointSource({"path": str(path), "uid": UID, "state": state, **options})


def rows(
    path: Path, state: str, filters: Sequence[Any] = (), uid: str = UID, **options: str
) -> list[dict[str, Any]]:
    """Every row, as Spark's workers would give it."""
    made = SavepointSource({"path": str(path), "uid": uid, "state": state, **options})
    reader = made.reader(made.schema())
    if filters:
        reader = FilteringReader(made.reading, made.schema().fieldNames())
        assert list(reader.pushFilters(list(filters))) == list(filters)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def pieces(path: Path, state: str) -> list[Any]:
    """What the tasks would get."""
    made = source(path, state)
    parts = made.reader(made.schema()).partitions()
    return [part.piece for part in parts if isinstance(part, SavepointPartition)]


def parquet_rows(savepoint: Path, state: str) -> list[dict[str, Any]]:
    """What is in the files of a table."""
    files = sorted((savepoint / "state" / UID / state).glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def in_order(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in an order that depends on nothing but what they are."""
    return sorted(found, key=repr)


def handles(path: Path) -> list[KeyedStateHandle]:
    """Where the subtasks have their keyed state."""
    found = source(path, "total").reading.keyed
    assert found is not None
    return list(found[1])
