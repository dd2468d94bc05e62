"""Rows that wait for the watermark, partial matches of each key, and the rows that these need."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headgate.common.time import WATERMARK_MAX
from headgate.relational.patterns.match_plan import Match
from headgate.relational.patterns.matcher import Found, Rules
from headgate.relational.patterns.navigation import wanted_of
from headgate.relational.relations import Order
from headgate.runtime.worker.operators.columns.groups_ahead import RestoredByGroup
from headgate.runtime.worker.operators.columns.kept_windows import PANE, Ended, WindowsView
from headgate.runtime.worker.operators.columns.matching.measures import Measures
from headgate.runtime.worker.operators.columns.matching.numbered_rows import NumberedRows, Rows
from headgate.runtime.worker.operators.columns.matching.partial_matches import NONE, PartialMatches
from headgate.runtime.worker.operators.columns.matching.stepping import Batch, KeyRows, Stepper
from headgate.runtime.worker.operators.columns.matching.waiting_rows import WaitingRows
from headgate.runtime.worker.operators.columns.updating.kept_for_good import LazyView
from headgate.runtime.worker.operators.columns.updating.ranked.row_order import first_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s


class KeptMatches(RestoredByGroup):
    """The state of a pattern for the key groups of a subtask, at first at watermark `mark` (ms).

    It is a table of rows: those that the watermark has not reached, and those from the first row of the first
    partial match of each key on. Partial matches themselves follow from the rows.
    """

    def __init__(self, plan: Match, mark: int, max_parallelism: int) -> None:
        super().__init__(plan.key_names, mark, max_parallelism)
        columns = pa.schema([pa.field(each.name, each.type) for each in plan.child.schema])
        self.schema = pa.schema([pa.field(PANE, pa.int64()), *columns])
        self._rules = Rules(plan.pattern, wanted_of(plan.looked_up))
        self._stepper = Stepper(plan, self._rules, self._columns)
        self._measures = Measures(plan, self._rules, self._columns)
        # The event time comes before the columns of the plan.
        self._order = (Order(0, False), *(Order(each.place + 1, each.descending) for each in plan.order))
        self._waiting, self._rows = WaitingRows(), NumberedRows(self.schema)
        self._partial = PartialMatches(pa.schema(list(columns)[: plan.keys]), self._rules)
        self._latest = mark  # the greatest event time of a row

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        late = rows.column(PANE).to_numpy() <= self._ahead.marks_of(rows, marks)
        self.put(rows.filter(pa.array(~late)) if late.any() else rows)
        return int(late.sum())

    def put(self, table: pa.Table) -> None:
        # Restored rows come here, too: the machines see them again, and are as they were.
        columns = table.select(self.schema.names).columns
        self._waiting.add(pa.Table.from_arrays(columns, schema=self.schema))

    def reached(self, mark: int) -> list[Ended]:
        """Return the matches that are decided at watermark `mark`, in the order of time, in one `Ended`."""
        before, self._mark = self._mark, mark
        self._ahead.reached(mark)
        found = self._of_due(mark)
        found += self._of_time(mark, before)
        ended = [] if not found else [self._results(found, before)]
        self._rows.tidy(self._is_needed, len(found))
        renamed = self._partial.forget_idle_keys()
        if renamed is not None:
            self._rows.renumber_keys(renamed)
        return ended

    def _of_due(self, mark: int) -> list[tuple[int, Found]]:
        tables = self._waiting.due(mark)
        if not tables:
            return []
        due = pa.concat_tables(tables).combine_chunks()
        keys = self._partial.numbers(due)
        order, _ = first_rows(due, [keys], self._order, due.num_rows)
        due, keys = due.take(pa.array(order)), keys[order]
        times = due.column(PANE).to_numpy()
        self._latest = max(self._latest, int(times.max()))
        numbers = self._rows.add(keys, due)
        batch = self._stepper.rows_of(numbers, times)
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        ends = np.append(starts[1:], len(keys))
        busy = self._begun(batch, keys, starts, ends)
        steps = [
            KeyRows(key, self._partial.take(key), start, end)
            for key, start, end in zip(
                keys[starts[busy]].tolist(), starts[busy].tolist(), ends[busy].tolist(), strict=True
            )
        ]
        self._stepper.run(batch, steps)
        for each in steps:
            self._partial.put(each.key, each.matcher)
        return [(each.key, found) for each in steps for found in each.found]

    def _begun(self, batch: Batch, keys: Int64s, starts: Int64s, ends: Int64s) -> NDArray[np.bool_]:
        """Note which keys have but one row, with which a match may begin; say which have to be stepped
        through their rows, from `starts` to before `ends`.
        """
        idle = self._partial.kept_from[keys[starts]] == NONE
        begins = np.array(batch.begins, np.int64)[starts]
        alone = idle & (begins == starts) & (ends == starts + 1) & self._partial.may_wait_alone
        first = starts[alone]
        self._partial.begin(keys[first], batch.numbers[first], np.array(batch.times, np.int64)[first])
        busy: NDArray[np.bool_] = (~idle | (begins < ends)) & ~alone
        return busy

    def _of_time(self, mark: int, before: int) -> list[tuple[int, Found]]:
        # What is decided since no row can come that would be in time.
        found = []
        for key in self._partial.over(None if mark == WATERMARK_MAX else mark + 1):
            matcher = self._partial.take(key)
            found += [(key, each) for each in matcher.expire(min(mark, WATERMARK_MAX - 1) + 1)]
            if mark == WATERMARK_MAX:
                found += [(key, each) for each in matcher.end(max(before, self._latest))]
            self._partial.put(key, matcher)
        return found

    def _results(self, found: list[tuple[int, Found]], before: int) -> Ended:
        found.sort(key=lambda each: each[1].decided)
        # None is late for those who come after: what has ended with the data has no time of its own.
        decided = np.maximum(np.array([each.decided for _, each in found], np.int64), before + 1)
        table = self._measures.of([each for _, each in found])
        return Ended(table, decided, decided + 1)

    def _columns(self, numbers: Int64s) -> pa.RecordBatch:
        found = self._rows.take(numbers)
        return pa.RecordBatch.from_arrays(found.columns[1:], schema=pa.schema(list(self.schema)[1:]))

    def _is_needed(self, rows: Rows) -> NDArray[np.bool_]:
        return self._partial.needed(rows.keys, rows.numbers)

    def at_snapshot(self) -> list[WindowsView]:
        parts = self._rows.tables(), self._waiting.tables(), self._partial.kept_from.copy()
        return [LazyView(partial(self._stored, *parts))]

    @staticmethod
    def _stored(kept: list[Rows], waiting: list[pa.Table], kept_from: Int64s) -> Iterator[pa.Table]:
        # Of a key those that the watermark has reached come first, so that they are seen first again.
        yield from (rows.where(rows.numbers >= kept_from[rows.keys]).table for rows in kept)
        yield from waiting

    def size(self) -> int:
        """Return how many rows are kept at most, of partial matches and waiting ones."""
        kept: int = sum(int(self._is_needed(each).sum()) for each in self._rows.tables())
        waiting: int = sum(table.num_rows for table in self._waiting.tables())
        return kept + waiting
