"""The head of a stored file: magic bytes, version, length and checksums before the body.

::

    magic | version | length of the body | CRC-32 | SHA-256, where there is one | body

An :class:`Envelope` describes one kind of file. No byte of a body is handed out before its length and its
checksums were compared. Refusals are DamagedFileErrors: file, wrong bytes, likely causes, remedy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from headgate.common.decoders import UNDECODABLE
from headgate.common.errors import DamagedFileError
from headgate.common.files.durable import crc32 as crc32_of
from headgate.common.files.durable import sha256 as sha256_of

T = TypeVar("T")

Part = bytes | memoryview
P = TypeVar("P", bound=Part)

_VERSION: Final = 1
_LENGTH: Final = 2
_CRC32: Final = 3
_SHA256: Final = 4


class Head(NamedTuple):
    """Fields of a stored file's header; `length`: the body's bytes, `covered`: CRC-32 of the header or 0."""

    version: int
    length: int  # bytes of the body
    crc32: int
    sha256: bytes | None  # of the body; None where the kind has none
    covered: int  # CRC-32 of the fields that the checksum covers, 0 where it covers none


class Envelope:
    """Writes, reads and verifies the header (envelope) of one kind of stored file; `size` is its bytes.

    `name` is what errors call the kind, `magic` its first bytes; `numbers` are, as for `struct`, the byte
    order, then the codes of version and length. With `covers_head` the CRC-32 is of the fields before it,
    too; with `sha256` the body's SHA-256 follows.

    Example:
        >>> notes = Envelope("note", b"HGNOTE", ">HI")
        >>> data = b"".join(notes.seal(1, [b"hello"]))
        >>> notes.size, bytes(notes.open(data, "file:///note", [1])[1])
        (16, b'hello')
        >>> notes.open(data[:-1] + b"!", "file:///note", [1])
        Traceback (most recent call last):
            ...
        headgate.common.errors.DamagedFileError: file:///note is damaged: the checksum in bytes 12 to ...
    """

    def __init__(
        self, name: str, magic: bytes, numbers: str, *, sha256: bool = False, covers_head: bool = False
    ) -> None:
        self.name, self.magic, self.numbers, self._covers_head = name, magic, numbers, covers_head
        order, version, length = numbers[0], numbers[1], numbers[2]
        codes = [f"{len(magic)}s", version, length, "I", *(["32s"] if sha256 else [])]
        self._fields = struct.Struct(order + "".join(codes))
        self._before_crc = struct.Struct(order + "".join(codes[:_CRC32]))
        sizes = [struct.calcsize(order + code) for code in codes]
        self._places = [(sum(sizes[:at]), sum(sizes[: at + 1])) for at in range(len(sizes))]
        self.size = self._fields.size

    def seal(self, version: int, parts: Sequence[P]) -> list[bytes | P]:
        length = sum(memoryview(part).nbytes for part in parts)
        first = self._before_crc.pack(self.magic, version, length)
        crc32 = crc32_of(first) if self._covers_head else 0
        for part in parts:
            crc32 = crc32_of(part, crc32)
        values = [self.magic, version, length, crc32]
        if len(self._places) > _SHA256:
            digest = sha256_of()
            for part in parts:
                digest.update(part)
            values.append(digest.digest())
        return [self._fields.pack(*values), *parts]

    def open(self, data: Part, where: str, versions: Collection[int]) -> tuple[int, memoryview]:
        head = self.head(data, where, versions)
        body = memoryview(data)[self.size :]
        self.check(head, body, where)
        return head.version, body

    def decode(self, data: Part, where: str, readers: Mapping[int, Callable[[memoryview], T]]) -> T:
        """Return the body of a file, decoded by the reader of its version: `readers[version](body)`.

        `data`: the whole file, `where`: its name in errors. DamagedFileError: no such kind of file, no reader
        for its version, wrong checksums, or the reader raised one of `UNDECODABLE`.
        """
        version, body = self.open(data, where, readers)
        try:
            return readers[version](body)
        except UNDECODABLE as error:
            raise DamagedFileError(
                f"{where} has good checksums, but bytes {self.size} to {self.size + len(body)} have not the "
                f"structure of format version {version}: {error}; it was written by a faulty or foreign "
                "program"
            ) from error

    def head(self, start: Part, where: str, versions: Collection[int], begins: int = 0) -> Head:
        """Return the fields of the header that `start` begins with; else DamagedFileError.

        The version must be one of `versions`. Errors call the file `where`, and count from the header's place
        in it, byte `begins`. Bytes after the header are not looked at.
        """
        found = bytes(start[: len(self.magic)])
        if found != self.magic[: len(found)]:
            first = next(at for at, got in enumerate(found) if got != self.magic[at])
            raise DamagedFileError(
                f"{where} is no {self.name}: it begins with {found!r}, which differs at byte "
                f"{begins + first} from {self.magic!r}; likely causes: another kind of file, a tool that "
                "converted it as text, or a damaged disk block"
            )
        if len(start) < self.size:
            raise DamagedFileError(
                f"{where} is truncated: it ends at byte {begins + len(start)}, expected at least "
                f"{begins + self.size}; likely causes: an incomplete copy, or a full disk while copying"
            )
        _, version, length, crc32, *rest = self._fields.unpack_from(start)
        if version not in versions:
            raise DamagedFileError(
                f"{where} has format version {version}, this program reads "
                f"{', '.join(map(str, sorted(versions)))}; likely causes: it was written by a newer Headgate "
                f"(upgrade this one), or {self._bytes_of(_VERSION, begins)} are damaged"
            )
        covered = crc32_of(start[: self._before_crc.size]) if self._covers_head else 0
        return Head(version, length, crc32, rest[0] if rest else None, covered)

    def check(self, head: Head, body: Part, where: str, begins: int = 0) -> None:
        length, start = memoryview(body).nbytes, begins + self.size
        if length != head.length:
            kind = "is truncated" if length < head.length else "has bytes too many"
            raise DamagedFileError(
                f"{where} {kind}: it ends at byte {start + length}, expected {start + head.length} by its "
                f"{self._bytes_of(_LENGTH, begins)}; likely causes: an incomplete copy, or a damaged header"
            )
        wrong = self._what_differs(head, body, begins)
        if wrong is not None:
            raise DamagedFileError(
                f"{where} is damaged: {wrong}; likely causes: a failing disk, or a copy that was changed; "
                "restore the file from a copy or use an older checkpoint"
            )

    def _what_differs(self, head: Head, body: Part, begins: int) -> str | None:
        fits = [crc32_of(body, head.covered) == head.crc32]
        if head.sha256 is not None:
            fits.append(sha256_of(body).digest() == head.sha256)
        if all(fits):
            return None
        if any(fits):
            wrong = self._bytes_of(_SHA256 if fits[0] else _CRC32, begins)
            return f"the checksum in {wrong} is not that of the other bytes"
        start = begins + self.size
        body_bytes = f"bytes {start} to {start + head.length}"
        if head.sha256 is None:
            before = f"bytes {begins} to {self._places[_CRC32][0] + begins} and " if self._covers_head else ""
            return f"the checksum in {self._bytes_of(_CRC32, begins)} is not that of {before}{body_bytes}"
        return f"{body_bytes} do not match their checksums"

    def _bytes_of(self, field: int, begins: int) -> str:
        start, stop = self._places[field]
        return f"bytes {begins + start} to {begins + stop}"


def seal_line(body: bytes) -> bytes:
    r"""Return a line of text with its CRC-32 before it, for files that people read too.

    Example:
        >>> seal_line(b"{}")
        b'a3a6bf43 {}\n'
    """
    return b"%08x %s\n" % (crc32_of(body), body)


def open_line(line: bytes) -> bytes:
    """Return the verified body of a line that :func:`seal_line` made; ValueError where it is damaged."""
    checksum, _, body = line.partition(b" ")
    body = body.rstrip(b"\n")
    if int(checksum, 16) != crc32_of(body):
        raise ValueError(f"its CRC-32 is {crc32_of(body):08x}; expected {checksum.decode()}")
    return body
