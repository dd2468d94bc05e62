"""The contract of operators in a chain: they take batches and events, and pass their outputs on.

Calls go from operator to operator by batch, never by record. One thread drives a chain.
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
from headgate.graph.logical import Side
from headgate.records.batch import Batch
from headgate.runtime.job.operator_context import OperatorContext
from headgate.state.backend import NewWriter, StoredValue
from headgate.state.backend import StateFiles as StateFiles  # every operator's snapshot uses it
from headgate.state.snapshots import OperatorSubtaskState

R = TypeVar("R", default=Any)
"""A record, of which only the program knows the type."""

H = TypeVar("H")
V = TypeVar("V")

StateTypes = dict[str, Description]
"""Description of the serializer of each state, by the state's name; for the checkpoint's metadata."""


class Receiver(Protocol):
    """The next in a chain: another operator, or the outputs at the chain's end."""

    def process(self, batch: Batch) -> None:
        """Take records."""

    def watermark(self, timestamp: int) -> None:
        """Event time has passed `timestamp`."""

    def idle(self) -> None:
        """Nothing will come for a while."""

    def end_of_data(self) -> None:
        """No record follows."""


@runtime_checkable
class TableFiles(StateFiles, Protocol):
    """Where a savepoint of the canonical format puts its bytes: keyed state becomes tables."""

    def new_tables(self, uid: str) -> NewWriter:
        """Return the writer that stores an operator's keyed state durably, as one table for each state."""


class PendingState(Protocol):
    """A snapshot whose synchronous part is done."""

    def finish(self, files: StateFiles) -> OperatorSubtaskState:
        """Serialise and store; called once, in the background."""

    def release(self) -> None:
        """Release what is held; in the background, after :meth:`finish` or instead of it."""


@dataclass(frozen=True, slots=True)
class ReadyState:
    """A :class:`PendingState` that is complete already."""

    state: OperatorSubtaskState

    def finish(self, files: StateFiles) -> OperatorSubtaskState:
        """Give the state."""
        return self.state

    def release(self) -> None:
        """Do nothing: no files are held."""


class Operator:
    """Base of all operators: passes everything on unchanged."""

    next: Receiver

    def __init__(self, context: OperatorContext) -> None:
        self.context = context
        self.side_outputs: dict[str, Receiver] = {}

    def open(self) -> None:
        """Make ready; state is restored here."""

    def context_of_call(self, inner: Sequence[FrameType]) -> OperatorContext:
        """Return the context of the operator that is in the call.

        `frames` are those of the call, innermost first: several operators may run as one.
        """
        return self.context

    @property
    def busy(self) -> bool:
        """Whether timers are due that have not fired: :meth:`go_on` comes before any new input.

        New input is records, a watermark, idleness and the end of the data; a snapshot may be taken. Only the
        head of a chain can be busy, perhaps right after :meth:`open`.
        """
        return False

    def go_on(self) -> None:
        """Fire for another slice; after the last one the watermark that waited for it is passed on."""

    def process(self, batch: Batch) -> None:
        """Take records."""
        self.next.process(batch)

    def process_some(self, batch: Batch) -> int:
        """Take records from the front; gives how many.

        They are fewer than all only when the operator became :attr:`busy` before the next one: the caller
        keeps the rest until :meth:`go_on` has come to an end.
        """
        self.process(batch)
        return len(batch)

    def entry(self, side: Side) -> Callable[[Batch], int]:
        """Return the method that takes records of one input, as :meth:`process_some` takes the main one's."""
        if side is not Side.MAIN:
            raise InternalError(f"{self.context.label} has no {side} side; please report this")
        return self.process_some

    def watermark(self, timestamp: int) -> None:
        """Event time has passed `timestamp`."""
        self.next.watermark(timestamp)

    def idle(self) -> None:
        """Nothing will come for a while."""
        self.next.idle()

    def end_of_data(self) -> None:
        """No record follows."""
        self.next.end_of_data()

    def next_processing_time(self) -> int | None:
        """Return when :meth:`fire_processing_time` wants to be called, in wall-clock ms."""
        return None

    def fire_processing_time(self, now_ms: int) -> None:
        """The wall clock reached `now_ms`."""

    def snapshot(self, checkpoint: int) -> PendingState | None:
        """Return the synchronous part of a snapshot; None when there is nothing to keep."""
        return None

    def state_types(self) -> StateTypes:
        """Return a dict: state name -> description of its serializer, for the checkpoint's metadata."""
        return {}

    def peek(self, state: str, key: Hashable) -> StoredValue | None:
        """Return the value of a keyed state under a key.

        None: there is none. Between two steps, without effects.
        """
        raise InternalError(f"{self.context.label} has no keyed state {state!r}; please report this")

    @property
    def has_spare_work(self) -> bool:
        """Whether :meth:`do_spare_work` has something to do."""
        return False

    def do_spare_work(self) -> None:
        """Do a slice, of about a millisecond, of the work that may wait for times without input."""

    def may_build_on(self, checkpoint: int | None) -> None:
        """Let the next snapshot refer to the files of `checkpoint`, which is complete; 0: to none.

        None: the next snapshot is a savepoint's, which stands alone: later ones do not refer to it either.
        """

    def checkpoint_complete(self, checkpoint: int) -> None:
        """`checkpoint` is in the log."""

    def close(self) -> None:
        """Release resources; also after a failure."""

    def emit_side(self, tag: str, batch: Batch) -> None:
        """Emit to a side output; where the program uses none of that tag, the records are dropped."""
        receiver = self.side_outputs.get(tag)
        if receiver is not None:
            receiver.process(batch)


def frames_outward(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame, its caller, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def operator_called(frames: Iterable[FrameType]) -> OperatorContext | None:
    """Find the innermost operator on a thread's stack; the frames come innermost first."""
    inner: list[FrameType] = []
    for frame in frames:
        # Asking only methods for their names spares a copy of the names of every other function.
        owner = frame.f_locals.get("self") if frame.f_code.co_varnames[:1] == ("self",) else None
        if isinstance(owner, Operator):
            return owner.context_of_call(inner)
        inner.append(frame)
    return None


def give_handles(function: RichFunction, handles: Mapping[str, H]) -> None:
    """Make live handles the attributes of a function; its declarations would refuse an assignment."""
    vars(function).update(handles)
