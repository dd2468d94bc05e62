"""An aggregation without windows, after the exchange: its rows are corrected at every mark."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.api.functions import KeyedProcessFunction
from headgate.api.tables.aggregation_state import GROUPS
from headgate.relational.aggregating.grouping import Grouping, accumulator_column
from headgate.relational.aggregating.groups import picked
from headgate.relational.relations import HIDDEN, Aggregation
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.accumulating import accumulators_of, keys_of
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.updating.answering_operator import AnsweringOperator
from headgate.runtime.worker.operators.columns.updating.changed_rows import changes_between
from headgate.runtime.worker.operators.columns.updating.different.groups_with_sets import GroupsWithSets
from headgate.runtime.worker.operators.columns.updating.different.sent_values import sent_fields
from headgate.runtime.worker.operators.columns.updating.different.value_lists import stored_fields
from headgate.runtime.worker.operators.columns.updating.running_groups import Changed, RunningGroups


class RunningAggregateOperator(AnsweringOperator):
    """Keeps the accumulators of each group, and sends the changes of their results at marks and at the
    end.
    """

    _name: ClassVar = GROUPS
    _what: ClassVar = "a group"
    _groups_kept: RunningGroups

    def __init__(
        self, context: OperatorContext, plan: Aggregation, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        keys = [plan.child.schema.fields[place] for place in plan.keys]
        self._merging = Grouping(keys_of(plan), accumulators_of(plan))
        values = pa.schema([pa.field(name, kind) for name, kind in self._merging.fields])
        of_sets = stored_fields(plan.distinct)
        # With sets, several records of a key are stored.
        super().__init__(
            context, keys, pa.schema([*values, *of_sets]), None if of_sets else self._merging, function
        )
        self._came, self._gives = pa.schema([*self._of_keys, *_sent(plan, values)]), plan.schema.to_arrow()
        self._ttl_ms = plan.ttl_ms
        self._plan, self._shown = plan, [each.name for each in keys if each.name not in HIDDEN]

    def _windows_from(self, mark: int) -> RunningGroups:
        sets = self._plan.distinct
        if sets:
            self._groups_kept = GroupsWithSets(self._merging, self._of_keys, sets)
        else:
            self._groups_kept = RunningGroups(self._merging, self._of_keys)
        return self._groups_kept

    def _changes(self) -> pa.RecordBatch | None:
        changed = self._groups_kept.at_mark()
        return None if changed is None else self._between(changed)

    def _between(self, changed: Changed) -> pa.RecordBatch:
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
        return changes_between(self._gives, keys, before, after, was, stays)

    def _answers(self, accumulators: pa.Table) -> list[pa.Array]:
        found = []
        for each in self._plan.aggregates:
            parts = self._plan.parts_of(each)
            names = [accumulator_column(each.name, name) for name, _ in parts.fields]
            inputs = [_plain(accumulators.column(name)) for name in names]
            with failing_clearly(self.context, f"column {each.name!r} of a group"):
                found.append(parts.finish(parts.result, *inputs))
        return found


def _sent(plan: Aggregation, accumulators: pa.Schema) -> list[pa.Field]:
    names = {accumulator_column(each.name, name) for each in plan.aggregates if plan.follows(each)
             for name, _ in plan.parts_of(each).fields}  # fmt: skip
    plain = [field for field in accumulators if field.name not in names]
    return [*plain, *(field for one in plan.distinct for field in sent_fields(one))]


def _plain(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
