"""Windows of rows for which some key groups are further in event time than their subtask.

After an unaligned checkpoint and a change of the parallelism a subtask takes over key groups of several
former subtasks, and begins at the lowest of their watermarks. In a group that was further, windows have been
sent out that a record in flight could open again. So its records count as late by the group's own watermark.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

from headgate.api.windows.window_function import WindowFunction
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.records.batch import Batch
from headgate.runtime.worker.operators.keyed_context import Firing, KeyedOutput, Slice
from headgate.runtime.worker.operators.keyed_operator import RunKind
from headgate.runtime.worker.operators.keyed_run import KeyedRun
from headgate.runtime.worker.operators.operator_contract import PendingState
from headgate.runtime.worker.operators.windows_of_rows.ends_together import ends_together
from headgate.runtime.worker.operators.windows_of_rows.recent_records import RecentRecords
from headgate.runtime.worker.operators.windows_of_rows.records_together import RunOfWindows, adds_together
from headgate.runtime.worker.operators.windows_of_rows.timed_results import TimedResultsOperator
from headgate.state.backend import StoredValue

if TYPE_CHECKING:
    from headgate.records.batch import Int64s


class RescaledRowWindows(TimedResultsOperator):
    """Runs a `WindowFunction`, and knows which key groups are ahead of the subtask's watermark."""

    _ahead: Mapping[int, int]  # key group -> its watermark (ms)
    recent: RecentRecords | None = None  # records that are not in state yet

    def open(self) -> None:
        super().open()
        where, stored = self.context, dict(self._windows.ahead.get())
        first, last = key_group_range(where.max_parallelism, where.parallelism, where.subtask)
        ahead: dict[int, int] = {}
        for state in where.restored:
            if state.keyed is not None and state.watermark is not None:
                groups = range(max(first, state.keyed.first_group), min(last, state.keyed.last_group) + 1)
                ahead |= {group: stored.get(group, state.watermark) for group in groups}
        self._ahead = ahead if self._windows.event_time else {}
        together = adds_together(self._windows)
        self._usual: RunKind = RunOfWindows if together else KeyedRun
        waits = together and self._windows.ends_at_once and self._windows.takes_recent
        self.recent = RecentRecords(self, self._windows) if waits else None
        self._ends = ends_together(self, self._windows, self.recent)
        self._forget_reached()

    def _fire_slice(self, firing: Firing, out: KeyedOutput, time: Slice) -> bool:
        if self._ends is not None and not self._ends.fire(firing, out, time):
            return False
        return super()._fire_slice(firing, out, time)

    def process_some(self, batch: Batch) -> int:
        if self._ahead:
            self._forget_reached()
        if self.recent is not None:
            self.recent.flush_old()
        return self._run(batch, _RunOfGroupsAhead if self._ahead else self._usual)

    def watermark_of(self, key: Hashable, watermark: int) -> int:
        """Return the watermark (ms) by which records of `key` are late: `watermark`, or that of the key's
        group if the group was further than its subtask at the restore.
        """
        return max(watermark, self._ahead.get(key_group(key, self.context.max_parallelism), watermark))

    def _next_due(self) -> int | None:
        due = super()._next_due()
        fresh = None if self.recent is None else self.recent.next_end
        if fresh is None:
            return due
        return fresh - 1 if due is None else min(due, fresh - 1)

    def peek(self, state: str, key: Hashable) -> StoredValue | None:
        if self.recent is not None:
            self.recent.flush()
        return super().peek(state, key)

    def snapshot(self, checkpoint: int) -> PendingState | None:
        self._forget_reached()
        if self.recent is not None:
            self.recent.flush_for_snapshot()
        self._windows.ahead.update(sorted(self._ahead.items()))
        return super().snapshot(checkpoint)

    @property
    def _windows(self) -> WindowFunction:
        assert isinstance(self._function, WindowFunction)
        return self._function

    def _forget_reached(self) -> None:
        self._ahead = {group: mark for group, mark in self._ahead.items() if mark > self._mark}


class _RunOfGroupsAhead(KeyedRun):
    """A run in which the function sees, for each record, the watermark of the record's key group."""

    def __init__(
        self,
        operator: RescaledRowWindows,
        batch: Batch,
        out: KeyedOutput,
        origins: list[int],
        times: Int64s | None,
        marks: Int64s | None,
    ) -> None:
        super().__init__(operator, batch, out, origins, times, marks)
        if marks is not None:
            keys = self._arguments[0]
            pairs = zip(keys, marks.tolist(), strict=True)
            reached = [operator.watermark_of(key, mark) for key, mark in pairs]
            self._arguments = (*self._arguments[:3], reached, *self._arguments[4:])
