"""Watches an operator of a table: lets through the rows of one key, and notes what comes of each batch.

The state of such an operator is in arrays, and is not shown in between. It is compared at the end.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator

import numpy as np

from headgate.common.time import WATERMARK_MIN
from headgate.core.marks import Mark
from headgate.offline.replay.tap import Tap
from headgate.records.batch import Batch
from headgate.records.selectors import KeySelector
from headgate.runtime.worker.task.gate_task import GateTask


class ColumnTap(Tap):
    """Takes the steps of one key, whose rows have it by `selector`, in an operator of a table."""

    def __init__(
        self,
        task: GateTask,
        key: Hashable,
        count: int | None,
        before: Callable[[str], None],
        held_back: int = 0,
        ends_at: int | None = None,
        *,
        selector: KeySelector,
    ) -> None:
        self._selector, self._passed = selector, WATERMARK_MIN
        super().__init__(task, key, count, before, held_back, ends_at)

    @property
    def timed(self) -> bool:
        """Whether event time mattered: any that passed may have ended something."""
        return self._passed > WATERMARK_MIN

    def mark(self, mark: Mark) -> None:
        """Take the place of the operator's method: note what it sends at a mark."""
        self._reach_end()
        with self._if_it_says_something("mark", str(mark.epoch)):
            self._pass_mark(mark)

    def _let_through(self, batch: Batch, sender: str) -> None:
        found = [at for at, key in enumerate(batch.keys(self._selector)) if key == self._key]
        if self._count is not None:
            found = found[: self._count - self.records]
        if not found:
            return
        rows = batch.take(np.array(found, dtype=np.int64))
        self.senders.add(sender)
        self.records += len(found)
        time = None if rows.timestamps is None else int(rows.timestamps[-1])
        with self._step("record", ", ".join(map(repr, rows.rows())), sender, time):
            self._take(rows)
        self.full = self.records == self._count

    def _reach(self, watermark: int) -> None:
        if watermark > self._passed:
            self._passed = watermark
            with self._if_it_says_something("watermark", str(watermark)):
                self._advance(watermark)

    @property
    def _mark(self) -> int:
        return self._passed

    @contextlib.contextmanager
    def _if_it_says_something(self, kind: str, what: str) -> Iterator[None]:
        steps = len(self.steps)
        with self._step(kind, what):
            yield
        last = self.steps[steps]
        if not (last.output or last.side_output):
            self.steps.pop()
