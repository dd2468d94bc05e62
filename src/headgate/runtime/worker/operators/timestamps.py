"""Assigns event time: each record's timestamp, and each record's own watermark (not one per batch)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import pyarrow as pa

from headgate.api.streams.event_time import WatermarkStrategy
from headgate.common.errors import UsageError
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.event_times import milliseconds
from headgate.records.row_batch import field_getter
from headgate.restore.split_watermarks import MARKS, SplitMarks, marks_of
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import placed, shorten, user_error
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState, R, ReadyState, V
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.operators.unlikely_times import missing_time, refuse_unlikely
from headgate.state.snapshots import OperatorSubtaskState

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class TimestampsOperator(Operator):
    """Assigns timestamps, and to each record the watermark before it, by the greatest timestamp so far.
    Raises UsageError for a record without a timestamp, or with one that is no event time.
    """

    source: SourceOperator | None = None  # the head of its chain, if that is a source

    def __init__(self, context: OperatorContext, strategy: WatermarkStrategy) -> None:
        super().__init__(context)
        self._strategy = strategy
        self._greatest = WATERMARK_MIN
        self._idle_at: int | None = None

    def open(self) -> None:
        # The event time is the lowest of the stored splits; without any, of the former subtasks.
        marks = [s.watermark for s in self.context.restored if s.watermark is not None]
        self._greatest = min((mark for mark in marks if mark != WATERMARK_MIN), default=WATERMARK_MIN)
        of_splits = marks_of(entry for s in self.context.restored for entry in s.list_state.get(MARKS, []))
        self._greatest = min(of_splits.values(), default=self._greatest)
        self._splits = SplitMarks(of_splits, self._strategy.idleness_ms, self.context.clock.now_ms())
        self._note_activity()

    def process(self, batch: Batch) -> None:
        times = self._timestamps(batch)
        refuse_unlikely(self.context, batch, times, self._strategy.timestamp)
        start, bound = self._of_split(times)
        reached = np.maximum.accumulate(times)
        before = np.empty_like(reached)
        before[0], before[1:] = start, np.maximum(reached[:-1], start)
        end = max(start, int(reached[-1]))
        if bound is not None:
            before, end = np.minimum(before, bound), min(end, bound)
        before = np.maximum(before, self._greatest)
        self._greatest = max(self._greatest, end)
        self._note_activity()
        self.next.process(batch.with_times(times, self._watermarks(before)))
        if self._greatest != WATERMARK_MIN:  # a split not yet begun keeps it there
            self.next.watermark(self._greatest - self._strategy.out_of_orderness_ms - 1)

    def watermark(self, timestamp: int) -> None:
        # This operator makes its own watermarks: only the input's final one counts.
        if timestamp == WATERMARK_MAX:
            self.next.watermark(timestamp)

    def next_processing_time(self) -> int | None:
        return self._idle_at

    def fire_processing_time(self, now_ms: int) -> None:
        if self._idle_at is not None and now_ms >= self._idle_at:
            self._idle_at = None
            self.next.idle()

    def snapshot(self, checkpoint: int) -> PendingState | None:
        unread = [] if self.source is None else self.source.splits()
        marks = [[split, self._splits.of(split, self._greatest)] for split in unread]
        return ReadyState(
            OperatorSubtaskState(self.context.uid, None, {MARKS: marks}, watermark=self._greatest)
        )

    def _of_split(self, times: Int64s) -> tuple[int, int | None]:
        # Event time before a batch in its split, and the bound of unread splits (None: there are none).
        splits = None if self.source is None else self.source.restored
        if splits is None or not splits.unread:
            return self._greatest, None
        now_ms, reading = self.context.clock.now_ms(), splits.reading
        around = self._splits.around(reading, splits.others, self._greatest, now_ms)
        self._splits.note(reading, int(times.max()), now_ms)
        return around

    def _note_activity(self) -> None:
        if self._strategy.idleness_ms is not None:
            self._idle_at = self.context.clock.now_ms() + self._strategy.idleness_ms

    def _watermarks(self, greatest: Int64s) -> Int64s:
        lag = self._strategy.out_of_orderness_ms + 1
        return np.where(greatest < WATERMARK_MIN + lag, WATERMARK_MIN, greatest - lag)

    def _timestamps(self, batch: Batch) -> Int64s:
        selector = self._strategy.timestamp
        if isinstance(batch, ArrowBatch) and isinstance(selector, str):
            return self._of_column(batch, batch.parts.column(batch.field(selector)), selector)
        rows, row, values = batch.rows(), None, []
        try:
            getter = field_getter(selector, rows[0])
        except UsageError as error:
            raise placed(self.context, error) from None
        try:
            for row in rows:
                values.append(getter(row))
        except BaseException as error:
            raise user_error(self.context, error, row) from None
        try:
            # numpy would cut off fractions and parse text.
            if set(map(type, values)) == {int} or all(map(_is_integer, values)):
                return np.array(values, dtype=np.int64)
        except OverflowError:
            pass
        raise self._not_a_time(rows, values)

    def _of_column(self, batch: ArrowBatch, column: pa.Array, name: str) -> Int64s:
        if column.null_count:
            raise missing_time(self.context, batch, column, name)
        if not (pa.types.is_timestamp(column.type) or pa.types.is_integer(column.type)):
            raise UsageError(
                f"{self.context.label}: column {name!r} is {column.type}; "
                "expected a timestamp or integer milliseconds since 1970"
            )
        return milliseconds(column)

    def _not_a_time(self, rows: Sequence[R], values: Sequence[V]) -> UsageError:
        for row, value in zip(rows, values, strict=False):
            if not (_is_integer(value) and -(2**63) <= value < 2**63):
                return UsageError(
                    f"{self.context.label}: the timestamp of {shorten(row)} is {value!r}; "
                    "expected integer milliseconds since 1970"
                )
        return UsageError(f"{self.context.label}: timestamps are not integers of 64 bits")


def _is_integer(value: V) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
