"""Operators without keyed state: selection of columns, process functions and sinks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np

from headgate.api.broadcast import BroadcastProcessFunction
from headgate.api.functions import OutputTag, ProcessFunction
from headgate.api.sink import Sink, SinkWriter, SinkWriterContext
from headgate.common.plain_data import Plain
from headgate.common.process.children import OwnProcess
from headgate.metrics.of_parts import PENDING_COMMITS
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch, take_times
from headgate.records.row import make_row
from headgate.records.row_batch import RowBatch, field_getter
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.job.user_errors import blamed, user_error
from headgate.runtime.worker.operators.function_state import FunctionState
from headgate.runtime.worker.operators.operator_contract import (
    Operator,
    PendingState,
    R,
    ReadyState,
    StateTypes,
)
from headgate.runtime.worker.operators.outputs import SideBuffer, checked_kind
from headgate.runtime.worker.operators.wrong_use import with_event_time_hint
from headgate.state.snapshots import OperatorSubtaskState

_PENDING_COMMITS: Final = PENDING_COMMITS.at()


class SelectOperator(Operator):
    """Keeps the named columns of each record; columnar batches stay columnar, rows become `Row` objects.
    Raises UsageError if a record lacks one of them.
    """

    def __init__(self, context: OperatorContext, columns: tuple[str, ...]) -> None:
        super().__init__(context)
        self._columns = columns

    def process(self, batch: Batch) -> None:
        if isinstance(batch, ArrowBatch):
            for name in self._columns:
                batch.field(name)
            picked = batch.columns.select(list(self._columns))
            self.next.process(ArrowBatch(picked, batch.timestamps, batch.watermarks))
            return
        rows = batch.rows()
        getter = field_getter(self._columns, rows[0])
        records = [make_row(self._columns, getter(row)) for row in rows]
        self.next.process(RowBatch(records, batch.timestamps, batch.watermarks))


class ProcessContext:
    """The context of a process function without keys: timestamp and watermark of its record (ms; None: none).
    One object for all records of a subtask, changed from record to record.
    """

    __slots__ = ("_side", "timestamp", "watermark")

    def __init__(self, side: SideBuffer) -> None:
        self.timestamp: int | None = None
        self.watermark: int | None = None
        self._side = side

    def side_output(self, tag: OutputTag, value: R) -> None:
        self._side.add(tag, value, self.timestamp, self.watermark)


class ProcessOperator(Operator):
    """Runs a `ProcessFunction` (`api.functions`) on each record, with its operator state.
    Errors of the function are raised as UserFunctionError, with the record.
    """

    _state_type: type[FunctionState] = FunctionState

    def __init__(
        self, context: OperatorContext, function: ProcessFunction | BroadcastProcessFunction
    ) -> None:
        super().__init__(context)
        self._function = function
        self._side = SideBuffer()
        self._ctx = ProcessContext(self._side)

    def open(self) -> None:
        self._state = self._state_type(self.context, self._function)
        self._function.open(self.context)

    def process(self, batch: Batch) -> None:
        self._call(batch, self._function.process)

    def _call(self, batch: Batch, call: Callable[[R, ProcessContext], Iterable[R] | None]) -> None:
        out: list[R] = []
        origins: list[int] = []
        times = None if batch.timestamps is None else batch.timestamps.tolist()
        marks = None if batch.watermarks is None else batch.watermarks.tolist()
        ctx, row, known = self._ctx, None, None
        ctx.timestamp = ctx.watermark = None
        try:
            for index, row in enumerate(batch.rows()):
                if times is not None and marks is not None:
                    ctx.timestamp, ctx.watermark = times[index], marks[index]
                result = call(row, ctx)
                if result is not None:
                    if result.__class__ is not known:
                        known = checked_kind(result)
                    out.extend(result)
                    origins.extend([index] * (len(out) - len(origins)))
        except BaseException as error:
            with_event_time_hint(error, ctx.timestamp)
            raise user_error(self.context, error, row) from None
        if out:
            at = np.array(origins, dtype=np.int64)
            timestamps, watermarks = take_times(batch.timestamps, at), take_times(batch.watermarks, at)
            self.next.process(RowBatch(out, timestamps, watermarks))
        self._side.emit(self)

    def snapshot(self, checkpoint: int) -> PendingState | None:
        return self._state.snapshot(None)

    def state_types(self) -> StateTypes:
        return self._state.state_types()

    def close(self) -> None:
        self._function.close()


class SinkOperator(Operator):
    """The end of a chain: writes records with a sink's writer.

    Prepared output stays here, and is in every snapshot, until a checkpoint that holds it is complete:
    otherwise an aborted checkpoint would lose it.
    """

    def __init__(self, context: OperatorContext, sink: Sink) -> None:
        super().__init__(context)
        self._sink = sink
        self._writer: SinkWriter | None = None
        self._process = OwnProcess()
        self._unconfirmed: list[tuple[int, list[Plain]]] = []

    def open(self) -> None:
        where = self.context
        restored = [entry for state in where.restored for entry in state.list_state.get("writer", [])]
        tell = where.tell and functools.partial(where.tell, where.uid, where.subtask)
        place = where.uid, where.subtask, where.parallelism, where.attempt, where.job, where.generation
        context = SinkWriterContext(*place, tell)
        self._writer = self._sink.create_writer(context, restored)
        self._write, self._columns = self._writer.write, self._writer.accepts_columns

    def process(self, batch: Batch) -> None:
        self._process.end_if_child()  # a forked child must not write its parent's records again
        with blamed(self.context, "in write()"):
            if self._columns and isinstance(batch, ArrowBatch):
                self._write(batch.columns)
            else:
                self._write(batch.rows())
        # No receiver gets it, but written records are counted there. Events pass, too: side outputs from the
        # middle of the chain get them from its end.
        self.next.process(batch)

    def snapshot(self, checkpoint: int) -> PendingState | None:
        """Prepare output for commit, and return all output that is not committed, and the writer's state.
        None if there is neither. The job master commits the output once the checkpoint is complete.
        """
        assert self._writer is not None
        with blamed(self.context, f"for checkpoint {checkpoint}"):
            prepared = list(self._writer.prepare_commit_at(checkpoint))
            written = list(self._writer.snapshot())
        if prepared:
            self._unconfirmed.append((checkpoint, prepared))
        if not self._unconfirmed and not written:
            return None
        committables = [entry for _, entries in self._unconfirmed for entry in entries]
        lists = {"writer": written} if written else {}
        return ReadyState(OperatorSubtaskState(self.context.uid, None, lists, committables))

    def measured(self) -> Mapping[str, int]:
        return {_PENDING_COMMITS: sum(len(entries) for _, entries in self._unconfirmed)}

    def checkpoint_complete(self, checkpoint: int) -> None:
        self._unconfirmed = [entry for entry in self._unconfirmed if entry[0] > checkpoint]

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
