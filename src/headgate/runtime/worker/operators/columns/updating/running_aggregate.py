"""An aggregation without windows, after the exchange: its rows are corrected at every mark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.api.functions import KeyedProcessFunction
from headgate.api.tables.aggregation_state import GROUPS
from headgate.common.errors import InternalError
from headgate.core.marks import Mark
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.aggregating.grouping import Grouping, accumulator_column
from headgate.relational.aggregating.groups import picked
from headgate.relational.relations import HIDDEN, Aggregation
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.accumulating import accumulators_of, keys_of
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.kept_windows import Ended
from headgate.runtime.worker.operators.columns.updating.changes import changes_between
from headgate.runtime.worker.operators.columns.updating.running_groups import Changed, RunningGroups
from headgate.runtime.worker.operators.columns.windows_operator import WindowsOperator

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.spilled.windows_on_disk import WindowsOnDisk
    from headgate.state.rocksdb.chunk_store import ChunkStore


class RunningAggregateOperator(WindowsOperator):
    """Keeps the accumulators of each group, and sends the changes of their results at marks and at the end."""

    _in_memory: ClassVar = True
    _name: ClassVar = GROUPS

    def __init__(
        self, context: OperatorContext, plan: Aggregation, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        keys = [plan.child.schema.fields[place] for place in plan.keys]
        grouping = Grouping(keys_of(plan), accumulators_of(plan))
        values = pa.schema([pa.field(name, kind) for name, kind in grouping.fields])
        super().__init__(context, keys, values, grouping, function)
        self._plan, self._shown = plan, [each.name for each in keys if each.name not in HIDDEN]

    def _windows_from(self, mark: int) -> RunningGroups:
        assert self._grouping is not None
        self._groups_kept = RunningGroups(self._grouping, self._of_keys)
        return self._groups_kept

    def _windows_on_disk(self, chunks: ChunkStore, mark: int) -> WindowsOnDisk:
        raise InternalError("running groups are kept in memory; please report this")

    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        return pa.table(batch).select([*self._keys, *self._values_kept.names])

    def _results(self, ended: Ended) -> tuple[pa.RecordBatch, Int64s]:
        raise InternalError("running groups have no end; please report this")

    def process(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch)  # of our own sender
        with failing_clearly(self.context, "a group"):
            self._groups_kept.add(self._received_or_refused(batch.columns), np.zeros(0, np.int64))

    def watermark(self, timestamp: int) -> None:
        self._mark = max(self._mark, timestamp)
        self.next.watermark(timestamp)

    def mark(self, mark: Mark) -> None:
        self._send_changes()
        self.next.mark(mark)

    def end_of_data(self) -> None:
        self._send_changes()
        self.next.end_of_data()

    def _send_changes(self) -> None:
        with failing_clearly(self.context, "a group"):
            changed = self._groups_kept.at_mark()
            if changed is None:
                return
            columns = self._changes(changed)
        if columns.num_rows:
            self.next.process(ArrowBatch(columns))

    def _changes(self, changed: Changed) -> pa.RecordBatch:
        after, count = self._answers(changed.after), changed.after.num_rows
        places = np.cumsum(changed.known) - 1
        # Keys without an earlier row get any; their values are not looked at.
        places[~changed.known] = -1
        before = [picked(each, places) for each in self._answers(changed.before)]
        was, stays = changed.known, np.ones(count, np.bool_)
        if self._plan.present is not None:
            place = [each.name for each in self._plan.aggregates].index(self._plan.present)
            was = pc.fill_null(pc.greater(before[place], 0), False).to_numpy(zero_copy_only=False)
            stays = pc.greater(after[place], 0).to_numpy(zero_copy_only=False)
            self._groups_kept.forget(changed.after.filter(pa.array(~stays)))
        keys = [_plain(changed.after.column(name)) for name in self._shown]
        return changes_between(self._plan.schema.to_arrow(), keys, before, after, was, stays)

    def _answers(self, accumulators: pa.Table) -> list[pa.Array]:
        found = []
        for each in self._plan.aggregates:
            parts = each.parts
            names = [accumulator_column(each.name, name) for name, _ in parts.fields]
            inputs = [_plain(accumulators.column(name)) for name in names]
            with failing_clearly(self.context, f"column {each.name!r} of a group"):
                found.append(parts.finish(parts.result, *inputs))
        return found


def _plain(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
