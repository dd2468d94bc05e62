"""A keyed operator as one subtask of a job has it, with its backend and checkpoint storage, fed by hand."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, Final

import headgate as hg
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.ids import AttemptId, Fence, Generation, JobId, SubtaskId, SubtaskIndex, VertexId
from headgate.common.process.system import SystemClock
from headgate.core.alignment.barriers import SavepointOrder
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.keyed_operator import KeyedProcessOperator
from headgate.runtime.worker.snapshot.snapshot_writer import BarrierMetrics, SnapshotWriter, TakenSnapshot
from headgate.state.backends import StateBackends
from headgate.state.snapshots import OperatorSubtaskState, SubtaskSnapshot

GROUPS: Final = 128
INLINE_BYTES: Final = 20_480


class Count(hg.KeyedProcessFunction[int, int, Any]):
    """A small value per key."""

    count: hg.ValueState[int] = hg.value_state(default=0)

    def process(self, record: int, ctx: hg.Context[int]) -> None:
        self.count.value += 1


class Nobody:
    """Follows the operator."""

    def process(self, batch: Batch) -> None: ...
    def watermark(self, timestamp: int) -> None: ...
    def idle(self) -> None: ...
    def end_of_data(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Taken:
    """A checkpoint of one subtask.

    Attributes:
        pause_s: how long the operator stood still.
        write_s: until the storage had it, beside the operator.
        acknowledgement: what the job master would hear.
    """

    pause_s: float
    write_s: float
    acknowledgement: SubtaskSnapshot

    @property
    def state(self) -> OperatorSubtaskState:
        """What is restored from."""
        return self.acknowledgement.operators[0]

    def facts(self) -> dict[str, Any]:
        """For the record."""
        told = self.acknowledgement
        return {
            "pause_s": round(self.pause_s, 4),
            "write_s": round(self.write_s, 4),
            "bytes_written": told.bytes_written,
            "files_written": told.files_written,
            "bytes_shared": told.bytes_shared,
            "files_shared": told.files_shared,
        }


class Subtask:
    """A :class:`Count` per key, in one backend.

    Args:
        backends: makes it; None: on the heap.
        storage: folder of the checkpoints; needed for checkpoints and restores only.
        restored: what an earlier one's checkpoints said.
        subtask: which one it is.
        parallelism: of how many.

    Attributes:
        opened_s: how long it took to open, and so to restore.
    """

    def __init__(
        self,
        backends: StateBackends | None = None,
        storage: Path | None = None,
        restored: Sequence[OperatorSubtaskState] = (),
        subtask: int = 0,
        parallelism: int = 1,
    ) -> None:
        disk = None if storage is None else LocalDisk(storage)
        context = OperatorContext(
            "counts", "counts", subtask, parallelism, 1, "bench", GROUPS, SystemClock(), list(restored),
            disk, backends=backends,
        )  # fmt: skip
        self.operator = KeyedProcessOperator(context, Count(), index)
        self.operator.next = Nobody()
        self._id = SubtaskId(VertexId(0), SubtaskIndex(subtask))
        self._clock = SystemClock()
        self._writer = SnapshotWriter(disk, INLINE_BYTES, Fence(JobId("bench"), Generation(1), AttemptId(1)))
        began = time.perf_counter()
        self.operator.open()
        self.opened_s = time.perf_counter() - began

    def take(self, keys: list[int]) -> None:
        """A batch of records, which are their own keys."""
        self.operator.process(RowBatch(keys))

    def checkpoint(self, number: int, completed: int = 0, order: SavepointOrder | None = None) -> Taken:
        """Draw and store one.

        Args:
            number: of the checkpoint.
            completed: the newest complete one before it; 0: none.
            order: of a savepoint; None: it is a checkpoint.
        """
        self.operator.may_build_on(completed if order is None else None)
        began = time.perf_counter()
        pending = self.operator.snapshot(number)
        paused = time.perf_counter()
        assert pending is not None
        drawn = TakenSnapshot(
            self._id, number, [pending], 0.0, (0, 0), {}, False, BarrierMetrics(0.0, 0.0, False),
            savepoint=order,
        )  # fmt: skip
        told = self._writer.finish(drawn, self._clock)
        return Taken(paused - began, time.perf_counter() - paused, told)

    def close(self) -> None:
        """Let go of the state."""
        self.operator.close()
