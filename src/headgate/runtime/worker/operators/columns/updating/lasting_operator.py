"""The base of operators whose state has no end: where it is kept, and which keys are forgotten in time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from headgate.common.errors import InternalError
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.kept_windows import Ended, OnDisk, Restoring
from headgate.runtime.worker.operators.columns.updating.forgetting import KeyAges
from headgate.runtime.worker.operators.columns.updating.kept_for_good import KeptForGood
from headgate.runtime.worker.operators.columns.windows_operator import WindowsOperator
from headgate.state.chunk_stores import keeps_log
from headgate.state.stored.entry_store import check_readable

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns
    from headgate.runtime.worker.operators.columns.updating.logged_state import LoggedState
    from headgate.state.backend import PendingSnapshot
    from headgate.state.rocksdb.chunk_store import ChunkStore
    from headgate.state.stored.native_restore import NamedStates


class LastingOperator(WindowsOperator):
    """Keeps state by key for good, or until no row of the key has come for `_ttl_ms`. It is read in memory,
    and checkpoints store what has changed. `_what` is the operator in the words of messages.
    """

    _what: ClassVar[str]
    _ttl_ms: int | None = None
    _ages: KeyAges | None = None
    _logged: LoggedState | None = None
    _kept: KeptForGood

    @abstractmethod
    def _windows_from(self, mark: int) -> KeptForGood:
        """Return state without rows, held in memory."""

    def _windows_on_disk(self, chunks: ChunkStore, mark: int) -> OnDisk:
        raise InternalError(f"{self._what} is read in memory; please report this")

    def _opened(self) -> KeptForGood:
        kept = self._windows_from(self._mark)
        if keeps_log(self.context.backends):
            # Optional packages are loaded when they are used.
            from headgate.runtime.worker.operators.columns.updating.logged_state import LoggedState

            columns = self._chunk_columns()
            self._logged = LoggedState(kept, self._name, self._target, self._groups, columns, self._pending)
        return kept

    def _chunk_columns(self) -> ChunkColumns:
        from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns

        columns, most = (self._of_keys, self._values_kept), self.context.max_parallelism
        numbered = self._grouping is None
        # A table's new column is null in rows of before; that its type may be so was judged.
        return ChunkColumns(*columns, most, placed=True, numbered=numbered, may_lack=True)

    def _fill_natively(self, native: list[NamedStates], each_into: Sequence[Mapping[int, Restoring]]) -> None:
        check_readable()
        from headgate.runtime.worker.operators.columns.updating.logged_state import logged_tables

        columns = self._chunk_columns()
        for table in logged_tables(native, self._kept, self._name, self._target, self._groups, columns):
            self._kept.restore(table)

    def _taken(self, checkpoint: int) -> PendingSnapshot:
        if self._logged is None:
            return self._pending()
        return self._logged.snapshot(checkpoint, self._completed)

    def _results(self, ended: Ended) -> tuple[pa.RecordBatch, Int64s]:
        raise InternalError(f"{self._what} has no end; please report this")

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
        # Call it when nothing waits, so that what is kept is what the last answer was made of.
        if self._ages is None or not self._ages.is_due(now := self.context.clock.now_ms()):
            return
        with failing_clearly(self.context, self._what):
            kept = self._ages.without_old(self._kept, lambda: self._windows_from(self._mark), now)
        if kept is not self._kept and self._logged is not None:
            self._logged.replace(kept)
        self._kept = kept
