"""One subtask's snapshots on a real folder; the test runs what is beside the loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operator_samples import ManualClock, context, rows
from task_samples import IN, OUT, TASK, Lane

from headgate.checkpoint.data_files import read_handle
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import StorageError
from headgate.common.ids import AttemptId, Fence, Generation, JobId
from headgate.common.ports import NoProbe
from headgate.core.alignment.barriers import Alignment, Barrier
from headgate.graph.partitioners import Forward
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.worker.exchange.output import OutputChannel, OutputEdge, Outputs
from headgate.runtime.worker.in_flight.gathering import CaptureLimits, InFlightCapture, StreamKey
from headgate.runtime.worker.in_flight.stored_parts import decode_elements
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState, StateFiles
from headgate.runtime.worker.snapshot.finishing import AttemptReports, AttemptServices, Finishing
from headgate.runtime.worker.snapshot.snapshot_taker import SnapshotTaker
from headgate.runtime.worker.snapshot.snapshot_writer import BarrierMetrics, SnapshotWriter
from headgate.state.snapshots import KeyedStateHandle, OperatorSubtaskState, SubtaskSnapshot

INPUT = StreamKey(IN.receiver, IN.sender, None, 0, 0)
STATE = b"state of the operator"


def over(checkpoint: int) -> Barrier:
    """A barrier that overtakes."""
    return Barrier(checkpoint, 1_000, Alignment.UNALIGNED)


class ManualBackground:
    """Runs a job when a test says so."""

    def __init__(self) -> None:
        self.jobs: deque[Any] = deque()

    def submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.jobs.append((work, done))

    def run(self) -> None:
        """One job."""
        work, done = self.jobs.popleft()
        try:
            result, failure = work(), None
        except Exception as error:
            result, failure = None, error
        done(result, failure)


class FullableDisk(LocalDisk):
    """A folder on a device that may be full."""

    full = False

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        if self.full:
            raise StorageError(f"cannot write {name}: no space left on device")
        super().create(name, parts)


class Stateful(Operator):
    """Its state is one blob of its own; it may refuse to write it."""

    def __init__(self, uid: str = "op") -> None:
        super().__init__(context(uid))
        self.drawn: list[int] = []
        self.released: list[int] = []
        self.table: Any = STATE

    def snapshot(self, checkpoint: int) -> PendingState:
        self.drawn.append(checkpoint)
        return Blob(self.context.uid, self.table, lambda: self.released.append(checkpoint))


@dataclass
class Blob:
    """A table, copied, to be written."""

    uid: str
    table: Any
    released: Callable[[], None]

    def release(self) -> None:
        self.released()

    def finish(self, files: StateFiles) -> OperatorSubtaskState:
        handle = files.write(self.uid, [bytes(self.table)])
        return OperatorSubtaskState(self.uid, KeyedStateHandle(0, 127, handle, len(STATE)))


class Catalog:
    """Every stream carries plain values without a key."""

    def codec_of(self, sender: str, tag: str | None) -> ElementCodec:
        return ElementCodec(None)

    def groups_of(self, receiver: str) -> None:
        return None


class Bench(AttemptReports):
    """A subtask of some operators with one output channel, and the worker's part in its snapshots.

    Attributes:
        acknowledged: what the job master would hear, by checkpoint.
        failed: (checkpoint, what went wrong) of declines after the drawing.
        declined: (checkpoint, reason) of those instead of it.
    """

    def __init__(
        self, root: Path, *operators: Stateful, credit: int = 100, limits: CaptureLimits | None = None
    ) -> None:
        self.checkpoints, self.probe = {}, NoProbe()
        self.clock, self.disk, self.background = ManualClock(1_000), FullableDisk(root), ManualBackground()
        self.posted: deque[Callable[[], None]] = deque()
        writer = SnapshotWriter(self.disk, 0, Fence(JobId("job"), Generation(1), AttemptId(1)))
        self.finishing = Finishing(
            writer,
            Catalog(),  # type: ignore[arg-type]
            limits or CaptureLimits(),
            self.background,
            self.clock,
            self.posted.append,
            self,
        )
        self.lane, self.outputs = Lane(), Outputs(10)
        self.edge = OutputEdge(Forward(), [OutputChannel(self.lane, credit)], 128, ends=OUT)
        self.outputs.edges.append(self.edge)
        self.operators = operators or (Stateful(),)
        self.snapshots = SnapshotTaker(
            TASK, self.operators, self.outputs, AttemptServices(self.clock, self, self.finishing)
        )
        self.acknowledged: dict[int, SubtaskSnapshot] = {}
        self.failed: list[tuple[int, BaseException]] = []
        self.declined: list[tuple[int, str]] = []

    # -- as the reports to the job master ----------------------------------------------------------

    def checkpoint_declined(self, subtask: Any, checkpoint: int, reason: str) -> None:
        self.declined.append((checkpoint, reason))

    def acknowledge(self, subtask: Any, checkpoint: int, snapshot: SubtaskSnapshot) -> None:
        assert self.snapshots.machine.finished(checkpoint)
        assert checkpoint not in self.acknowledged
        self.acknowledged[checkpoint] = snapshot

    def could_not_finish(self, subtask: Any, checkpoint: int, error: BaseException) -> None:
        assert self.snapshots.machine.finished(checkpoint)
        self.failed.append((checkpoint, error))

    # -- as the test -------------------------------------------------------------------------------

    def draw(self, barrier: Barrier, *batches: Any, open_inputs: bool = False) -> None:
        """Draw; the batches are in flight on the input. With `open_inputs` more barriers are awaited."""

        def take(capture: InFlightCapture) -> None:
            capture.begin(INPUT, None, False)
            for batch in batches:
                capture.add(INPUT, batch)

        metrics = BarrierMetrics(0.0, 0.0, barrier.overtakes)
        self.snapshots.take(barrier, metrics, (0, 0), False, take if barrier.overtakes else None)
        if not open_inputs:
            self.snapshots.inputs_complete(barrier.checkpoint)

    def job(self) -> None:
        """One job beside the loop, and what the loop hears of it."""
        self.background.run()
        while self.posted:
            self.posted.popleft()()

    def run(self) -> None:
        """Everything."""
        while self.background.jobs:
            self.job()

    def emit(self, *records: Any) -> None:
        """A frame leaves, if there is credit."""
        self.edge.channels[0].add(rows(list(records)))
        self.edge.channels[0].flush()

    @property
    def files(self) -> list[str]:
        """Everything that is stored."""
        return [*self.disk.list(""), *self.disk.temporaries("")]

    def in_flight(self, checkpoint: int, *, output: bool = False) -> list[Any]:
        """The records that an acknowledged checkpoint took along, read back."""
        return [
            record
            for stream in self.acknowledged[checkpoint].in_flight
            if stream.from_output is output
            for part in stream.parts
            for batch, _ in decode_elements(read_handle(self.disk, part.handle), ElementCodec(None))
            if isinstance(batch, RowBatch)
            for record in batch.rows()
        ]
