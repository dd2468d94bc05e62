"""Keeps accumulators in windows of event time, batch by batch; results are emitted when a window ends."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.relational.aggregating.grouping import Grouping, accumulator_column
from headgate.relational.relations import HIDDEN, WINDOW_START, Aggregation
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.accumulating import accumulators_of, keys_of
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.kept_windows import PANE, ROWS, Ended, KeptWindows
from headgate.runtime.worker.operators.columns.paned_windows import PanedWindows
from headgate.runtime.worker.operators.columns.session_grouping import SessionGrouping
from headgate.runtime.worker.operators.columns.sessions import SessionWindows
from headgate.runtime.worker.operators.columns.window_state import FORGOTTEN
from headgate.runtime.worker.operators.columns.window_times import SessionTimes, times_of
from headgate.runtime.worker.operators.columns.windows_operator import WindowsOperator, window_column
from headgate.runtime.worker.operators.operator_contract import PendingState

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.spilled.windows_on_disk import WindowsOnDisk
    from headgate.state.rocksdb.chunk_store import ChunkStore


class WindowAggregateOperator(WindowsOperator):
    """Runs an aggregation in windows of event time, after the exchange, for the key groups of its subtask.
    It receives accumulators, and emits a row for each key and window when the watermark ends the window.
    """

    def __init__(
        self, context: OperatorContext, plan: Aggregation, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        keys = [plan.child.schema.fields[place] for place in plan.keys]
        self._merging = Grouping(keys_of(plan), accumulators_of(plan))
        values = pa.schema([pa.field(name, kind) for name, kind in self._merging.fields])
        super().__init__(context, keys, values, self._merging, function)
        self._plan, self._times = plan, times_of(plan.window)

    def _windows_from(self, mark: int) -> KeptWindows:
        groups, columns = self.context.max_parallelism, self._merging.columns
        if isinstance(self._times, SessionTimes):
            return SessionWindows(SessionGrouping((PANE, *self._keys), columns), mark, groups)
        return PanedWindows(self._merging, self._times, mark, groups)

    @property
    def _forgotten_until(self) -> int:
        # Last ms (since 1970) of the newest windows that are dropped: here all that have ended.
        return self._mark

    def snapshot(self, checkpoint: int) -> PendingState | None:
        self._own.handles[FORGOTTEN].update([(*self._groups, self._forgotten_until)])
        return super().snapshot(checkpoint)

    def _windows_on_disk(self, chunks: ChunkStore, mark: int) -> WindowsOnDisk:
        # Optional packages are loaded when they are used.
        from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns
        from headgate.runtime.worker.operators.columns.spilled.spill import Spill
        from headgate.runtime.worker.operators.columns.spilled.spilled_panes import SpilledPanes
        from headgate.runtime.worker.operators.columns.spilled.spilled_sessions import SpilledSessions
        from headgate.runtime.worker.operators.columns.spilled.windows_on_disk import WindowsOnDisk

        by_pane, groups = (PANE, *self._keys), self.context.max_parallelism
        sessions = isinstance(self._times, SessionTimes)
        columns = ChunkColumns(self._of_keys, self._values_kept, groups, placed=sessions, numbered=False)
        if isinstance(self._times, SessionTimes):
            grouping = SessionGrouping(by_pane, self._merging.columns)
            spill = Spill(chunks, columns, grouping.merged)
            return WindowsOnDisk(
                SpilledSessions(spill, grouping, mark, chunks.held_bytes),
                spill,
                grouping.merged,
                self._pending,
            )
        of_panes = Grouping(by_pane, self._merging.columns)
        spill = Spill(chunks, columns, of_panes.merged)
        kept = SpilledPanes(spill, self._merging, self._times, mark, chunks.held_bytes)
        return WindowsOnDisk(kept, spill, of_panes.merged, self._pending)

    def _stretches(self, marks: Int64s) -> Iterable[tuple[int, int]]:
        # A row may be late for some of its windows only: they go before it is added, whatever the batches.
        starts = np.flatnonzero(np.diff(marks, prepend=marks[:1] - 1)).tolist()
        return pairwise([*starts, len(marks)])

    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        return pa.table(batch).select([PANE, *self._keys, *(name for name, _ in self._merging.fields), ROWS])

    def _results(self, ended: Ended) -> tuple[pa.RecordBatch, Int64s]:
        whole = ended.table
        shown = [field.name for field in self._key_fields if field.name not in HIDDEN]
        arrays = [*(_plain(whole.column(name)) for name in shown), self._windows(ended)]
        for each in self._plan.aggregates:
            parts = each.parts
            names = [accumulator_column(each.name, name) for name, _ in parts.fields]
            inputs = [_plain(whole.column(name)) for name in names]
            with failing_clearly(self.context, f"column {each.name!r} of a window"):
                arrays.append(parts.finish(parts.result, *inputs))
        return pa.RecordBatch.from_arrays(arrays, schema=self._plan.schema.to_arrow()), ended.ends - 1

    def _windows(self, ended: Ended) -> pa.Array:
        starts = ended.starts
        if WINDOW_START in ended.table.column_names:
            starts = ended.table.column(WINDOW_START).to_numpy()
        return window_column(starts, ended.ends)


def _plain(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
