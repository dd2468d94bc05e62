"""Reader of one text file in blocks of complete records; positions are computed for snapshots only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Literal, Protocol, TypedDict, TypeVar, get_args

from headgate.api.source import BadRecord
from headgate.common.errors import BadRecordError, OperatingError, UsageError
from headgate.common.files.durable import crc32 as crc32_of
from headgate.connectors.files.bytestreams import ByteStream

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

OnError = Literal["fail", "skip", "side-output"]
"""Policy for records that do not decode: fail the job, skip and count them, or use the side output."""

BLOCK_BYTES: Final = 120 * 1024
"""Bytes that are decoded at once. They fit the processor's cache. From 128 KiB on, the allocator asks the
system for each block anew; touching that memory for the first time took a fifth of all."""
BATCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes after which a poll reads no further block, although it has fewer records than were asked for.

A batch of many records costs each operator little more than one of few. How many are asked for depends on the
time that they take, so a step with several blocks takes as long as one with a part of a block."""
SKIP_BYTES_PER_POLL: Final = 8 * 1024 * 1024
RECORD_BYTES_MAX: Final = 32 * 1024 * 1024
_TAIL_BYTES: Final = 64
_BOM: Final = b"\xef\xbb\xbf"
_SHOWN_MAX: Final = 120


class TextPosition(TypedDict):
    """Position right after a record: enter at byte `member`, drop `skip` uncompressed bytes, read on."""

    member: int  # byte of the file at which that starts; 0 for plain files
    skip: int  # uncompressed bytes from there to the position
    offset: int  # uncompressed bytes from the file's beginning to the position
    line: int  # line feeds before the position
    size: int  # of the file, when the position was taken
    tail: list[int]  # length (at most 64) and CRC-32 of the bytes before the position
    saved: list[str] | None  # see `TextDecoder.saved`


def check_on_error(on_error: str) -> None:
    """Raise UsageError unless `on_error` is "fail", "skip" or "side-output"."""
    if on_error not in get_args(OnError):
        raise UsageError(f'on_error is {on_error!r}; expected "fail", "skip" or "side-output"')


def bad_record_error(bad: BadRecord) -> BadRecordError:
    """Return (not raise) the error for a bad record: file, line, reason, and its first 120 bytes as text."""
    shown = bad.raw[:_SHOWN_MAX].decode("utf-8", "backslashreplace")
    more = "..." if len(bad.raw) > _SHOWN_MAX else ""
    return BadRecordError(
        f"{bad.source}, line {bad.position}: {bad.reason}: {shown!r}{more}; correct the line, or read with "
        'on_error="skip" or on_error="side-output"'
    )


@dataclass(slots=True)
class Decoded(Generic[T]):
    """A decoded block: good records, where each ends, bad ones with the number of good ones before each."""

    records: list[T] | pa.RecordBatch  # what decoded, in order
    # For every record the offset in the block right after it; None when each of the block's lines is
    # exactly one record
    ends: Sequence[int] | None = None
    # What did not decode, each with the number of good records before it
    bad: list[tuple[int, BadRecord]] = field(default_factory=list)


class TextDecoder(Protocol[T]):
    """Finds and decodes the records of one open text file; one class per format, one object per open file."""

    def begin(self, data: bytes) -> int:
        """Read the header in the first records; return its bytes, 0: no header. BadRecordError: unusable."""

    def saved(self) -> list[str] | None:
        """Return the header's field names, for the position in a checkpoint; None if it has none."""

    def border(self, data: bytes) -> int:
        """Return how many bytes from the front are complete records; 0 if there are none."""

    def decode(self, data: bytes, first_line: int) -> Decoded[T]:
        """Decode complete records, the first on line `first_line` (from 1); the last may lack its line feed.
        With on_error="fail" BadRecordError for the first bad one; otherwise bad ones are in the result.
        """


class TextCursor(Generic[T]):
    """An open text file: returns records, and knows the position right after the last one returned.
    `name` is for messages, `size` the file's bytes; it begins at the position `start`, None: the beginning.
    """

    def __init__(
        self,
        name: str,
        size: int,
        stream: ByteStream,
        decoder: TextDecoder[T],
        start: TextPosition | None,
    ) -> None:
        self._name, self._size, self._stream, self._decoder, self._start = name, size, stream, decoder, start
        self._offset = self._line = 0
        self._to_skip = 0
        self._data, self._at = b"", 0
        self._decoded: Decoded[T] = Decoded([])
        self._rest, self._before, self._ended = b"", b"", False
        self._fresh = start is None
        if start is not None:
            self._offset, self._line = start["offset"], start["line"]
            self._to_skip = stream.approach(start["skip"], start["tail"][0])

    def poll(self, max_records: int) -> tuple[list[T] | pa.RecordBatch, list[BadRecord]] | None:
        """Take the next 0 to `max_records` records, and bad ones between them; None at the end of the file.
        There are fewer at the end, of 4 MiB or more, and after a block with as many bad ones; none while it
        moves to a restored position, 8 MiB per call. BadRecordError if a record does not decode and that is
        to fail, or is over 32 MiB; OperatingError if the bytes before the position changed. Do not go on
        after an error.
        """
        if self._to_skip:
            self._skip()
            if self._to_skip:
                return [], []
        most = wanted = max(1, max_records)
        pieces: list[list[T] | pa.RecordBatch] = []
        found: list[BadRecord] = []
        size = 0
        # Bad records count, too: to find one takes many times as long as to decode a good one.
        while wanted and len(found) < most and size < BATCH_BYTES:
            if self._at == len(self._decoded.records) and not self._next_block():
                break
            records, bad = self._take(wanted)
            pieces.append(records)
            found += bad
            wanted -= len(records)
            size += len(self._data)
        return (_joined(pieces), found) if pieces else None

    def _take(self, max_records: int) -> tuple[list[T] | pa.RecordBatch, list[BadRecord]]:
        first, total = self._at, len(self._decoded.records)
        self._at = upto = min(total, first + max_records)
        records = self._decoded.records
        if first or upto < total:
            records = records[first:upto]
        # A bad record belongs to the records that follow it; the last ones to the block's end. So all that is
        # before the position was handed over, and nothing after it.
        bad = [
            record
            for before, record in self._decoded.bad
            if first <= before and (before < upto or upto == total)
        ]
        return records, bad

    def position(self) -> TextPosition | None:
        """Return the position right after the last record returned; None for the file's beginning."""
        if self._to_skip or self._fresh:
            return self._start
        used = self._used()
        offset = self._offset + used
        entry = self._stream.locate(offset)
        tail = (self._before + self._data[:used])[-min(_TAIL_BYTES, entry.skip) :] if entry.skip else b""
        return {
            "member": entry.member,
            "skip": entry.skip,
            "offset": offset,
            "line": self._line + self._data.count(b"\n", 0, used),
            "size": self._size,
            "tail": [len(tail), crc32_of(tail)],
            "saved": self._decoder.saved(),
        }

    def bytes_left(self) -> int:
        """Return how many bytes of the file are not read, or read and not decoded, or not handed over yet.
        Compressed: how many bytes are not read.
        """
        held = len(self._rest) + len(self._data) - self._used() if self._stream.plain else 0
        return max(0, self._size - self._stream.at() + held)

    def close(self) -> None:
        self._stream.close()

    def _used(self) -> int:
        if self._at == len(self._decoded.records):
            return len(self._data)
        if self._at == 0:
            return 0
        if self._decoded.ends is not None:
            return self._decoded.ends[self._at - 1]
        used = 0
        for _ in range(self._at):
            used = self._data.index(b"\n", used) + 1
        return used

    def _next_block(self) -> bool:
        self._line += self._line_feeds()
        self._offset += len(self._data)
        self._before = (self._before + self._data)[-_TAIL_BYTES:]
        self._data, self._decoded, self._at = b"", Decoded([]), 0
        self._stream.forget_before(self._offset)
        data = self._complete_records()
        if not data:
            return False
        if self._fresh:
            bom = len(_BOM) if data.startswith(_BOM) else 0
            begin = bom + self._decoder.begin(data[bom:])
            self._line, self._offset = data.count(b"\n", 0, begin), begin
            self._before, data = data[:begin][-_TAIL_BYTES:], data[begin:]
        self._fresh = False
        self._data = data
        if data:
            self._decoded = self._decoder.decode(data, self._line + 1)
        return True

    def _line_feeds(self) -> int:
        if self._decoded.ends is None and self._data:
            return len(self._decoded.records) - (not self._data.endswith(b"\n"))
        return self._data.count(b"\n")

    def _complete_records(self) -> bytes:
        pieces: list[bytes | memoryview] = [self._rest]
        size, wanted = len(self._rest), BLOCK_BYTES
        while not self._ended:
            piece = self._stream.read(wanted)
            self._ended = not piece
            pieces.append(piece)
            size += len(piece)
            end = piece.rfind(b"\n") + 1
            if not end and not self._ended and size <= RECORD_BYTES_MAX:
                continue
            # Without what follows the last line feed, so that a block of lines is not copied once more.
            after, pieces[-1] = piece[end:], memoryview(piece)[:end]
            data = b"".join(pieces)
            border = len(data) if self._ended else self._decoder.border(data)
            if border:
                self._rest = data[border:] + after
                return data[:border]
            if size > RECORD_BYTES_MAX:
                raise BadRecordError(
                    f"{self._name}, line {self._line + 1}: a record is longer than {RECORD_BYTES_MAX} bytes; "
                    "is a quote left open, or is the file not made of lines?"
                )
            pieces = [data, after]
            # A record of many lines is read in ever larger pieces, since its end is looked for in all of it.
            wanted = max(BLOCK_BYTES, min(size, RECORD_BYTES_MAX - size))
        data, self._rest = self._rest, b""
        return data

    def _skip(self) -> None:
        """Read up to the restored position, 8 MiB per call; OperatingError: the bytes before it changed."""
        assert self._start is not None, "only a position that was restored is approached"
        budget = SKIP_BYTES_PER_POLL
        while self._to_skip and budget > 0:
            data = self._stream.read(min(BLOCK_BYTES, self._to_skip))
            if not data:
                raise OperatingError(
                    f"{self._name} ends {self._to_skip} bytes before uncompressed offset {self._offset}"
                    " where the checkpoint stands; put the file back as it was, or start anew"
                )
            self._to_skip -= len(data)
            budget -= len(data)
            self._before = (self._before + data)[-_TAIL_BYTES:]
        size, crc32 = self._start["tail"]
        if not self._to_skip and crc32_of(self._before[len(self._before) - size :]) != crc32:
            raise OperatingError(
                f"{self._name} was changed since the checkpoint: the bytes before uncompressed offset "
                f"{self._offset} differ; put the file back as it was, or start without the checkpoint"
            )


def _joined(pieces: Sequence[list[T] | pa.RecordBatch]) -> list[T] | pa.RecordBatch:
    """Return the records of pieces in order: lists, or batches of one schema and lists that are empty."""
    pieces = [piece for piece in pieces if len(piece)] or pieces[-1:]  # a header alone is an empty list
    if isinstance(pieces[0], list):
        return [record for piece in pieces for record in piece]
    from headgate.records.late_columns import concat_late

    return concat_late(pieces)
