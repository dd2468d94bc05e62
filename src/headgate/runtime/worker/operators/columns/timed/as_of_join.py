"""Joins each row of the left table with the one row of the right table that was there at its time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from headgate.api.functions import KeyedProcessFunction
from headgate.relational.joins.timed_joins import AsOfJoin
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.timed.kept_sides import KeptSides
from headgate.runtime.worker.operators.columns.timed.timed_operator import Joined, TimedJoinOperator
from headgate.runtime.worker.operators.columns.timed.timed_rows import TimedRows, passed, unflagged
from headgate.runtime.worker.operators.columns.timed.versions import NONE, Versions
from headgate.runtime.worker.operators.columns.updating.joined_rows import RIGHT
from headgate.runtime.worker.operators.columns.windows_operator import SENT_TOGETHER

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class AsOfJoinOperator(TimedJoinOperator):
    """Sends each left row once the watermark has passed it so far that no nearer right row can come."""

    def __init__(
        self, context: OperatorContext, plan: AsOfJoin, function: KeyedProcessFunction[Any, Any, Any]
    ) -> None:
        super().__init__(context, plan, function)
        self._plan = plan

    def _windows_from(self, mark: int) -> KeptSides:
        kept = super()._windows_from(mark)
        self._versions.mark = mark
        return kept

    def _rows_of(self, side: int) -> TimedRows:
        if side != RIGHT:
            return super()._rows_of(side)
        one_each = self._plan.direction == "backward"
        self._versions = Versions(self._columns[side], self._keys, one_each=one_each)
        return self._versions

    def _came_of(self, side: int, rows: pa.Table) -> None:
        self._kept.sides[side].add(rows)

    def _passed(self, mark: int) -> None:
        plan = self._plan
        left = unflagged(self._kept.sides[0].go(passed(mark, plan.waits_ms)))
        if left is not None:
            for start in range(0, left.num_rows, SENT_TOGETHER):
                self._send_joined(left.slice(start, SENT_TOGETHER), mark)
        self._versions.mark = mark
        if plan.kept_ms is not None:
            self._versions.go(passed(mark, plan.kept_ms))

    def _send_joined(self, left: pa.Table, mark: int) -> None:
        times = left.column(PANE).to_numpy()
        places = self._partners(left, times)
        if self._plan.how == "inner":
            there = places != NONE
            left, times, places = left.filter(pa.array(there)), times[there], places[there]
        there = places != NONE
        found = self._versions.take(places[there])
        right = found.take(pa.array(np.cumsum(there) - 1, mask=~there))
        self._give(self._columns_of(Joined(left, left, right, times), self._gives), times, mark)

    def _partners(self, left: pa.Table, times: Int64s) -> Int64s:
        """Return for each left row the place of its partner; `NONE`: it has none."""
        plan, versions = self._plan, self._versions
        if plan.direction == "forward":
            places, at = versions.after(left, times, exact=plan.exact)
        else:
            places, at = versions.before(left, times, exact=plan.exact)
        if plan.direction == "nearest":
            later, then = versions.after(left, times, exact=plan.exact)
            nearer = (later != NONE) & ((places == NONE) | (then - times < times - at))
            places, at = np.where(nearer, later, places), np.where(nearer, then, at)
        if plan.tolerance_ms is not None:
            places = np.where((places != NONE) & (np.abs(times - at) <= plan.tolerance_ms), places, NONE)
        return places
