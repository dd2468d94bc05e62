"""Joins rows whose times are close: pairs at once, rows without partner once the watermark rules one out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.relational.joins.timed_joins import IntervalJoin
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.residual import Residual
from headgate.runtime.worker.operators.columns.timed.timed_operator import Joined, TimedJoinOperator
from headgate.runtime.worker.operators.columns.timed.timed_rows import Pairs, passed, unflagged
from headgate.runtime.worker.operators.columns.updating.joined_rows import ALONE, LEFT, PAIRS, RIGHT

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class IntervalJoinOperator(TimedJoinOperator):
    """Joins the rows of two tables by key and time. A row is flagged once it has had a partner."""

    def __init__(
        self, context: OperatorContext, plan: IntervalJoin, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        super().__init__(context, plan, function)
        self._plan, self._pair_columns = plan, plan.pairs.to_arrow()
        where = plan.where
        self._residual = None if where is None else Residual(context, self._pair_columns, where)

    def _came_of(self, side: int, rows: pa.Table) -> None:
        plan, times = self._plan, rows.column(PANE).to_numpy()
        bounds = (plan.lower_ms, plan.upper_ms) if side == LEFT else (-plan.upper_ms, -plan.lower_ms)
        others, matched = self._kept.sides[1 - side], np.zeros(len(times), np.bool_)
        for found in others.within(rows, times + bounds[0], times + bounds[1]):
            pairs = self._paired(side, rows, found)
            matched[pairs.asked] = True
            new = others.flag(pairs.places)
            if plan.how == "semi" and side == RIGHT:
                self._give(*self._alone(LEFT, others.take(new)), self._mark)
        if plan.how == "semi" and side == LEFT:
            self._give(*self._alone(LEFT, rows.filter(pa.array(matched))), self._mark)
        self._kept.sides[side].add(rows, matched)

    def _paired(self, side: int, rows: pa.Table, found: Pairs) -> Pairs:
        """Send the pairs that are found, if pairs come out; return those of which the condition is true."""
        plan = self._plan
        if plan.how not in PAIRS and plan.where is None:
            return found
        mine, others = rows.take(pa.array(found.asked)), self._kept.sides[1 - side].take(found.places)
        left, right = (mine, others) if side == LEFT else (others, mine)
        times = (right if plan.time_of == RIGHT else left).column(PANE).to_numpy()
        columns = self._columns_of(Joined(left, left, right, times), self._pair_columns)
        if self._residual is not None:
            keep = self._residual.true_of(columns.columns, times)
            columns, times = columns.filter(pa.array(keep)), times[keep]
            found = Pairs(found.asked[keep], found.places[keep])
        if plan.how in PAIRS:
            columns = pa.RecordBatch.from_arrays(columns.columns, schema=self._gives)
            self._give(columns, times, self._mark)
        return found

    def _passed(self, mark: int) -> None:
        alone: list[tuple[pa.RecordBatch, Int64s]] = []
        for side, kept in enumerate(self._plan.kept_ms):
            gone = self._kept.sides[side].go(passed(mark, kept))
            if side in ALONE[self._plan.how] and (rows := unflagged(gone)) is not None:
                alone.append(self._alone(side, rows))
        if not alone:
            return
        columns, times = alone[0]
        if len(alone) == 2:
            times = np.concatenate([times, alone[1][1]])
            order = np.argsort(times, kind="stable")
            columns, times = pa.concat_batches([columns, alone[1][0]]).take(pa.array(order)), times[order]
        self._give(columns, times, mark)

    def _alone(self, side: int, rows: pa.Table) -> tuple[pa.RecordBatch, Int64s]:
        times: Int64s = rows.column(PANE).to_numpy()
        left, right = (rows, None) if side == LEFT else (None, rows)
        return self._columns_of(Joined(rows, left, right, times), self._gives), times
