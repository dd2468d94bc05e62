"""The subtasks of one operator of a table, fed through the part before the exchange, in tests without a
worker.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from operator_samples import ManualClock, Recorder, context, finished, opened

from headgate.api.tables.updating import folded
from headgate.common.keys.keygroups import key_group_range
from headgate.core.marks import Mark
from headgate.graph.logical import Node
from headgate.records.arrow_batch import ArrowBatch
from headgate.relational.changes import CHANGE
from headgate.restore.assignment import share_operator
from headgate.runtime.worker.operators.columns.making import table_operator
from headgate.runtime.worker.operators.columns.panes import groups_of_rows

GROUPS = 6


class Subtasks:
    """Runs `before`, in one subtask, and then `node`, partitioned by its key; a snapshot of all brings them
    back, with any parallelism.
    """

    def __init__(self, before: list[Any], node: Any, checkpoints: Any = None) -> None:
        self._node, self._checkpoints, self.operators = node, checkpoints, list[Any]()
        self._key = [node.key] if isinstance(node.key, str) else list(node.key)
        self.clock = ManualClock()
        self._before = [table_operator(context(), each) for each in before]
        for one, other in zip(self._before, self._before[1:], strict=False):
            one.next = other
        self._sent = opened(self._before[-1])[0]
        self.received: list[dict[str, Any]] = []
        self.open([], 1)

    def open(self, states: list[Any], parallelism: int) -> None:
        shares = share_operator(states, parallelism, GROUPS) if states else [[]] * parallelism
        settings: dict[str, Any] = {
            "parallelism": parallelism,
            "max_parallelism": GROUPS,
            "clock": self.clock,
        }
        if self._checkpoints is not None:
            settings |= self._checkpoints.where()
        for operator in self.operators:
            operator.close()
        self.operators = [
            table_operator(context("g", subtask=n, restored=shares[n], **settings), self._node)
            for n in range(parallelism)
        ]
        self.out: list[Recorder] = [opened(each)[0] for each in self.operators]

    def send(self, rows: pa.RecordBatch, times: Any = None, mark: int | None = None) -> None:
        """Have a batch pass; `times` are event times, `mark` the watermark of all rows."""
        self._sent.batches.clear()
        marks = None if mark is None else np.full(rows.num_rows, mark, np.int64)
        self._before[0].process(ArrowBatch(rows, None if times is None else np.array(times, np.int64), marks))
        for each in self._before:
            each.pass_on()
        for sent in self._sent.batches:
            assert isinstance(sent, ArrowBatch)
            groups = groups_of_rows(pa.table(sent.columns), self._key, GROUPS)
            for n, operator in enumerate(self.operators):
                first, last = key_group_range(GROUPS, len(self.operators), n)
                mine = np.flatnonzero((groups >= first) & (groups <= last))
                if len(mine):
                    operator.process(sent.take(mine))
        self._take()

    def _take(self) -> None:
        for out in self.out:
            self.received += map(dict, out.records)
            out.batches.clear()

    def watermark(self, timestamp: int) -> None:
        for operator in self.operators:
            operator.watermark(timestamp)

    def mark(self) -> list[dict[str, Any]]:
        """Send a mark, and return the rows of the table that the changes so far have led to."""
        for operator in self.operators:
            operator.mark(Mark(1))
        self._take()
        changes = self.received and CHANGE in self.received[0]
        return folded(map(dict, self.received)) if changes else self.received

    def restore(self, parallelism: int) -> None:
        self.open(self.checkpoint(), parallelism)

    def checkpoint(self) -> list[Any]:
        """The states of all subtasks, which go on."""
        if self._checkpoints is not None:
            found: list[Any] = self._checkpoints.take(self.operators)
            return found
        return [finished(operator.snapshot(1)) for operator in self.operators]


def nodes_of(nodes: list[Node], *kinds: type[Node]) -> list[Node]:
    """The first node of each kind, in order."""
    return [next(each for each in nodes if type(each) is kind) for kind in kinds]
