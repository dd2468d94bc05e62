"""Aggregates and ranks of tables whose rows are corrected: computed anew for the keys that changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import numpy as np
import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.api.tables.row_state import ALL
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.aggregates import Aggregate
from headgate.relational.aggregating.grouping import Grouping, accumulator_column, columns_of_parts, fields_of
from headgate.relational.relations import HIDDEN, Aggregation, Over, Rank
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.keys_checked import checked_keys
from headgate.runtime.worker.operators.columns.row_columns import columns_of
from headgate.runtime.worker.operators.columns.updating.answering_operator import AnsweringOperator
from headgate.runtime.worker.operators.columns.updating.by_key.packed_sort import key_integers
from headgate.runtime.worker.operators.columns.updating.ranked.row_order import first_rows
from headgate.runtime.worker.operators.columns.updating.recomputed_rows import Answer, RecomputedRows
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT, changes_of, net_rows
from headgate.runtime.worker.operators.operator_contract import Operator

if TYPE_CHECKING:
    from headgate.relational.resolved import Column as ResolvedColumn

_FRAME: Final = "__frame"
"""Name of the column that says of which row's aggregates a row is part."""


class CheckedKeysOperator(Operator):
    """Passes rows on with keys that can be grouped by, before the exchange; the first columns are the
    keys.
    """

    def __init__(self, context: OperatorContext, plan: Aggregation | Rank | Over) -> None:
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
        plan: Aggregation | Rank | Over,
        function: KeyedProcessFunction[Any, Any, Any],
    ) -> None:
        fields = plan.child.schema.fields
        self._came = pa.schema([pa.field(each.name, each.type) for each in fields])
        count = len(plan.key_names)
        super().__init__(context, fields[:count], pa.schema(list(self._came)[count:]), None, function)
        self._keys_count, self._gives = count, plan.schema.to_arrow()
        self._answer, self._ttl_ms = _answer_of(context, plan), plan.ttl_ms

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


def _answer_of(context: OperatorContext, plan: Aggregation | Rank | Over) -> Answer:
    match plan:
        case Aggregation():
            return _Aggregated(context, plan)
        case Over():
            return _Over(context, plan)
    return _Ranked(plan)


class _Groups:
    """Aggregates of rows that are grouped by the columns `keys`."""

    def __init__(self, context: OperatorContext, keys: list[str], aggregates: tuple[Aggregate, ...]) -> None:
        self._context, self._keys, self._aggregates = context, keys, aggregates
        columns = [each for one in aggregates for each in columns_of_parts(one.name, one.parts.accumulators)]
        self._grouping = Grouping(tuple(keys), tuple(columns))

    def results(self, rows: pa.Table) -> pa.Table:
        """Return keys and results, one row for each group; arguments are columns of `rows` by their index."""
        arrays = {name: rows.column(name) for name in self._keys}
        for each in self._aggregates:
            places = [cast("ResolvedColumn", argument).index for argument in each.arguments]
            values = [rows.column(place).combine_chunks() for place in places]
            for one in each.parts.accumulators:
                ((name, _),) = columns_of_parts(each.name, (one,))
                names = [column for column, _ in fields_of(name, one)]
                arrays |= zip(names, one.prepared(*values), strict=False)  # a count of rows needs none
        found = self._grouping.of_rows(pa.table(arrays))
        columns = {name: found.column(name) for name in self._keys}
        for each in self._aggregates:
            parts = each.parts
            names = [accumulator_column(each.name, name) for name, _ in parts.fields]
            inputs = [found.column(name).combine_chunks() for name in names]
            with failing_clearly(self._context, f"column {each.name!r} of a group"):
                columns[each.name] = parts.finish(parts.result, *inputs)
        return pa.table(columns)


class _Aggregated:
    def __init__(self, context: OperatorContext, plan: Aggregation) -> None:
        self._groups = _Groups(context, plan.key_names, plan.aggregates)

    def __call__(self, rows: pa.Table) -> pa.Table:
        found = self._groups.results(rows)
        return found.select([name for name in found.column_names if name not in HIDDEN])


class _Over:
    def __init__(self, context: OperatorContext, plan: Over) -> None:
        self._plan, self._groups = plan, _Groups(context, [_FRAME], plan.aggregates)

    def __call__(self, rows: pa.Table) -> pa.Table:
        plan = self._plan
        order, places = first_rows(rows, key_integers(rows.select(plan.key_names)), plan.order, rows.num_rows)
        rows = rows.take(pa.array(order))
        before = places - 1 if plan.preceding is None else np.minimum(places - 1, plan.preceding)
        # Each row's aggregates are those of a group: the row and those before it.
        ends = np.arange(len(places))
        sizes = before + 1
        frames = np.repeat(ends, sizes)
        within = np.arange(len(frames)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        members = rows.take(pa.array(np.repeat(ends - before, sizes) + within))
        found = self._groups.results(members.append_column(_FRAME, pa.array(frames)))
        shown = rows.take(found.column(_FRAME)).select(plan.child.schema.names[: plan.shown])
        for each in plan.aggregates:
            shown = shown.append_column(each.name, found.column(each.name))
        return shown


class _Ranked:
    def __init__(self, plan: Rank) -> None:
        self._plan = plan

    def __call__(self, rows: pa.Table) -> pa.Table:
        plan = self._plan
        found, places = first_rows(rows, key_integers(rows.select(plan.key_names)), plan.order, plan.n)
        shown = [name for name in plan.schema.names[:-1] if name != plan.rank]
        table = rows.select(shown).take(pa.array(found))
        return table if plan.rank is None else table.append_column(plan.rank, pa.array(places))
