"""A subtask fed by other subtasks: input gate, barriers, and event time over several channels.

A barrier that arrives goes through the gate to its barrier handler (`core.alignment`), whose effects
`_perform` carries out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller

from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.checkpointed_gate import CheckpointedInputGate, Clocks, Kind
from headgate.core.alignment.handler_contract import BarrierHandler, CompleteCapture, Effect, TriggerSnapshot
from headgate.core.credit import ReceiverCredit
from headgate.core.watermarks import WatermarkValve
from headgate.graph.logical import Side
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.elements import CancelMarker, EndOfData, Event, Idle, Mark, Trace, Watermark
from headgate.runtime.worker.exchange.output import EdgeEnds
from headgate.runtime.worker.in_flight.gathering import InFlightCapture, StreamKey
from headgate.runtime.worker.in_flight.recovered import RecoveredInput, in_step
from headgate.runtime.worker.snapshot.snapshot_taker import stream_of
from headgate.runtime.worker.snapshot.snapshot_writer import BarrierMetrics
from headgate.runtime.worker.task.task import Reading, Task, TaskParts, earliest, own

_BATCHES = (RowBatch, ArrowBatch)

ELEMENTS_MAX = 32
"""A step takes so many batches and events at most, and as many as `execution.step-target` has time for."""


class InputChannel:
    """The receiving end of one channel: counts received frames, and returns credit to the sender.
    `return_credit` grants so many frames; `withheld`: the sender has no credit before :meth:`admit`.
    """

    __slots__ = ("_return_credit", "credit", "ends", "sender", "side")

    def __init__(
        self,
        credit_initial: int,
        return_credit: Callable[[int], None],
        ends: EdgeEnds,  # identity of the exchange in a checkpoint
        sender: int,  # the sending subtask
        side: Side = Side.MAIN,  # the operator's input that its records are for
        *,
        withheld: bool = False,
    ) -> None:
        self.credit = ReceiverCredit(credit_initial, withheld=withheld)  # how many frames are owed
        self._return_credit = return_credit
        self.ends, self.sender, self.side = ends, sender, side

    def consumed(self) -> None:
        """Count a received frame as processed; grant credit once half of all is owed, or no frame waits."""
        self._give(self.credit.consumed())

    def admit(self) -> None:
        """Grant the withheld initial credit to the sender, so that it may begin."""
        self._give(self.credit.release())

    def _give(self, frames: int) -> None:
        if frames:
            self._return_credit(frames)


class GateTask(Task):
    """A subtask that reads from channels; an input gate aligns barriers, or lets them overtake records.
    `channels` are in the order of their indexes (from 0); `handler` decides when to take a snapshot.
    """

    def __init__(self, parts: TaskParts, channels: Sequence[InputChannel], handler: BarrierHandler) -> None:
        super().__init__(parts)
        self.channels = channels
        self._valve = WatermarkValve(len(channels))
        self._gate: CheckpointedInputGate[Batch | Event] = CheckpointedInputGate(
            len(channels), handler, _kind_of, methodcaller("nbytes"), self._valve.position
        )
        self._open = set(range(len(channels)))
        self._metrics = BarrierMetrics(0.0, 0.0, False)
        self._level = 0
        self._draining = False
        self._came_traced: dict[int, Trace] = {}  # by channel, for its next batch
        if self._recovered is not None:
            self._recovered.wait_for((channel.ends.sender, channel.ends.tag) for channel in channels)

    def open(self) -> None:
        # Senders begin now, unless restored in-flight records come first.
        super().open()
        if self._recovered is None:
            self._admit()

    def _admit(self) -> None:
        for channel in self.channels:
            channel.admit()

    def deliver(self, channel: int, element: Batch | Event) -> None:
        """Put a batch or event that arrived on input channel `channel` (index from 0) into the gate.
        It is processed in a later step. Raises InternalError if the sender had no credit for a batch.
        """
        if isinstance(element, _BATCHES):
            self.channels[channel].credit.received()
        if self._times.idle or (self._reading is None and not self._has_more()):
            self._times.arrived()
        self._gate.put(channel, element)

    def _has_more(self) -> bool:
        return self._gate.available or self._runner.away or self.head.busy

    def _poll_barriers(self) -> bool:
        worked = super()._poll_barriers()
        self._pass_captured()
        due = self._gate.next_timeout()
        # All are announced before any is read: captured records belong to one checkpoint at a time.
        while self._gate.urgent or (due is not None and self.clock.precise_ms() > due):
            self._perform(self._gate.announce(self._clocks()))
            self._pass_captured()
            due, worked = None, True
        while self._gate.control_waits and self._may_take_only_events():
            if (polled := self._gate.poll(self._clocks(), only_control=True)) is None:
                break
            self._perform(polled[2])
            self._pass_captured()
            worked = True
        return worked

    def _may_take_only_events(self) -> bool:
        if self._recovered is not None or self._reading is not None or self._draining:
            return False
        return self.head.busy or self.head.waits or not self.outputs.available

    def _clocks(self) -> Clocks:
        return Clocks(self.clock.now_ms(), self.clock.precise_ms())

    def _barrier_timeout(self) -> int | None:
        held, due = super()._barrier_timeout(), self._gate.next_timeout()
        return held if due is None or self._runner.away else earliest(held, int(due) + 1)

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, TriggerSnapshot):
                self._snapshot_when_drained(effect)
            elif isinstance(effect, CompleteCapture):
                self._pass_captured()
                self._note_metrics(effect.alignment_ms)
                self.snapshots.inputs_complete(effect.checkpoint)
            else:
                self.snapshots.decline(effect.checkpoint, effect.reason)

    def _snapshot_when_drained(self, effect: TriggerSnapshot) -> None:
        def drained() -> None:
            self._draining = False
            self._take_snapshot(effect)

        if not effect.barrier.drains:
            self._take_snapshot(effect)
            return
        self._draining = True
        self._when_no_timer_is_due(drained)

    def _take_snapshot(self, effect: TriggerSnapshot) -> None:
        unaligned = effect.barrier.overtakes
        self._metrics = BarrierMetrics(effect.start_delay_ms, effect.alignment_ms, unaligned)
        self._note_metrics(effect.alignment_ms)
        take = self._take_inputs if unaligned else None
        self.snapshots.take(effect.barrier, self._metrics, self.records, self.ended, take)

    def _note_metrics(self, alignment_ms: float) -> None:
        metrics, gate = self._metrics, self._gate
        metrics.alignment_ms, metrics.bytes_processed = alignment_ms, gate.bytes_processed
        if gate.last_channel is not None:
            channel = self.channels[gate.last_channel]
            metrics.slowest_channel = f"{channel.ends.sender}[{channel.sender}]"

    def aborted(self, checkpoint: int) -> None:
        self._gate.abort(checkpoint)
        super().aborted(checkpoint)

    def _take_inputs(self, capture: InFlightCapture) -> None:
        # If restored in-flight records are still to come, live records have the level above theirs.
        self._level = 0 if self._recovered is None else self._recovered.levels()
        self._take_recovered(capture)
        for index in range(len(self.channels)):
            mark, idle = self._valve.position(index)
            capture.begin(self._key(index), None if self._recovered is not None else mark, idle)
        reading = self._reading
        if reading is not None and reading.channel is not None:
            key = self._key(reading.channel)
            capture.add(key, reading.remainder())
            if reading.watermark is not None:
                capture.add(key, Watermark(reading.watermark))
        self._pass_captured()

    def _pass_captured(self) -> None:
        for channel, element in self._gate.take_captured():
            capture = self.snapshots.capture
            if capture is not None and not isinstance(element, EndOfData | Mark | Trace):
                capture.add(self._key(channel), element)

    def _key(self, channel: int) -> StreamKey:
        end = self.channels[channel]
        return stream_of(end.ends, end.sender, self.id.subtask, level=self._level)

    def _recovery_done(self, recovered: RecoveredInput) -> None:
        names = [(end.ends.sender, end.ends.tag, end.sender) for end in self.channels]
        for index, (mark, idle) in enumerate(recovered.seeds(names)):
            self._valve.seed(index, mark, idle)
        self._admit()

    def _input_waits(self) -> bool:
        return self._gate.available

    def _take_input(self) -> bool:
        # Small batches and events come one after the other in a step. With one in each turn of the loop, more
        # of them could arrive than are taken, although the loop had time for all.
        until = self.clock.precise_ms() + self.budget.target_ms
        for taken in range(ELEMENTS_MAX):
            if not self._take_element():
                return taken > 0
            if self.clock.precise_ms() >= until or not self._may_take_more():
                break
        return True

    def _may_take_more(self) -> bool:
        """Return whether nothing is due but the next element of the input."""
        head = self.head
        waits = head.busy or head.waits or self._waiting or self._draining or self._reading is not None
        if waits or self.ended or self._ending or self._gate.urgent or not self._free():
            return False
        timer = self.next_processing_time()
        return timer is None or timer > self.clock.now_ms()

    def _take_element(self) -> bool:
        polled = self._gate.poll(self._clocks())
        if polled is None:
            return False
        channel, element, effects = polled
        if isinstance(element, _BATCHES):
            self._begin(channel, element)
        else:
            self._event(channel, element)
        if effects:  # a snapshot is of the state after the element
            self._runner.when_back(lambda: self._perform_and_pass(effects))
        return True

    def _perform_and_pass(self, effects: list[Effect]) -> None:
        self._perform(effects)
        self._pass_captured()

    def _begin(self, channel: int, batch: Batch) -> None:
        if self.snapshots.unstored(batch):
            batch = own(batch)
        watermark = None
        if batch.watermarks is not None and len(self.channels) > 1:
            watermark = int(batch.watermarks[-1])
            batch = in_step(batch, batch.watermarks, self._valve, channel)
        self._reading = Reading(batch, 0, channel, watermark, self.channels[channel].side)
        if self._came_traced:
            self._reading.trace = self._came_traced.pop(channel, None)
        self._process(self._reading)

    def _batch_done(self, reading: Reading) -> None:
        if reading.channel is None:
            super()._batch_done(reading)
            return
        if reading.watermark is not None:
            # The records carried event time with them; the event that reports it to the operators follows.
            self._valve.advance(reading.channel, reading.watermark)
        self.channels[reading.channel].consumed()

    def _event(self, channel: int, event: Batch | Event) -> None:
        if isinstance(event, Watermark):
            self._advance(self._valve.advance(channel, event.timestamp))
        elif isinstance(event, EndOfData):
            self._open.discard(channel)
            if not self._open:
                self.end()
        elif isinstance(event, Trace):
            self._came_traced[channel] = event
        elif isinstance(event, Idle):
            self._advance(self._valve.idle(channel))
            if self._valve.is_idle():
                self._runner.when_back(
                    lambda: self._when_no_timer_is_due(lambda: self._invoke(self.head.idle))
                )


def _kind_of(element: Batch | Event) -> Kind:
    if isinstance(element, _BATCHES):
        return Kind.RECORDS
    if isinstance(element, Barrier):
        return Kind.BARRIER
    return Kind.CANCEL if isinstance(element, CancelMarker) else Kind.OTHER
