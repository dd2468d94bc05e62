"""One old channel's records in flight, read part by part: what of them belongs to this subtask.

A channel's input part is followed by its output part. This file does not know about other channels;
`recovered.py` lets them take turns and keeps event time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from headgate.common.errors import DamagedFileError, StorageError
from headgate.common.time import WATERMARK_MIN
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Idle, Watermark
from headgate.runtime.worker.in_flight.stored_parts import Element, KeyGroups, check_records, decode_elements
from headgate.state.snapshots import InFlightPart, InFlightShare, InFlightStream, StateHandle, place_of


@dataclass(frozen=True, slots=True)
class PartReader:
    """How parts become elements."""

    codec_of: Callable[[InFlightStream], ElementCodec]  # the codec of a stream's exchange
    read: Callable[[StateHandle], bytes]  # the bytes behind a handle
    max_parallelism: int  # number of key groups

    def check(self, stream: InFlightStream) -> None:
        """Refuse records of a class that has changed since.

        Raises UsageError: they cannot be read any more.
        """
        where = f"from {stream.sender!r} to {stream.receiver!r}"
        check_records(stream.record_type, self.codec_of(stream), where)

    def elements(self, stream: InFlightStream, part: InFlightPart) -> list[tuple[Element, KeyGroups | None]]:
        """The elements of a part with their key groups, of a keyed stream.

        Raises StorageError: the part is damaged.
        """
        try:
            found = decode_elements(self.read(part.handle), self.codec_of(stream))
        except DamagedFileError:
            raise
        except StorageError as error:
            raise StorageError(f"{place_of(part.handle)}: {error}") from error
        for element, groups in found:
            if not stream.keyed or not isinstance(element, (RowBatch, ArrowBatch)):
                continue
            if groups is None or (len(groups) and int(groups.max()) >= self.max_parallelism):
                raise StorageError(
                    f"records in flight from {stream.sender!r} to {stream.receiver!r} are stored with key "
                    f"groups {groups}; expected one below {self.max_parallelism} for each, use an older "
                    "checkpoint"
                )
        return found


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a part begins: in which share, which part, and how many batches of the share are before."""

    share: int = 0
    part: int = 0
    batches: int = 0


class RecoveredChannel:
    """What this subtask takes of one old channel at one level.

    `shares`: of the channel's input part, its output part, or both; `reader`: reads their parts.

    Attributes:
        position: its watermark, as far as it was read.
        idle: whether it said last that it is idle.
    """

    def __init__(self, shares: Sequence[InFlightShare], reader: PartReader) -> None:
        self._shares = sorted(shares, key=lambda share: share.stream.from_output)
        self._reader = reader
        self.stream = self._shares[0].stream  # says between whom the channel was and where it begins
        self.position, self.idle = WATERMARK_MIN, False
        self._here = self._next = _Place()
        self._taken = 0
        self._queue: deque[Element] = deque()

    def take(self) -> Element | None:
        """The next element for this subtask; None at the end."""
        while not self._queue:
            loaded = self._load(self._next)
            if loaded is None:
                return None
            self._here, self._taken = self._next, 0
            elements, self._next = loaded
            self._queue.extend(elements)
        self._taken += 1
        return self._queue.popleft()

    def rest(self) -> list[Element]:
        """What :meth:`take` will still give, as copies: both may be changed by those who get them."""
        rest: list[Element] = []
        place, skip = self._here, self._taken
        while (loaded := self._load(place)) is not None:
            elements, place = loaded
            rest += elements[skip:]
            skip = 0
        return rest

    def has_records(self) -> bool:
        """Whether records follow, be they this subtask's or another's."""
        at = self._next
        if any(part.records for part in self._shares[at.share].stream.parts[at.part :]):
            return True
        if any(part.records for share in self._shares[at.share + 1 :] for part in share.stream.parts):
            return True
        return any(isinstance(element, (RowBatch, ArrowBatch)) for element in self._queue)

    def _load(self, place: _Place) -> tuple[list[Element], _Place] | None:
        """The elements from a place up to the next one, and that one; None behind the last."""
        share = self._shares[place.share]
        stream = share.stream
        if place.part == len(stream.parts):
            if place.share + 1 == len(self._shares):
                return None
            return _entry(self._shares[place.share + 1].stream), _Place(place.share + 1)
        if place.part == 0:
            self._reader.check(stream)
        elements: list[Element] = []
        number = place.batches
        for element, groups in self._reader.elements(stream, stream.parts[place.part]):
            if isinstance(element, (RowBatch, ArrowBatch)):
                elements += _mine(share, element, groups, number)
                number += 1
            else:
                elements.append(element)
        return elements, _Place(place.share, place.part + 1, number)


def _entry(stream: InFlightStream) -> list[Element]:
    """What the output part says about event time where it begins."""
    said: list[Element] = [] if stream.watermark is None else [Watermark(stream.watermark)]
    return [*said, Idle()] if stream.idle else said


def _mine(share: InFlightShare, batch: Batch, groups: KeyGroups | None, number: int) -> list[Element]:
    """The records of a batch that the share takes, and the event time that the others carried."""
    kept: Batch | None = batch
    if share.of > 1:
        kept = batch if number % share.of == share.turn else None
    elif share.first_group is not None and share.last_group is not None:
        assert groups is not None
        owned = np.flatnonzero((groups >= share.first_group) & (groups <= share.last_group))
        if len(owned) < len(batch):
            kept = batch.take(owned) if len(owned) else None
    if kept is batch:
        return [batch]
    found: list[Element] = [] if kept is None else [kept]
    if batch.watermarks is not None and len(batch):
        last = int(batch.watermarks[-1])
        if kept is None or kept.watermarks is None or int(kept.watermarks[-1]) < last:
            found.append(Watermark(last))
    return found
