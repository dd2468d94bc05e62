"""Records on their way in and results on their way out, with their event time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from headgate.common.time import WATERMARK_MIN
from headgate.core.async_requests import Request
from headgate.core.async_results import Border
from headgate.core.marks import Mark
from headgate.records.batch import Batch
from headgate.records.detach import detached
from headgate.records.row_batch import RowBatch
from headgate.runtime.worker.operators.operator_contract import R, Receiver


class InFlight(NamedTuple):
    """A record in flight; calls are given copies of it, so that nobody changes what a checkpoint holds."""

    record: Any
    timestamp: int | None  # event time; None: the stream has none
    watermark: int | None  # before the record; None: there is none, or the record was restored


def in_flight_of(batch: Batch) -> Iterable[InFlight]:
    """Return the records of a batch, each with its event time."""
    times, marks = batch.timestamps, batch.watermarks
    if times is None or marks is None:
        return map(InFlight, batch.rows(), repeat(None), repeat(None))
    return map(InFlight, batch.rows(), times.tolist(), marks.tolist())


def copied(record: R) -> Any:
    """Return a record for a call to keep: itself if nobody can change it, else a deep copy."""
    return detached(RowBatch([record])).records[0]


class Leaving:
    """Passes results on in batches, and between them what must not be crossed.

    In order, each result has the watermark that was before its record. Not in order, results of one stretch
    between two watermarks have the one before the stretch.
    """

    def __init__(self, receiver: Receiver, *, ordered: bool) -> None:
        self._receiver, self._ordered = receiver, ordered
        self._watermark = WATERMARK_MIN
        self._outputs: list[Any] = []
        self._times: list[int] = []
        self._marks: list[int] = []

    def all_of(self, take: Callable[[], Request[InFlight] | Border | None]) -> None:
        """Pass on all that `take` gives, until it gives None."""
        while (taken := take()) is not None:
            if isinstance(taken, Border):
                self._emit()
                self._pass_on(taken.event)
            else:
                self._add(taken.record, taken.results)
        self._emit()

    def _add(self, origin: InFlight, outputs: list[Any]) -> None:
        timed = origin.timestamp is not None
        if self._outputs and timed != bool(self._times):
            self._emit()
        self._outputs += outputs
        if origin.timestamp is not None:
            before = origin.watermark if self._ordered else None
            self._times += [origin.timestamp] * len(outputs)
            self._marks += [self._watermark if before is None else before] * len(outputs)

    def _emit(self) -> None:
        if not self._outputs:
            return
        outputs, times, marks = self._outputs, self._times, self._marks
        self._outputs, self._times, self._marks = [], [], []
        if times:
            of_time = np.array(times, dtype=np.int64), np.array(marks, dtype=np.int64)
            self._receiver.process(RowBatch(outputs, *of_time))
        else:
            self._receiver.process(RowBatch(outputs))

    def _pass_on(self, event: int | Mark | None) -> None:
        if event is None:
            self._receiver.idle()
        elif isinstance(event, Mark):
            self._receiver.mark(event)
        else:
            self._watermark = event
            self._receiver.watermark(event)
