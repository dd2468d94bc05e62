"""Keeps accumulators in windows of event time, batch by batch; a window's results go out when it ends."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headgate.api.declared.keyed_states import declared_state
from headgate.api.functions import KeyedProcessFunction
from headgate.common.errors import UsageError
from headgate.common.keys.key_types import stored_shapes
from headgate.common.keys.keygroups import key_group_range
from headgate.common.plain_data import Plain
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.metrics.metric_table import LATE_RECORDS
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.python_types import plain_type
from headgate.relational.relations import ALL_ROWS, WINDOW, Aggregation
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.accumulating import ROWS, accumulator_column, grouping_of
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.panes import PANE
from headgate.runtime.worker.operators.columns.panes_of_groups import PanesOfGroups
from headgate.runtime.worker.operators.columns.restored_windows import RestoredWindows
from headgate.runtime.worker.operators.columns.window_state import (
    AHEAD,
    WINDOWS,
    PendingWindows,
)
from headgate.runtime.worker.operators.columns.window_times import WindowTimes
from headgate.runtime.worker.operators.function_state import FunctionState
from headgate.runtime.worker.operators.keyed_state import PendingKeyedState, earlier_state
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState, StateTypes
from headgate.state.backend import StoredValue
from headgate.state.snapshots import OperatorSubtaskState
from headgate.state.state_names import Claims
from headgate.state.stored.restoring import open_restore
from headgate.state.stored.value_readers import stored_value
from headgate.state.targets import Target, target_of

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class WindowAggregateOperator(Operator):
    """Runs an aggregation in windows of event time for the key groups of its subtask."""

    def __init__(
        self, context: OperatorContext, plan: Aggregation, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        super().__init__(context)
        self._plan, self._times = plan, WindowTimes.of(plan.window)
        self._function, self._state = function, declared_state(function)
        self._key_fields = [plan.child.schema.fields[place] for place in plan.keys]
        self._grouping = grouping_of(plan)
        self._late = 0

    def open(self) -> None:
        """Restore the windows and the event time of the snapshots."""
        where, target = self.context, target_of(self._state[WINDOWS])
        self._target: Target = target
        record = self._state[WINDOWS].types[1]
        assert isinstance(record, type)  # as the API declares it
        self._record = record
        self._groups = key_group_range(where.max_parallelism, where.parallelism, where.subtask)
        marks = [state.watermark for state in where.restored if state.watermark is not None]
        self._mark = min(marks, default=WATERMARK_MIN)
        self._panes = PanesOfGroups(self._grouping, self._mark, where.max_parallelism)
        self._own = FunctionState(where, self._function)
        self._fill([state for state in where.restored if state.keyed is not None])

    def _fill(self, states: list[OperatorSubtaskState]) -> None:
        """Add the stored windows of former subtasks, each group's as far in event time as it had got."""
        where = self.context
        claims = Claims(self._state) if where.ignore_unclaimed else None
        stored = [
            earlier_state(where.disk, state.keyed, claims) for state in states if state.keyed is not None
        ]
        if not stored:
            return
        ahead = dict(self._own.handles[AHEAD].get())
        keys = pa.schema([pa.field(each.name, each.type) for each in self._key_fields])
        loader = RestoredWindows(keys, self._grouping.columns)
        with open_restore(stored, {WINDOWS: self._target}, self._groups, where.max_parallelism) as restore:
            for state, base in zip(states, restore.bases, strict=True):
                mark = WATERMARK_MIN if state.watermark is None else state.watermark
                for entries in (entries for section in base for entries in section.entries(restore.groups)):
                    panes = self._panes.of_group(entries.group, ahead.get(entries.group, mark))
                    loader.load(panes, entries.keys, entries.values)

    def process(self, batch: Batch) -> None:
        """Add a batch of accumulators to their windows, after the windows that have ended before each row."""
        assert isinstance(batch, ArrowBatch) and batch.watermarks is not None  # noqa: PT018  # of our own sender
        marks = np.maximum(batch.watermarks, self._mark)
        # A row may be late for some of its windows only: they go before it is added, whatever the batches.
        starts = np.flatnonzero(np.diff(marks, prepend=marks[:1] - 1)).tolist()
        for start, stop in pairwise([*starts, len(marks)]):
            self._advance(int(marks[start]))
            in_time = self._in_time(batch.columns.slice(start, stop - start), marks[start:stop])
            with failing_clearly(self.context, "a window"):
                self._panes.add(in_time)

    def _in_time(self, sent: pa.RecordBatch, marks: Int64s) -> pa.Table:
        """Return the accumulators whose last window has not ended; rows in the others are counted as late."""
        try:
            table = pa.table(sent).select(
                [PANE, *self._grouping.keys, *(n for n, _ in self._grouping.columns)]
            )
        except KeyError as error:
            raise UsageError(
                f"{self.context.label}: records in flight of the restored checkpoint lack a column "
                f"({error}), as the aggregates have changed; restore from a savepoint, which has none"
            ) from None
        last = self._times.last_ends(sent.column(PANE).to_numpy())
        late = last - 1 <= self._panes.marks_of(table, marks)
        if not late.any():
            return table
        self._late += int(sent.column(ROWS).to_numpy()[late].sum())
        return table.filter(pa.array(~late))

    def watermark(self, timestamp: int) -> None:
        """Let the windows go that have ended at `timestamp`, then pass it on."""
        self._advance(timestamp)
        self.next.watermark(timestamp)

    def _advance(self, mark: int) -> None:
        before, self._mark = self._mark, max(self._mark, mark)
        if self._mark == before:
            return
        results = [(end, part) for end in self._ended(before) if (part := self._results(end)) is not None]
        self._panes.reached(self._mark)
        self._drop()
        if results:
            times = [np.full(len(part), end - 1) for end, part in results]
            found, at = pa.concat_batches([part for _, part in results]), np.concatenate(times)
            # As of a timer: they come before the watermark that their windows waited for.
            self.next.process(ArrowBatch(found, at, at - 1))

    def _ended(self, before: int) -> list[int]:
        """Return the ends, ascending, of windows with rows that the watermark passed since `before`."""
        ends = {end for pane in self._panes.starts() for end in self._times.ends_over(pane)}
        return sorted(end for end in ends if before < end - 1 <= self._mark)

    def _drop(self) -> None:
        panes = self._panes.starts()
        kept = [pane for pane in panes if self._times.ends_over(pane)[-1] - 1 > self._mark]
        self._panes.drop_before(kept[0] if kept else WATERMARK_MAX)

    def _results(self, end: int) -> pa.RecordBatch | None:
        """Return the rows of the window that ends at `end`: keys, window, results; None: it has none."""
        start = end - self._times.size
        with failing_clearly(self.context, "a window"):
            whole = self._panes.merged(start, end)
        if whole is None:
            return None
        rows = whole.num_rows
        window = pa.StructArray.from_arrays([_moments(start, rows), _moments(end, rows)], fields=list(WINDOW))
        shown = [field.name for field in self._key_fields if field.name != ALL_ROWS]
        arrays = [*(_plain(whole.column(name)) for name in shown), window]
        for each in self._plan.aggregates:
            parts = each.parts
            inputs = [_plain(whole.column(accumulator_column(each.name, a.name))) for a in parts.accumulators]
            with failing_clearly(self.context, f"column {each.name!r} of a window"):
                arrays.append(parts.finish(parts.result, *inputs))
        return pa.RecordBatch.from_arrays(arrays, schema=self._plan.schema.to_arrow())

    def measured(self) -> dict[str, int]:
        """Return how many records came too late for their windows."""
        return {LATE_RECORDS.at(): self._late}

    def snapshot(self, checkpoint: int) -> PendingState | None:
        """Take the tables as they are; they are stored in the background."""
        self._own.handles[AHEAD].update(self._panes.ahead)
        pending = self._pending()
        keyed = PendingKeyedState(self.context.uid, pending, self._mark, None, self._key_shapes())
        return self._own.snapshot(keyed)

    def _pending(self) -> PendingWindows:
        views, groups = self._panes.at_snapshot(), self.context.max_parallelism
        return PendingWindows(views, self._grouping, self._record, self._target, self._groups, groups)

    def _key_shapes(self) -> list[Plain]:
        kinds = tuple(plain_type(field.type) for field in self._key_fields) or (int,)
        return stored_shapes({kinds if len(kinds) > 1 else kinds[0]})

    def state_types(self) -> StateTypes:
        """Return the description of the accumulators' serializer."""
        return {WINDOWS: self._target.schema} | self._own.state_types()

    def peek(self, state: str, key: Hashable) -> StoredValue | None:
        """Return the accumulators of all windows of a key, for a live query; None: there are none."""
        found = self._pending().of_key(key)
        return stored_value(WINDOWS, self._target, found) if found else None


def _plain(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _moments(time_ms: int, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(time_ms * 1000, pa.int64()), rows).cast(WINDOW.field(0).type)
