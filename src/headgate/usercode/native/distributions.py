"""Reads which distributions lie on a path: versions, hashes of their contents, and compiled files.

The dynamic linker knows a shared library by its DT_SONAME. Two libraries of one name cannot both be loaded:
the second one gets the first one's code, which is harmless only where both are the same. pyarrow before 19
names its library without a version, for instance.
"""

from __future__ import annotations

import filecmp
import importlib.machinery
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import IO, Final

from headgate.common.files.durable import sha256

EXTENSIONS: Final = tuple(importlib.machinery.EXTENSION_SUFFIXES)
_NOT_CONTENT: Final = ("RECORD", "INSTALLER", "direct_url.json", "REQUESTED")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOT_LINKED: Final = frozenset({"..", "bin", "__pycache__", ""})
_LIBRARY: Final = re.compile(r"\.so(\.\d+)*$")  # a name with `.so` elsewhere is of data
_OF_WHEEL: Final = re.compile(r"^[^/]+\.data/(purelib|platlib)/")
_OF_INTERPRETER: Final = re.compile(r"\.(cpython-|abi3\.)")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_ENTRY: Final = struct.Struct("<QQ")
_LOAD, _DYNAMIC = 1, 2
_END, _STRINGS, _SONAME = 0, 5, 14
NAME_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Installed:
    """One installed distribution (package) on a path; `contents` is a hash over all its files."""

    name: str  # lower case, with hyphens
    version: str
    contents: str  # hash of its record: equal for equal files
    path: str  # the folder in which it is installed
    modules: tuple[str, ...]  # top-level modules
    compiled: tuple[str, ...]  # paths of its extension modules and shared libraries
    requires: tuple[str, ...] = ()  # names of distributions that it needs, those of its extras left out
    entries: tuple[str, ...] = ()  # files and folders that it has in the folder where it lies

    @property
    def is_native(self) -> bool:
        return bool(self.compiled)

    def libraries(self) -> Iterator[tuple[str, str]]:
        """Yield (name for the linker, path) of each shared library with such a name; no extension modules."""
        for file in self.compiled:
            if _OF_INTERPRETER.search(Path(file).name) is None:
                name = soname(Path(file))
                if name is not None:
                    yield name, file


def installed_in(path: Iterable[str], names: Iterable[str] | None = None) -> dict[str, Installed]:
    """Return the distributions installed in folders `path`, by :func:`normal` name; the first of each name.
    `names`: only these are looked for; None: all.
    """
    path = list(path)
    found: dict[str, Installed] = {}
    for asked in [None] if names is None else names:
        for distribution in distributions(name=asked, path=path):
            name = distribution.metadata["Name"]  # None: what an uninstallation has left of one
            if name and normal(name) not in found:
                found[normal(name)] = _described(distribution)
    return found


def holds_packages(folder: str) -> bool:
    """Return whether the metadata of any installed distribution lies in a folder, as in site-packages."""
    return any(one.metadata["Name"] for one in distributions(path=[folder]))


def normal(name: str) -> str:
    """Return a distribution's name as it is compared: lower case, with hyphens for dots and underscores."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _described(distribution: Distribution) -> Installed:
    files = list(distribution.files or ())
    names = [str(file) for file in files]
    compiled = [name for name in names if _is_compiled(name)]
    lines = sorted(
        f"{file} {file.hash.value if file.hash else ''}"
        for file in files
        if not str(file).endswith((".pyc", *_NOT_CONTENT)) and not str(file).startswith("..")
    )
    return Installed(
        normal(distribution.metadata["Name"]),
        distribution.version,
        sha256("\n".join(lines).encode()).hexdigest()[:32],
        str(distribution.locate_file("")),
        tuple(sorted({_top(name) for name in names} - {""})),
        tuple(str(distribution.locate_file(name)) for name in compiled),
        tuple(_required(distribution.requires or ())),
        tuple(sorted({name.partition("/")[0] for name in names} - _NOT_LINKED)),
    )


def _required(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        name = _NAME.match(line)
        if name is not None and "extra ==" not in line:
            yield normal(name.group())


def _is_compiled(name: str) -> bool:
    last = name.rpartition("/")[2]
    return last.endswith(EXTENSIONS) or _LIBRARY.search(last) is not None


def _top(name: str) -> str:
    first, slash, _ = _OF_WHEEL.sub("", name).partition("/")
    if first.endswith((".dist-info", ".libs", ".data")) or first in ("..", "__pycache__", "bin"):
        return ""
    return first if slash else first.partition(".")[0] if first.endswith((".py", *EXTENSIONS)) else ""


def soname(path: Path) -> str | None:
    """Return the name by which the linker knows a 64-bit shared library; None for other files, or no name."""
    try:
        with path.open("rb") as file:
            return _soname(file)
    except (OSError, struct.error):
        return None


def are_equal(one: str, other: str) -> bool:
    """Return whether two files (paths) are equal byte by byte; False if one is absent or unreadable."""
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
    for kind, offset, begin, length in segments:
        if kind == _LOAD and begin <= address < begin + length:
            return offset + address - begin
    return address
