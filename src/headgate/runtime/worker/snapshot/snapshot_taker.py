"""Takes a subtask's snapshots: emits the barrier, does the synchronous part, captures in-flight records.

A background thread writes the snapshot while the loop goes on. An unaligned checkpoint stays open here until
the barriers of all input channels have arrived and none waits in an output any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headgate.common.ids import SubtaskId
from headgate.common.ports import Clock
from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.handler_contract import SUBSUMED
from headgate.core.subtask_checkpoints import SubtaskCheckpoints, Verdict
from headgate.records.batch import Batch
from headgate.runtime.job.user_errors import blamed
from headgate.runtime.protocol.elements import CancelMarker
from headgate.runtime.worker.exchange.output import EdgeEnds, Outputs, Overtaken
from headgate.runtime.worker.in_flight.gathering import InFlightCapture, StreamKey
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState
from headgate.runtime.worker.snapshot.finishing import AttemptServices
from headgate.runtime.worker.snapshot.snapshot_writer import BarrierMetrics, TakenSnapshot

TakeInputs = Callable[[InFlightCapture], None]

LAG_BYTES = 16 * 1024 * 1024
"""Most captured bytes, beyond those in flight at the barrier, that may wait for storage without a pause."""

LAG_POLL_MS = 5
"""How often a paused subtask checks whether the storage has caught up."""


def waits_until(barrier: Barrier, clock: Clock) -> int:
    """Return when (monotonic ms) a waiting aligned barrier, which must have a timeout, becomes unaligned."""
    assert barrier.timeout_ms is not None
    age_ms = clock.now_ms() - barrier.trigger_ms
    return clock.monotonic_ms() + barrier.timeout_ms - age_ms


def stream_of(
    ends: EdgeEnds, sender: int, receiver: int, level: int = 0, from_output: bool = False
) -> StreamKey:
    """Return the key of the in-flight stream of one channel of `ends`, from subtask `sender` to `receiver`.
    Records of a lower `level` are older. `from_output`: they were found in the sender's queue.
    """
    return StreamKey(ends.receiver, ends.sender, ends.tag, sender, receiver, level, from_output, ends.lineage)


class SnapshotTaker:
    """Takes the snapshots of one subtask: the synchronous part on the loop, the rest in the background."""

    def __init__(
        self, subtask: SubtaskId, operators: Sequence[Operator], outputs: Outputs, services: AttemptServices
    ) -> None:
        self._subtask, self._operators, self._outputs = subtask, operators, outputs
        self._clock, self._reports, self._finishing, *_ = services
        # which checkpoints may be taken, and which are being written
        self.machine = self._reports.checkpoints[subtask] = SubtaskCheckpoints()
        self._checkpoint = 0
        self._metrics = BarrierMetrics(0.0, 0.0, False)
        self._capture: InFlightCapture | None = None
        self._last: InFlightCapture | None = None
        self._inputs_open = False
        self._held: Barrier | None = None
        self._held_until_ms = 0
        self._waiting_max = 0

    @property
    def capture(self) -> InFlightCapture | None:
        """The open capture of inputs' in-flight records; None: no unaligned checkpoint awaits barriers."""
        return self._capture if self._inputs_open else None

    def unstored(self, batch: Batch) -> bool:
        """Return whether a batch is captured but not yet encoded, so that its rows must not be changed."""
        return self._last is not None and self._last.unstored(batch)

    def take(
        self,
        barrier: Barrier,
        metrics: BarrierMetrics,
        records: tuple[int, int],
        finished: bool,
        take_inputs: TakeInputs | None = None,
    ) -> None:
        """Emit the barrier, take the synchronous part of the operators' snapshots, and have them written.
        Of an aborted checkpoint emit only a cancel marker, of an outdated one nothing; decline an older one
        that still captures. `metrics` are of the barrier's way to here, `records` how many were processed and
        emitted, `finished` if all input was processed. `take_inputs` begins the capture of input records,
        which :meth:`inputs_complete` ends; None: none are captured. An operator's error is raised.
        """
        verdict = self.machine.admit(barrier.checkpoint)
        if verdict is Verdict.CANCEL:
            self._outputs.cancel(CancelMarker(barrier.checkpoint))
        if verdict is not Verdict.TAKE:
            return
        if self._capture is not None:
            self.decline(self._checkpoint, SUBSUMED)
        began = self._clock.precise_ms()
        self._checkpoint, self._metrics = barrier.checkpoint, metrics
        capture = self._emit(barrier, take_inputs)
        for operator in self._operators:
            operator.may_build_on(barrier.completed if barrier.savepoint is None else None)
        pending = self._snapshots()
        taken = TakenSnapshot(
            subtask=self._subtask,
            checkpoint=barrier.checkpoint,
            pending=pending,
            sync_ms=self._clock.precise_ms() - began,
            records=records,
            state_types={op.context.uid: found for op in self._operators if (found := op.state_types())},
            finished=finished,
            metrics=metrics,
            capture=capture,
            savepoint=barrier.savepoint,
        )
        self.machine.taken(barrier.checkpoint)
        self._reports.probe.reached("snapshot.drawn")
        self._finishing.begin(taken)
        self._seal_if_complete()

    def inputs_complete(self, checkpoint: int) -> None:
        """End the capture of input records: all barriers of `checkpoint`, the newest, came; else ignored."""
        if checkpoint == self._checkpoint:
            self._close_inputs()
            self._seal_if_complete()

    def poll_held_barrier(self, now_ms: int) -> bool:
        """Let a barrier that waits in the outputs overtake if it has timed out at `now_ms` (monotonic).
        Return whether it has left, by that or because the records before it were sent.
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
        """Return when a waiting barrier times out, or a pause is checked again (monotonic ms); or None."""
        times: list[int] = []
        if self._held is not None:
            times.append(self._held_until_ms + 1)
        if self._lags():
            times.append(self._clock.monotonic_ms() + LAG_POLL_MS)
        return min(times, default=None)

    def _lags(self) -> bool:
        capture = self.capture
        return capture is not None and capture.bytes_waiting > self._waiting_max

    def aborted(self, checkpoint: int) -> None:
        """Drop the snapshot for `checkpoint`, which was aborted; if its barrier comes later, take none."""
        verdict = self.machine.aborted(checkpoint)
        self._drop_capture(checkpoint)
        if verdict.cancel_running:
            self._finishing.abandon(self._subtask, checkpoint)

    def decline(self, checkpoint: int, reason: str) -> None:
        """Abort `checkpoint` for this subtask, and report that to the job master and all receivers.
        `reason` is the name of a `CheckpointFailureReason`.
        """
        self.aborted(checkpoint)
        self._outputs.cancel(CancelMarker(checkpoint))
        self._reports.checkpoint_declined(self._subtask, checkpoint, reason)

    def _emit(self, barrier: Barrier, take_inputs: TakeInputs | None) -> InFlightCapture | None:
        overtaken = self._outputs.barrier(barrier)
        held = barrier.timeout_ms is not None and self._outputs.holds_barrier(barrier.checkpoint)
        if not barrier.overtakes and not held:
            return None
        self._capture = self._last = self._finishing.open_capture(self._subtask, barrier.checkpoint)
        if held:
            self._held, self._held_until_ms = barrier, waits_until(barrier, self._clock)
        self._inputs_open = take_inputs is not None
        if take_inputs is not None:
            take_inputs(self._capture)
            # Records captured so far are in memory anyway, and bounded by credit.
            self._waiting_max = self._capture.bytes_waiting + LAG_BYTES
            self._outputs.pause_while(self._lags)
        self._take_outputs(overtaken)
        return self._capture

    def _take_outputs(self, overtaken: Iterable[Overtaken]) -> None:
        assert self._capture is not None
        for each in overtaken:
            # They follow the last level of the receiver, which alone knows the level's number.
            key = stream_of(each.ends, self._subtask.subtask, each.receiver, from_output=True)
            for element in each.elements:
                self._capture.add(key, element)

    def _snapshots(self) -> list[PendingState]:
        pending: list[PendingState] = []
        try:
            for operator in self._operators:
                with blamed(operator.context, f"for checkpoint {self._checkpoint}"):
                    state = operator.snapshot(self._checkpoint)
                if state is not None:
                    pending.append(state)
        except BaseException:
            for state in pending:
                state.release()
            raise
        return pending

    def _seal_if_complete(self) -> None:
        if self._capture is not None and not self._inputs_open and self._held is None:
            self._capture.seal()
            self._capture = None

    def _drop_capture(self, checkpoint: int) -> None:
        if self._capture is not None and checkpoint == self._checkpoint:
            self._capture.cancel()
            self._capture = self._held = None
            self._close_inputs()

    def _close_inputs(self) -> None:
        self._inputs_open = False
        self._outputs.pause_while(None)
