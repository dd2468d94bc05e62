"""Aggregates and ranks of tables whose rows are corrected: computed anew for the keys that changed."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.api.tables.row_state import ALL
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.aggregating.grouping import Grouping, accumulator_column, columns_of_parts, fields_of
from headgate.relational.relations import HIDDEN, Aggregation, Rank
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.accumulating import accumulators_of
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.keys_checked import checked_keys
from headgate.runtime.worker.operators.columns.row_columns import columns_of
from headgate.runtime.worker.operators.columns.updating.answering import AnsweringOperator
from headgate.runtime.worker.operators.columns.updating.ranked_rows import PLACE, first_rows, key_codes
from headgate.runtime.worker.operators.columns.updating.recomputed_rows import Answer, RecomputedRows
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT, changes_of, net_rows
from headgate.runtime.worker.operators.operator_contract import Operator


class CheckedKeysOperator(Operator):
    """Passes rows on with keys that can be grouped by, before the exchange; the first columns are the keys."""

    def __init__(self, context: OperatorContext, plan: Aggregation | Rank) -> None:
        super().__init__(context)
        self._schema, self._names = plan.child.schema, plan.key_names

    def process(self, batch: Batch) -> None:
        columns = columns_of(self.context, batch, self._schema)
        keys = checked_keys(self.context, columns, self._names, batch)
        arrays = [*keys, *columns.columns[len(keys) :]]
        self.next.process(ArrowBatch(pa.RecordBatch.from_arrays(arrays, names=columns.schema.names)))


class RecomputingOperator(AnsweringOperator):
    """Keeps all rows of each key of its subtask, and sends what changes of the keys' answers."""

    _name: ClassVar = ALL
    _what: ClassVar = "a group"

    def __init__(
        self,
        context: OperatorContext,
        plan: Aggregation | Rank,
        function: KeyedProcessFunction[Any, Any, Any],
    ) -> None:
        fields = plan.child.schema.fields
        self._came = pa.schema([pa.field(each.name, each.type) for each in fields])
        count = len(plan.key_names)
        super().__init__(context, fields[:count], pa.schema(list(self._came)[count:]), None, function)
        self._keys_count, self._gives = count, plan.schema.to_arrow()
        self._answer: Answer = _Aggregated(context, plan) if isinstance(plan, Aggregation) else _Ranked(plan)

    def _windows_from(self, mark: int) -> RecomputedRows:
        self._rows = RecomputedRows(self._came, self._keys_count, self._answer)
        return self._rows

    def _changes(self) -> pa.Table | None:
        found = self._rows.at_mark()
        if found is None:
            return None
        both = [
            table.append_column(WEIGHT, pa.array(np.full(table.num_rows, weight, np.int64)))
            for table, weight in zip(found, (-1, 1), strict=True)
        ]
        return changes_of(net_rows(pa.concat_tables(both)))


class _Aggregated:
    def __init__(self, context: OperatorContext, plan: Aggregation) -> None:
        self._context, self._plan = context, plan
        self._grouping = Grouping(tuple(plan.key_names), accumulators_of(plan))

    def __call__(self, rows: pa.Table) -> pa.Table:
        plan, arrays = self._plan, {name: rows.column(name) for name in self._plan.key_names}
        for each in plan.aggregates:
            values = [rows.column(argument.index).combine_chunks() for argument in each.arguments]
            for one in each.parts.accumulators:
                ((name, _),) = columns_of_parts(each.name, (one,))
                names = [column for column, _ in fields_of(name, one)]
                arrays |= zip(names, one.prepared(*values), strict=False)  # a count of rows needs none
        found = self._grouping.of_rows(pa.table(arrays))
        columns = {name: found.column(name) for name in plan.key_names if name not in HIDDEN}
        for each in plan.aggregates:
            parts = each.parts
            inputs = [found.column(accumulator_column(each.name, name)).combine_chunks() for name, _ in parts.fields]
            with failing_clearly(self._context, f"column {each.name!r} of a group"):
                columns[each.name] = parts.finish(parts.result, *inputs)
        return pa.table(columns)


class _Ranked:
    def __init__(self, plan: Rank) -> None:
        self._plan = plan

    def __call__(self, rows: pa.Table) -> pa.Table:
        plan = self._plan
        found, places = first_rows(rows, key_codes(rows.select(plan.key_names)), plan.order, plan.n)
        shown = [name for name in plan.schema.names[:-1] if name != plan.rank]
        table = rows.select(shown).take(pa.array(found))
        return table if plan.rank is None else table.append_column(plan.rank, pa.array(places))
