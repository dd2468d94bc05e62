"""Joins tables by equal columns, without windows; its input has the rows of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.api.tables.row_state import ROWS
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.joins.equal_joins import Join
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.residual import Residual
from headgate.runtime.worker.operators.columns.updating.answering_operator import AnsweringOperator
from headgate.runtime.worker.operators.columns.updating.conditional_rows import ConditionalRows
from headgate.runtime.worker.operators.columns.updating.inner_rows import InnerRows
from headgate.runtime.worker.operators.columns.updating.joined_rows import Found, JoinedRows
from headgate.runtime.worker.operators.columns.updating.kept_join import KeptJoin, columns_of_sides
from headgate.runtime.worker.operators.columns.updating.weights import WEIGHT, changes_of, net_rows
from headgate.runtime.worker.operators.columns.window_join import as_given

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TOGETHER: Final = 1 << 13
_GATHERED_MS: Final = 20
"""Rows of a join that only grows are joined when so many have come, at a mark, or after so long: a small
batch costs hardly less than a large one.
"""


class JoinOperator(AnsweringOperator):
    """Joins the rows of tables for the key groups of its subtask: soon, where rows only come, else at
    marks and at the end.
    """

    _name: ClassVar = ROWS
    _what: ClassVar = "a join"
    _until_ms = 0
    _held_watermark: int | None = None

    def __init__(
        self, context: OperatorContext, plan: Join, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        schema = plan.came
        keys = [schema.fields[schema.place(name)] for name in plan.keys]
        values = pa.schema([pa.field(each.name, each.type) for each in schema if each.name not in plan.keys])
        super().__init__(context, keys, values, None, function)
        self._plan, self._ttl_ms = plan, plan.ttl_ms
        self._sides = columns_of_sides(values, len(plan.inputs), weights=not plan.grows_only)
        self._came, self._gives = pa.schema([*self._of_keys, *values]), plan.schema.to_arrow()

    def _windows_from(self, mark: int) -> KeptJoin:
        rows: JoinedRows
        if self._plan.how == "inner":
            rows = InnerRows(self._of_keys, self._sides)
        elif self._plan.where is None:
            rows = JoinedRows(self._plan.how, self._of_keys, self._sides)
        else:
            rows = ConditionalRows(self._plan.how, self._of_keys, self._sides, self._true_of)
        self._join = KeptJoin(rows, self._of_keys, self._came, self._sides)
        return self._join

    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        # Of the other tables it lacks the columns, unless it is of an older checkpoint.
        fields = [field for field in self._came if field.name in batch.schema.names]
        columns = [batch.column(field.name) for field in fields]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def open(self) -> None:
        super().open()
        self._wait_for_more()  # for rows of a snapshot too: they were gathered
        if self._has_gathered and self._mark > WATERMARK_MIN:
            self._held_watermark = self._mark  # it may have waited for them

    def _wait_for_more(self) -> None:
        self._until_ms = self.context.clock.monotonic_ms() + _GATHERED_MS

    @property
    def _has_gathered(self) -> bool:
        return self._plan.grows_only and self._join.waiting > 0

    def process(self, batch: Batch) -> None:
        if not self._plan.grows_only:
            super().process(batch)
            return
        assert isinstance(batch, ArrowBatch)  # of our own sender
        if not self._has_gathered:
            self._wait_for_more()
        with failing_clearly(self.context, self._what):
            rows = self._received_or_refused(batch.columns)
            self._join.gather(rows)
            self._touch(rows)
        if self._join.waiting >= _TOGETHER or self.context.eager:
            self.go_on()

    @property
    def busy(self) -> bool:
        return self._has_gathered and self.context.clock.monotonic_ms() >= self._until_ms

    def next_wakeup(self) -> int | None:
        return self._until_ms if self._has_gathered else None

    def go_on(self) -> None:
        self._send_changes()
        self._forget_old()

    def watermark(self, timestamp: int) -> None:
        if not self._has_gathered:
            super().watermark(timestamp)
            return
        # What gathered rows join to is not to be late, and a join for each watermark would be of few rows.
        self._mark = max(self._mark, timestamp)
        self._held_watermark = timestamp
        if timestamp == WATERMARK_MAX:
            self.go_on()  # a job that stops with drain: its barrier follows, before which all goes out

    def _send_changes(self) -> None:
        super()._send_changes()
        if self._held_watermark is not None:
            timestamp, self._held_watermark = self._held_watermark, None
            self.next.watermark(timestamp)

    def idle(self) -> None:
        if self._has_gathered:
            self.go_on()
        super().idle()

    def _changes(self) -> pa.Table | None:
        return self._net(self._join.change())

    def _net(self, found: Iterable[Found]) -> pa.Table | None:
        tables = [self._shown(each) for each in found if len(each.numbers)]
        if not tables:
            return None
        whole = pa.concat_tables(tables)
        return changes_of(net_rows(whole)) if self._plan.schema.updating else whole

    def _shown(self, found: Found) -> pa.Table:
        semi = self._plan.how in ("semi", "anti")
        columns = self._columns(found, self._sides[:1] if semi else self._sides)
        if self._plan.schema.updating:
            columns[WEIGHT] = pa.array(found.weights)
        return pa.table(columns)

    def _columns(self, found: Found, sides: Sequence[pa.Schema]) -> dict[str, pa.Array]:
        names = self._plan.shown_keys
        columns = dict(zip(names, as_given(self._join.rows.keys.keys(found.numbers), names), strict=True))
        for fields, rows in zip(sides, found.sides, strict=False):
            for field in fields:
                if field.name == WEIGHT:
                    continue
                if rows is None:
                    columns[field.name] = pa.nulls(len(found.numbers), field.type)
                else:
                    columns[field.name] = rows.column(field.name)
        return columns

    def _true_of(self, pairs: Found) -> NDArray[np.bool_]:
        assert self._plan.pairs is not None
        assert self._plan.where is not None
        residual = Residual(self.context, self._plan.pairs.to_arrow(), self._plan.where)
        columns = pa.table(self._columns(pairs, self._sides)).columns
        return residual.true_of([each.combine_chunks() for each in columns])
