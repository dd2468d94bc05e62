"""Chooses how many records make a step of the desired duration, from the cost of recent steps.

A step has a fixed cost and a cost per record. If the fixed cost alone is about the desired duration (a sink
that calls a server once per batch), smaller batches would slow everything down and shorten no step: then a
step gets so many records that they cost as much again as the fixed part.

A single step that was somewhat too long says little about its records: it may have sent out windows. So it
takes two of them, one after the other, to shorten the next ones, or one that was far too long.
"""

from __future__ import annotations

from types import TracebackType

from headgate.common.ports import Clock
from headgate.runtime.worker.task.time_shares import TimeShares

RECORDS_MAX = 32_768
RECORDS_FIRST = 256
_SMOOTHING = 0.3
_FAR_TOO_LONG = 10
"""A step of more than so many times the desired duration shortens the next ones by itself."""
_TELLING = 1.4
"""Ratio of the sizes of two steps from which the fixed cost of a step can be estimated."""
_ALIKE_MAX = 16
"""After so many short steps of one size that took too long, one of twice the size shows what costs."""


class StepBudget:
    """Measures a subtask's steps; chooses how many records the next one takes, to last about `target_ms`."""

    __slots__ = ("_alike", "_before", "_cost", "_fixed", "_last", "_step", "records", "target_ms", "times")

    def __init__(self, clock: Clock, target_ms: int) -> None:
        self.target_ms = max(1, target_ms)  # the desired duration of a step
        self.records = RECORDS_FIRST  # how many records the next step should take
        self.times = TimeShares(clock)  # how the subtask spends its time
        self._step = Step(self)
        self._cost = 0.0  # of a record, in ms
        self._before: float | None = None  # what a record of the step before cost
        self._fixed: float | None = None
        self._last: tuple[int, float] | None = None
        self._alike = 0

    def step(self) -> Step:
        """Return a context manager that measures one step; its block sets `records`, the number processed.
        Steps follow one after the other, so the same object measures all of them.
        """
        self._step.records = 0
        return self._step

    def took(self, records: int, elapsed_ms: float) -> None:
        """Learn from a step of `records` (0: not at all) in `elapsed_ms`, and choose the next one's size."""
        if not records:
            return
        self._learn_fixed(records, elapsed_ms)
        fixed = self._fixed or 0.0
        self._learn_cost(max(0.0, elapsed_ms - fixed) / records, elapsed_ms)
        budget = max(self.target_ms - fixed, fixed)
        # Grow by doubling at most: one cheap step says little about a large one.
        most = min(RECORDS_MAX, 2 * self.records)
        fitting = most if self._cost * most <= budget else max(1, int(budget / self._cost))
        # A step that was short enough, perhaps as it had few records, is no reason to take fewer.
        if elapsed_ms <= self.target_ms:
            fitting = max(fitting, self.records)
        elif self._alike >= _ALIKE_MAX and records < RECORDS_FIRST:
            # Else steps of one record would never show that it is not the record that takes the time.
            fitting = max(fitting, min(RECORDS_MAX, 2 * records))
        self.records = fitting

    def _learn_cost(self, cost: float, elapsed_ms: float) -> None:
        before, self._before = self._before, cost
        if before is not None and elapsed_ms < _FAR_TOO_LONG * self.target_ms:
            cost = min(before, cost)
        self._cost = cost if before is None else _smoothed(self._cost, cost)

    def _learn_fixed(self, records: int, elapsed_ms: float) -> None:
        self._alike += 1
        if self._last is not None:
            before, took = self._last
            if max(records, before) >= _TELLING * min(records, before):
                self._alike = 0
                slope = (elapsed_ms - took) / (records - before)
                fixed = min(max(0.0, took - slope * before), took, elapsed_ms)
                self._fixed = _smoothed(self._fixed, fixed)
        if self._fixed is not None:
            self._fixed = min(self._fixed, elapsed_ms)
        self._last = records, elapsed_ms


class Step:
    """Measures one step as a context manager; the block sets `records`, how many records it processed."""

    __slots__ = ("_began", "_budget", "_times", "records")

    def __init__(self, budget: StepBudget) -> None:
        self._budget, self._times, self.records = budget, budget.times, 0

    def __enter__(self) -> Step:
        self._began = self._times.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._budget.took(self.records, self._times.end(self._began))


def _smoothed(known: float | None, fresh: float) -> float:
    return fresh if known is None else known + _SMOOTHING * (fresh - known)
