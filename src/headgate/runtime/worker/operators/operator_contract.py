"""The interface of operators in a chain: they process batches and events, and pass their outputs on.

Operators call each other once per batch, never per record. One thread drives a chain.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol, runtime_checkable

from typing_extensions import TypeVar

from headgate.api.functions import RichFunction
from headgate.common.errors import InternalError
from headgate.common.plain_data import Description
from headgate.core.marks import Mark
from headgate.graph.logical import Side
from headgate.metrics.of_parts import Part
from headgate.records.batch import Batch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.state.backend import NewWriter, StoredValue
from headgate.state.backend import StateFiles as StateFiles  # every operator's snapshot uses it
from headgate.state.snapshots import OperatorSubtaskState

R = TypeVar("R", default=Any)
"""A record, whose type only the program knows."""

H = TypeVar("H")
V = TypeVar("V")

StateTypes = dict[str, Description]
"""Description of the serializer of each state, by the state's name; for the checkpoint's metadata."""


class Receiver(Protocol):
    """The next element of a chain: another operator, or the outputs at its end."""

    def process(self, batch: Batch) -> None:
        """Process all records of a batch, in order, before returning."""

    def watermark(self, timestamp: int) -> None:
        """Advance event time: no record at or before `timestamp` (ms) follows, except late ones."""

    def idle(self) -> None:
        """Note that no record comes for now, so that event time must not wait for this input."""

    def mark(self, mark: Mark) -> None:
        """Pass on the answer for what came before `mark`, if it is gathered for marks, and then the mark."""

    def end_of_data(self) -> None:
        """Note that no record follows; called once, after the last watermark."""


@runtime_checkable
class TableFiles(StateFiles, Protocol):
    """The files of a canonical savepoint, which holds keyed state as tables."""

    def new_tables(self, uid: str) -> NewWriter:
        """Return a function (key groups, number of groups) that makes the writer of `uid`'s keyed state.
        The writer makes a table for each state, and returns the handle of all.
        """


class PendingState(Protocol):
    """An operator's snapshot whose synchronous part is done, to be stored in the background."""

    def finish(self, files: StateFiles) -> OperatorSubtaskState:
        """Store the state, return its handles; once at most, in the background. StorageError: it failed."""

    def release(self) -> None:
        """Release the snapshot's local files and old values, after :meth:`finish` or instead of it."""


@dataclass(frozen=True, slots=True)
class ReadyState:
    """A :class:`PendingState` that has nothing to store: `state` goes into the acknowledgement as it is."""

    state: OperatorSubtaskState

    def finish(self, files: StateFiles) -> OperatorSubtaskState:
        return self.state

    def release(self) -> None:
        """Do nothing: this snapshot holds no resources."""


class Operator:
    """Base class of all operators; it passes batches and events on unchanged.
    An instance belongs to one subtask in one attempt. One thread at a time calls it; two methods are for any.
    """

    next: Receiver

    def __init__(self, context: OperatorContext) -> None:
        self.context = context
        self.side_outputs: dict[str, Receiver] = {}

    def open(self) -> None:
        """Prepare the operator and restore its state, before any input; called once."""

    @property
    def contexts(self) -> Sequence[OperatorContext]:
        """The contexts of all operators that this one stands for: several where functions are fused."""
        return [self.context]

    def context_of_call(self, inner: Sequence[FrameType]) -> OperatorContext:
        """Return the context of the operator whose code is being called; fused operators are one `Operator`.
        `inner` are the frames of the call inside this operator, innermost first. Any thread may ask.
        """
        return self.context

    @property
    def busy(self) -> bool:
        """Whether due timers have not fired yet, so that :meth:`go_on` must be called before any new input.
        New input is records, a watermark, idleness and the end of the data; a snapshot may be taken. Only the
        head of a chain can be busy, possibly right after :meth:`open`.
        """
        return False

    @property
    def waits(self) -> bool:
        """Whether the head of a chain takes no new input, as while :attr:`busy`, until calls have ended that
        it waits for. It has nothing to do until it is busy, for which something posted wakes the worker's
        loop.
        """
        return False

    def next_wakeup(self) -> int | None:
        """Return when it will be :attr:`busy` although nothing arrives (monotonic ms); None: no time is
        set.
        """
        return None

    def go_on(self) -> None:
        """Fire due timers for a slice of some ms; after the last, pass on the watermark that waited."""

    def process(self, batch: Batch) -> None:
        self.next.process(batch)

    def process_some(self, batch: Batch) -> int:
        """Process records from the front of a batch, and return how many; not allowed while busy.
        Fewer than all are processed only if the operator became :attr:`busy` before the next record: the
        caller keeps the rest until :meth:`go_on` has finished.
        """
        self.process(batch)
        return len(batch)

    def entry(self, side: Side) -> Callable[[Batch], int]:
        """Return the method, like :meth:`process_some`, for batches of input `side`; InternalError: none."""
        if side is not Side.MAIN:
            raise InternalError(f"{self.context.label} has no {side} side; please report this")
        return self.process_some

    def watermark(self, timestamp: int) -> None:
        self.next.watermark(timestamp)

    def idle(self) -> None:
        self.next.idle()

    def mark(self, mark: Mark) -> None:
        self.next.mark(mark)

    def end_of_data(self) -> None:
        self.next.end_of_data()

    def next_processing_time(self) -> int | None:
        """Return when :meth:`fire_processing_time` is to be called (wall clock, ms); None: no timer."""
        return None

    def fire_processing_time(self, now_ms: int) -> None:
        """Fire timers due at `now_ms` (wall clock) for a slice of some ms at most; the rest stay due."""

    def measured(self) -> Mapping[str, int]:
        """Return the operator's own metrics by name of the series (`metrics.metric_table`).
        The heartbeat's thread calls this, perhaps before :meth:`open`.
        """
        return {}

    def sample(self) -> None:
        """Look, for :meth:`measured` and :meth:`parts`, at what only the loop may look at.
        Called between steps, about once for each heartbeat.
        """

    def parts(self) -> Sequence[Part]:
        """Return metrics of what the operator has several of, such as splits. The heartbeat's thread calls
        this, perhaps before :meth:`open`.
        """
        return ()

    def pass_on(self) -> None:
        """Pass on what comes of records that wait for others: they belong before a barrier that comes."""

    def snapshot(self, checkpoint: int) -> PendingState | None:
        """Take the synchronous part of the snapshot for `checkpoint`; None if the operator has no state.
        The caller has the result stored in the background or, after an error, only releases it.
        """
        return None

    def state_types(self) -> StateTypes:
        """Return the descriptions of the states' serializers by state name, for the checkpoint's metadata."""
        return {}

    def peek(self, state: str, key: Hashable) -> StoredValue | None:
        """Return the encoded present value of keyed state `state` under `key`, for a query; None: no value.
        Called between two steps; has no effects. InternalError: the operator has no keyed state.
        """
        raise InternalError(f"{self.context.label} has no keyed state {state!r}; please report this")

    @property
    def has_spare_work(self) -> bool:
        """Whether :meth:`do_spare_work` has something to do, such as to rewrite values of older types."""
        return False

    def do_spare_work(self) -> None:
        """Do about a millisecond of work that can wait for times without input."""

    def may_build_on(self, checkpoint: int | None) -> None:
        """Let the next snapshot refer to files of `checkpoint`, which is complete; 0: none is complete yet.
        None: the next snapshot is a savepoint, which shares no files, neither now nor with later ones.
        """

    def checkpoint_complete(self, checkpoint: int) -> None:
        """Note that `checkpoint` is complete (in the log) and its output committed."""

    def close(self) -> None:
        """Release all resources; also called after a failure, even of :meth:`open`."""

    def emit_side(self, tag: str, batch: Batch) -> None:
        """Emit a batch to side output `tag`; its records are dropped if nothing in the program reads that."""
        receiver = self.side_outputs.get(tag)
        if receiver is not None:
            receiver.process(batch)


def frames_outward(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def operator_called(frames: Iterable[FrameType]) -> OperatorContext | None:
    """Return the context of the innermost operator that `frames` (innermost first) run in; None: in none."""
    called = call_of_operator(frames)
    return None if called is None else called[0]


def call_of_operator(frames: Iterable[FrameType]) -> tuple[OperatorContext, list[FrameType]] | None:
    """Return what :func:`operator_called` does, and the frames within that operator, innermost first."""
    inner: list[FrameType] = []
    for frame in frames:
        # Looking only at methods' locals saves a copy of the locals of every other function.
        owner = frame.f_locals.get("self") if frame.f_code.co_varnames[:1] == ("self",) else None
        if isinstance(owner, Operator):
            return owner.context_of_call(inner), inner
        inner.append(frame)
    return None


def give_handles(function: RichFunction, handles: Mapping[str, H]) -> None:
    """Set states, by name, as attributes of a user function; its declarations refuse a plain assignment."""
    vars(function).update(handles)
