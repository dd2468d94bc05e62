"""A subtask fed by other subtasks: input gate, barriers, event time over several channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headgate.common.ids import SubtaskId
from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.gate import CheckpointedInputGate, Clocks, Kind
from headgate.core.alignment.handler import BarrierHandler, CompleteCapture, Effect, TriggerSnapshot
from headgate.core.credit import ReceiverCredit
from headgate.core.watermarks import WatermarkValve
from headgate.graph.logical import Side
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.elements import CancelMarker, EndOfData, Event, Idle, Watermark
from headgate.runtime.worker.exchange.output import EdgeEnds, Outputs
from headgate.runtime.worker.in_flight.gathering import InFlightCapture, StreamKey
from headgate.runtime.worker.in_flight.recovered import RecoveredInput
from headgate.runtime.worker.operators.operator_contract import Operator
from headgate.runtime.worker.snapshot.finishing import AttemptServices
from headgate.runtime.worker.snapshot.taken_snapshot import BarrierMetrics
from headgate.runtime.worker.task.chain_runner import ChainRunner, InLoop
from headgate.runtime.worker.task.step_budget import StepBudget
from headgate.runtime.worker.task.task import Reading, Task, own

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

_BATCHES = (RowBatch, ArrowBatch)


class InputChannel:
    """The receiving end of one channel: counts credit and gives it back.

    Attributes:
        ends: what the exchange is called in a checkpoint.
        sender: the sending subtask.
        side: which input of the operator its records are for.
    """

    __slots__ = ("_return_credit", "credit", "ends", "sender", "side")

    def __init__(
        self,
        credit_initial: int,
        return_credit: Callable[[int], None],
        ends: EdgeEnds,
        sender: int,
        side: Side = Side.MAIN,
        *,
        withheld: bool = False,
    ) -> None:
        self.credit = ReceiverCredit(credit_initial, withheld=withheld)  # how many frames are owed
        self._return_credit = return_credit
        self.ends, self.sender, self.side = ends, sender, side

    def consumed(self) -> None:
        """One frame is used up."""
        self._give(self.credit.consumed())

    def admit(self) -> None:
        """The sender may begin."""
        self._give(self.credit.release())

    def _give(self, frames: int) -> None:
        if frames:
            self._return_credit(frames)


class GateTask(Task):
    """A subtask that reads from channels."""

    def __init__(
        self,
        subtask: SubtaskId,
        operators: Sequence[Operator],
        outputs: Outputs,
        services: AttemptServices,
        step_target_ms: int,
        recovered: RecoveredInput | None = None,
        runner: Callable[[StepBudget], ChainRunner] = InLoop,
        *,
        channels: Sequence[InputChannel],  # their receiving ends
        handler: BarrierHandler,  # decides about barriers
    ) -> None:
        super().__init__(subtask, operators, outputs, services, step_target_ms, recovered, runner)
        self.channels = channels
        self._gate: CheckpointedInputGate[Any] = CheckpointedInputGate(
            len(channels), handler, _kind_of, _size_of
        )
        self._valve = WatermarkValve(len(channels))
        self._open = set(range(len(channels)))
        self._metrics = BarrierMetrics(0.0, 0.0, False)
        self._level = 0
        self._draining = False

    def open(self) -> None:
        """See :class:`Task`; senders may begin, unless restored records come first."""
        super().open()
        if self._recovered is None:
            self._admit()

    def _admit(self) -> None:
        for channel in self.channels:
            channel.admit()

    def deliver(self, channel: int, element: Batch | Event) -> None:
        """An element arrived on a channel."""
        if isinstance(element, _BATCHES):
            self.channels[channel].credit.received()
        self._gate.put(channel, element)

    # -- barriers --------------------------------------------------------------------------------

    def _attend(self) -> bool:
        """Barriers do not wait for credit, nor for timers that are still to fire."""
        worked = super()._attend()
        self._pass_captured()
        due = self._gate.next_timeout()
        # All are announced before any is read: what is captured belongs to one checkpoint at a time.
        while self._gate.urgent or (due is not None and self.clock.precise_ms() > due):
            self._perform(self._gate.announce(self._clocks()))
            self._pass_captured()
            due, worked = None, True
        while self._gate.control_waits and self._may_pass_events_only():
            if (polled := self._gate.poll(self._clocks(), only_control=True)) is None:
                break
            self._perform(polled[2])
            self._pass_captured()
            worked = True
        return worked

    def _may_pass_events_only(self) -> bool:
        if self._recovered is not None or self._reading is not None or self._draining:
            return False
        return self.head.busy or not self.outputs.available

    def _clocks(self) -> Clocks:
        clock = self.clock
        return Clocks(clock.now_ms(), clock.precise_ms())

    def _barrier_timeout(self) -> int | None:
        held, due = super()._barrier_timeout(), self._gate.next_timeout()
        if due is None or self._runner.away:
            return held
        return int(due) + 1 if held is None else min(held, int(due) + 1)

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
        """Barriers pass between the slices of firing timers, but for one that all of them come before."""
        if not effect.barrier.drains:
            self._take_snapshot(effect)
            return
        self._draining = True
        self._when_free(lambda: self._drained(effect))

    def _drained(self, effect: TriggerSnapshot) -> None:
        self._draining = False
        self._take_snapshot(effect)

    def _take_snapshot(self, effect: TriggerSnapshot) -> None:
        unaligned = effect.barrier.overtakes
        self._metrics = BarrierMetrics(effect.start_delay_ms, effect.alignment_ms, unaligned)
        self._note_metrics(effect.alignment_ms)
        take = self._take_inputs if unaligned else None
        self.snapshots.take(effect.barrier, self._metrics, self.counters(), self.ended, take)

    def _note_metrics(self, alignment_ms: float) -> None:
        metrics, gate = self._metrics, self._gate
        metrics.alignment_ms, metrics.bytes_processed = alignment_ms, gate.bytes_processed
        if gate.last_channel is not None:
            channel = self.channels[gate.last_channel]
            metrics.slowest_channel = f"{channel.ends.sender}[{channel.sender}]"

    def aborted(self, checkpoint: int) -> None:
        """See :class:`Task`."""
        self._gate.abort(checkpoint)
        super().aborted(checkpoint)

    # -- records in flight -----------------------------------------------------------------------

    def _take_inputs(self, capture: InFlightCapture) -> None:
        """Everything that has arrived and is not processed, channel by channel, in order."""
        # Where restored records are still to come, the live ones have a level above theirs.
        self._level = 0 if self._recovered is None else self._recovered.levels()
        self._take_recovered(capture)
        for index in range(len(self.channels)):
            mark, idle = self._valve.position(index)
            capture.begin(self._key(index), None if self._recovered is not None else mark, idle)
        reading = self._reading
        if reading is not None and reading.channel is not None:
            key = self._key(reading.channel)
            capture.add(key, reading.remainder())
            if reading.mark is not None:
                capture.add(key, Watermark(reading.mark))
        self._pass_captured()

    def _pass_captured(self) -> None:
        for channel, element in self._gate.take_captured():
            capture = self.snapshots.capture
            if capture is not None and not isinstance(element, EndOfData):
                capture.add(self._key(channel), element)

    def _key(self, channel: int) -> StreamKey:
        end = self.channels[channel]
        return StreamKey(
            receiver=end.ends.receiver,
            sender=end.ends.sender,
            tag=end.ends.tag,
            sender_subtask=end.sender,
            receiver_subtask=self.id.subtask,
            level=self._level,
            lineage=end.ends.lineage,
            from_output=False,
        )

    def _recovery_over(self, recovered: RecoveredInput) -> None:
        names = [(end.ends.sender, end.ends.tag, end.sender) for end in self.channels]
        for index, (mark, idle) in enumerate(recovered.seeds(names)):
            self._valve.seed(index, mark, idle)
        self._admit()

    # -- input -----------------------------------------------------------------------------------

    def _input_waits(self) -> bool:
        return self._gate.available

    def _take_input(self) -> bool:
        polled = self._gate.poll(self._clocks())
        if polled is None:
            return False
        channel, element, effects = polled
        if isinstance(element, _BATCHES):
            self._begin(channel, element)
        else:
            self._event(channel, element)
        if effects:  # a snapshot is of the state behind the element
            self._runner.when_back(lambda: self._followed_by(effects))
        return True

    def _followed_by(self, effects: list[Effect]) -> None:
        self._perform(effects)
        self._pass_captured()

    def _begin(self, channel: int, batch: Batch) -> None:
        """A batch from a channel; its records are late or not by all channels' time."""
        if self.snapshots.unstored(batch):
            batch = own(batch)
        mark = None
        if batch.watermarks is not None and len(self.channels) > 1:
            mark = int(batch.watermarks[-1])
            bound = self._valve.bound_by_others(channel)
            combined = self._valve.combined
            marks = np.minimum(np.maximum(batch.watermarks, combined), max(bound, combined))
            batch = _marked(batch, marks)
        self._reading = Reading(batch, 0, channel, mark, self.channels[channel].side)
        self._process(self._reading)

    def _batch_done(self, reading: Reading) -> None:
        if reading.channel is None:
            super()._batch_done(reading)
            return
        if reading.mark is not None:
            # The records carried time with them; the event that tells everybody follows.
            self._valve.advance(reading.channel, reading.mark)
        self.channels[reading.channel].consumed()

    def _event(self, channel: int, event: Event) -> None:
        if isinstance(event, Watermark):
            self._advance(self._valve.advance(channel, event.timestamp))
        elif isinstance(event, EndOfData):
            self._open.discard(channel)
            if not self._open:
                self.end()
        elif isinstance(event, Idle):
            self._advance(self._valve.idle(channel))
            if self._valve.is_idle():
                self._runner.when_back(lambda: self._when_free(lambda: self._invoke(self.head.idle)))


def _kind_of(element: Batch | Event) -> Kind:
    if isinstance(element, _BATCHES):
        return Kind.RECORDS
    if isinstance(element, Barrier):
        return Kind.BARRIER
    return Kind.CANCEL if isinstance(element, CancelMarker) else Kind.OTHER


def _size_of(element: Batch) -> int:
    return element.nbytes()


def _marked(batch: Batch, marks: Int64s) -> Batch:
    return batch.with_times(batch.timestamps, marks)  # type: ignore[arg-type]  # it has both or neither
