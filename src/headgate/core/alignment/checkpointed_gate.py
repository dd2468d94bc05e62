"""The input gate of a subtask that takes part in checkpoints: queues, barriers, records in flight.

Three things meet here. :class:`InputGate` says which element is next; a :class:`BarrierHandler`
says what a barrier means; and while the barrier of an unaligned checkpoint has overtaken records,
the gate collects those records, which are part of the checkpoint, and still hands them out.

    what happens            what is called                       what follows
    a barrier arrives       handler.announce, by announce()      an unaligned one counts from here
    a barrier is read       handler.barrier, by poll()           an aligned one counts from here
    a cancel marker is read handler.cancel, by poll()
    a channel ends          handler.end_of_partition, by poll()
    time passes             handler.timeout, by announce()       an aligned checkpoint may switch

A capture begins with a :class:`TriggerSnapshot` whose barrier overtakes. Of each channel it takes
what is queued ahead of that barrier; where the barrier has not arrived, everything queued and
everything that arrives until it does. It takes nothing from a channel whose barrier was read. A
batch that the subtask has polled and not finished is the subtask's own to add: it left the gate.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from headgate.common.errors import InternalError
from headgate.common.time import WATERMARK_MIN
from headgate.core.alignment.barriers import Barrier
from headgate.core.alignment.handler_contract import BarrierHandler, CompleteCapture, Effect, TriggerSnapshot
from headgate.core.input_gate import InputGate


class Kind(Enum):
    """The kinds of elements of a channel that the gate treats differently."""

    RECORDS = "records"  # a batch: data, and in flight when a barrier overtakes it
    BARRIER = "barrier"  # a :class:`Barrier`
    CANCEL = "cancel"  # comes in place of a barrier, or after it; has the attribute `checkpoint`
    END_OF_PARTITION = "end of partition"  # nothing at all follows on the channel
    OTHER = "other"  # an event that keeps its place among the records, as a watermark does


class Clocks(NamedTuple):
    """One reading of the wall clock and the monotonic clock, both in ms."""

    wall_ms: int  # wall clock, for times from elsewhere
    mono_ms: float  # monotonic clock, for durations and deadlines


E = TypeVar("E")


@runtime_checkable
class _Numbered(Protocol):
    @property
    def checkpoint(self) -> int: ...


class _Arrival(NamedTuple, Generic[E]):
    number: int  # counts arrivals at the gate: the same object may be put twice
    kind: Kind
    element: E


class CheckpointedInputGate(Generic[E]):
    """The queues of a subtask's input channels (numbered from 0), which also handle checkpoint barriers.

    The caller calls :meth:`announce` while the gate is :attr:`urgent` and when :meth:`next_timeout` is due,
    and calls :meth:`take_captured` after every call of :meth:`put`, :meth:`announce` and :meth:`poll`.

    `kind_of` is called once for each element, on its arrival; `size_of` (bytes) only for RECORDS that are
    polled while a checkpoint is pending; `position` is that of :class:`ChannelTurns`. `bytes_processed` is
    the sum of these sizes for the current checkpoint, that is between its first sign and its last barrier.
    """

    def __init__(
        self,
        channels: int,
        handler: BarrierHandler,
        kind_of: Callable[[E], Kind],
        size_of: Callable[[E], int],
        position: Callable[[int], tuple[int, bool]] = lambda _: (WATERMARK_MIN, True),
    ) -> None:
        self.handler = handler
        self.bytes_processed = 0
        self._kind_of, self._size_of = kind_of, size_of
        self._queues: InputGate[_Arrival[E]] = InputGate(channels, _is_records, position)
        self._arrivals = 0
        # Per channel, the greatest id of a barrier or cancel marker that arrived, and that was read.
        self._arrived, self._read = [0] * channels, [0] * channels
        self._open = set(range(channels))
        self._unannounced: deque[tuple[int, int, Barrier]] = deque()
        self._controls = 0
        self._capturing: int | None = None
        self._captured: list[tuple[int, E]] = []
        self._current = handler.current
        self._announced_last: int | None = None
        self._completed_by: int | None = None

    def put(self, channel: int, element: E) -> None:
        """Queue an element that arrived on `channel`; no barrier takes effect before :meth:`announce` or
        `poll`. While a capture runs, records and OTHER events that are ahead of their channel's barrier join
        it.
        """
        kind = self._kind_of(element)
        self._arrivals += 1
        self._queues.put(channel, _Arrival(self._arrivals, kind, element))
        if kind is Kind.RECORDS or kind is Kind.OTHER:
            if self._capturing is not None and self._arrived[channel] < self._capturing:
                self._captured.append((channel, element))
        elif kind is not Kind.END_OF_PARTITION:
            self._controls += 1
            assert isinstance(element, Barrier | _Numbered)
            self._arrived[channel] = max(self._arrived[channel], element.checkpoint)
            if isinstance(element, Barrier):
                self._unannounced.append((self._arrivals, channel, element))

    @property
    def urgent(self) -> bool:
        """Whether barriers have arrived that :meth:`announce` must still pass to the handler."""
        return bool(self._unannounced)

    def announce(self, clocks: Clocks) -> list[Effect]:
        """Pass the barriers that arrived, in order, and the time to the handler; return the effects. Stops
        early, and stays urgent if more arrived, after a barrier that completed a checkpoint: the caller must
        take what was captured for it, and its measurements, before another one begins.
        """
        effects: list[Effect] = []
        while self._unannounced:
            effects += self._announce_first(clocks)
            if effects and not self.handler.pending:
                return effects
        return effects + self._perform(self.handler.timeout(clocks.mono_ms), self._announced_last)

    @property
    def available(self) -> bool:
        return self._queues.available

    @property
    def control_waits(self) -> bool:
        """Whether a barrier or a cancel marker is queued on some channel, perhaps behind records."""
        return self._controls > 0

    def poll(self, clocks: Clocks, only_control: bool = False) -> tuple[int, E, list[Effect]] | None:
        """Take the next element: return (channel, element, effects to perform), or None if none may be read.
        Channels take turns. Barriers and other events are returned too, after the handler has seen them. With
        `only_control` only a barrier or cancel marker that is the first of some channel is taken.
        """
        if only_control and not self._controls:
            return None
        polled = self._queues.poll(_is_control if only_control else None)
        if polled is None:
            return None
        channel, (number, kind, element) = polled
        if channel in self.handler.blocked:
            current = self.handler.current
            raise InternalError(f"read from channel {channel}, which checkpoint {current} blocks")
        if kind is Kind.RECORDS:
            if self.handler.pending:
                self.bytes_processed += self._size_of(element)
            return channel, element, []
        if isinstance(element, Barrier):
            return channel, element, self._barrier(channel, number, element, clocks)
        if kind is Kind.CANCEL:
            assert isinstance(element, _Numbered)
            return channel, element, self._cancel(channel, element.checkpoint)
        if kind is Kind.END_OF_PARTITION:
            self._open.discard(channel)
            ended = self.handler.end_of_partition(channel, clocks.mono_ms)
            return channel, element, self._perform(ended, channel)
        return channel, element, []

    def next_timeout(self) -> float | None:
        return self.handler.next_timeout()

    def block(self) -> None:
        """Block the channels that the handler blocks now, after something else than a barrier changed it."""
        self._queues.set_blocked(self.handler.blocked)

    def abort(self, checkpoint: int) -> None:
        """Abort `checkpoint` in this gate, as the job master says: unblock its channels, ignore its late
        barriers, and end its capture and drop what it captured, if it is the one captured.
        """
        self.handler.abort(checkpoint)
        if self._capturing == checkpoint:
            self._drop_capture()
        self._perform([], None)

    @property
    def capturing(self) -> int | None:
        """The checkpoint whose records in flight are being collected; None when there is none."""
        return self._capturing

    def take_captured(self) -> list[tuple[int, E]]:
        """Remove and return all captured since the last call, as (channel, element), in order per channel."""
        captured, self._captured = self._captured, []
        return captured

    @property
    def last_channel(self) -> int | None:
        """The channel whose barrier completed the current checkpoint, or is the only one still missing.

        None while several are missing, and when the checkpoint ended without being complete.
        """
        if self._completed_by is not None or not self.handler.pending:
            return self._completed_by
        late = [c for c in self._open if self._arrived[c] < self._current]
        late = late or [c for c in self._open if self._read[c] < self._current]
        return late[0] if len(late) == 1 else None

    def queued(self, channel: int) -> int:
        return self._queues.queued(channel)

    def _announce_first(self, clocks: Clocks) -> list[Effect]:
        _, channel, barrier = self._unannounced.popleft()
        age_ms = clocks.wall_ms - barrier.trigger_ms
        self._announced_last = channel
        return self._perform(self.handler.announce(channel, barrier, age_ms, clocks.mono_ms), channel)

    def _barrier(self, channel: int, number: int, barrier: Barrier, clocks: Clocks) -> list[Effect]:
        self._passed(channel, barrier.checkpoint)
        effects: list[Effect] = []
        while self._unannounced and self._unannounced[0][0] <= number:
            effects += self._announce_first(clocks)
        age_ms = clocks.wall_ms - barrier.trigger_ms
        read = self.handler.barrier(channel, barrier, age_ms, clocks.mono_ms)
        return effects + self._perform(read, channel)

    def _cancel(self, channel: int, checkpoint: int) -> list[Effect]:
        self._passed(channel, checkpoint)
        return self._perform(self.handler.cancel(checkpoint), channel)

    def _passed(self, channel: int, checkpoint: int) -> None:
        # Before the handler gets it: a capture that it begins takes nothing from this channel.
        self._controls -= 1
        self._read[channel] = max(self._read[channel], checkpoint)

    def _perform(self, effects: list[Effect], channel: int | None) -> list[Effect]:
        # After every call of the handler; `channel` is the one that the call was about.
        if self.handler.current != self._current:
            self._current = self.handler.current
            self.bytes_processed, self._completed_by = 0, None
        for effect in effects:
            if isinstance(effect, TriggerSnapshot):
                self._completed_by = None if effect.barrier.overtakes else channel
                if effect.barrier.overtakes:
                    self._begin_capture(effect.barrier.checkpoint)
            elif isinstance(effect, CompleteCapture):
                self._completed_by, self._capturing = channel, None
            elif effect.checkpoint == self._capturing:
                self._drop_capture()
        # A checkpoint that gave way to a newer one is captured no more, even where no effect names it.
        pending = self.handler.current if self.handler.pending else None
        if self._capturing is not None and self._capturing != pending:
            self._drop_capture()
        self._queues.set_blocked(self.handler.blocked)
        return effects

    def _begin_capture(self, checkpoint: int) -> None:
        if self._captured and self._capturing is None:
            raise InternalError(f"what was captured before checkpoint {checkpoint} was not taken")
        self._drop_capture()
        self._capturing = checkpoint
        for channel in range(len(self._read)):
            if self._read[channel] < checkpoint:
                self._capture_queued(channel, checkpoint)

    def _capture_queued(self, channel: int, checkpoint: int) -> None:
        for _, kind, element in self._queues.waiting(channel):
            if kind is Kind.RECORDS or kind is Kind.OTHER:
                self._captured.append((channel, element))
            elif isinstance(element, Barrier | _Numbered) and element.checkpoint >= checkpoint:
                return

    def _drop_capture(self) -> None:
        self._capturing = None
        self._captured.clear()


def _is_records(arrival: _Arrival[E]) -> bool:
    return arrival.kind is Kind.RECORDS


def _is_control(arrival: _Arrival[E]) -> bool:
    return arrival.kind is Kind.BARRIER or arrival.kind is Kind.CANCEL
