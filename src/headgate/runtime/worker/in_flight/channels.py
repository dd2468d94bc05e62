"""Reads the stored in-flight records of one former channel, part by part: those that belong to this subtask.

Records from the channel's input side come before those from its output side. `recovered.py` reads several
channels in turns, which keeps event time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from headgate.common.errors import DamagedFileError, StorageError
from headgate.common.time import WATERMARK_MIN
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Idle, Watermark
from headgate.runtime.worker.in_flight.stored_parts import Element, KeyGroups, check_records, decode_elements
from headgate.state.snapshots import (
    FileRange,
    InFlightPart,
    InFlightShare,
    InFlightStream,
    StateHandle,
    place_of,
)

AHEAD_BYTES: Final = 64 * 1024 * 1024
"""Most bytes that one subtask reads at the start of an attempt; the rest is read when it is processed."""


def prefetched(
    read: Callable[[StateHandle], bytes], shares: Iterable[InFlightShare], ahead_bytes: int = AHEAD_BYTES
) -> Callable[[StateHandle], bytes]:
    """Read stored parts of in-flight records now, up to `ahead_bytes`; return `read` with these parts cached.
    Were they read when they are processed, perhaps much later, a short failure of the storage would stop a
    job that runs already. `read` returns the bytes of a handle. Raises StorageError: a part cannot be read.
    """
    kept: dict[StateHandle, bytes] = {}
    for part in (part for share in shares for part in share.stream.parts):
        if isinstance(part.handle, FileRange) and part.handle not in kept and part.size <= ahead_bytes:
            kept[part.handle] = read(part.handle)
            ahead_bytes -= part.size
    return lambda handle: kept[handle] if isinstance(handle, FileRange) and handle in kept else read(handle)


@dataclass(frozen=True, slots=True)
class PartReader:
    """Reads stored parts (pieces of some megabytes) of in-flight streams, and decodes their records."""

    codec_of: Callable[[InFlightStream], ElementCodec]  # the codec of a stream's exchange
    read: Callable[[StateHandle], bytes]
    max_parallelism: int  # number of key groups

    def check(self, stream: InFlightStream) -> None:
        """Raise UsageError if `stream`'s records cannot be read, because their class has changed since."""
        where = f"from {stream.sender!r} to {stream.receiver!r}"
        check_records(stream.record_type, self.codec_of(stream), where)

    def elements(self, stream: InFlightStream, part: InFlightPart) -> list[tuple[Element, KeyGroups | None]]:
        """Return the batches and events of one stored part, each with its records' key groups.
        These are None for an event or an unkeyed batch. StorageError: the part is damaged or missing.
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


class _Place(NamedTuple):
    """The place of a part: its share, its number in that, and how many of the share's batches precede it."""

    share: int = 0
    part: int = 0
    batches: int = 0


class RecoveredChannel:
    """The in-flight records of one former channel, at one level, that this subtask has to process.
    A checkpoint taken while restored records were waiting stored the live channels' records as the next
    level. `shares` are of the channel's input side, its output side, or both.
    """

    def __init__(self, shares: Sequence[InFlightShare], reader: PartReader) -> None:
        self._shares = sorted(shares, key=lambda share: share.stream.from_output)
        self._reader = reader
        self.stream = self._shares[0].stream  # has the channel's ends, and its first watermark
        # the channel's watermark after the elements read so far, and whether it was idle there
        self.position, self.idle = WATERMARK_MIN, False
        self._here = self._next = _Place()
        self._taken = 0
        self._queue: deque[Element] = deque()

    def take(self) -> Element | None:
        """Take and return this subtask's next element, of the next part if needed; None: the end.
        Raises StorageError: a part cannot be read; UsageError: the records' class has changed.
        """
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
        """Read all elements not yet taken, as copies for a checkpoint; :meth:`take` still returns them."""
        rest: list[Element] = []
        place, skip = self._here, self._taken
        while (loaded := self._load(place)) is not None:
            elements, place = loaded
            rest += elements[skip:]
            skip = 0
        return rest

    def has_records(self) -> bool:
        """Return whether any records of the channel follow, for this subtask or for another one."""
        at = self._next
        later = [part for share in self._shares[at.share + 1 :] for part in share.stream.parts]
        unread = [*self._shares[at.share].stream.parts[at.part :], *later]
        queued = any(isinstance(element, (RowBatch, ArrowBatch)) for element in self._queue)
        return queued or any(part.records for part in unread)

    def _load(self, place: _Place) -> tuple[list[Element], _Place] | None:
        share = self._shares[place.share]
        stream = share.stream
        if place.part == len(stream.parts):
            if place.share + 1 == len(self._shares):
                return None
            following = self._shares[place.share + 1].stream
            entry: list[Element] = []  # the event time with which the output part begins
            entry += [] if following.watermark is None else [Watermark(following.watermark)]
            return [*entry, Idle()] if following.idle else entry, _Place(place.share + 1)
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


def _mine(share: InFlightShare, batch: Batch, groups: KeyGroups | None, number: int) -> list[Element]:
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
