"""The source operator, the head of a chain: drives a reader and snapshots its splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from headgate.api.source import PollStatus, Source, SourceReader, SourceReaderContext, Split
from headgate.common.errors import UsageError
from headgate.metrics import metric_table as table
from headgate.metrics.of_parts import SPLITS, Part
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.late_columns import LateColumns
from headgate.records.row_batch import RowBatch
from headgate.restore.split_watermarks import RestoredSplits, picture
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import blamed
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState, R, ReadyState
from headgate.runtime.worker.operators.split_parts import check_left, parts_of_splits
from headgate.state.snapshots import OperatorSubtaskState

BAD_RECORDS = "bad-records"

_SKIPPED: Final = table.BAD_RECORDS.at()
_SPLITS: Final = SPLITS.at()


class SourceOperator(Operator):
    """Drives the reader (`SourceReader`) of one source subtask: opens, polls, snapshots and closes it.
    Errors of the reader name the operator. There is no reader if all input was read before the restore.
    """

    reader: SourceReader

    def __init__(self, context: OperatorContext, source: Source) -> None:
        super().__init__(context)
        self._source = source
        self._opened = False
        # Splits that were assigned in this attempt: in all, and as of the last sample.
        self._given = self._told_given = 0
        self._parts: Sequence[Part] = ()  # metrics of the splits, as of the last sample
        # whether all input was read before the restored checkpoint, so that no reader is needed; set before
        # `open`
        self.finished = False
        self.restored = RestoredSplits([])  # the splits that the reader was restored with

    def open(self) -> None:
        if self.finished:
            return
        where = self.context
        self.reader = self._source.create_reader(
            SourceReaderContext(where.uid, where.subtask, where.parallelism)
        )
        if not hasattr(self.reader, "bad_records"):
            self.reader.bad_records = []
        self._opened = True
        entries = [entry for state in where.restored for entry in state.list_state.get("splits", [])]
        splits = [Split(name, position) for name, position, *_ in entries]
        self.restored = RestoredSplits(splits)
        if splits:
            self.reader.add_splits(splits)

    def poll(self, max_records: int) -> Batch | PollStatus:
        """Return a batch of about `max_records`, or the reader's status if it has no records now.
        Bad records that the reader has skipped are emitted to the side output `bad-records`. Raises
        UsageError if the reader returned something else.
        """
        with blamed(self.context, "in poll()"):
            polled = self._polled(max_records)
        if self.reader.bad_records:
            bad, self.reader.bad_records = self.reader.bad_records, []
            self.emit_side(BAD_RECORDS, RowBatch(list(bad)))
        if isinstance(polled, PollStatus):
            return polled
        if isinstance(polled, LateColumns):
            return ArrowBatch(polled)
        if hasattr(polled, "__arrow_c_array__"):
            # It may be of the job's own copy of pyarrow. Both know Arrow's C data interface.
            polled = polled if isinstance(polled, pa.RecordBatch) else pa.record_batch(polled)
            if polled.num_rows:
                return ArrowBatch(polled)
        if not isinstance(polled, list) or not polled:
            size = len(polled) if hasattr(polled, "__len__") else "?"
            raise UsageError(
                f"{self.context.label}: poll() returned {type(polled).__name__} of length {size}; expected a "
                "non-empty list or pyarrow.RecordBatch, NOTHING_AVAILABLE or END_OF_INPUT"
            )
        return RowBatch(polled)

    def _polled(self, max_records: int) -> list[R] | pa.RecordBatch | PollStatus:
        if not self.restored.several:
            self.restored.only()
            return self.reader.poll(max_records)
        before = picture(self.reader.snapshot())
        polled = self.reader.poll(max_records)
        self.restored.moved(self.reader.snapshot(), before)
        return polled

    def add_splits(self, splits: list[Split]) -> None:
        with blamed(self.context, "in add_splits()"):
            self.reader.add_splits(splits)
        self._given += len(splits)

    def no_more_splits(self) -> None:
        with blamed(self.context, "in no_more_splits()"):
            self.reader.no_more_splits()

    def splits(self) -> list[str]:
        """Return the ids of assigned splits that are not read to their end; before :meth:`open` none."""
        return [split.id for split in self._left()] if self._opened else []

    @property
    def needs_split(self) -> bool:
        """Whether the reader needs a new split: all assigned ones are read to their end."""
        return not self._left()

    def _left(self) -> list[Split]:
        with blamed(self.context, "in snapshot()"):
            return self.reader.snapshot()

    def sample(self) -> None:
        if self._opened:
            with blamed(self.context, "in left_to_read()"):
                left = self.reader.left_to_read()
                check_left(self.context.label, left)
                self._parts = parts_of_splits(left)
            self._told_given = self._given

    def measured(self) -> Mapping[str, int]:
        return {_SKIPPED: self.reader.skipped if self._opened else 0, _SPLITS: self._told_given}

    def parts(self) -> Sequence[Part]:
        return self._parts

    def snapshot(self, checkpoint: int) -> PendingState | None:
        read = self._left() if self._opened else []
        splits = [[split.id, split.position] for split in read]
        return ReadyState(OperatorSubtaskState(self.context.uid, None, {"splits": splits}))

    def checkpoint_complete(self, checkpoint: int) -> None:
        if self._opened:
            self.reader.checkpoint_complete(checkpoint)

    def close(self) -> None:
        if self._opened:
            self.reader.close()
