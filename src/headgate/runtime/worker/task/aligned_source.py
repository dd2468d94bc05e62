"""A source subtask that reads nothing while it is too far ahead of slower sources in event time."""

from __future__ import annotations

from headgate.api.source import PollStatus, Split
from headgate.runtime.worker.operators.source_alignment import AlignedTimestamps
from headgate.runtime.worker.task.source_task import SourceTask
from headgate.runtime.worker.task.task import Task, TaskParts


class AlignedSourceTask(SourceTask):
    """A source subtask that reads nothing while it is too far ahead of slower sources in event time."""

    def __init__(self, parts: TaskParts, aligned: AlignedTimestamps, *, finished: bool = False) -> None:
        super().__init__(parts, finished=finished)
        self._aligned, self._announced = aligned, False

    def step(self) -> bool:
        # The restored watermark is passed on before the first step.
        if not self._announced and self._recovered is None and not self._runner.away:
            self._announced = True
            self._invoke(self._aligned.announce)
            self.outputs.note_step(self.clock.monotonic_ms())
        return super().step()

    def next_wakeup(self) -> int | None:
        if self._held_back():  # news of slower sources wakes the loop
            return Task.next_wakeup(self)
        return super().next_wakeup()

    def splits_assigned(self, splits: list[Split] | None) -> None:
        self._aligned.has_splits |= bool(splits)
        super().splits_assigned(splits)

    def _input_waits(self) -> bool:
        return super()._input_waits() and not self._held_back()

    def _held_back(self) -> bool:
        # Whoever does not know yet whether it will read defers barriers; whoever had ended has to say so.
        return self._answered and not self._finished and self._aligned.held_back

    def _no_records(self, status: PollStatus) -> bool:
        worked = super()._no_records(status)
        if self._asked:  # for a split; others need not wait for who has nothing to read
            self._aligned.has_splits = False
        return worked
