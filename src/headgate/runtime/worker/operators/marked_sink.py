"""The sink operator of a table whose rows are corrected: its writer gets whole marks only."""

from __future__ import annotations

from typing import Final

import msgspec
import pyarrow as pa

from headgate.api.sink import Sink
from headgate.core.marks import Mark
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.arrow_stream import stream_of
from headgate.records.batch import Batch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import blamed
from headgate.runtime.worker.operators.operator_contract import PendingState, ReadyState
from headgate.runtime.worker.operators.stateless import SinkOperator
from headgate.state.snapshots import OperatorSubtaskState

SINCE_MARK: Final = "since-mark"
"""Name of a list of plain values in a snapshot: corrections that no mark has followed yet, as Arrow
streams.
"""


class MarkedSinkOperator(SinkOperator):
    """A :class:`SinkOperator` that holds corrections back until a mark follows.

    Where a barrier is no mark, the snapshot has what came since the last one, and nothing of it is committed.
    """

    def __init__(self, context: OperatorContext, sink: Sink) -> None:
        super().__init__(context, sink)
        self._since: list[ArrowBatch] = []

    def open(self) -> None:
        super().open()
        for state in self.context.restored:
            for stored in state.list_state.get(SINCE_MARK, []):
                with pa.ipc.open_stream(stored) as reader:
                    self._since += [ArrowBatch(columns) for columns in reader]

    def process(self, batch: Batch) -> None:
        if isinstance(batch, ArrowBatch) and not self.context.eager:
            self._since.append(batch)
        else:  # a function of rows stands before the sink, or corrections are wanted at once
            super().process(batch)

    def mark(self, mark: Mark) -> None:
        self._write_whole()
        assert self._writer is not None
        with blamed(self.context, "in mark()"):
            self._writer.mark(mark.rows)
        self.next.mark(mark)

    def end_of_data(self) -> None:
        self._write_whole()
        super().end_of_data()

    def _write_whole(self) -> None:
        since, self._since = self._since, []
        for batch in since:
            super().process(batch)

    def snapshot(self, checkpoint: int) -> PendingState | None:
        taken = super().snapshot(checkpoint)
        if not self._since:
            return taken
        assert taken is None or isinstance(taken, ReadyState)
        state = OperatorSubtaskState(self.context.uid) if taken is None else taken.state
        lists = {
            **state.list_state,
            SINCE_MARK: [b"".join(stream_of(batch.columns)) for batch in self._since],
        }
        return ReadyState(msgspec.structs.replace(state, list_state=lists))
