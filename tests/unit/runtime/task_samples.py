"""Subtasks without a worker: reports that are remembered, a lane that keeps, operators that record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operator_samples import ManualClock, Recorder, context

from headgate.api.source import NOTHING_AVAILABLE, SourceReader, Split
from headgate.common.ids import EdgeId, SubtaskId, SubtaskIndex, VertexId
from headgate.common.ports import NoProbe
from headgate.core.alignment.factory import make_handler
from headgate.graph.partitioners import Forward
from headgate.runtime.worker.exchange.output import (
    EdgeEnds,
    EdgeReceiver,
    OutputChannel,
    OutputEdge,
    Outputs,
)
from headgate.runtime.worker.in_flight.gathering import StreamKey
from headgate.runtime.worker.operators.operator_contract import Operator, PendingState, ReadyState
from headgate.runtime.worker.operators.reading_source import SourceOperator
from headgate.runtime.worker.snapshot.finishing import AttemptReports, AttemptServices, Finishing
from headgate.runtime.worker.snapshot.snapshot_writer import TakenSnapshot
from headgate.runtime.worker.task.gate_task import GateTask, InputChannel
from headgate.runtime.worker.task.source_task import SourceTask
from headgate.runtime.worker.task.task import TaskParts
from headgate.state.snapshots import OperatorSubtaskState

TASK = SubtaskId(VertexId(0), SubtaskIndex(0))


IN = EdgeEnds(EdgeId(0), "before", None, "op")
OUT = EdgeEnds(EdgeId(1), "op", None, "after")


class Captured:
    """What a checkpoint takes along, kept in memory; an `InFlightCapture` to a subtask."""

    def __init__(self) -> None:
        self.begun: dict[StreamKey, tuple[int | None, bool]] = {}
        self.streams: dict[StreamKey, list[Any]] = {}
        self.sealed = self.cancelled = False
        self.bytes_waiting = 0

    def begin(self, key: StreamKey, watermark: int | None, idle: bool) -> None:
        self.begun[key] = (watermark, idle)

    def add(self, key: StreamKey, element: Any) -> None:
        assert not self.sealed
        self.streams.setdefault(key, []).append(element)

    def seal(self) -> None:
        self.sealed = True

    def cancel(self) -> None:
        self.cancelled = True

    def unstored(self, batch: Any) -> bool:
        return any(element is batch for stream in self.streams.values() for element in stream)

    def of(self, sender: int, *, output: bool = False) -> list[Any]:
        """What was taken from one channel: of the inputs by sender, of the outputs by receiver."""
        return [
            element
            for key, stream in self.streams.items()
            for element in stream
            if key.from_output is output
            and (key.receiver_subtask if output else key.sender_subtask) == sender
        ]


class Reports(AttemptReports):
    """What the job master would hear of a subtask."""

    def __init__(self) -> None:
        self.checkpoints, self.over, self.probe = {}, False, NoProbe()
        self.declined: list[tuple[int, str]] = []
        self.requests = self.ends = 0

    def checkpoint_declined(self, subtask: SubtaskId, checkpoint: int, reason: str) -> None:
        self.declined.append((checkpoint, reason))

    def recovered(self, subtask: SubtaskId) -> None: ...

    def request_splits(self, subtask: SubtaskId) -> None:
        self.requests += 1

    def data_ended(self, subtask: SubtaskId, counters: Any) -> None:
        self.ends += 1


class Taken(Finishing):
    """The snapshots that a subtask has taken; nothing is written."""

    def __init__(self) -> None:
        self.drawn: list[TakenSnapshot] = []
        self.captures: dict[int, Captured] = {}
        self.given_up: list[int] = []

    def open_capture(self, subtask: SubtaskId, checkpoint: int) -> Any:
        self.captures[checkpoint] = Captured()
        return self.captures[checkpoint]

    def abandon(self, subtask: SubtaskId, checkpoint: int) -> None:
        self.given_up.append(checkpoint)

    def begin(self, taken: TakenSnapshot) -> None:
        self.drawn.append(taken)


class Lane:
    """Keeps what a subtask emits."""

    def __init__(self) -> None:
        self.elements: list[Any] = []

    def deliver(self, element: Any) -> None:
        self.elements.append(element)


class Watching(Operator):
    """Passes everything on and remembers it; says what it saw when it is asked for a snapshot."""

    def __init__(self, clock: ManualClock, cost_ms: float = 0) -> None:
        super().__init__(context(clock=clock))
        self.seen, self.cost_ms, self.clock = Recorder(), cost_ms, clock
        self.life: list[str] = []
        self.due: int | None = None

    def open(self) -> None:
        self.life.append("open")

    def process(self, batch: Any) -> None:
        self.clock.now += len(batch) * self.cost_ms  # type: ignore[assignment]
        self.seen.process(batch)
        self.next.process(batch)

    def watermark(self, timestamp: int) -> None:
        self.seen.watermark(timestamp)
        self.next.watermark(timestamp)

    def idle(self) -> None:
        self.seen.idle()
        self.next.idle()

    def next_processing_time(self) -> int | None:
        return self.due

    def fire_processing_time(self, now_ms: int) -> None:
        self.life.append(f"fire {now_ms}")
        self.due = None

    def snapshot(self, checkpoint: int) -> PendingState:
        self.life.append(f"snapshot {checkpoint}")
        return ReadyState(OperatorSubtaskState("op", None, {"seen": list(self.seen.records)}))

    def checkpoint_complete(self, checkpoint: int) -> None:
        self.life.append(f"complete {checkpoint}")

    def close(self) -> None:
        self.life.append("close")


class Rig:
    """A gate task of one operator with one output channel, and everything around it."""

    def __init__(
        self,
        channels: int,
        credit: int = 100,
        cost_ms: float = 0,
        input_credit: int = 100,
        *,
        exactly_once: bool = True,
        unaligned: bool = False,
        forced: frozenset[int] = frozenset(),
        withheld: bool = False,
        recovered: Any = None,
        kind: type[GateTask] = GateTask,
    ) -> None:
        self.clock = ManualClock(1_000)
        self.reports, self.taken, self.lane = Reports(), Taken(), Lane()
        self.granted = [0] * channels
        self.services = AttemptServices(self.clock, self.reports, self.taken)
        self.outputs = Outputs(10)
        self.edge = OutputEdge(Forward(), [OutputChannel(self.lane, credit)], 128, ends=OUT)
        self.outputs.edges.append(self.edge)
        self.operator = Watching(self.clock, cost_ms)
        self.operator.next = EdgeReceiver(self.outputs, [self.edge], True)
        inputs = [
            InputChannel(input_credit, self._granting(c), IN, c, withheld=withheld) for c in range(channels)
        ]
        handler = make_handler(channels, exactly_once=exactly_once, unaligned=unaligned, forced=forced)
        parts = TaskParts(TASK, [self.operator], self.outputs, self.services, 10, recovered)
        self.task = kind(parts, inputs, handler)
        self.task.open()

    def _granting(self, channel: int) -> Any:
        def granted(frames: int) -> None:
            self.granted[channel] += frames

        return granted

    def deliver(self, *elements: tuple[int, Any]) -> None:
        """Elements arrive, then the task does what it can."""
        for channel, element in elements:
            self.task.deliver(channel, element)
        self.run()

    def run(self) -> int:
        """Step until there is nothing to do; gives how many steps did something."""
        steps = 0
        while self.task.step():
            steps += 1
        return steps

    @property
    def records(self) -> list[Any]:
        """What the operator saw."""
        return self.operator.seen.records


class SourceRig:
    """A source task of one reader, and everything around it."""

    def __init__(self, reader: Any, credit: int = 100) -> None:
        self.clock, self.lane = ManualClock(1_000), Lane()
        self.reports, self.taken = Reports(), Taken()
        self.services = AttemptServices(self.clock, self.reports, self.taken)
        self.outputs = Outputs(10)
        self.edge = OutputEdge(Forward(), [OutputChannel(self.lane, credit)], 128)
        self.outputs.edges.append(self.edge)
        source = _Source(reader)
        self.reader = reader
        operator = SourceOperator(context(clock=self.clock), source)  # type: ignore[arg-type]
        operator.next = EdgeReceiver(self.outputs, [self.edge], True)
        self.task = SourceTask(TaskParts(TASK, [operator], self.outputs, self.services, 10))
        self.task.open()


class _Source:
    def __init__(self, reader: Any) -> None:
        self.reader = reader

    def create_reader(self, context: Any) -> Any:
        return self.reader


class CountingReader(SourceReader[int]):
    """Splits "a" to "b" are ranges of numbers; two records a poll."""

    skipped = 0

    def __init__(self) -> None:
        self.bad_records: list[Any] = []
        self.splits: list[list[int]] = []
        self.final = False

    def add_splits(self, splits: Sequence[Split]) -> None:
        for split in splits:
            start, stop = map(int, split.id.split("-"))
            self.splits.append([start, stop])

    def no_more_splits(self) -> None:
        self.final = True

    def poll(self, max_records: int) -> Any:
        from headgate.api.source import END_OF_INPUT

        if not self.splits:
            return END_OF_INPUT if self.final else NOTHING_AVAILABLE
        split = self.splits[0]
        first, split[0] = split[0], min(split[1], split[0] + 2)
        given = list(range(first, split[0]))
        if split[0] == split[1]:
            self.splits.pop(0)
        return given

    def snapshot(self) -> list[Split]:
        return [Split(f"{start}-{stop}") for start, stop in self.splits]

    def checkpoint_complete(self, checkpoint_id: int) -> None: ...

    def close(self) -> None: ...
