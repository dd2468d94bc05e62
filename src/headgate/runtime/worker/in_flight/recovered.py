"""Replays a subtask's in-flight records from a restored checkpoint, in an order that keeps event time.

They are processed before any live channel is read, those for operators further down the chain first, as they
are older. A checkpoint taken meanwhile stores the remaining ones again, and the live channels' records as a
further level. Former channels of one level are read in turns; the next level begins after them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from headgate.common.time import WATERMARK_MIN
from headgate.core.watermarks import WatermarkValve
from headgate.records.batch import Batch
from headgate.runtime.protocol.elements import Idle, Watermark
from headgate.runtime.worker.in_flight.channels import PartReader, RecoveredChannel
from headgate.runtime.worker.in_flight.gathering import StreamKey
from headgate.runtime.worker.in_flight.stored_parts import Element
from headgate.state.snapshots import InFlightShare, InFlightStream

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

Remainder = tuple[StreamKey, int | None, bool, list[Element]]
"""A stream to be stored again: its identity, its first watermark, whether it is idle, its elements."""

Position = tuple[int, bool]
"""The watermark that a channel has reached, and whether it is idle."""


class RecoveredInput:
    """The restored in-flight records that a subtask has to process before it reads its live channels."""

    def __init__(
        self,
        shares: Sequence[InFlightShare],  # the subtask's shares of stored in-flight streams
        position_of: Callable[[str], int],  # receiver uid -> the operator's place in the chain, from 0
        reader: PartReader,
        subtask: int,  # number of this subtask
    ) -> None:
        receivers: dict[str, list[InFlightShare]] = {}
        for share in shares:
            receivers.setdefault(share.stream.receiver, []).append(share)
        order = sorted(receivers, key=position_of, reverse=True)
        self._operators = [_OperatorInput(position_of(uid), receivers[uid], reader) for uid in order]
        self._subtask = subtask
        self._at = 0
        self._exhausted = not self._operators

    def poll(self) -> tuple[int, Batch | None, int] | None:
        """Take and return the next batch, as (place, records, watermark); None: the end.

        Returns:
            The place, in the chain from 0, of the operator that receives the records; the records, or None if
            only the watermark moved; the watermark (ms) after them. It is for the head of the chain, which
            passes it on, and it does not move while operators after the head have in-flight records. For
            these operators it is `WATERMARK_MIN`.

        Raises:
            StorageError: a part cannot be read.
            UsageError: the records' class has changed.
        """
        while not self._exhausted:
            operator = self._operators[self._at]
            polled = operator.poll()
            if polled is not None:
                batch, mark = polled
                is_head = operator.operator == 0
                if batch is not None or is_head:
                    return operator.operator, batch, mark if is_head else WATERMARK_MIN
            elif self._at + 1 < len(self._operators):
                self._at += 1
            else:
                self._exhausted = True
        return None

    def remainder(self, partly: Batch | None = None) -> list[Remainder]:
        """Return the streams that are not processed yet, for a checkpoint to store again; polling continues.
        Streams without records are included, since their watermark holds event time back. Batches are copies
        of those that :meth:`poll` will return. `partly` is the unprocessed rest of the current batch, None if
        there is none. Raises as :meth:`poll` does.
        """
        found: list[Remainder] = []
        for operator in self._operators[self._at :]:
            found += operator.remainder(self._subtask, partly)
            partly = None
        return found

    def levels(self) -> int:
        """Return the level at which a checkpoint taken now stores the live channels' records.
        It is how many levels of restored ones :meth:`remainder` has for the head; lower levels come first.
        """
        head = self._head()
        return 0 if head is None else head.levels()

    def seeds(self, channels: Sequence[tuple[str, str | None, int]]) -> list[tuple[int | None, bool]]:
        """Return (watermark, idle) of each live channel as it is once all in-flight records are processed.
        `channels` are (sender uid, tag of the side output, sending subtask). An unknown watermark is None.
        """
        head = self._head()
        if head is None:
            return [(None, False)] * len(channels)
        return [head.seed(*channel) or (None, False) for channel in channels]

    def wait_for(self, live: Iterable[tuple[str, str | None]]) -> None:
        """Hold event time back if nothing is stored of a live channel, given as sender's uid and tag.
        Its sender, which took an aligned snapshot or is new, says only later how far it is. To be called
        before :meth:`poll`.
        """
        head = self._head()
        if head is not None:
            head.wait_for(live)

    def _head(self) -> _OperatorInput | None:
        # The last one, if any: operators are in reverse order of the chain.
        last = self._operators[-1] if self._operators else None
        return last if last is not None and last.operator == 0 else None


class _OperatorInput:
    """The in-flight records of one operator, level by level, and the watermark over its channels."""

    def __init__(self, operator: int, shares: Iterable[InFlightShare], reader: PartReader) -> None:
        self.operator = operator
        self._levels = _by_level(shares, reader)
        self._level = -1
        self._turns: deque[int] = deque()
        self._valve = WatermarkValve(0)
        self._reported = WATERMARK_MIN
        # For a snapshot: the channel of the batch polled last, and its position before the batch.
        self._last: tuple[RecoveredChannel, Position] | None = None
        self._ends: dict[int, list[RecoveredChannel]] = {}
        self._unknown = 0  # 1 if nothing is stored of a live channel

    def wait_for(self, live: Iterable[tuple[str, str | None]]) -> None:
        streams = [channel.stream for level in self._levels for channel in level]
        self._unknown = int(not {*live} <= {(stream.sender, stream.tag) for stream in streams})

    def poll(self) -> tuple[Batch | None, int] | None:
        while True:
            if self._valve.combined > self._reported:
                self._reported = self._valve.combined
                return None, self._reported
            if self._turns:
                batch = self._turn()
                if batch is not None:
                    self._reported = self._valve.combined
                    return batch, self._reported
            elif self._level + 1 < len(self._levels):
                self._enter(self._level + 1)
            else:
                return None

    def levels(self) -> int:
        return len(self._levels) - max(self._level, 0)

    def remainder(self, subtask: int, partly: Batch | None) -> list[Remainder]:
        if self._level < 0:
            self._enter(0)
        origins = {_origin(channel.stream) for level in self._levels for channel in level}
        lineage = {origin: number for number, origin in enumerate(sorted(origins))}
        found: list[Remainder] = []
        for number, level in enumerate(self._levels[self._level :]):
            for channel in level:
                stream = channel.stream
                ends = stream.receiver, stream.sender, stream.tag, stream.sender_subtask, subtask
                key = StreamKey(*ends, number, lineage=lineage[_origin(stream)], former=stream.former)
                if number:
                    found.append((key, stream.watermark, stream.idle, channel.rest()))
                else:
                    found.append((key, *self._unfinished(channel, partly)))
        return found

    def seed(self, sender: str, tag: str | None, subtask: int) -> Position | None:
        return _continued_among(self._latest_ends().values(), sender, tag, subtask)

    def _channels(self) -> list[RecoveredChannel]:
        return self._levels[self._level] if self._level >= 0 else []

    def _latest_ends(self) -> dict[int, list[RecoveredChannel]]:
        latest: dict[int, list[RecoveredChannel]] = {}
        for channel in self._channels():
            latest.setdefault(channel.stream.receiver_subtask, []).append(channel)
        return {**self._ends, **latest}

    def _enter(self, level: int) -> None:
        self._ends = self._latest_ends()
        self._level = level
        channels = self._channels()
        for channel in channels:
            channel.position, channel.idle = self._start(channel.stream)
        # Event time must not overtake streams of higher levels that begin at a known watermark.
        waiting = [c for above in self._levels[level + 1 :] for c in above if c.stream.watermark is not None]
        known = len(channels) + len(waiting)
        self._valve = WatermarkValve(known + self._unknown, self._valve.combined)
        for index, channel in enumerate([*channels, *waiting]):
            mark, idle = channel.stream.watermark, channel.stream.idle
            if index < len(channels):
                mark, idle = channel.position, channel.idle
            self._valve.seed(index, mark, idle and not channel.has_records())
        self._turns = deque(range(len(channels)))

    def _start(self, stream: InFlightStream) -> Position:
        if stream.watermark is not None:
            return stream.watermark, stream.idle
        if stream.sender_subtask < 0:
            groups = list(self._ends.values())
        else:
            groups = [self._ends.get(stream.receiver_subtask, [])]
        found = _continued_among(groups, stream.sender, stream.tag, stream.sender_subtask)
        mark, idle = found or (WATERMARK_MIN, False)
        return mark, idle or stream.idle

    def _turn(self) -> Batch | None:
        index = self._turns.popleft()
        channel = self._channels()[index]
        element = channel.take()
        if element is None:
            return None
        self._turns.append(index)
        if isinstance(element, Watermark):
            self._advance(index, channel, element.timestamp)
        elif isinstance(element, Idle):
            channel.idle = True
            # A channel with more records still holds event time back, or these would be late.
            if not channel.has_records():
                self._valve.idle(index)
        elif len(element):
            return self._begin(index, channel, element)
        return None

    def _begin(self, index: int, channel: RecoveredChannel, batch: Batch) -> Batch:
        self._last = (channel, (channel.position, channel.idle))
        if batch.watermarks is None:
            return batch
        held_back = in_step(batch, batch.watermarks, self._valve, index)
        self._advance(index, channel, int(batch.watermarks[-1]))
        return held_back

    def _advance(self, index: int, channel: RecoveredChannel, mark: int) -> None:
        channel.position, channel.idle = max(channel.position, mark), False
        self._valve.advance(index, mark)

    def _unfinished(self, channel: RecoveredChannel, partly: Batch | None) -> tuple[int, bool, list[Element]]:
        if partly is None or self._last is None or self._last[0] is not channel:
            return channel.position, channel.idle, channel.rest()
        mark, idle = self._last[1]
        return mark, idle, [partly, Watermark(channel.position), *channel.rest()]


def _by_level(shares: Iterable[InFlightShare], reader: PartReader) -> list[list[RecoveredChannel]]:
    levels: dict[int, dict[tuple[str, str, int, bool, int, int], list[InFlightShare]]] = {}
    for share in shares:
        stream = share.stream
        ends = (stream.sender, stream.tag or "", stream.sender_subtask, stream.former)
        levels.setdefault(stream.level, {}).setdefault((*ends, *_origin(stream)), []).append(share)
    return [
        [RecoveredChannel(levels[level][name], reader) for name in sorted(levels[level])]
        for level in sorted(levels)
    ]


def _origin(stream: InFlightStream) -> tuple[int, int]:
    return stream.receiver_subtask, stream.lineage


def _continued_among(
    groups: Iterable[Sequence[RecoveredChannel]], sender: str, tag: str | None, subtask: int
) -> Position | None:
    found = [at for group in groups if (at := _continued(group, sender, tag, subtask)) is not None]
    return _least(found) if found else None


def _continued(
    ends: Sequence[RecoveredChannel], sender: str, tag: str | None, subtask: int
) -> Position | None:
    # The same subtask of the sender continues where it was. If subtasks were renumbered (another
    # parallelism), it is unknown which of them the stream continues, so the lowest position counts.
    same = [c for c in ends if c.stream.sender == sender and c.stream.tag == tag]
    if not any(c.stream.former for c in same):
        same = [c for c in same if c.stream.sender_subtask == subtask] or same
    return _least([(c.position, c.idle) for c in same]) if same else None


def _least(positions: Sequence[Position]) -> Position:
    return min(mark for mark, _ in positions), all(idle for _, idle in positions)


def in_step(batch: Batch, watermarks: Int64s, valve: WatermarkValve, channel: int) -> Batch:
    """Return the batch with `watermarks` (one per record, ms) limited by the other channels of `valve`.
    So they do not pass the other active channels' watermarks, nor fall behind the combined one. Marks
    `channel`, an index of `valve`, as active.
    """
    combined = valve.combined
    bound = max(valve.bound_by_others(channel), combined)
    marks = np.minimum(np.maximum(watermarks, combined), bound)
    return batch.with_times(batch.timestamps, marks)  # type: ignore[arg-type]  # it has both or neither
