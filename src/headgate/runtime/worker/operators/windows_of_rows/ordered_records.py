"""The records of a batch in their windows, ordered by key and window by whole columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import length_hint
from typing import TYPE_CHECKING, Any

import numpy as np

from headgate.api.windows.assigners import CumulativeWindows, SlidingWindows, WindowAssigner
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.packed_rows import PackedRows, packed_columns, packed_lists, taken
from headgate.records.row import Row, lists_of_rows

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class Assigned:
    """The windows of the records of a batch, all pairs of a record and a window in order of records.

    Attributes:
        records: of each pair, the record's index.
        ends: of each pair, the end of the window (exclusive, in ms).
        first: of each record, the index of its first pair, and one more at the end.
    """

    def __init__(self, assigner: WindowAssigner, times: Int64s) -> None:
        if isinstance(assigner, SlidingWindows):
            self._slide(assigner, times)
        else:
            assert isinstance(assigner, CumulativeWindows)
            self._cumulate(assigner, times)

    def _slide(self, windows: SlidingWindows, times: Int64s) -> None:
        size, slide = windows.size_ms, windows.slide_ms
        last = _floors(times, slide, windows.offset_ms)
        if size % slide:
            # starts are above `time - size`, in steps of `slide` down from the last one
            counts = (last - (times - size) - 1) // slide + 1
        else:
            counts = np.full(len(times), size // slide)
        self._expand(last + size - (counts - 1) * slide, counts, slide)

    def _cumulate(self, windows: CumulativeWindows, times: Int64s) -> None:
        start = _floors(times, windows.size_ms, windows.offset_ms)
        steps = (times - start) // windows.step_ms + 1
        self._expand(
            start + steps * windows.step_ms, windows.size_ms // windows.step_ms - steps + 1, windows.step_ms
        )

    def _expand(self, first_ends: Int64s, counts: Int64s, step: int) -> None:
        self.step, self.first_ends = step, first_ends
        if len(counts) and counts.max() == 1:
            self.last_ends = self.ends = first_ends
            self.first = np.arange(len(counts) + 1)
            self.records = self.first[:-1]
            return
        self.last_ends = first_ends + (counts - 1) * step
        self.first = np.concatenate(([0], np.cumsum(counts)))
        self.records = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(self.records)) - self.first[self.records]
        self.ends = first_ends[self.records] + within * step


def _floors(times: Int64s, step: int, offset: int) -> Int64s:
    # the greatest `offset + n * step` up to each time; division of 64 bits is slow, and rarely needed
    least = int(times.min())
    floor = least - (least - offset) % step
    if int(times.max()) - floor < step:
        return np.full(len(times), floor)
    return times - (times - offset) % step


class OrderedRecords:
    """Some records of a batch, those of a key and window together: the `Together` that functions add.

    `pairs` are the indices of records, and `ends` the ends of their windows, in order of arrival; `codes`
    tell the keys of all records of the batch apart, and ends differ by multiples of `step`.

    Attributes:
        runs: for each key and window, in order of the arrival of their first records: the places from which
            and before which its records stand, the end of the window, and the index of its first record.
        span: the places of the run that is being added.
    """

    def __init__(self, batch: Batch, pairs: Int64s, ends: Int64s, codes: Int64s, step: int) -> None:
        assert batch.timestamps is not None
        numbers = _numbers(codes[pairs], ends, step)
        order = np.argsort(numbers, kind="stable")
        numbers, indices = numbers[order], pairs[order]
        begins = np.concatenate(([0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1))
        arrived = np.argsort(order[begins])
        stops = np.append(begins[1:], len(order))[arrived]
        begins = begins[arrived]
        columns = begins, stops, ends[order[begins]], indices[begins]
        self.runs = list(zip(*[column.tolist() for column in columns], strict=True))
        self.span = (0, len(order))
        self.times = batch.timestamps[indices]
        self.reading: Iterator[Any] = iter(())
        self._batch, self._indices = batch, indices
        self._places: list[int] = indices.tolist()
        self._rows: list[Any] | None = None

    def rows(self) -> Sequence[Any]:
        if self._rows is None:
            self._rows = self._made()
        return self._rows

    def _made(self) -> list[Any]:
        if not isinstance(self._batch, ArrowBatch):
            return taken(self._batch.rows(), self._places)
        # Views of the batch as it is: what no function reads is not ordered.
        cls, shared, rows = self._batch.row_class(), self._batch.views(), []
        for index in self._places:
            row = cls()
            row._c, row._i = shared, index
            rows.append(row)
        return rows

    def column(self, name: str) -> list[Any] | None:
        if not isinstance(self._batch, ArrowBatch) or name not in self._batch.columns.schema.names:
            return None
        return taken(self._batch.views().column(self._batch.field(name)), self._places)

    def packed(self) -> PackedRows | None:
        if isinstance(self._batch, ArrowBatch):
            return packed_columns(self._batch.columns, self._batch.views(), self._indices, self.times)
        rows = self.rows()
        kinds = set(map(type, rows))
        if len(kinds) != 1 or not issubclass(type(rows[0]), Row):
            return None
        return packed_lists(rows[0].keys(), lists_of_rows(rows), self.times)

    def record_read(self) -> Any:
        """Return the record that was read last, for an error: of the run that is being added."""
        start, stop = self.span
        return self.rows()[max(start, stop - length_hint(self.reading) - 1)]


def _numbers(codes: Int64s, ends: Int64s, step: int) -> Any:
    # one number for each key and window
    windows = (ends - ends.min()) // step
    count = int(windows.max()) + 1
    if count > 2**22:  # far apart
        windows = np.unique(windows, return_inverse=True)[1]
        count = int(windows.max()) + 1
    numbers = codes * count + windows
    return numbers.astype(np.uint16) if int(numbers.max()) < 2**16 else numbers  # far faster to order
