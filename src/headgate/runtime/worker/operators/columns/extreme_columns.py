"""Drops rows of a join that cannot have the greatest or least value of their window, before the exchange."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.core.marks import Mark
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch, take_times
from headgate.relational.joins.equal_joins import WINDOW_LAST
from headgate.relational.passes.extremes import Extremes
from headgate.relational.passes.fused_steps import AnyStep
from headgate.relational.relations import WINDOW_START
from headgate.relational.spark_types import WINDOW
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.column_steps import ColumnsOperator
from headgate.runtime.worker.operators.columns.window_times import WindowTimes
from headgate.runtime.worker.operators.columns.windows_operator import window_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s


class Window(NamedTuple):
    """A window of the join: its first and its last ms since 1970, both inside."""

    start: int
    last: int


class ExtremeColumnsOperator(ColumnsOperator):
    """Runs the steps of a side of a join, and drops rows that cannot be extremes of their window.
    What it knows of extremes is of the rows that it has read itself since the attempt began. The aggregation
    has got the same rows, or gets them before a later checkpoint, so a row that is dropped has no partner.
    """

    def __init__(self, context: OperatorContext, steps: tuple[AnyStep, ...], wanted: Extremes) -> None:
        super().__init__(context, steps)
        self._wanted = wanted
        self._times = None if wanted.of_column else WindowTimes.of(wanted.window)
        self._extremes: dict[int, int] = {}  # start of a window of the aggregation -> greatest value
        self._bounds: dict[Window, int] = {}  # window of the join -> the least value that may have a partner
        self._found = ColumnsOperator(context, wanted.found)
        self._found.next = self._inputs = _Inputs()

    def watermark(self, timestamp: int) -> None:
        # Windows that have ended are forgotten.
        size = 0 if self._times is None else self._times.size
        self._extremes = {at: most for at, most in self._extremes.items() if at + size - 1 > timestamp}
        self._bounds = {window: least for window, least in self._bounds.items() if window.last > timestamp}
        super().watermark(timestamp)

    def _done(self, batch: ArrowBatch) -> None:
        columns = batch.columns
        values = self._ranked(columns.column(self._wanted.value).to_numpy())
        starts, lasts = (columns.column(name).to_numpy() for name in (WINDOW_START, WINDOW_LAST))
        if self._times is None:
            self._learn_windows(batch, values, starts, lasts)
        else:
            self._learn(batch, values, self._times)
        bounds = np.full(len(values), np.iinfo(np.int64).min)
        for begin, end in _runs(starts, lasts):
            window = Window(int(starts[begin]), int(lasts[begin]))
            bounds[begin:end] = self._bounds.get(window, bounds[begin])
        places = np.flatnonzero(values >= bounds)
        if len(places) == len(values):
            self.next.process(batch)
        elif len(places):
            times, marks = take_times(batch.timestamps, places), take_times(batch.watermarks, places)
            self.next.process(ArrowBatch(columns.take(pa.array(places)), times, marks))

    def _ranked(self, values: NDArray[Any]) -> Int64s:
        # The greater an integer, the nearer its value is to the extreme; applied twice, it gives the values.
        integers = values.astype(np.int64)
        return integers if self._wanted.greatest else np.invert(integers)  # as -x - 1, which cannot overflow

    def _learn_windows(self, batch: ArrowBatch, values: Int64s, starts: Int64s, lasts: Int64s) -> None:
        # `values` are ranked. The window of the aggregation is that of the join; it has no late rows.
        if batch.watermarks is None:
            return
        for begin, end in _runs(starts, lasts):
            in_time = values[begin:end][batch.watermarks[begin:end] < lasts[begin]]
            if len(in_time):
                window, most = Window(int(starts[begin]), int(lasts[begin])), int(in_time.max())
                self._bounds[window] = max(most, self._bounds.get(window, most))

    def _learn(self, batch: ArrowBatch, values: Int64s, times: WindowTimes) -> None:
        # `values` are ranked. Rows that are late for a window of the aggregation are not in it.
        if batch.timestamps is None or batch.watermarks is None:
            return
        panes = times.panes_of(batch.timestamps)
        in_time = panes + times.size - 1 > batch.watermarks
        if not in_time.all():
            panes, values = panes[in_time], values[in_time]
        greater = {}
        runs = _runs(panes, panes)
        for begin, end in runs:
            pane, most = int(panes[begin]), int(values[begin:end].max())
            if most > self._extremes.get(pane, most - 1):
                greater[pane] = self._extremes[pane] = most
        if greater:
            self._raise_bounds(greater, times.size)

    def _raise_bounds(self, greater: dict[int, int], size: int) -> None:
        starts = np.array([*greater], np.int64)
        window = window_column(starts, starts + size)
        extremes = self._ranked(np.array([*greater.values()], np.int64))
        reads = self._wanted.found[0].reads.to_arrow()
        arrays = [window if field.type == WINDOW else pa.array(extremes).cast(field.type) for field in reads]
        self._found.process(ArrowBatch(pa.RecordBatch.from_arrays(arrays, schema=reads)))
        for found in self._inputs.taken():
            values = self._ranked(found.column(self._wanted.value).to_numpy())
            both = (found.column(name).to_pylist() for name in (WINDOW_START, WINDOW_LAST))
            for start, last, value in zip(*both, values.tolist(), strict=True):
                self._bounds[Window(start, last)] = max(value, self._bounds.get(Window(start, last), value))


class _Inputs:
    """The rows that the other side of the join would send, at the end of its steps."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    def process(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch)
        self._batches.append(batch.columns)

    def watermark(self, timestamp: int) -> None:
        """Do nothing: no watermark comes here."""

    def idle(self) -> None:
        """Do nothing: nobody is idle here."""

    def mark(self, mark: Mark) -> None:
        """Do nothing: no mark comes here."""

    def end_of_data(self) -> None:
        """Do nothing: there is no end here."""

    def taken(self) -> list[pa.RecordBatch]:
        batches, self._batches = self._batches, []
        return batches


def _runs(one: Int64s, other: Int64s) -> list[tuple[int, int]]:
    if not len(one):
        return []
    changes = np.flatnonzero((np.diff(one) != 0) | (np.diff(other) != 0)) + 1
    return list(pairwise([0, *changes.tolist(), len(one)]))
