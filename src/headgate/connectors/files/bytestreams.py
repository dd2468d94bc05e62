"""Byte streams over plain, gzip and zstd files, with offsets at which a later reader can resume.
An offset counts uncompressed bytes from the file's beginning. A compressed file can only be entered at the
start of a gzip member or zstd frame; :meth:`ByteStream.locate` finds it, so at most one is read again.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, BinaryIO, Final, Generic, NamedTuple, Protocol, TypeVar

from headgate.common.errors import StorageError
from headgate.connectors.files.paths import GZIP_MAGIC, ZSTD_MAGIC

if TYPE_CHECKING:
    import zstandard

_PIECE: Final = 64 * 1024
_OUTPUT_TARGET: Final = 256 * 1024


class Entry(NamedTuple):
    """Where to enter a file to read from an offset: at byte `member`, then drop `skip` uncompressed bytes."""

    member: int  # position in the file where the gzip member or zstd frame starts; 0 for plain files
    skip: int  # uncompressed bytes between that point and the offset


class ByteStream(ABC):
    """Reads the uncompressed bytes of one input file forwards, from a point on; made by :func:`open_stream`.
    The one who opens the stream owns it, and must close it. OSError where the file cannot be read.
    """

    plain = False  # whether bytes of the file are what is read of it

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file, self._path = file, path

    @abstractmethod
    def read(self, size: int) -> bytes:
        """Return the next uncompressed bytes, about `size` or fewer; b"" only at the end of the file.
        StorageError if a gzip member or zstd frame is damaged or cut off.
        """

    @abstractmethod
    def locate(self, offset: int) -> Entry:
        """Return where a later reader enters the file to read from the uncompressed `offset` on.
        That is the newest member start seen so far that is not after `offset`; byte 0 for a plain file. The
        offset counts from the file's beginning, and must not be before one given to :meth:`forget_before`.
        """

    @abstractmethod
    def approach(self, skip: int, tail: int) -> int:
        """Move near a position in order to resume there; return how many bytes the caller must still read.
        The position is `skip` uncompressed bytes after the stream's point of entry; called once, before any
        read. A plain file is sought to `tail` bytes before the position (at most `skip`), which the caller
        verifies, and `tail` is returned. A compressed file can only be decoded from the point of entry on:
        `skip` is returned.
        """

    @abstractmethod
    def forget_before(self, offset: int) -> None:
        """Drop the entry points that no offset from this one on needs; do not :meth:`locate` earlier ones."""

    def at(self) -> int:
        """Return how many bytes of the file, as it is on the disk, have been read or left out."""
        return self._file.tell()

    def close(self) -> None:
        self._file.close()


class PlainStream(ByteStream):
    """Stream over a file that is not compressed."""

    plain = True

    def read(self, size: int) -> bytes:
        return self._file.read(size)

    def locate(self, offset: int) -> Entry:
        return Entry(0, offset)

    def approach(self, skip: int, tail: int) -> int:
        self._file.seek(skip - tail)
        return tail

    def forget_before(self, offset: int) -> None:
        """Do nothing: a plain file needs no memory of entries."""


class MemberDecoder(Protocol):
    """Decodes one gzip member or zstd frame; implemented by zlib's and zstandard's decompression objects."""

    @property
    def eof(self) -> bool:
        """Whether the decoder has reached the end of its member."""

    @property
    def unused_data(self) -> bytes:
        """Bytes that were fed to the decoder and come after the end of its member."""


D = TypeVar("D", bound=MemberDecoder)


class CompressedStream(ByteStream, Generic[D]):
    """Stream over a file of concatenated gzip members or zstd frames; remembers where each member begins.
    It enters the file at byte `member`, before which there are `offset` uncompressed bytes.
    """

    kind = ""  # for messages

    def __init__(self, file: BinaryIO, path: str, member: int, offset: int) -> None:
        super().__init__(file, path)
        self._input, self._input_end = b"", member
        self._offset = offset
        self._members: list[tuple[int, int]] = []
        self._decoder: D | None = None

    @abstractmethod
    def _new_decoder(self) -> D:
        """Return a new decoder for the next member."""

    @abstractmethod
    def _decode(self, decoder: D, size: int) -> bytes:
        """Decode about `size` bytes; remove all that was fed from `_input`, even if it is `unused_data`."""

    def read(self, size: int) -> bytes:
        while True:
            ended = not self._input and not self._refill()
            decoder = self._decoder
            if decoder is None:
                if ended:
                    return b""
                decoder = self._begin_member()
                if decoder is None:
                    continue
            try:
                data = self._decode(decoder, size)
            except Exception as problem:
                raise self._damaged(f"is damaged ({problem})", self._members[-1][0]) from problem
            self._offset += len(data)
            if decoder.eof:
                self._input = decoder.unused_data + self._input
                self._decoder = None
            elif ended and not data:
                raise self._damaged("ends in the middle of a member", self._input_end)
            if data:
                return data

    def locate(self, offset: int) -> Entry:
        for member, start in reversed(self._members):
            if start <= offset:
                return Entry(member, offset - start)
        return Entry(0, offset)

    def approach(self, skip: int, tail: int) -> int:
        return skip

    def forget_before(self, offset: int) -> None:
        while len(self._members) > 1 and self._members[1][1] <= offset:
            del self._members[0]

    def _refill(self) -> bool:
        self._input = self._file.read(_PIECE)
        self._input_end += len(self._input)
        return bool(self._input)

    def _begin_member(self) -> D | None:
        # Some tools pad a file with zero bytes, which belong to no member.
        stripped = self._input.lstrip(b"\0")
        if not stripped:
            self._input = b""
            return None
        self._input = stripped
        self._members.append((self._input_end - len(stripped), self._offset))
        self._decoder = self._new_decoder()
        return self._decoder

    def _damaged(self, what: str, at: int) -> StorageError:
        return StorageError(
            f"{self._path!r}: its {self.kind} data {what} at byte {at} of the file; "
            "write the file again or take it out of the input"
        )


class GzipStream(CompressedStream["zlib._Decompress"]):
    """Stream of concatenated gzip members; zlib verifies the checksum of each."""

    kind = "gzip"

    def _new_decoder(self) -> zlib._Decompress:
        return zlib.decompressobj(wbits=31)

    def _decode(self, decoder: zlib._Decompress, size: int) -> bytes:
        data = decoder.decompress(self._input, size)
        # At the end of a member zlib may name the rest in both places.
        self._input = b"" if decoder.eof else decoder.unconsumed_tail
        return data


class ZstdStream(CompressedStream["zstandard.ZstdDecompressionObj"]):
    """Stream of concatenated zstd frames.
    The decoder does not bound its output, so the size of input pieces follows the compression ratio so far.
    """

    kind = "zstd"

    def __init__(self, file: BinaryIO, path: str, member: int, offset: int) -> None:
        super().__init__(file, path, member, offset)
        self._piece, self._ready = 4096, memoryview(b"")

    def _new_decoder(self) -> zstandard.ZstdDecompressionObj:
        import zstandard

        return zstandard.ZstdDecompressor().decompressobj()

    def read(self, size: int) -> bytes:
        if not self._ready:
            self._ready = memoryview(super().read(size))
        data, self._ready = bytes(self._ready[:size]), self._ready[size:]
        return data

    def _decode(self, decoder: zstandard.ZstdDecompressionObj, size: int) -> bytes:
        piece, rest = self._input[: self._piece], self._input[self._piece :]
        data = decoder.decompress(piece)
        self._input = rest
        if len(data) > 2 * _OUTPUT_TARGET:
            self._piece = max(64, self._piece // 2)
        elif len(data) < _OUTPUT_TARGET // 2:
            self._piece = min(_PIECE, self._piece * 2)
        return data


def open_stream(path: str, member: int = 0, offset: int = 0) -> ByteStream:
    """Open a file to read its uncompressed bytes; its first four bytes, not its name, tell the compression.

    Args:
        path: the file; OSError if it cannot be opened.
        member: byte of the file where a gzip member or zstd frame starts, to begin with; plain: ignored.
        offset: how many uncompressed bytes come before `member` in the file; ignored for a plain file.
    """
    file = open(path, "rb")  # noqa: SIM115 - the stream owns it
    head = file.read(4)
    if head == ZSTD_MAGIC or head.startswith(GZIP_MAGIC):
        file.seek(member)
        kind = ZstdStream if head == ZSTD_MAGIC else GzipStream
        return kind(file, path, member, offset)
    file.seek(0)
    return PlainStream(file, path)
