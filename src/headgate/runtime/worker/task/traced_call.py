"""Gives one traced record to a chain, alone, and notes what becomes of it.

As long as the call lasts something stands between the operators, which counts and measures. So a chain that
gets no traced record is what it is without traces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

from headgate.common.ids import SubtaskId
from headgate.common.refusals.texts import encodable
from headgate.core.marks import Mark
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.runtime.job.user_errors import shorten
from headgate.runtime.protocol.elements import Trace
from headgate.runtime.protocol.visits import Visit, VisitedExchange, VisitedStep
from headgate.runtime.worker.exchange.record_traces import RecordTraces
from headgate.runtime.worker.exchange.traced_output import traced
from headgate.runtime.worker.operators.operator_contract import Operator, Receiver

TEXT_MAX: Final = 200  # characters of a record
EXCHANGES_MAX: Final = 16  # in which a record is followed, that goes to many subtasks


class TracedCall:
    """The visit of a traced record, `batch`, to a subtask whose chain is `operators` from `place` on. `came`
    is the event in front of the record; None: a source has read it.
    """

    def __init__(
        self,
        subtask: SubtaskId,
        operators: Sequence[Operator],
        place: int,
        batch: Batch,
        came: Trace | None,
        traces: RecordTraces,
    ) -> None:
        self._subtask, self._operators, self._batch, self._traces = subtask, operators, batch, traces
        self._began_us, self._number = traces.wall_us(), traces.number()
        self._trace = traces.trace_number() if came is None else came.number
        self._came, self._text = came, _text(batch)
        self._steps = {place: _Step()}  # by the place of the operator in the chain
        self._calls: list[_Step] = []  # the innermost is last
        self._sent: dict[tuple[int, int], VisitedExchange] = {}
        self._first, self._took_us = place, 0

    def run(self, take: Callable[[Batch], int | None]) -> int:
        """Give the record to `take`, which returns how many it has taken (None: all); return that, too."""
        began_us = self._traces.duration_us()
        with ExitStack() as linked:
            for place, operator in enumerate(self._operators):
                if place >= self._first:
                    self._link(place, operator, linked)
            taken = self._measured(self._first, lambda: take(self._batch))
        self._took_us = self._traces.duration_us() - began_us
        return len(self._batch) if taken is None else taken

    def file(self) -> None:
        """Have the visit sent to the job master; called in the loop, once its output is passed on."""
        came = self._came
        sender, way_us = (0, 0) if came is None else (came.sender, max(0, self._began_us - came.sent_us))
        visit = self._trace, self._number, sender, *self._subtask, self._began_us, way_us, self._took_us
        steps = [
            VisitedStep([each.uid for each in contexts], step.own_us, step.records)
            for place, step in self._steps.items()
            for contexts in [self._operators[place].contexts]
        ]
        self._traces.ended(Visit(*visit, self._text, steps, list(self._sent.values())))

    def sent(self, edge: int, receiver: int, waiting: int) -> Trace | None:
        """Note that a record goes into an exchange; implements :class:`Sending`."""
        if (edge, receiver) in self._sent or len(self._sent) >= EXCHANGES_MAX:
            return None
        self._sent[edge, receiver] = VisitedExchange(edge, receiver, waiting)
        return Trace(self._trace, self._number, self._traces.wall_us())

    def _link(self, place: int, operator: Operator, linked: ExitStack) -> None:
        last = place + 1 == len(self._operators)
        before, sides = operator.next, dict(operator.side_outputs)
        operator.next = _Link(self, place, before, None if last else place + 1)
        for tag, side in sides.items():
            operator.side_outputs[tag] = _Link(self, place, side, None)

        def restore() -> None:
            operator.next = before
            operator.side_outputs.update(sides)

        linked.callback(restore)

    def passed(self, place: int, batch: Batch, receiver: Receiver, then: int | None) -> None:
        """Note that a batch came out of the operator at `place`, and give it to `receiver`: the operator at
        place `then`, or outputs.
        """
        step = self._steps.get(place)
        if step is None:  # the operator has not got the record: it emits as event time has moved
            receiver.process(batch)
            return
        step.records += len(batch)
        if then is None:
            traced(receiver, batch, self)
        else:
            self._measured(then, lambda: receiver.process(batch))

    def _measured(self, place: int, call: Callable[[], int | None]) -> int | None:
        step = self._steps.setdefault(place, _Step())
        began_us = self._traces.duration_us()
        self._calls.append(step)
        try:
            return call()
        finally:
            self._calls.pop()
            took_us = self._traces.duration_us() - began_us
            step.own_us += took_us
            if self._calls:
                self._calls[-1].own_us -= took_us


class _Step:
    __slots__ = ("own_us", "records")

    def __init__(self) -> None:
        self.own_us = self.records = 0


class _Link:
    """Stands before a receiver while a traced record is in the chain."""

    __slots__ = ("_call", "_place", "_receiver", "_then")

    def __init__(self, call: TracedCall, place: int, receiver: Receiver, then: int | None) -> None:
        self._call, self._place, self._receiver, self._then = call, place, receiver, then

    def process(self, batch: Batch) -> None:
        self._call.passed(self._place, batch, self._receiver, self._then)

    def watermark(self, timestamp: int) -> None:
        self._receiver.watermark(timestamp)

    def idle(self) -> None:
        self._receiver.idle()

    def mark(self, mark: Mark) -> None:
        self._receiver.mark(mark)

    def end_of_data(self) -> None:
        self._receiver.end_of_data()


def _text(batch: Batch) -> str:
    # What no operator turns into objects of Python may not be possible as such: a year 10,000, no UTF-8.
    try:
        rows = batch.columns.to_pylist() if isinstance(batch, ArrowBatch) else batch.rows()
        return encodable(str.__str__(shorten(rows[0], TEXT_MAX)))
    except Exception as error:
        return f"(a record without text: {type(error).__name__})"
