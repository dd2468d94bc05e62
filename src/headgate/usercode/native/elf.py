"""The name by which the dynamic linker knows a shared library: DT_SONAME of an ELF file.

Two libraries of one name cannot both be loaded: the second one gets the first one's code, which is harmless
only where both are the same. pyarrow before 19 names its library without a version, for instance.
"""

from __future__ import annotations

import filecmp
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_ENTRY: Final = struct.Struct("<QQ")
_LOAD, _DYNAMIC = 1, 2
_END, _STRINGS, _SONAME = 0, 5, 14
NAME_MAX: Final = 256


def soname(path: Path) -> str | None:
    """The name of a 64-bit shared library; None for any other file, or one without a name."""
    try:
        with path.open("rb") as file:
            return _soname(file)
    except (OSError, struct.error):
        return None


def are_equal(one: str, other: str) -> bool:
    """Whether two libraries are the same, byte by byte; one that is not there equals none."""
    try:
        return filecmp.cmp(one, other, shallow=False)
    except OSError:
        return False


def _soname(file: IO[bytes]) -> str | None:
    header = file.read(64)
    if header[:4] != b"\x7fELF" or header[4] != 2:
        return None
    segments = list(_segments(file, header))
    dynamic = next(((offset, size) for kind, offset, _, size in segments if kind == _DYNAMIC), None)
    if dynamic is None:
        return None
    tags = dict(_tags(file, *dynamic))
    if _SONAME not in tags or _STRINGS not in tags:
        return None
    strings = _offset_of(tags[_STRINGS], segments)
    file.seek(strings + tags[_SONAME])
    return file.read(NAME_MAX).split(b"\0")[0].decode("utf-8", "replace")


def _segments(file: IO[bytes], header: bytes) -> Iterator[tuple[int, int, int, int]]:
    (table,) = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    file.seek(table)
    entries = file.read(size * count)
    for number in range(count):
        kind, _, offset, address, _, length, _, _ = _SEGMENT.unpack_from(entries, number * size)
        yield kind, offset, address, length


def _tags(file: IO[bytes], offset: int, size: int) -> Iterator[tuple[int, int]]:
    file.seek(offset)
    for tag, value in _ENTRY.iter_unpack(file.read(size - size % _ENTRY.size)):
        if tag == _END:
            return
        yield tag, value


def _offset_of(address: int, segments: list[tuple[int, int, int, int]]) -> int:
    """Where in the file lies what is loaded at an address."""
    for kind, offset, begin, length in segments:
        if kind == _LOAD and begin <= address < begin + length:
            return offset + address - begin
    return address
