"""A clock, a context and a receiver for tests of operators and subtasks without a worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headgate.core.marks import Mark
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState
from headgate.state.snapshots import Inline, OperatorSubtaskState


class ManualClock:
    """A clock that a test turns."""

    def __init__(self, now: int = 1_000) -> None:
        self.now = now

    def now_ms(self) -> int:
        return self.now

    def monotonic_ms(self) -> int:
        return self.now

    def precise_ms(self) -> float:
        return float(self.now)


def context(uid: str = "op", **changes: Any) -> OperatorContext:
    """Where an operator runs, in a test."""
    made = OperatorContext(
        uid=uid,
        name=f"the {uid}",
        subtask=0,
        parallelism=1,
        attempt=3,
        job="job",
        max_parallelism=128,
        clock=ManualClock(),
    )
    return dataclasses.replace(made, **changes)


class Recorder:
    """Keeps what an operator passes on: records one by one with their times, and events."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.log: list[Any] = []

    def process(self, batch: Batch) -> None:
        self.batches.append(batch)
        times = [None] * len(batch) if batch.timestamps is None else batch.timestamps.tolist()
        marks = [None] * len(batch) if batch.watermarks is None else batch.watermarks.tolist()
        self.log += list(zip(batch.rows(), times, marks, strict=True))

    def watermark(self, timestamp: int) -> None:
        self.log.append(("watermark", timestamp))

    def idle(self) -> None:
        self.log.append("idle")

    def mark(self, mark: Mark) -> None:
        self.log.append(mark)

    def end_of_data(self) -> None:
        self.log.append("end")

    @property
    def records(self) -> list[Any]:
        """The records alone."""
        return [row for batch in self.batches for row in batch.rows()]

    def timed(self) -> list[Any]:
        """Records with their times, without events."""
        return [entry for entry in self.log if isinstance(entry, tuple) and entry[0] != "watermark"]


def opened(operator: Operator, *tags: str) -> tuple[Recorder, dict[str, Recorder]]:
    """Connect and open an operator; gives who receives its main and side outputs."""
    operator.next = main = Recorder()
    sides = {tag: Recorder() for tag in tags}
    operator.side_outputs.update(sides)
    operator.open()
    return main, sides


def rows(records: Sequence[Any], times: Any = None, marks: Any = None) -> RowBatch:
    """A row batch."""
    return RowBatch(list(records), int64s(times), int64s(marks))


def columns(records: Sequence[dict[str, Any]], times: Any = None, marks: Any = None) -> ArrowBatch:
    """A column batch."""
    return ArrowBatch(pa.RecordBatch.from_pylist(list(records)), int64s(times), int64s(marks))


def int64s(values: Any) -> Any:
    """Times as batches hold them."""
    return None if values is None else np.array(values, dtype=np.int64)


class InlineFiles:
    """Keeps snapshots in memory."""

    def write(self, uid: str, parts: list[bytes]) -> Inline:
        return Inline(b"".join(bytes(part) for part in parts))


def finished(pending: PendingState | None) -> OperatorSubtaskState:
    """The asynchronous part of a snapshot, done at once."""
    assert pending is not None
    return pending.finish(InlineFiles())
