"""Functions that write, move, check and time stored data, bound when Headgate is imported.

A program may replace functions of the standard library in its process: for a test, by a library that freezes
time, by mistake. Its own code then gets what it wants, but stored data, of this job and of others in the same
process, must not depend on that. The functions are members of objects, because libraries that freeze time
look through the modules of a process for what they replace. The methods of `pathlib` look up `os` and `io` at
every call, so nothing that is stored is written by them.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import random
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

try:
    from isal.isal_zlib import crc32 as crc32_of
except ImportError:  # there is no wheel for this machine, or an executor lacks it
    from zlib import crc32 as crc32_of

FilePath = str | os.PathLike[str]


class _System:
    """The functions of `os` as they were at import, under their names there."""

    def __init__(self) -> None:
        self.open, self.close, self.write, self.pread = os.open, os.close, os.write, os.pread
        self.fsync, self.fchmod, self.utime = os.fsync, os.fchmod, os.utime
        self.link, self.rename, self.replace, self.unlink = os.link, os.rename, os.replace, os.unlink
        self.mkdir, self.rmdir, self.chmod, self.scandir = os.mkdir, os.rmdir, os.chmod, os.scandir
        self.urandom, self.dup, self.fstat = os.urandom, os.dup, os.fstat
        self.O_RDONLY, self.O_WRONLY, self.O_RDWR = os.O_RDONLY, os.O_WRONLY, os.O_RDWR
        self.O_CREAT, self.O_EXCL = os.O_CREAT, os.O_EXCL
        self.O_CLOEXEC, self.O_NONBLOCK = os.O_CLOEXEC, os.O_NONBLOCK


class _Clock:
    """The functions of `time` as they were at import, under their names there."""

    def __init__(self) -> None:
        self.time, self.time_ns = time.time, time.time_ns
        self.monotonic, self.monotonic_ns = time.monotonic, time.monotonic_ns
        self.sleep = time.sleep


class _Functions:
    """Functions of other modules as they were at import, and a random generator, `chance`."""

    def __init__(self) -> None:
        self.open = io.open
        self.kind = stat.S_IFMT
        self.crc32, self.sha256 = crc32_of, hashlib.sha256
        self.dumps, self.loads = json.dumps, json.loads
        self.chance = random.Random()


system: Final = _System()
clock: Final = _Clock()
_bound: Final = _Functions()
crc32: Final = _bound.crc32
sha256: Final = _bound.sha256
chance: Final = _bound.chance
json_dumps: Final = _bound.dumps
json_loads: Final = _bound.loads


def token(size: int) -> str:
    """Return `size` random bytes as 2 * `size` hexadecimal digits, for names that nobody can guess."""
    return system.urandom(size).hex()


def open_read(path: FilePath) -> BinaryIO:
    """Open a regular file to read bytes, through a buffer; the caller closes it.

    OSError if it cannot be opened or is a folder, and for a pipe or device, which could make the open wait.
    """
    return _bound.open(path, "rb", opener=_opened_at_once)


def _opened_at_once(path: str, flags: int) -> int:
    descriptor = system.open(path, flags | system.O_NONBLOCK)
    if _bound.kind(system.fstat(descriptor).st_mode) in (stat.S_IFREG, stat.S_IFDIR):
        return descriptor  # a folder: the system's own error follows
    system.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", path)


def open_new(path: FilePath) -> BinaryIO:
    """Open a file to write bytes, through a buffer; made if absent (umask applies), else emptied."""
    return _bound.open(path, "wb", opener=lambda name, flags: system.open(name, flags, 0o666))


def open_nameless(folder: FilePath) -> io.FileIO:
    """Open a new file without a name in `folder`, on its disk, to write and read temporary bytes, unbuffered.

    The file (mode 600) is gone when the caller closes it, or the process ends.
    """
    path = Path(folder, f".headgate-{token(8)}")
    handle = system.open(path, system.O_RDWR | system.O_CREAT | system.O_EXCL | system.O_CLOEXEC, 0o600)
    unlink(path, missing_ok=True)
    return _bound.open(handle, "w+b", buffering=0)


def read_bytes(path: FilePath) -> bytes:
    """Return all bytes of a regular file; OSError if it cannot be read, or is a pipe or device."""
    with open_read(path) as file:
        return file.read()


def unlink(path: FilePath, *, missing_ok: bool = False) -> None:
    """Remove a file; FileNotFoundError if there is none, unless `missing_ok`."""
    try:
        system.unlink(path)
    except FileNotFoundError:
        if not missing_ok:
            raise


def rename(source: FilePath, target: FilePath) -> None:
    """Give a file or folder, `source`, the name `target`; a file that has that name is replaced."""
    system.rename(source, target)


def replace(source: FilePath, target: FilePath) -> None:
    """Give the file `source` the name `target`; a file that has that name is replaced, on every system."""
    system.replace(source, target)


def link(source: FilePath, target: FilePath) -> None:
    """Give `source` the second name `target`; FileExistsError where that is taken: nothing is replaced."""
    system.link(source, target)


def touch(path: FilePath) -> None:
    system.close(system.open(path, system.O_WRONLY | system.O_CREAT, 0o666))


def sync(path: FilePath) -> None:
    """Sync a file's bytes, or a folder's list of names, to the device: a power cut loses none of them."""
    handle = system.open(path, system.O_RDONLY)
    try:
        system.fsync(handle)
    finally:
        system.close(handle)


def remove_folder(folder: FilePath) -> None:
    """Remove a folder and all in it, or a link alone; what is absent or cannot be removed raises nothing."""
    with suppress(OSError):
        if (link := Path(folder)).is_symlink():  # without a slash at its end, which would follow the link
            system.unlink(link)
            return
        with system.scandir(folder) as entries:
            found = list(entries)
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                remove_folder(entry.path)
            else:
                with suppress(OSError):
                    system.unlink(entry.path)
        system.rmdir(folder)


def checksum(path: Path) -> tuple[int, int]:
    """Return the size and the CRC-32 of a file; OSError if it cannot be read."""
    size = found = 0
    with open_read(path) as file:
        while piece := file.read(1 << 20):
            size += len(piece)
            found = crc32(piece, found)
    return size, found
