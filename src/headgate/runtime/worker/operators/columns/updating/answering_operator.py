"""The base of operators that keep state for good, and send what changes of their answers at marks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from headgate.common.errors import InternalError
from headgate.core.marks import Mark
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.kept_windows import Ended, OnDisk, Restoring
from headgate.runtime.worker.operators.columns.updating.forgetting import KeyAges
from headgate.runtime.worker.operators.columns.updating.kept_for_good import KeptForGood
from headgate.runtime.worker.operators.columns.windows_operator import WindowsOperator

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns
    from headgate.runtime.worker.operators.columns.updating.logged_state import LoggedState
    from headgate.state.rocksdb.chunk_store import ChunkStore
    from headgate.state.stored.native_restore import NamedStates


class AnsweringOperator(WindowsOperator):
    """Gathers what comes, and sends the changes of its answer at marks and at the end of the data. `_came`
    are the columns of rows that come, `_gives` those of changes, `_what` the operator in the words of
    messages.
    """

    _what: ClassVar[str]
    _ttl_ms: int | None = None
    _ages: KeyAges | None = None
    _logged: LoggedState | None = None
    _came: pa.Schema
    _gives: pa.Schema
    _kept: KeptForGood

    @abstractmethod
    def _windows_from(self, mark: int) -> KeptForGood:
        """Return state without rows, held in memory."""

    @abstractmethod
    def _changes(self) -> pa.Table | pa.RecordBatch | None:
        """Settle what came since the last call, and return what changes thereby; None: nothing came."""

    def _windows_on_disk(self, chunks: ChunkStore, mark: int) -> OnDisk:
        # Optional packages are loaded when they are used.
        from headgate.runtime.worker.operators.columns.updating.logged_state import LoggedState

        kept = self._windows_from(mark)
        self._logged = LoggedState(kept, chunks, self._chunk_columns(), self._pending)
        return self._logged

    def _chunk_columns(self) -> ChunkColumns:
        from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns

        columns, most = (self._of_keys, self._values_kept), self.context.max_parallelism
        return ChunkColumns(*columns, most, placed=True, numbered=self._grouping is None)

    def _fill_natively(self, native: list[NamedStates], each_into: Sequence[Mapping[int, Restoring]]) -> None:
        if self._disk is not None:
            self._disk.restore(native)
            return
        from headgate.runtime.worker.operators.columns.updating.logged_state import logged_tables

        for table in logged_tables(native, self._name, self._target, self._groups, self._chunk_columns()):
            self._kept.restore(table)

    def _results(self, ended: Ended) -> tuple[pa.RecordBatch, Int64s]:
        raise InternalError(f"{self._what} has no end; please report this")

    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        return pa.Table.from_arrays(pa.table(batch).select(self._came.names).columns, schema=self._came)

    def process(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch)  # of our own sender
        with failing_clearly(self.context, self._what):
            rows = self._received_or_refused(batch.columns)
            self._kept.gather(rows)
            self._touch(rows)
        if self.context.eager:
            self._send_changes()

    def open(self) -> None:
        super().open()
        if self._ttl_ms is None:
            return
        now = self.context.clock.now_ms()
        self._ages = KeyAges(self._of_keys, self._ttl_ms, now)
        for table in self._kept.view()():
            self._ages.touch(table, now)

    def _touch(self, rows: pa.Table) -> None:
        if self._ages is not None:
            self._ages.touch(rows, self.context.clock.now_ms())

    def _forget_old(self) -> None:
        # Nothing waits, so what is kept is what the last answer was made of.
        if self._ages is not None and self._ages.is_due(now := self.context.clock.now_ms()):
            with failing_clearly(self.context, self._what):
                kept = self._ages.without_old(self._kept, lambda: self._windows_from(self._mark), now)
            if kept is not self._kept and self._logged is not None:
                self._logged.replace(kept)
            self._kept = kept

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
        if rows.num_rows:
            whole = pa.table(rows).combine_chunks()
            self.next.process(
                ArrowBatch(
                    pa.RecordBatch.from_arrays(
                        [column.chunk(0) for column in whole.columns], schema=self._gives
                    )
                )
            )
