"""The output side of a subtask: partitions batches over channels, gathers them into frames, obeys credit.

A channel gathers fragments of batches until they fill a frame, a timeout passes, or a control event is due.
Without credit frames wait and the subtask stops producing: nothing is dropped, one step's output may wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headgate.common.ids import EdgeId
from headgate.common.time import WATERMARK_MIN
from headgate.core.credit import SenderCredit
from headgate.core.marks import NO_EPOCH
from headgate.graph.partitioners import Broadcast, ByKeyGroup, Forward, Partitioner, Rebalance
from headgate.records.arrow_batch import ArrowBatch, concat_columns
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch, concat_rows
from headgate.records.selectors import KeySelector
from headgate.runtime.job.operator_context import OperatorContext
from headgate.runtime.protocol.elements import Barrier, CancelMarker, EndOfData, Event, Idle, Mark, Watermark
from headgate.runtime.worker.operators.wrong_use import keys_blamed

FRAME_ROWS = 8_192
FRAME_ROWS_OF_COLUMNS = 32_768
FRAME_BYTES = 512 * 1024
"""A frame is sent once it has so many rows or bytes; smaller ones wait for the flush timeout.
Columns may have more rows, as they cost their receiver as much for few rows as for many.
"""
FRAME_BYTES_MAX = 4 * 1024 * 1024
"""Larger frames are split: credit counts frames, and receivers refuse frames far above this size."""


class Lane(Protocol):
    """The send queue to one receiving subtask, below a channel: in this process or to another worker."""

    def deliver(self, element: Batch | Event) -> None:
        """Send one batch or control event after all earlier ones, without credit; does not wait.
        The rows may be changed after the call: they are copied or encoded in it. To another worker, a batch
        that is too large for a frame raises UsageError or ProtocolError.
        """


class OutputChannel:
    """The channel to one receiving subtask: gathers records into frames, and sends them as credit allows.
    `credit_initial`: frames it may send before a :meth:`grant`, and the most credit; `withheld`: none before.
    """

    __slots__ = ("_bytes", "_fragments", "_lane", "_rows", "_waiting", "batches", "credit")

    def __init__(self, lane: Lane, credit_initial: int, *, withheld: bool = False) -> None:
        self.credit = SenderCredit(credit_initial, withheld=withheld)
        self._lane = lane
        self._fragments: list[Batch] = []
        self._rows = self._bytes = 0
        self.batches = 0  # frames with records that were sent
        self._waiting: deque[Batch | Event] = deque()

    @property
    def available(self) -> bool:
        """Whether no frame waits for credit (the receiver's permission to send)."""
        return not self._waiting

    @property
    def waiting(self) -> int:
        """How many frames and events wait for credit."""
        return len(self._waiting)

    @property
    def gathering(self) -> bool:
        return bool(self._fragments)

    def add(self, batch: Batch) -> None:
        """Gather the records of a batch, and send them once they fill a frame (without credit they wait).
        A frame has 512 KiB, 8,192 objects of Python, or 32,768 rows of columns.
        """
        rows_max = FRAME_ROWS_OF_COLUMNS if isinstance(batch, ArrowBatch) else FRAME_ROWS
        self._fragments.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes()
        if self._rows >= rows_max or self._bytes >= FRAME_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send the gathered records now, although they fill no frame; without credit they wait."""
        if not self._fragments:
            return
        fragments, self._fragments = self._fragments, []
        gathered = self._bytes
        self._rows = self._bytes = 0
        frames = [frame for batch in merge(fragments) for frame in split(batch)]
        for frame in frames:
            self._pass_on(frame, gathered if len(frames) == 1 else frame.nbytes())

    def event(self, event: Event) -> None:
        """Flush, then send a control event, such as a barrier; it takes no credit and overtakes nothing."""
        self.flush()
        self._pass_on(event)

    def overtake(self, barrier: Barrier) -> list[Batch | Event]:
        overtaken = [*_storable(self._waiting), *self._fragments]
        self._lane.deliver(barrier)
        return overtaken

    def holds_barrier(self, checkpoint: int) -> bool:
        return self._place_of(checkpoint) is not None

    def release_barrier(self, checkpoint: int) -> list[Batch | Event]:
        place = self._place_of(checkpoint)
        if place is None:
            return []
        barrier = self._waiting[place]
        assert isinstance(barrier, Barrier)
        overtaken = _storable(list(self._waiting)[:place])
        del self._waiting[place]
        self._lane.deliver(barrier.as_unaligned())
        return overtaken

    def _place_of(self, checkpoint: int) -> int | None:
        places = enumerate(self._waiting)
        return next((at for at, e in places if isinstance(e, Barrier) and e.checkpoint == checkpoint), None)

    def grant(self, frames: int) -> None:
        """Add credit for `frames` processed frames, and send what waited for it; InternalError: too much."""
        self.credit.grant(frames)
        while self._waiting and self._may_pass(self._waiting[0]):
            first = self._waiting.popleft()
            self._send(first, first.nbytes() if isinstance(first, (RowBatch, ArrowBatch)) else 0)

    def _pass_on(self, element: Batch | Event, size: int = 0) -> None:
        if self._waiting or not self._may_pass(element):
            self._waiting.append(element)
        else:
            self._send(element, size)

    def _may_pass(self, element: Batch | Event) -> bool:
        return self.credit.credit > 0 or not isinstance(element, (RowBatch, ArrowBatch))

    def _send(self, element: Batch | Event, size: int) -> None:
        if isinstance(element, (RowBatch, ArrowBatch)):
            self.credit.spend(max(1, size))
            self.batches += 1
        self._lane.deliver(element)


def _storable(elements: Iterable[Batch | Event]) -> list[Batch | Event]:
    return [e for e in elements if isinstance(e, (RowBatch, ArrowBatch, Watermark, Idle))]


def merge(fragments: Sequence[Batch]) -> list[Batch]:
    """Return the records of `fragments` in order, joined to one batch for each run of batches of equal form.
    That is the same kind, the same schema, and timestamps in all or in none. `fragments` must not be empty.
    """
    runs: list[list[Batch]] = [[fragments[0]]]
    for batch in fragments[1:]:
        if _mergeable(runs[-1][-1], batch):
            runs[-1].append(batch)
        else:
            runs.append([batch])
    return [run[0] if len(run) == 1 else _joined(run) for run in runs]


def split(batch: Batch) -> Iterator[Batch]:
    """Yield the batch in pieces of about `FRAME_BYTES_MAX` (4 MiB) at most, but at least one record each."""
    pieces = min(len(batch), 1 + batch.nbytes() // FRAME_BYTES_MAX)
    if pieces <= 1:
        yield batch
        return
    size = -(-len(batch) // pieces)
    for start in range(0, len(batch), size):
        yield batch.slice(start, min(start + size, len(batch)))


def _mergeable(left: Batch, right: Batch) -> bool:
    if (left.timestamps is None) != (right.timestamps is None):
        return False
    if isinstance(left, ArrowBatch) and isinstance(right, ArrowBatch):
        return bool(left.columns.schema.equals(right.columns.schema))
    return isinstance(left, RowBatch) and isinstance(right, RowBatch)


def _joined(run: list[Batch]) -> Batch:
    # They are all of one kind.
    return concat_columns(run) if isinstance(run[0], ArrowBatch) else concat_rows(run)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class EdgeEnds:
    """The identity of an exchange in checkpoints: uids of its two operators, which outlive a changed plan.
    `tag` is its side output, None the main one; `lineage` counts exchanges between the same ends, from 0.
    """

    edge: EdgeId  # the exchange's number in the present plan
    sender: str  # uid of the operator that emits
    tag: str | None  # the side output, or None
    receiver: str  # uid of the operator that receives
    lineage: int = 0  # number among the exchanges between the same two ends, from 0


@dataclass(frozen=True, slots=True)
class Overtaken:
    """The batches and events for subtask `receiver` of an exchange that an unaligned barrier overtook.
    The sender's checkpoint stores them, in order; they stay queued, and are sent later, too.
    """

    ends: EdgeEnds
    receiver: int
    elements: list[Batch | Event]


class OutputEdge:
    """One exchange of a sending subtask: distributes its records over channels, one per receiving subtask."""

    def __init__(
        self,
        partitioner: Partitioner,
        channels: Sequence[OutputChannel],  # one per receiver
        max_parallelism: int,  # number of key groups
        first: int = 0,  # the receiver that comes first in round-robin
        receiver: OperatorContext | None = None,  # named in the error if the key selector fails for a record
        ends: EdgeEnds | None = None,
        receivers: Sequence[int] = (),  # the receiving subtask of each channel
    ) -> None:
        self.channels = channels
        # No barrier overtakes on a broadcast: after a restore a subtask's copy of records would have to come
        # from the same old subtask as its state.
        self.always_aligned = isinstance(partitioner, Broadcast)
        self.ends = ends or EdgeEnds(EdgeId(0), "", None, "")
        self.receivers = receivers or range(len(channels))
        self._receiver = receiver
        self._partitioner, self._max_parallelism = partitioner, max_parallelism
        self.turn = first

    def process(self, batch: Batch) -> None:
        """Send a batch by the partitioner: to all, one, each in turn, or by key (UsageError: a bad key)."""
        kind = type(self._partitioner)
        if kind is Broadcast:
            for channel in self.channels:
                channel.add(batch)
        elif kind is Forward or len(self.channels) == 1:
            self.channels[0].add(batch)
        elif kind is Rebalance:
            self.channels[self.turn % len(self.channels)].add(batch)
            self.turn += 1
        else:
            self._by_key(batch)

    def _by_key(self, batch: Batch) -> None:
        assert isinstance(self._partitioner, ByKeyGroup)
        groups = self._key_groups(batch, self._partitioner.key)
        count = len(self.channels)
        owners = groups.astype(np.int64) * count // self._max_parallelism
        order = np.argsort(owners.astype(np.uint16), kind="stable")
        sizes = np.bincount(owners, minlength=count).tolist()
        if max(sizes) == len(batch):
            self.channels[sizes.index(len(batch))].add(batch)
            return
        # One sort and one gather, whatever the number of receivers.
        sorted_batch, start = batch.take(order), 0
        for channel, size in zip(self.channels, sizes, strict=True):
            if size:
                channel.add(sorted_batch.slice(start, start + size))
            start += size

    def _key_groups(self, batch: Batch, selector: KeySelector) -> NDArray[np.int32]:
        def compute() -> NDArray[np.int32]:
            return batch.key_groups(selector, self._max_parallelism)

        return compute() if self._receiver is None else keys_blamed(self._receiver, batch, selector, compute)


class Outputs:
    """All exchanges that a subtask sends to; passes watermarks, barriers and other events to each channel.
    No method blocks: elements without credit wait, and meanwhile :attr:`available` is False.
    """

    def __init__(self, buffer_timeout_ms: int) -> None:
        self.edges: list[OutputEdge] = []
        self.records_out = 0  # records emitted since the start
        self.last_epoch = NO_EPOCH  # the greatest that a source above has emitted a mark of
        self._timeout_ms = buffer_timeout_ms
        self._watermark = self._sent = WATERMARK_MIN
        self._silent = True
        self._idle = False
        self.next_flush: int | None = None  # when `flush_due` is to be called (monotonic ms)
        self._paused: Callable[[], bool] | None = None

    @property
    def event_time(self) -> int:
        """The watermark (ms) that the subtask has reached; receivers get it with the next flush."""
        return self._watermark

    @property
    def available(self) -> bool:
        """Whether the subtask may produce output: no channel waits for credit, and nothing pauses it."""
        if self._paused is not None and self._paused():
            return False
        for edge in self.edges:
            for channel in edge.channels:
                if not channel.available:
                    return False
        return True

    def pause_while(self, paused: Callable[[], bool] | None) -> None:
        """Have :attr:`available` be False as long as `paused()` is True; None removes the condition."""
        self._paused = paused

    def watermark(self, timestamp: int) -> None:
        """Advance event time to `timestamp` (ms; never back), end idleness; sent at the next flush."""
        if self._idle:
            # Even the same watermark as before ends the idleness.
            self._idle, self._sent = False, WATERMARK_MIN
        self._watermark = max(self._watermark, timestamp)

    def idle(self) -> None:
        self._flush_all()
        self._broadcast(Idle())
        self._idle = True

    def end_of_data(self) -> None:
        """Flush, then send to all receivers that no record follows."""
        self._flush_all()
        self._broadcast(EndOfData(self.last_epoch))

    def mark(self, mark: Mark) -> None:
        self._flush_all()
        self._broadcast(mark)

    def lost(self, epoch: int) -> None:
        self._broadcast(Mark(epoch, lost=True))

    def barrier(self, barrier: Barrier) -> list[Overtaken]:
        """Send a barrier on all channels: behind the waiting records or, if unaligned, before them.
        Return the elements that it overtook, per channel; [] if aligned. On a broadcast it never overtakes.
        """
        if not barrier.overtakes:
            self._flush_all()
            for edge in self.edges:
                for channel in edge.channels:
                    channel.event(barrier.as_forced() if edge.always_aligned else barrier)
            return []
        # A watermark that was reached but not sent yet is in flight like the records before it.
        unsent: list[Event] = [Watermark(self._watermark)] if self._watermark > self._sent else []
        overtaken: list[Overtaken] = []
        for edge in self.edges:
            for receiver, channel in zip(edge.receivers, edge.channels, strict=True):
                if edge.always_aligned:
                    for event in (*unsent, barrier.as_forced()):
                        channel.event(event)
                else:
                    elements = channel.overtake(barrier)
                    overtaken.append(Overtaken(edge.ends, receiver, [*elements, *unsent]))
        return overtaken

    def holds_barrier(self, checkpoint: int) -> bool:
        """Return whether the barrier of `checkpoint` waits for credit where it may overtake records."""
        return any(channel.holds_barrier(checkpoint) for _, _, channel in self._overtakable())

    def release_barrier(self, checkpoint: int) -> list[Overtaken]:
        """Send the barriers of `checkpoint` that wait for credit, which have timed out, now and as unaligned.
        Return the elements that each overtook, per channel (none where no barrier waited).
        """
        return [
            Overtaken(ends, receiver, channel.release_barrier(checkpoint))
            for ends, receiver, channel in self._overtakable()
        ]

    def _overtakable(self) -> Iterator[tuple[EdgeEnds, int, OutputChannel]]:
        for edge in self.edges:
            if not edge.always_aligned:
                for receiver, channel in zip(edge.receivers, edge.channels, strict=True):
                    yield edge.ends, receiver, channel

    def cancel(self, marker: CancelMarker) -> None:
        """Send `marker` to all receivers: a checkpoint was aborted, so they must not wait for its barrier."""
        self._broadcast(marker)

    def note_step(self, now_ms: int) -> None:
        """Start the flush timeout at `now_ms` (monotonic), unless it runs or nothing waits for a flush."""
        if self.next_flush is not None or not self.edges:
            return
        gathering = (channel.gathering for edge in self.edges for channel in edge.channels)
        if self._silent or self._watermark > self._sent or any(gathering):
            self.next_flush = now_ms + self._timeout_ms

    def flush_due(self, now_ms: int) -> None:
        if self.next_flush is not None and now_ms >= self.next_flush:
            self._flush_all()

    def channels(self) -> Iterator[OutputChannel]:
        return (channel for edge in self.edges for channel in edge.channels)

    def _flush_all(self) -> None:
        self.next_flush = None
        for channel in self.channels():
            channel.flush()
        if self._watermark > self._sent or self._silent:
            # The first watermark is sent whatever it is: receivers wait for an element of every channel.
            self._silent = False
            self._sent = self._watermark
            self._broadcast(Watermark(self._watermark))

    def _broadcast(self, event: Event) -> None:
        for channel in self.channels():
            channel.event(event)


class EdgeReceiver:
    """The end of a chain, or of one side output: counts records and passes them to the output's exchanges.
    Only the `main` output passes on watermarks, idleness and end of data; they count for side outputs.
    """

    def __init__(self, outputs: Outputs, edges: Sequence[OutputEdge], main: bool) -> None:
        self._outputs, self.edges, self._main = outputs, edges, main

    def process(self, batch: Batch) -> None:
        self._outputs.records_out += len(batch)
        for edge in self.edges:
            edge.process(batch)

    def watermark(self, timestamp: int) -> None:
        if self._main:
            self._outputs.watermark(timestamp)

    def idle(self) -> None:
        if self._main:
            self._outputs.idle()

    def mark(self, mark: Mark) -> None:
        if self._main:
            self._outputs.mark(mark)

    def end_of_data(self) -> None:
        if self._main:
            self._outputs.end_of_data()
