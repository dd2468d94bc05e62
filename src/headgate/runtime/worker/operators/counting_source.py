"""The source operator of a job with marks: it counts the rows that it has emitted of each split.

A reader does not say which split a batch is of; it is the one that has moved. Where several moved at once,
the rows count for the reader as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from headgate.api.source import PollStatus, Source, Split
from headgate.core.marks import Rows
from headgate.records.batch import Batch
from headgate.restore.split_watermarks import COUNTS, picture
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.operator_contract import PendingState, ReadyState
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.state.snapshots import OperatorSubtaskState


class CountingSource(SourceOperator):
    """A :class:`SourceOperator` that counts rows by split, and stores the counts with the splits."""

    def __init__(self, context: OperatorContext, source: Source) -> None:
        super().__init__(context, source)
        self._rows: dict[str, int] = {}
        self._moved: set[str] = set()

    def open(self) -> None:
        super().open()
        lists = [state.list_state for state in self.context.restored]
        # Also those of splits that were read to their ends: the last answer may lack some of their rows.
        self._rows = {name: rows for each in lists for name, rows in each.get(COUNTS, [])}
        self._rows |= {
            name: rows for each in lists for name, _, *counted in each.get("splits", []) for rows in counted
        }
        self._moved = set(self._rows)

    def poll(self, max_records: int) -> Batch | PollStatus:
        before = picture(self._left())
        polled = super().poll(max_records)
        if not isinstance(polled, PollStatus):
            name = self._read(before, self._left())
            self._rows[name] = self._rows.get(name, 0) + len(polled)
            self._moved.add(name)
        return polled

    def _read(self, before: Sequence[Split], after: Sequence[Split]) -> str:
        old = {split.id: split.position for split in before}
        new = {split.id: split.position for split in after}
        moved = [name for name in new if name in old and new[name] != old[name]]
        ended = [name for name in old if name not in new]
        found = moved or ended
        return found[0] if len(found) == 1 else f"subtask {self.context.subtask}"

    def moved(self) -> Rows:
        """Return the counts of splits that moved since the last call, at first of all that are known."""
        moved, self._moved = self._moved, set()
        return {(self.context.uid, name): self._rows[name] for name in sorted(moved)}

    def snapshot(self, checkpoint: int) -> PendingState | None:
        taken = super().snapshot(checkpoint)
        assert isinstance(taken, ReadyState)
        splits = [[name, at, self._rows.get(name, 0)] for name, at in taken.state.list_state["splits"]]
        ended = self._rows.keys() - {name for name, *_ in splits}
        lists = {"splits": splits, COUNTS: [[name, self._rows[name]] for name in sorted(ended)]}
        return ReadyState(OperatorSubtaskState(self.context.uid, None, lists))
