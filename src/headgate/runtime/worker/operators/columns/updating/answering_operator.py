"""The base of operators that keep state for good, and send what changes of their answers at marks."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

import pyarrow as pa

from headgate.core.marks import Mark
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.updating.lasting_operator import LastingOperator

_WORTH_A_BATCH: Final = 1 << 12
"""Parts of so many rows on average are sent each by itself, as copying them together would cost more."""


class AnsweringOperator(LastingOperator):
    """Gathers what comes, and sends the changes of its answer at marks and at the end of the data. `_came`
    are the columns of rows that come, `_gives` those of changes.
    """

    _came: pa.Schema
    _gives: pa.Schema

    @abstractmethod
    def _changes(self) -> pa.Table | pa.RecordBatch | None:
        """Settle what came since the last call, and return what changes thereby; None: nothing came."""

    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        if not batch.schema.equals(self._came):
            columns = [batch.column(name) for name in self._came.names]
            batch = pa.RecordBatch.from_arrays(columns, schema=self._came)
        return pa.Table.from_batches([batch])

    def process(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch)  # of our own sender
        with failing_clearly(self.context, self._what):
            rows = self._received_or_refused(batch.columns)
            self._kept.gather(rows)
            self._touch(rows)
        if self.context.eager:
            self._send_changes()

    def watermark(self, timestamp: int) -> None:
        self._mark = max(self._mark, timestamp)
        self.next.watermark(timestamp)

    def mark(self, mark: Mark) -> None:
        self._send_changes()
        self._forget_old()
        self.next.mark(mark)

    def end_of_data(self) -> None:
        self._send_changes()
        self.next.end_of_data()

    def _send_changes(self) -> None:
        with failing_clearly(self.context, self._what):
            changes = self._changes()
        if changes is not None:
            self._give(changes)

    def _give(self, rows: pa.Table | pa.RecordBatch) -> None:
        whole = pa.table(rows)
        batches = whole.to_batches()
        if len(batches) * _WORTH_A_BATCH > whole.num_rows:
            batches = whole.combine_chunks().to_batches()
        for batch in batches:
            self.next.process(ArrowBatch(pa.RecordBatch.from_arrays(batch.columns, schema=self._gives)))
