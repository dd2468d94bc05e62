"""The first rows of each key in some order: before the exchange within a batch, after it of all that came."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.api.tables.row_state import FIRST
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.relations import Rank
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.keys_checked import checked_keys
from headgate.runtime.worker.operators.columns.row_columns import columns_of
from headgate.runtime.worker.operators.columns.updating.answering_operator import AnsweringOperator
from headgate.runtime.worker.operators.columns.updating.ranked_rows import (
    PLACE,
    RankedRows,
    first_rows,
    key_codes,
)
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT, changes_of, net_rows
from headgate.runtime.worker.operators.operator_contract import Operator


class FirstRowsOperator(Operator):
    """Leaves out rows of a batch that so many of the same batch precede that they cannot be among the
    first.
    """

    def __init__(self, context: OperatorContext, plan: Rank) -> None:
        super().__init__(context)
        self._plan = plan

    def process(self, batch: Batch) -> None:
        columns = columns_of(self.context, batch, self._plan.child.schema)
        names = self._plan.key_names
        keys = checked_keys(self.context, columns, names, batch)
        rows = pa.table([*keys, *columns.columns[len(keys) :]], columns.schema.names)
        with failing_clearly(self.context, "a batch"):
            found, _ = first_rows(rows, key_codes(rows.select(names)), self._plan.order, self._plan.n)
        rows = rows.take(pa.array(np.sort(found)))
        self.next.process(ArrowBatch(rows.combine_chunks().to_batches()[0]))


class RankOperator(AnsweringOperator):
    """Keeps the first rows of each key of its subtask, and sends what changes of them at marks and at the
    end.
    """

    _name: ClassVar = FIRST
    _what: ClassVar = "a rank"

    def __init__(
        self, context: OperatorContext, plan: Rank, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        fields = plan.child.schema.fields
        self._came = pa.schema([pa.field(each.name, each.type) for each in fields])
        values = pa.schema(list(self._came)[plan.keys :])
        super().__init__(context, fields[: plan.keys], values, None, function)
        self._plan, self._gives, self._ttl_ms = plan, plan.schema.to_arrow(), plan.ttl_ms

    def _windows_from(self, mark: int) -> RankedRows:
        self._ranked = RankedRows(self._came, self._plan.keys, self._plan.order, self._plan.n)
        return self._ranked

    def _changes(self) -> pa.Table | None:
        found = self._ranked.at_mark()
        if found is None:
            return None
        both = [self._shown(found.before, -1), self._shown(found.after, 1)]
        return changes_of(net_rows(pa.concat_tables(both)))

    def _shown(self, rows: pa.Table, weight: int) -> pa.Table:
        names = [name for name in self._plan.schema.names[:-1] if name != self._plan.rank]
        shown = rows.select(names)
        if self._plan.rank is not None:
            shown = shown.append_column(self._plan.rank, rows.column(PLACE))
        return shown.append_column(WEIGHT, pa.array(np.full(rows.num_rows, weight, np.int64)))
