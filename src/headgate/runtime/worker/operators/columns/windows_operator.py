"""The base of operators with windows: event time, restoring, snapshots, and when windows are emitted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from headgate.api.declared.keyed_states import declared_state
from headgate.api.functions import KeyedProcessFunction
from headgate.common.errors import UsageError
from headgate.common.keys.key_types import stored_shapes
from headgate.common.keys.keygroups import key_group_range
from headgate.common.plain_data import Plain
from headgate.common.time import WATERMARK_MIN
from headgate.metrics.metric_table import LATE_RECORDS
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.relational.aggregating.grouping import Grouping
from headgate.relational.python_types import plain_type
from headgate.relational.schema import Field
from headgate.relational.spark_types import WINDOW
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.columns.column_steps import failing_clearly
from headgate.runtime.worker.operators.columns.kept_windows import (
    Ended,
    KeptWindows,
    OnDisk,
    Restoring,
    WindowsView,
)
from headgate.runtime.worker.operators.columns.restored_windows import RestoredWindows
from headgate.runtime.worker.operators.columns.window_state import AHEAD, WINDOWS, PendingWindows
from headgate.runtime.worker.operators.function_state import FunctionState
from headgate.runtime.worker.operators.keyed_state import PendingKeyedState, earlier_state
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState, StateTypes
from headgate.state.backend import PendingSnapshot, StoredValue
from headgate.state.chunk_stores import chunk_store_of
from headgate.state.snapshots import OperatorSubtaskState
from headgate.state.state_names import Claims
from headgate.state.stored.restoring import open_restore
from headgate.state.stored.value_readers import stored_value
from headgate.state.targets import Target, target_of

if TYPE_CHECKING:
    from headgate.records.batch import Int64s
    from headgate.state.rocksdb.chunk_store import ChunkStore
    from headgate.state.stored.native_restore import NamedStates

SENT_TOGETHER: Final = 1 << 16
"""Results of windows that end at once are sent in batches of about so many rows, or more of one window."""


class WindowsOperator(Operator):
    """Base of operators that keep windows of event time for the key groups of their subtask.
    `function` declares the state of windows; `keys` and `values` are the columns of the rows that they keep.
    `grouping` merges rows of a key and pane (a slice of event time that no window cuts); None: never.
    """

    _in_memory: ClassVar = False  # whatever the state backend
    _name: ClassVar = WINDOWS  # of the keyed state
    _what: ClassVar[str] = "a window"  # in the words of messages

    def __init__(
        self,
        context: OperatorContext,
        keys: Sequence[Field],
        values: pa.Schema,
        grouping: Grouping | None,
        function: KeyedProcessFunction[Any, Any, Any],
    ) -> None:
        super().__init__(context)
        self._function, self._state = function, declared_state(function)
        self._key_fields, self._grouping = keys, grouping
        self._keys = tuple(field.name for field in keys)
        of_keys = pa.schema([pa.field(each.name, each.type) for each in keys])
        self._of_keys, self._values_kept = of_keys, values
        self._restored = RestoredWindows(of_keys, values, numbered=grouping is None)
        self._late = 0
        self._completed: int | None = 0
        self._disk: OnDisk | None = None
        self._of_disk: dict[str, int] = {}  # metrics of it, as of the last sample

    @abstractmethod
    def _windows_from(self, mark: int) -> KeptWindows:
        """Return windows without rows, held in memory, for event time from watermark `mark` (ms) on."""

    @abstractmethod
    def _windows_on_disk(self, chunks: ChunkStore, mark: int) -> OnDisk:
        """Return windows without rows, for event time from watermark `mark` (ms) on, most of which may be in
        `chunks`. `chunks` is a store in RocksDB on the local disk; the result takes it over.
        """

    @abstractmethod
    def _received(self, batch: pa.RecordBatch) -> pa.Table:
        """Return the columns of a received batch that windows keep, `PANE` first, a row for each of the
        batch's. Raises KeyError if one is missing, as in an in-flight batch of a program with other columns.
        """

    @abstractmethod
    def _results(self, ended: Ended) -> tuple[pa.RecordBatch, Int64s]:
        """Return the result rows of windows that have ended, and the event time (ms) of each row."""

    def open(self) -> None:
        where, target = self.context, target_of(self._state[self._name])
        self._target: Target = target
        self._groups = key_group_range(where.max_parallelism, where.parallelism, where.subtask)
        marks = [state.watermark for state in where.restored if state.watermark is not None]
        self._mark = min(marks, default=WATERMARK_MIN)
        self._own = FunctionState(where, self._function)
        self._kept = self._opened()
        self._fill([state for state in where.restored if state.keyed is not None])

    def _opened(self) -> KeptWindows:
        where, chunks = self.context, None
        if not self._in_memory:
            groups = self._groups
            chunks = chunk_store_of(where.backends, self._name, self._target, groups, where.max_parallelism)
        if chunks is None:
            return self._windows_from(self._mark)
        self._disk = self._windows_on_disk(chunks, self._mark)
        return self._disk.kept

    def _fill(self, states: list[OperatorSubtaskState]) -> None:
        where = self.context
        claims = Claims(self._state) if where.ignore_unclaimed else None
        stored = [
            earlier_state(where.disk, state.keyed, claims) for state in states if state.keyed is not None
        ]
        if not stored:
            return
        ahead = dict(self._own.handles[AHEAD].get())
        with open_restore(
            stored, {self._name: self._target}, self._groups, where.max_parallelism, takes_native=True
        ) as restore:
            each_into = [self._kept_of(state, restore.groups, ahead) for state in states]
            if restore.native:
                self._fill_natively(restore.native, each_into)
            for into, base in zip(each_into, restore.bases, strict=True):
                for entries in (entries for section in base for entries in section.entries(restore.groups)):
                    self._restored.load(into[entries.group], entries.keys, entries.values)

    def _kept_of(
        self, state: OperatorSubtaskState, own: range, ahead: Mapping[int, int]
    ) -> dict[int, Restoring]:
        # A group without windows is noted, too, or a late row would make it emit a window again.
        assert state.keyed is not None  # the caller looked
        mark = WATERMARK_MIN if state.watermark is None else state.watermark
        groups = range(max(own.start, state.keyed.first_group), min(own.stop, state.keyed.last_group + 1))
        return {group: self._kept.of_group(group, ahead.get(group, mark)) for group in groups}

    def _fill_natively(self, native: list[NamedStates], each_into: Sequence[Mapping[int, Restoring]]) -> None:
        if self._disk is not None:
            self._disk.restore(native)
            return
        # Optional packages are loaded when they are used.
        from headgate.runtime.worker.operators.columns.spilled.windows_on_disk import restored_tables

        columns = self._of_keys, self._values_kept
        where = self.context.max_parallelism
        into = {group: place for places in each_into for group, place in places.items()}
        for group, table in restored_tables(native, self._target, self._groups, where, *columns):
            into[group].add(table)

    def process(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch) and batch.watermarks is not None  # noqa: PT018  # of our own sender
        marks = np.maximum(batch.watermarks, self._mark)
        rows = self._received_or_refused(batch.columns)
        for start, stop in self._stretches(marks):
            self._advance(int(marks[start]))
            with failing_clearly(self.context, self._what):
                self._add(rows.slice(start, stop - start), marks[start:stop])
        self._advance(int(marks[-1]))

    def _add(self, rows: pa.Table, marks: Int64s) -> None:
        # Each row has its watermark in `marks`; rows that come too late are counted.
        self._late += self._kept.add(rows, marks)

    def _stretches(self, marks: Int64s) -> Iterable[tuple[int, int]]:
        # Before each range of a batch's rows, windows that its first watermark ends are emitted.
        return [(0, len(marks))]

    def _received_or_refused(self, sent: pa.RecordBatch) -> pa.Table:
        try:
            return self._received(sent)
        except KeyError as error:
            raise UsageError(
                f"{self.context.label}: records in flight of the restored checkpoint lack a column "
                f"({error}), as the table has changed; restore from a savepoint, which has none"
            ) from None

    def watermark(self, timestamp: int) -> None:
        self._advance(timestamp)
        self.next.watermark(timestamp)

    def _advance(self, mark: int) -> None:
        if mark <= self._mark:
            return
        self._mark = mark
        results, rows = [], 0
        with failing_clearly(self.context, self._what):
            for ended in self._kept.reached(mark):
                columns, at = self._results(ended)
                # As of a timer: they come before the watermark that their windows waited for.
                marks = at - 1 if ended.since is None else np.full(len(at), ended.since)
                results.append(ArrowBatch(columns, at, marks))
                rows += len(at)
                if rows >= SENT_TOGETHER:
                    self._send(results)
                    results, rows = [], 0
        if rows:
            self._send(results)

    def _send(self, results: list[ArrowBatch]) -> None:
        whole = pa.concat_batches([each.columns for each in results])
        self.next.process(ArrowBatch(whole, *map(np.concatenate, zip(*map(_times, results), strict=True))))

    def sample(self) -> None:
        self._of_disk = {} if self._disk is None else self._disk.measured()

    def measured(self) -> dict[str, int]:
        return {LATE_RECORDS.at(): self._late, **self._of_disk}

    def snapshot(self, checkpoint: int) -> PendingState | None:
        # The tables of windows never change, so the snapshot only refers to them.
        self._own.handles[AHEAD].update(self._kept.ahead)
        pending = self._taken(checkpoint)
        keyed = PendingKeyedState(self.context.uid, pending, self._mark, None, self._key_shapes())
        return self._own.snapshot(keyed)

    def _taken(self, checkpoint: int) -> PendingSnapshot:
        return self._pending() if self._disk is None else self._disk.snapshot(checkpoint, self._completed)

    def may_build_on(self, checkpoint: int | None) -> None:
        self._completed = checkpoint

    def close(self) -> None:
        if self._disk is not None:
            self._disk.close()

    def _pending(self, views: Sequence[WindowsView] | None = None) -> PendingWindows:
        groups = self.context.max_parallelism
        if views is None:
            with failing_clearly(self.context, self._what):
                views = self._kept.at_snapshot()
        columns = self._keys, self._grouping, self._target
        return PendingWindows(views, *columns, self._groups, groups, self._name)

    def _key_shapes(self) -> list[Plain]:
        kinds = tuple(plain_type(field.type) for field in self._key_fields)
        return stored_shapes({kinds if len(kinds) > 1 else kinds[0]})

    def state_types(self) -> StateTypes:
        return {self._name: self._target.schema} | self._own.state_types()

    def peek(self, state: str, key: Hashable) -> StoredValue | None:
        # The value is the accumulators of all windows of the key.
        views = None if self._disk is None else self._disk.views_of(key)
        found = self._pending(views).of_key(key)
        return stored_value(self._name, self._target, found) if found else None


def _times(batch: ArrowBatch) -> tuple[Int64s, Int64s]:
    assert batch.timestamps is not None
    assert batch.watermarks is not None
    return batch.timestamps, batch.watermarks


def window_column(starts: Int64s, ends: Int64s) -> pa.Array:
    """Return a column of window structs (start and end as timestamps) from starts and ends in ms."""
    return pa.StructArray.from_arrays([_moments(starts), _moments(ends)], fields=list(WINDOW))


def _moments(times_ms: Int64s) -> pa.Array:
    return pa.array(times_ms * 1000).cast(WINDOW.field(0).type)
