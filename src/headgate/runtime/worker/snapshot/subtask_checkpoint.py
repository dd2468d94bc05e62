"""A subtask's part in a checkpoint: its barrier, the synchronous part, the records that it takes along.

What is drawn is finished beside the loop by the worker. An unaligned checkpoint stays open here until
the barriers of all input channels have come and none waits in an output any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from headgate.common.ids import SubtaskId
from headgate.common.ports import Clock
from headgate.core.alignment.barriers import Barrier, SavepointOrder
from headgate.core.alignment.handler import SUBSUMED
from headgate.core.subtask_checkpoints import SubtaskCheckpoints, Verdict
from headgate.runtime.job.operator_context import blamed
from headgate.runtime.protocol.elements import CancelMarker
from headgate.runtime.protocol.messages import Counters
from headgate.runtime.worker.exchange.output import Outputs, Overtaken
from headgate.runtime.worker.in_flight.gathering import InFlightCapture, StreamKey
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState

TakeInputs = Callable[[InFlightCapture], None]

LAG_BYTES = 16 * 1024 * 1024
"""So much may wait for the storage, beyond what was in flight at the barrier, before the subtask pauses."""

LAG_POLL_MS = 5
"""How often a paused subtask looks whether the storage has caught up."""


@dataclass(slots=True)
class BarrierMetrics:
    """How a barrier fared here; complete when its checkpoint is.

    Attributes:
        start_delay_ms: from the trigger to the first sign of it.
        alignment_ms: from the first barrier to the last.
        unaligned: whether it overtook records.
        bytes_processed: bytes of records read between the first barrier and the last.
        slowest_channel: "uid[subtask]" of the sender whose barrier came last.
    """

    start_delay_ms: float
    alignment_ms: float
    unaligned: bool
    bytes_processed: int = 0
    slowest_channel: str | None = None


@dataclass(frozen=True, slots=True)
class DrawnSnapshot:
    """The synchronous part of a subtask's snapshot, ready for the asynchronous one.

    Attributes:
        subtask: whose.
        checkpoint: which.
        pending: the operators' parts.
        sync_ms: how long the loop stood still.
        counters: totals at the cut.
        state_types: operator uid -> state name -> description.
        finished: whether all input was processed before the cut.
        metrics: of the barrier; still changing while `capture` is open.
        capture: records in flight, of an unaligned checkpoint.
        savepoint: where and how it is stored, of a savepoint.
    """

    subtask: SubtaskId
    checkpoint: int
    pending: Sequence[PendingState]
    sync_ms: float
    counters: Counters
    state_types: dict[str, dict[str, Any]]
    finished: bool
    metrics: BarrierMetrics
    capture: InFlightCapture | None = field(default=None)
    savepoint: SavepointOrder | None = None


class SnapshotHost(Protocol):
    """What drawing asks of the worker."""

    clock: Any

    def snapshot_drawn(self, drawn: DrawnSnapshot) -> None:
        """Finish beside the loop, then acknowledge."""
        ...

    def snapshot_void(self, subtask: SubtaskId, checkpoint: int) -> None:
        """Do not finish it: the checkpoint was given up."""
        ...

    def open_capture(self, subtask: SubtaskId, checkpoint: int) -> InFlightCapture:
        """Where records in flight go; its end is awaited before the acknowledgement."""
        ...

    def checkpoint_declined(self, subtask: SubtaskId, checkpoint: int, reason: str) -> None:
        """This subtask will not draw `checkpoint`."""
        ...


def waits_until(barrier: Barrier, clock: Clock) -> int:
    """When an aligned barrier is as old as its timeout; after that it overtakes.

    Its age is told by the wall clock of the trigger, once; what follows is on the monotonic clock.
    """
    assert barrier.timeout_ms is not None
    age_ms = clock.now_ms() - barrier.trigger_ms
    return clock.monotonic_ms() + barrier.timeout_ms - age_ms


class Drawing:
    """Draws the snapshots of one subtask.

    Args:
        subtask: whose.
        operators: its chain.
        outputs: the chain's end.
        host: the worker.
    """

    def __init__(
        self, subtask: SubtaskId, operators: Sequence[Operator], outputs: Outputs, host: SnapshotHost
    ) -> None:
        self._subtask, self._operators, self._outputs, self._host = subtask, operators, outputs, host
        self._machine = SubtaskCheckpoints()
        self._checkpoint = 0
        self._metrics = BarrierMetrics(0.0, 0.0, False)
        self._capture: InFlightCapture | None = None
        self._last: InFlightCapture | None = None
        self._inputs_open = False
        self._held: Barrier | None = None
        self._held_until_ms = 0
        self._waiting_max = 0

    @property
    def machine(self) -> SubtaskCheckpoints:
        """Which checkpoints may be drawn, and which are being written."""
        return self._machine

    @property
    def capture(self) -> InFlightCapture | None:
        """Open for records of the inputs; None when no barrier is awaited any more."""
        return self._capture if self._inputs_open else None

    def unstored(self, batch: Any) -> bool:
        """Whether a batch is part of a checkpoint but not written yet, so that nobody may change its rows."""
        return self._last is not None and self._last.unstored(batch)

    def draw(
        self,
        barrier: Barrier,
        metrics: BarrierMetrics,
        counters: Counters,
        finished: bool,
        take_inputs: TakeInputs | None = None,
    ) -> None:
        """Emit the barrier, then take the synchronous part of every operator's snapshot.

        Args:
            barrier: as it goes on.
            metrics: how it fared here.
            counters: totals at this moment.
            finished: whether all input is processed.
            take_inputs: takes along what is in flight on the inputs; more may follow, until
                :meth:`inputs_complete`. None where there are no inputs, or none in flight.
        """
        verdict = self._machine.admit(barrier.checkpoint)
        if verdict is Verdict.CANCEL:
            self._outputs.cancel(CancelMarker(barrier.checkpoint))
        if verdict is not Verdict.DRAW:
            return
        self._give_up_older()
        began = self._host.clock.precise_ms()
        self._checkpoint, self._metrics = barrier.checkpoint, metrics
        capture = self._emit(barrier, take_inputs)
        for operator in self._operators:
            operator.may_build_on(barrier.completed if barrier.savepoint is None else None)
        pending = self._snapshots()
        drawn = DrawnSnapshot(
            subtask=self._subtask,
            checkpoint=barrier.checkpoint,
            pending=pending,
            sync_ms=self._host.clock.precise_ms() - began,
            counters=counters,
            state_types={op.context.uid: found for op in self._operators if (found := op.state_types())},
            finished=finished,
            metrics=metrics,
            capture=capture,
            savepoint=barrier.savepoint,
        )
        self._machine.drawn(barrier.checkpoint)
        self._host.snapshot_drawn(drawn)
        self._seal_if_complete()

    def inputs_complete(self, checkpoint: int) -> None:
        """The barriers of all inputs have come: nothing more of them is taken along."""
        if checkpoint == self._checkpoint:
            self._close_inputs()
            self._seal_if_complete()

    def tend(self, now_ms: int) -> bool:
        """Look after a barrier that waits in the outputs; True when that changed something.

        Args:
            now_ms: monotonic clock.
        """
        held = self._held
        if held is None:
            return False
        if self._outputs.holds_barrier(held.checkpoint):
            if now_ms <= self._held_until_ms:
                return False
            self._metrics.unaligned = True
            self._take_outputs(self._outputs.release_barrier(held.checkpoint))
        self._held = None
        self._seal_if_complete()
        return True

    def next_timeout(self) -> int | None:
        """When a waiting barrier may overtake, or a paused subtask looks again (monotonic ms)."""
        times: list[int] = []
        if self._held is not None:
            times.append(self._held_until_ms + 1)
        if self._lags():
            times.append(self._host.clock.monotonic_ms() + LAG_POLL_MS)
        return min(times, default=None)

    def _lags(self) -> bool:
        """Whether records are taken along faster than they are stored.

        A subtask that reads on would gather them in memory. When it does not, its senders run out of credit.
        """
        capture = self.capture
        return capture is not None and capture.bytes_waiting > self._waiting_max

    def aborted(self, checkpoint: int) -> None:
        """The job master gave `checkpoint` up."""
        verdict = self._machine.aborted(checkpoint)
        self._drop_capture(checkpoint)
        if verdict.cancel_running:
            self._host.snapshot_void(self._subtask, checkpoint)

    def decline(self, checkpoint: int, reason: str) -> None:
        """This subtask gives `checkpoint` up: say so to the job master and downstream."""
        self.aborted(checkpoint)
        self._outputs.cancel(CancelMarker(checkpoint))
        self._host.checkpoint_declined(self._subtask, checkpoint, reason)

    def _emit(self, barrier: Barrier, take_inputs: TakeInputs | None) -> InFlightCapture | None:
        overtaken = self._outputs.barrier(barrier)
        held = barrier.timeout_ms is not None and self._outputs.holds_barrier(barrier.checkpoint)
        if not barrier.overtakes and not held:
            return None
        self._capture = self._last = self._host.open_capture(self._subtask, barrier.checkpoint)
        if held:
            self._held, self._held_until_ms = barrier, waits_until(barrier, self._host.clock)
        self._inputs_open = take_inputs is not None
        if take_inputs is not None:
            take_inputs(self._capture)
            # These are in memory anyway, and bounded by credit.
            self._waiting_max = self._capture.bytes_waiting + LAG_BYTES
            self._outputs.pause_while(self._lags)
        self._take_outputs(overtaken)
        return self._capture

    def _take_outputs(self, overtaken: Iterable[Overtaken]) -> None:
        assert self._capture is not None
        for each in overtaken:
            ends = each.ends
            key = StreamKey(
                receiver=ends.receiver,
                sender=ends.sender,
                tag=ends.tag,
                sender_subtask=self._subtask.subtask,
                receiver_subtask=each.receiver,
                lineage=ends.lineage,
                level=0,  # they follow the last level of the receiver, which knows its number
                from_output=True,
            )
            for element in each.elements:
                self._capture.add(key, element)

    def _snapshots(self) -> list[PendingState]:
        """The operators' parts. When one refuses, the others let go: what they hold may be files."""
        pending: list[PendingState] = []
        try:
            for operator in self._operators:
                state = self._snapshot(operator)
                if state is not None:
                    pending.append(state)
        except BaseException:
            for state in pending:
                state.release()
            raise
        return pending

    def _snapshot(self, operator: Operator) -> PendingState | None:
        with blamed(operator.context, f"for checkpoint {self._checkpoint}"):
            return operator.snapshot(self._checkpoint)

    def _seal_if_complete(self) -> None:
        if self._capture is not None and not self._inputs_open and self._held is None:
            self._capture.seal()
            self._capture = None

    def _give_up_older(self) -> None:
        if self._capture is not None:
            self.decline(self._checkpoint, SUBSUMED)

    def _drop_capture(self, checkpoint: int) -> None:
        if self._capture is not None and checkpoint == self._checkpoint:
            self._capture.cancel()
            self._capture = self._held = None
            self._close_inputs()

    def _close_inputs(self) -> None:
        self._inputs_open = False
        self._outputs.pause_while(None)
