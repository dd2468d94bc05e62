"""Holds back the sources of a worker that are too far ahead of slower ones in event time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.api.streams.event_time import WatermarkStrategy
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.watermark_alignment import least_of
from headgate.records.batch import Batch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.operator_contract import Operator
from headgate.runtime.worker.operators.timestamps import TimestampsOperator


class AlignedTimestamps(TimestampsOperator):
    """Assigns event time in a source subtask whose strategy limits how far it may be ahead of others."""

    alignment: SourceAlignment  # with the other sources

    def __init__(self, context: OperatorContext, strategy: WatermarkStrategy) -> None:
        super().__init__(context, strategy)
        self.group, self.limit_ms = strategy.drift_group, strategy.max_drift_ms or 0
        self.has_splits = True  # whether the reader has something to read; set by the subtask
        self._idle = self._ended = self._was_held = False

    @property
    def event_time(self) -> int | None:
        """The watermark reached (ms); None if nobody has to wait for it: idle, ended or without a split."""
        return None if self._idle or self._ended or not self.has_splits else self._reached()

    def announce(self) -> None:
        if self._greatest != WATERMARK_MIN:
            self.next.watermark(self._reached())

    def _reached(self) -> int:
        return max(WATERMARK_MIN, self._greatest - self._strategy.out_of_orderness_ms - 1)

    @property
    def held_back(self) -> bool:
        """Whether the source is to read nothing, as it is too far ahead; True also defers its idleness."""
        held = self.alignment.holds(self)
        self._was_held |= held
        return held

    def process(self, batch: Batch) -> None:
        self._idle = self._was_held = False
        super().process(batch)

    def watermark(self, timestamp: int) -> None:
        # Nobody has to wait for a source that has ended.
        self._ended |= timestamp == WATERMARK_MAX
        super().watermark(timestamp)

    def fire_processing_time(self, now_ms: int) -> None:
        # A reader that was held back is not idle: the wait begins anew.
        due = self._idle_at
        if due is None or now_ms < due:
            return
        if self._was_held:
            self._was_held = self.held_back
            self._note_activity()
            return
        self._idle = True
        super().fire_processing_time(now_ms)


class SourceAlignment:
    """The source subtasks of one worker that have a limit to their drift, by groups; see `WatermarkStrategy`.

    Args:
        members: operators of this worker's sources, of which those with a limit count.
        alone: whether the gang has no other worker. Otherwise subtasks that have begun wait until the other
            workers' event times are known.
    """

    def __init__(self, members: Iterable[Operator], alone: bool) -> None:
        self._members = [each for each in members if isinstance(each, AlignedTimestamps)]
        for member in self._members:
            member.alignment = self
        self._elsewhere: Mapping[str, int] | None = {} if alone else None

    def event_times(self) -> dict[str, int]:
        """Return group -> least event time (ms) of the sources here that others wait for; for any thread."""
        reached = [(member.group, member.event_time) for member in self._members]
        return least_of({group: time} for group, time in reached if time is not None) or {}

    def others_reached(self, elsewhere: Mapping[str, int] | None) -> None:
        """Store group -> least event time (ms) of the other workers; None (not known) changes nothing."""
        if elsewhere is not None:
            self._elsewhere = elsewhere

    def holds(self, member: AlignedTimestamps) -> bool:
        """Return whether `member` must not read, as it is too far ahead of its group, or nobody knows yet."""
        reached = member.event_time
        if reached is None or reached == WATERMARK_MIN:
            return False
        if self._elsewhere is None:
            return True
        beside = [
            each.event_time for each in self._members if each is not member and each.group == member.group
        ]
        times = [time for time in (*beside, self._elsewhere.get(member.group)) if time is not None]
        return bool(times) and reached - min(times) > member.limit_ms
