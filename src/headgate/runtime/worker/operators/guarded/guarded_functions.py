"""Functions without keys that go on without the records on which they fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from headgate.api.functions import OutputTag
from headgate.api.on_error import FailedCall
from headgate.graph.logical import FilterNode, FlatMapNode, MapNode, ProcessNode
from headgate.records.batch import Batch, take_times
from headgate.records.row_batch import RowBatch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.worker.operators.guarded.bad_records import BadRecords, Place
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState
from headgate.runtime.worker.operators.outputs import SideBuffer, checked_kind
from headgate.runtime.worker.operators.stateless import ProcessContext
from headgate.state.undo.journal import Journal

Call = Callable[[Any, list[Any]], None]
"""Adds the outputs for a record to a list."""


def _mapped(function: Callable[[Any], Any]) -> Call:
    return lambda row, out: out.append(function(row))


def _filtered(function: Callable[[Any], Any]) -> Call:
    def call(row: Any, out: list[Any]) -> None:
        if function(row):
            out.append(row)

    return call


def _flattened(function: Callable[[Any], Any]) -> Call:
    def call(row: Any, out: list[Any]) -> None:
        found = function(row)
        checked_kind(found, "flat_map()'s function")
        out.extend(found)

    return call


_CALLS: Final = {MapNode: _mapped, FilterNode: _filtered, FlatMapNode: _flattened}


class JournalSide(SideBuffer):
    """Side outputs of which those of a record that fails can be taken back."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal

    def add(self, tag: OutputTag, value: Any, timestamp: int | None, watermark: int | None) -> None:
        super().add(tag, value, timestamp, watermark)
        self._journal.notes.append(partial(self._drop_last, tag.name))

    def _drop_last(self, name: str) -> None:
        for each in self._records[name]:
            each.pop()
        if not self._records[name][0]:
            del self._records[name]


def _nowhere(_index: int, _size: int) -> None:
    return None


class GuardedOperator(Operator):
    """Runs a function of one record for each record, one by one; `node` says which kind and what becomes of
    records on which it fails. `read_at` gives the place in the input of a record of a batch, by its index and
    the batch's size; None: it is not known.
    """

    read_at: Callable[[int, int], Place | None] = staticmethod(_nowhere)

    def __init__(self, context: OperatorContext, node: MapNode | FilterNode | FlatMapNode) -> None:
        super().__init__(context)
        self._journal = Journal()
        self._side = JournalSide(self._journal)
        self._bad = BadRecords(context, node.on_error, self._side)
        self._call: Call = _CALLS[type(node)](node.function)

    def process(self, batch: Batch) -> None:
        self._bad.seen(len(batch))
        out: list[Any] = []
        origins: list[int] = []
        times = None if batch.timestamps is None else batch.timestamps.tolist()
        marks = None if batch.watermarks is None else batch.watermarks.tolist()
        for index, row in enumerate(batch.rows()):
            time, mark = (None, None) if times is None or marks is None else (times[index], marks[index])
            self._journal.begin()
            try:
                self._with(row, time, mark, out)
            except BaseException as error:
                del out[len(origins) :]
                self._journal.undo()
                call = FailedCall(row, error, None, time, timer=False)
                self._bad.met(call, time, mark, self.read_at(index, len(batch)))
            origins.extend([index] * (len(out) - len(origins)))
        if out:
            at = np.array(origins, dtype=np.int64)
            timestamps, watermarks = take_times(batch.timestamps, at), take_times(batch.watermarks, at)
            self.next.process(RowBatch(out, timestamps, watermarks))
        self._side.emit(self)

    def _with(self, row: Any, time: int | None, mark: int | None, out: list[Any]) -> None:
        self._call(row, out)

    def snapshot(self, checkpoint: int) -> PendingState | None:
        self._bad.begin()
        return None

    def measured(self) -> Mapping[str, int]:
        return self._bad.measured()


class GuardedProcess(GuardedOperator):
    """Runs a `ProcessFunction` without operator state on each record."""

    def __init__(self, context: OperatorContext, node: ProcessNode, function: Any) -> None:
        Operator.__init__(self, context)
        self._journal = Journal()
        self._side = JournalSide(self._journal)
        self._bad = BadRecords(context, node.on_error, self._side)
        self._function, self._ctx = function, ProcessContext(self._side)

    def open(self) -> None:
        self._function.open(self.context)

    def _with(self, row: Any, time: int | None, mark: int | None, out: list[Any]) -> None:
        self._ctx.timestamp, self._ctx.watermark = time, mark
        found = self._function.process(row, self._ctx)
        if found is not None:
            checked_kind(found)
            out.extend(found)

    def close(self) -> None:
        self._function.close()
