"""Before the exchange: the different values of each group in a batch, beside the groups' accumulators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.core.marks import Mark
from headgate.records.arrow_batch import ArrowBatch, concat_columns
from headgate.records.batch import Batch
from headgate.relational.aggregating.grouping import Grouping
from headgate.relational.aggregating.groups import present
from headgate.relational.aggregating.lists import alike
from headgate.relational.passes.distinct_values import DistinctValues
from headgate.relational.relations import Aggregation
from headgate.relational.resolved import Typed
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.processing_time import ProcessingAccumulatingOperator
from headgate.runtime.worker.operators.columns.row_columns import columns_of
from headgate.runtime.worker.operators.columns.updating.by_key.packed_sort import narrow_integers, sorted_by
from headgate.runtime.worker.operators.columns.updating.different.sent_values import (
    SentValues,
    as_lists,
    sent_fields,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

_GROUP: Final = "__group"
"""Name of the column with the number of a row's group in its batch."""

_TOGETHER: Final = 1 << 15
"""From so many rows on batches do not wait for a mark."""


class FindingOperator(ProcessingAccumulatingOperator):
    """Sends, in place of a batch's rows, a row for each group: the accumulators of its rows, and in lists the
    different values of each of the plan's sets. Batches wait for the mark, as their receiver does: of rows
    that come together more have the same group.
    """

    def __init__(self, context: OperatorContext, plan: Aggregation) -> None:
        super().__init__(context, plan)
        self._keys = plan.key_names
        self._made = [each for each in self._made if not plan.follows(each[0])]
        names = {name for _, columns in self._made for name, _ in columns}
        columns = tuple(each for each in self._grouping.columns if each[0] in names)
        self._by_number = Grouping((_GROUP,), columns)
        self._gathered: list[ArrowBatch] = []
        self._waiting = 0  # rows

    def process(self, batch: Batch) -> None:
        columns = columns_of(self.context, batch, self._plan.child.schema)
        self._gathered.append(ArrowBatch(columns, batch.timestamps, batch.watermarks))
        self._waiting += len(batch)
        if self._waiting >= _TOGETHER or self.context.eager:
            self.pass_on()

    def pass_on(self) -> None:
        if self._waiting:
            whole = concat_columns(self._gathered)
            self._gathered, self._waiting = [], 0
            self._find(whole.columns, whole)

    def idle(self) -> None:
        self.pass_on()
        super().idle()

    def mark(self, mark: Mark) -> None:
        self.pass_on()
        super().mark(mark)

    def end_of_data(self) -> None:
        self.pass_on()
        super().end_of_data()

    def _find(self, columns: pa.RecordBatch, batch: Batch) -> None:
        rows = self._rows(columns, batch)
        groups = codes_of([rows.column(name).combine_chunks() for name in self._keys]).without_gaps()
        arrays = {PANE: pa.array(np.zeros(groups.numbers, np.int64))}
        arrays |= {name: rows.column(name).take(pa.array(groups.firsts)) for name in self._keys}
        arrays |= self._accumulators(rows.drop_columns(self._keys), groups)
        timed = ArrowBatch(columns, batch.timestamps, batch.watermarks)
        for one in self._plan.distinct:
            lists = as_lists(self._sent(one, groups, timed), groups.numbers)
            arrays |= zip((field.name for field in sent_fields(one)), lists, strict=True)
        (found,) = pa.table(arrays).combine_chunks().to_batches()
        self._give(found, batch)

    def _accumulators(self, rows: pa.Table, groups: Codes) -> dict[str, pa.ChunkedArray]:
        rows = rows.append_column(_GROUP, pa.array(groups.codes))
        with failing_clearly(self.context, "a batch"):
            found = self._by_number.of_rows(rows)
        found = found.take(pa.array(np.argsort(found.column(_GROUP).to_numpy())))
        return {name: found.column(name) for name, _ in self._by_number.fields}

    def _sent(self, one: DistinctValues, groups: Codes, batch: ArrowBatch) -> SentValues:
        values = [alike(self._argument(each, batch)) for each in one.values]
        known = np.logical_and.reduce([present(each) for each in values])
        asked = [self._rows_within(each.within, batch, known) for each in one.told]
        if not known.all():
            values = [each.filter(pa.array(known)) for each in values]
        of_groups = groups.codes[known]
        order, same = sorted_by([of_groups, *map(narrow_integers, values)])
        starts = np.flatnonzero(~same)
        if one.weight is None:
            told = [np.bitwise_or.reduceat(_bits(asked, len(order))[order], starts)]
        else:
            weights = self._argument(one.weight, batch).to_numpy()[known].astype(np.int64)
            counted = [weights if rows is None else weights * rows for rows in asked]
            told = [np.add.reduceat(each[order], starts) for each in counted]
        there = np.flatnonzero(np.logical_or.reduce([each != 0 for each in told]))
        firsts = order[starts[there]]
        taken = [each.take(pa.array(firsts)) for each in values]
        return SentValues(of_groups[firsts], taken, [each[there] for each in told])

    def _rows_within(
        self, within: Typed | None, batch: ArrowBatch, known: NDArray[np.bool_]
    ) -> NDArray[np.bool_] | None:
        if within is None:
            return None
        found: NDArray[np.bool_] = (
            self._argument(within, batch).fill_null(False).to_numpy(zero_copy_only=False)
        )
        return found[known]


class Codes(NamedTuple):
    """Of each row a number for its values in several columns, from 0 to below `numbers`, equal for equal
    values, and of each number the first row that has it; -1: none has.
    """

    codes: Int64s
    numbers: int
    firsts: Int64s

    def without_gaps(self) -> Codes:
        """Return numbers each of which some row has."""
        there = self.firsts >= 0
        if there.all():
            return self
        places = np.cumsum(there) - 1
        return Codes(places[self.codes], int(there.sum()), self.firsts[there])


def codes_of(columns: Sequence[pa.Array], codes: Int64s | None = None, count: int = 1) -> Codes:
    """Return numbers of the rows of `columns`, which have no nulls, together with `codes`, which are below
    `count`. A number that no row has is possible where this saves a search.
    """
    rows = len(columns[0])
    for each in columns:
        found = each.dictionary_encode()
        mine: Int64s = found.indices.to_numpy().astype(np.int64)
        codes = mine if codes is None else codes * len(found.dictionary) + mine
        count *= len(found.dictionary)
        if count > 4 * rows:
            found = pa.array(codes).dictionary_encode()
            codes, count = found.indices.to_numpy().astype(np.int64), len(found.dictionary)
    assert codes is not None
    firsts = np.full(count, -1, np.int64)
    # Of equal ones the last assignment holds.
    firsts[codes[::-1]] = np.arange(rows - 1, -1, -1)
    return Codes(codes, count, firsts)


def _bits(asked: Sequence[NDArray[np.bool_] | None], count: int) -> Int64s:
    found = np.zeros(count, np.int64)
    for place, rows in enumerate(asked):
        found |= 1 << place if rows is None else rows.astype(np.int64) << place
    return found
