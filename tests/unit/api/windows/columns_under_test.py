"""What unit tests of windows of columns share: the operators of a table in a row, without a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from windows_under_test import END, Seen, span

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.common.time import WATERMARK_MIN
from headgate.graph.table_nodes import TABLES, WindowAggregateNode
from headgate.records.arrow_batch import ArrowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.making import table_operator
from headgate.state.snapshots import Inline, OperatorSubtaskState
from headgate.testing import ManualClock, MiniCluster

SCHEMA = pa.schema({"key": pa.string(), "at": pa.int64(), "price": pa.int64()})
LATE = hg.OutputTag[dict[str, Any]]("late")
AGGREGATES = (
    F.count("*").alias("n"),
    F.count("price").alias("some"),
    F.sum("price").alias("total"),
    F.min("price").alias("low"),
    F.max("price").alias("top"),
    F.avg("price").alias("mean"),
)


def grouped(window: Any) -> Any:
    """A table of records in windows, by their key."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    rows = env.from_collection([{"key": "a", "at": 0, "price": None}]).with_event_time("at")
    return rows.to_table(SCHEMA).group_by("key", window)


class Received:
    """Keeps what comes out, each record with its event time and watermark."""

    def __init__(self) -> None:
        self.records: list[tuple[Any, Any, dict[str, Any]]] = []

    def process(self, batch: Any) -> None:
        count = len(batch)
        times = [None] * count if batch.timestamps is None else batch.timestamps.tolist()
        marks = [None] * count if batch.watermarks is None else batch.watermarks.tolist()
        self.records += zip(times, marks, batch.columns.to_pylist(), strict=True)

    def watermark(self, timestamp: int) -> None:
        """Nothing waits for it here."""

    def take(self) -> list[tuple[Any, Any, dict[str, Any]]]:
        """What came since it was asked last."""
        found, self.records = self.records, []
        return found


class _Files:
    def write(self, uid: str, parts: list[bytes]) -> Inline:
        return Inline(b"".join(bytes(part) for part in parts))


class ColumnsRun:
    """The operators of a table's aggregation, which get batches of records."""

    def __init__(self, make: Callable[[], Any], clock: ManualClock | None = None) -> None:
        self.make, self.clock = make, clock or ManualClock()
        self.main, self.late = Received(), Received()
        self.late_records, self.dropped = list[Any](), 0
        self._open([])

    def _open(self, restored: list[OperatorSubtaskState]) -> None:
        table = self.make()
        nodes = [node for node in table._environment.program.nodes() if isinstance(node, TABLES)]
        operators = []
        for node in nodes:
            mine = restored if isinstance(node, WindowAggregateNode) else []
            context = OperatorContext(node.uid or "w", node.name, 0, 1, 1, "job", 128, self.clock, mine)
            operators.append(table_operator(context, node))
        for left, right in pairwise(operators):
            left.next = right
        self.first, operators[-1].next = operators[0], self.main
        places = [place for place, node in enumerate(nodes) if isinstance(node, WindowAggregateNode)]
        self.windows = operators[places[0]]
        self.windows.side_outputs["late"] = self.late
        for operator in operators:
            operator.open()

    def restart(self, without: str | None = None) -> None:
        """Go on from a snapshot, with another instance of the program; it may lack an operator state."""
        stored = self.stored()
        kept = [each for each in stored.operator_state if each.name != without]
        self._open([msgspec.structs.replace(stored, operator_state=kept)])

    def stored(self) -> OperatorSubtaskState:
        """What a checkpoint would hold."""
        self.dropped += sum(self.windows.measured().values())
        pending = self.windows.snapshot(1)
        assert pending is not None
        return pending.finish(_Files())

    def feed(self, records: Sequence[Seen], marks: Sequence[int] | None = None) -> list[Any]:
        """Process records as one batch; return what came out."""
        table = pa.Table.from_pylist([record._asdict() for record in records], schema=SCHEMA)
        (columns,) = table.combine_chunks().to_batches()
        times = np.array([record.at for record in records], dtype=np.int64)
        found = np.array([WATERMARK_MIN] * len(records) if marks is None else marks, dtype=np.int64)
        self.first.process(ArrowBatch(columns, times, found))
        return self._out()

    def watermark(self, at: int) -> list[Any]:
        """Advance event time; return what came out."""
        self.windows.watermark(at)
        return self._out()

    def wall(self, at: int) -> list[Any]:
        """Advance the wall clock; return what came out."""
        self.clock.set(at)
        self.fire()
        return self._out()

    def fire(self) -> None:
        """Fire what is due by the clock, as a subtask does."""
        now, due = self.clock.now_ms(), self.windows.next_processing_time()
        if due is not None and due <= now:
            self.windows.fire_processing_time(now)

    def _out(self) -> list[Any]:
        self.late_records += [(time, row) for time, _, row in self.late.take()]
        return [(time, result(row)) for time, _, row in self.main.take()]

    def finish(self) -> list[Any]:
        """End event time; return what came out."""
        found = self.watermark(END)
        self.dropped += sum(self.windows.measured().values())
        return found

    @property
    def left(self) -> int:
        """How many rows of accumulators are kept."""
        views = self.windows._kept.at_snapshot()
        return sum(len(table) for view in views for table in view.tables())


def result(row: dict[str, Any]) -> dict[str, Any]:
    """A result, with its window as start and end in ms."""
    window = row.pop("window", None) or row.pop("session_window")
    return {**row, "span": span({"window": window})}
