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
    """Where to enter a file to read from an offset: at byte `member`, then skip `skip` uncompressed bytes."""

    member: int  # position in the file where the gzip member or zstd frame starts; 0 for plain files
    skip: int  # uncompressed bytes between that point and the offset


class ByteStream(ABC):
    """Reads the uncompressed bytes of a file, from a point on forwards; whoever opens it must close it."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file, self._path = file, path

    @abstractmethod
    def read(self, size: int) -> bytes:
        """Return about `size` uncompressed bytes or fewer, b"" only at the end; StorageError for bad data."""

    @abstractmethod
    def locate(self, offset: int) -> Entry:
        """Return the point at which to enter the file to read from the uncompressed `offset` on.
        The offset must not be before one that was passed to :meth:`forget_before`.
        """

    @abstractmethod
    def approach(self, skip: int, tail: int) -> int:
        """Seek towards a position, before any read; return how many bytes are left up to it, at least `tail`.

        It is `skip` bytes after the stream's entry point; the caller verifies the `tail` bytes before it.
        """

    @abstractmethod
    def forget_before(self, offset: int) -> None:
        """Drop the entry points that no offset from this one on needs; do not :meth:`locate` earlier ones."""

    def close(self) -> None:
        """Close the underlying file."""
        self._file.close()


class PlainStream(ByteStream):
    """Stream over a file that is not compressed."""

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes of the file."""
        return self._file.read(size)

    def locate(self, offset: int) -> Entry:
        """Return the beginning of the file as entry, because a plain file can be sought."""
        return Entry(0, offset)

    def approach(self, skip: int, tail: int) -> int:
        """Seek to `tail` bytes before the offset `skip`, and return `tail`."""
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
        """Return up to about `size` uncompressed bytes; StorageError if a member is damaged or cut off."""
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
        """Return the last known member start at or before `offset`, else the file's, and bytes to skip."""
        for member, start in reversed(self._members):
            if start <= offset:
                return Entry(member, offset - start)
        return Entry(0, offset)

    def approach(self, skip: int, tail: int) -> int:
        """Return `skip`: compressed data cannot be sought, so all of it must be read."""
        return skip

    def forget_before(self, offset: int) -> None:
        """Forget the starts of members that end at or before the offset, except the newest member's."""
        while len(self._members) > 1 and self._members[1][1] <= offset:
            del self._members[0]

    def _refill(self) -> bool:
        self._input = self._file.read(_PIECE)
        self._input_end += len(self._input)
        return bool(self._input)

    def _begin_member(self) -> D | None:
        """Start decoding the next member; None if the input has only zero bytes, some tools' padding."""
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
        """Return up to `size` bytes, of output left by the last call first; StorageError for a bad frame."""
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
    """Open a file to read its uncompressed bytes; its first bytes, not its name, tell the compression.

    `member`: byte position in the file of the gzip member or zstd frame to begin at. `offset`: how many
    uncompressed bytes come before it in the file. A plain file ignores both. OSError if it cannot be opened.
    """
    file = open(path, "rb")  # noqa: SIM115 - the stream owns it
    head = file.read(4)
    if head == ZSTD_MAGIC or head.startswith(GZIP_MAGIC):
        file.seek(member)
        kind = ZstdStream if head == ZSTD_MAGIC else GzipStream
        return kind(file, path, member, offset)
    file.seek(0)
    return PlainStream(file, path)
