"""A subtask fed by other subtasks: input gate, alignment, event time over several channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from headgate.core.alignment.aligned import AbortSnapshot, AlignedBarrierHandler, Effect, TriggerSnapshot
from headgate.core.credit import ReceiverCredit
from headgate.core.input_gate import InputGate
from headgate.core.watermarks import WatermarkValve
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.elements import Barrier, CancelMarker, EndOfData, Idle, Watermark
from headgate.runtime.task import Task


class InputChannel:
    """The receiving end of one channel: counts credit and gives it back."""

    __slots__ = ("_return_credit", "credit")

    def __init__(self, credit_initial: int, return_credit: Callable[[int], None]) -> None:
        self.credit = ReceiverCredit(credit_initial)
        self._return_credit = return_credit

    def consumed(self) -> None:
        """One frame is used up."""
        frames = self.credit.consumed()
        if frames:
            self._return_credit(frames)


class GateTask(Task):
    """A subtask that reads from channels."""

    def __init__(self, *args: Any, channels: list[InputChannel]) -> None:
        super().__init__(*args)
        self.channels = channels
        self._gate = InputGate(len(channels), _is_batch)
        self._handler = AlignedBarrierHandler(len(channels))
        self._valve = WatermarkValve(len(channels))
        self._open = set(range(len(channels)))
        self._batch: Batch | None = None
        self._channel = self._cursor = 0
        self._last_mark: int | None = None
        self._barrier = Barrier(0, 0)
        self._start_delay_ms = 0.0

    def deliver(self, channel: int, element: Any) -> None:
        """An element arrived on a channel."""
        if _is_batch(element):
            self.channels[channel].credit.received()
        self._gate.put(channel, element)

    def step(self) -> bool:
        """Process part of a batch, or one event."""
        if self._batch is None and not self._gate.available:
            return False
        if not self.outputs.available:
            self.pace.blocked()
            return False
        if self._batch is None:
            polled = self._gate.poll()
            assert polled is not None
            channel, element = polled
            if not _is_batch(element):
                self._event(channel, element)
                self.outputs.note_step(self.host.clock.monotonic_ms())
                return True
            self._begin(channel, element)
        self._go_on()
        self.outputs.note_step(self.host.clock.monotonic_ms())
        return True

    def _begin(self, channel: int, batch: Batch) -> None:
        """A batch from a channel; its records are late or not by all channels' time."""
        self._channel, self._cursor = channel, 0
        self._last_mark = None
        if batch.watermarks is not None and len(self.channels) > 1:
            self._last_mark = int(batch.watermarks[-1])
            bound = self._valve.bound_by_others(channel)
            marks = np.clip(batch.watermarks, self._valve.combined, None)
            marks = np.minimum(marks, max(bound, self._valve.combined))
            batch = _owned(batch, marks)
        self._batch = batch

    def _go_on(self) -> None:
        batch = self._batch
        assert batch is not None
        start = self._cursor
        stop = min(len(batch), start + self.pace.records)
        with self.pace.step() as step:
            step.records = stop - start
            self.head.process(batch.slice(start, stop))
        self.records_in += stop - start
        self._cursor = stop
        if stop == len(batch):
            self._batch = None
            if self._last_mark is not None:
                # The records carried time with them; the event that tells everybody follows.
                self._valve.advance(self._channel, self._last_mark)
            self.channels[self._channel].consumed()

    def _event(self, channel: int, event: Any) -> None:
        kind = type(event)
        if kind is Watermark:
            self._advance(self._valve.advance(channel, event.timestamp))
        elif kind is Barrier:
            self._on_barrier(channel, event)
        elif kind is EndOfData:
            self._open.discard(channel)
            if not self._open:
                self.end()
        elif kind is Idle:
            self._advance(self._valve.idle(channel))
            if self._valve.is_idle():
                self.head.idle()
        elif kind is CancelMarker:
            self._perform(self._handler.cancel(event.checkpoint))

    def _advance(self, watermark: int) -> None:
        if watermark > self.watermark:
            self.watermark = watermark
            with self.pace.step():
                self.head.watermark(watermark)

    def _on_barrier(self, channel: int, barrier: Barrier) -> None:
        if barrier.checkpoint > self._handler.current:
            self._barrier = barrier
            self._start_delay_ms = max(0.0, self.host.clock.now_ms() - barrier.trigger_ms)
        self._perform(self._handler.barrier(channel, barrier.checkpoint, self.host.clock.monotonic_ms()))

    def _perform(self, effects: list[Effect]) -> None:
        self._gate.set_blocked(self._handler.blocked)
        for effect in effects:
            if isinstance(effect, TriggerSnapshot):
                self.draw(self._barrier, self._start_delay_ms, effect.alignment_ms)
            elif isinstance(effect, AbortSnapshot):
                self.outputs.cancel(CancelMarker(effect.checkpoint))
                self.host.checkpoint_declined(self.id, effect.checkpoint, effect.reason)


def _is_batch(element: Any) -> bool:
    return isinstance(element, (RowBatch, ArrowBatch))


def _owned(batch: Any, marks: Any) -> Batch:
    timed: Batch = batch.with_times(batch.timestamps, marks)
    return timed
