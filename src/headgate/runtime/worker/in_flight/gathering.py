"""Captures the in-flight records of a subtask's unaligned checkpoint, and stores them in the background.

The loop adds elements, then seals: no more follow. Background jobs encode and store them, one after the
other. Outcomes are reported by the background thread, in the order of the jobs.
"""

from __future__ import annotations

import dataclasses
import enum
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from headgate.common.errors import InternalError, OperatingError, StorageError
from headgate.common.ports import Background
from headgate.records.arrow_batch import ArrowBatch
from headgate.records.batch import Batch
from headgate.records.row_batch import RowBatch
from headgate.runtime.protocol.element_codec import ElementCodec
from headgate.runtime.protocol.elements import Event
from headgate.runtime.protocol.frames import Part
from headgate.runtime.worker.in_flight.stored_parts import GroupsOf, describe_records, encode_elements
from headgate.state.snapshots import FileRange, InFlightPart, InFlightStream, StateHandle

_EVENT_BYTES: Final = 32
"""Size that is counted for a watermark, so that many of them are noticed."""


class TooMuchInFlightError(OperatingError):
    """Fails a checkpoint: the in-flight records of one subtask exceed `CaptureLimits.total_bytes`."""


@dataclass(frozen=True, slots=True)
class StreamKey:
    """The identity of an in-flight stream (one channel's records); `sender` and `receiver` are uids.
    Records of a lower `level` are older. `from_output`: they were in the sender's queue. `lineage` tells
    streams of equal ends apart; `former`: senders were renumbered.
    """

    receiver: str
    sender: str
    tag: str | None
    sender_subtask: int
    receiver_subtask: int
    level: int = 0
    from_output: bool = False
    lineage: int = 0
    former: bool = False

    def __str__(self) -> str:
        return f"from {self.sender}[{self.sender_subtask}] to {self.receiver}[{self.receiver_subtask}]"


@dataclass(frozen=True, slots=True)
class CaptureLimits:
    """Limits in bytes: captured records are stored in parts of `part_bytes`; above `total_bytes` it fails."""

    part_bytes: int = 4 * 1024 * 1024  # captured elements are stored once they exceed this
    total_bytes: int = 1024 * 1024 * 1024  # the checkpoint fails when it would store more than this


class _State(enum.Enum):
    TAKING = "taking"
    SEALED = "sealed"
    DONE = "done"
    GIVEN_UP = "given up"


@dataclass(slots=True)
class _Stream:
    key: StreamKey
    watermark: int | None
    idle: bool
    codec: ElementCodec
    groups_of: GroupsOf | None
    parts: list[InFlightPart] = field(default_factory=list)

    def described(self) -> InFlightStream:
        typed = any(part.records for part in self.parts)
        # By name, so that a field of the key is one of the stream.
        ends = {item.name: getattr(self.key, item.name) for item in dataclasses.fields(self.key)}
        return InFlightStream(
            **ends,
            keyed=self.groups_of is not None,
            parts=self.parts,
            watermark=self.watermark,
            idle=self.idle,
            record_type=describe_records(self.codec) if typed else None,
        )


@dataclass(slots=True)
class _Spill:
    """The captured elements that one background job encodes and stores."""

    elements: dict[StreamKey, list[Batch | Event]] = field(default_factory=dict)
    size: int = 0
    last: bool = False


class InFlightCapture:
    """Captures and stores the in-flight records of one subtask for one checkpoint.
    The public methods are for the loop's thread; `store`, `delete`, `finished` and the functions that
    `groups_of` returns are called in the background thread. `finished` gets the streams or an error, once.
    """

    def __init__(
        self,
        codec_of: Callable[[StreamKey], ElementCodec],  # the codec of a stream's exchange
        groups_of: Callable[[StreamKey], GroupsOf | None],  # None: the stream is not keyed
        store: Callable[[Sequence[Sequence[Part]]], list[StateHandle]],  # writes durably; blocks
        delete: Callable[[StateHandle], None],  # removes what `store` wrote; blocks
        background: Background,  # where `store` runs; one job after the other
        limits: CaptureLimits,
        # called once, with the streams in the order of `begin`, or with an error; never after `cancel`
        finished: Callable[[list[InFlightStream] | None, BaseException | None], None],
    ) -> None:
        self._codec_of, self._groups_of = codec_of, groups_of
        self._store, self._delete = store, delete
        self._background, self._limits, self._finished = background, limits, finished
        # The loop creates streams, the background fills their parts.
        self._streams: dict[StreamKey, _Stream] = {}
        self._handles: list[StateHandle] = []
        self._bytes_taken = 0
        self.bytes_persisted = 0  # of the parts stored so far
        # About how much memory not yet stored elements hold. It is bounded only by adding less when the
        # storage is slower than the streams.
        self.bytes_waiting = 0
        # Guards what both threads change; never held while anything blocks or calls back.
        self._lock = threading.Lock()
        self._state, self._reported = _State.TAKING, False
        self._gathered = _Spill()
        self._waiting: deque[_Spill] = deque()
        self._held: dict[int, int] = {}

    def begin(self, key: StreamKey, watermark: int | None, idle: bool) -> None:
        """Begin stream `key` at `watermark` (ms; None: where the level below ends); raise if it exists."""
        if not self._takes(key):
            return
        if key in self._streams:
            raise InternalError(f"the stream {key} (level {key.level}) has begun already")
        self._begin(key, watermark, idle)

    def add(self, key: StreamKey, element: Batch | Event) -> None:
        """Capture a batch (not copied: see :meth:`unstored`) or event of stream `key`, after earlier ones.
        A stream that has not begun begins where the level below ends. Above `CaptureLimits.total_bytes` the
        capture fails, and `add` does nothing from then on. Raises InternalError after :meth:`seal`.
        """
        if not self._takes(key):
            return
        if key not in self._streams:
            self._begin(key, None, False)
        batch = element if isinstance(element, (RowBatch, ArrowBatch)) else None
        size = _EVENT_BYTES + (0 if batch is None else batch.nbytes())
        with self._lock:
            if self._state is _State.GIVEN_UP:
                return
            if batch is not None:
                self._held[id(batch)] = self._held.get(id(batch), 0) + 1
            self._gathered.elements.setdefault(key, []).append(element)
            self._gathered.size += size
            self._bytes_taken += size
            self.bytes_waiting += size
            too_much = self._bytes_taken > self._limits.total_bytes
            full = self._gathered.size > self._limits.part_bytes
        if too_much:
            self._give_up(self._too_much())
        elif full:
            self._spill(last=False)

    def seal(self) -> None:
        """End the capture: store the rest and report the streams, in the background. Then nothing more may be
        added. No effect after a failure; a second call raises InternalError.
        """
        with self._lock:
            if self._state is _State.GIVEN_UP:
                return
            if self._state is not _State.TAKING:
                raise InternalError("records in flight were sealed twice")
            self._state = _State.SEALED
        self._spill(last=True)

    def cancel(self) -> None:
        """Delete stored parts and report nothing: the checkpoint was aborted. No effect after the report."""
        with self._lock:
            if self._state is _State.DONE or self._reported:
                return
            self._reported = True
            self._drop()
        self._background.submit(self._delete_stored, lambda *_: None)

    def unstored(self, batch: Batch) -> bool:
        """Return whether this batch is captured but not yet encoded, so that its rows must not be changed."""
        return id(batch) in self._held

    # -- in the loop -----------------------------------------------------------------------------

    def _takes(self, key: StreamKey) -> bool:
        if self._state is _State.GIVEN_UP:
            return False
        if self._state is not _State.TAKING:
            raise InternalError(f"records {key} came after their checkpoint was sealed")
        return True

    def _begin(self, key: StreamKey, watermark: int | None, idle: bool) -> None:
        self._streams[key] = _Stream(key, watermark, idle, self._codec_of(key), self._groups_of(key))

    def _drop(self) -> None:
        self._state = _State.GIVEN_UP
        self._gathered, self.bytes_waiting = _Spill(), 0
        self._waiting.clear()
        self._held.clear()

    # -- from the loop to the background ---------------------------------------------------------

    def _spill(self, last: bool) -> None:
        with self._lock:
            if self._state is _State.GIVEN_UP:
                return
            spill, self._gathered = self._gathered, _Spill()
            spill.last = last
            self._waiting.append(spill)
        # The job takes its spill from the queue, so that dropped elements are freed before it runs.
        self._background.submit(self._store_next, self._job_done)

    def _give_up(self, error: BaseException) -> None:
        with self._lock:
            self._drop()
        self._background.submit(lambda: None, lambda *_: self._report_failure(error))

    def _too_much(self) -> TooMuchInFlightError:
        return TooMuchInFlightError(
            f"in-flight data of one subtask exceeds {self._limits.total_bytes} bytes; raise "
            "execution.checkpointing.unaligned.max-in-flight-size, or let the slowest operator behind it run "
            "faster or at a higher parallelism"
        )

    # -- in the background -----------------------------------------------------------------------

    def _store_next(self) -> bool:
        with self._lock:
            if not self._waiting:
                return False
            spill = self._waiting.popleft()
        encoded = [(self._streams[key], *self._encode(key, spill)) for key in list(spill.elements)]
        if encoded and self._state is not _State.GIVEN_UP:
            self._store_sections(encoded)
        with self._lock:
            self.bytes_waiting = max(0, self.bytes_waiting - spill.size)
        return spill.last

    def _store_sections(self, encoded: list[tuple[_Stream, list[Part], int]]) -> None:
        sections = [parts for _, parts, _ in encoded]
        sizes = [sum(memoryview(part).nbytes for part in parts) for parts in sections]
        # The size of Python objects is guessed; their size on disk is known only here.
        if self.bytes_persisted + sum(sizes) > self._limits.total_bytes:
            raise self._too_much()
        handles = self._store(sections)
        self._handles += handles
        for (stream, _, records), handle, size in zip(encoded, handles, sizes, strict=True):
            stream.parts.append(InFlightPart(handle, size, records))
        self.bytes_persisted += sum(sizes)

    def _encode(self, key: StreamKey, spill: _Spill) -> tuple[list[Part], int]:
        stream, elements = self._streams[key], spill.elements.pop(key)
        if self._state is _State.GIVEN_UP:
            return [], 0
        encoded = encode_elements(elements, stream.codec, stream.groups_of, str(key))
        with self._lock:
            # The elements are still referenced here, so no other batch can have the `id` of one.
            for identity in map(id, elements):
                if (count := self._held.get(identity, 0)) > 1:
                    self._held[identity] = count - 1
                else:
                    self._held.pop(identity, None)
        return encoded

    def _job_done(self, was_last: bool | None, error: BaseException | None) -> None:
        if error is not None:
            self._report_failure(error)
            return
        with self._lock:
            if not was_last or self._state is not _State.SEALED:
                return
            self._state, self._reported = _State.DONE, True
        self._finished([stream.described() for stream in self._streams.values()], None)

    def _report_failure(self, error: BaseException) -> None:
        with self._lock:
            if self._reported:
                return
            self._reported = True
            self._drop()
        self._finished(None, error)
        self._background.submit(self._delete_stored, lambda *_: None)

    def _delete_stored(self) -> None:
        files = {handle.file: handle for handle in self._handles if isinstance(handle, FileRange)}
        for handle in files.values():
            with suppress(StorageError, OSError):  # the next sweep finds it
                self._delete(handle)
        self._handles.clear()
