"""What writes, moves, checks and times things that outlive a process, as it was when Headgate was imported.

A program may replace functions of the standard library in its process: for a test, by a library that freezes
time, by mistake. Its own code has what it wants then. What is stored, for this job and for others in the same
process, is not up to that: so all of it is done by the functions here, which are bound once. They are members
of objects, because what freezes time looks through the modules of a process for what it replaces.

The methods of `pathlib` call `os` and `io` by name at every call, so what lasts is not written by them.
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
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

FilePath = str | os.PathLike[str]


class _System:
    """Members of `os`, under their names there."""

    def __init__(self) -> None:
        self.open, self.close, self.write, self.pread = os.open, os.close, os.write, os.pread
        self.fsync, self.fchmod, self.utime = os.fsync, os.fchmod, os.utime
        self.link, self.rename, self.replace, self.unlink = os.link, os.rename, os.replace, os.unlink
        self.mkdir, self.rmdir, self.chmod = os.mkdir, os.rmdir, os.chmod
        self.urandom, self.dup, self.fstat = os.urandom, os.dup, os.fstat
        self.O_RDONLY, self.O_WRONLY, self.O_CREAT, self.O_EXCL = (
            os.O_RDONLY,
            os.O_WRONLY,
            os.O_CREAT,
            os.O_EXCL,
        )
        self.O_RDWR, self.O_CLOEXEC, self.O_NONBLOCK = os.O_RDWR, os.O_CLOEXEC, os.O_NONBLOCK


class _Clock:
    """Members of `time`, under their names there."""

    def __init__(self) -> None:
        self.time, self.time_ns = time.time, time.time_ns
        self.monotonic, self.monotonic_ns = time.monotonic, time.monotonic_ns
        self.sleep = time.sleep


class _Functions:
    """What is offered by functions below."""

    def __init__(self) -> None:
        self.open = io.open
        self.kind = stat.S_IFMT
        self.crc32, self.sha256 = zlib.crc32, hashlib.sha256
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
    """Unpredictable hexadecimal digits, two for each of so many bytes."""
    return system.urandom(size).hex()


def open_read(path: FilePath) -> BinaryIO:
    """A regular file to read bytes from: a pipe that a stranger has put in its place would keep us waiting.

    Raises:
        OSError: it cannot be opened, or is none.
    """
    found: BinaryIO = _bound.open(path, "rb", opener=_opened_at_once)
    return found


def _opened_at_once(path: str, flags: int) -> int:
    descriptor = system.open(path, flags | system.O_NONBLOCK)
    if _bound.kind(system.fstat(descriptor).st_mode) in (stat.S_IFREG, stat.S_IFDIR):
        return descriptor  # that it is a folder the caller is told in the system's words
    system.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", path)


def open_new(
    path: FilePath, mode: int = 0o666, *, exclusive: bool = True, buffering: Literal[-1, 0] = -1
) -> Any:
    """A file to write bytes to.

    Args:
        path: of it.
        mode: if it is made; the process's mask takes from it.
        exclusive: whether it must not exist; else it is emptied.
        buffering: 0: none.

    Raises:
        OSError: it exists, or cannot be made.
    """

    def opener(name: str, flags: int) -> int:
        return system.open(name, flags, mode)

    return _bound.open(path, "xb" if exclusive else "wb", buffering=buffering, opener=opener)


def open_nameless(folder: FilePath) -> Any:
    """A file to write and read that has no name any more, without a buffer; it goes when it is closed.

    Raises:
        OSError: it cannot be made.
    """
    path = Path(folder, f".headgate-{token(8)}")
    handle = system.open(path, system.O_RDWR | system.O_CREAT | system.O_EXCL | system.O_CLOEXEC, 0o600)
    unlink(path, missing_ok=True)
    return _bound.open(handle, "w+b", buffering=0)


def read_bytes(path: FilePath) -> bytes:
    """All bytes of a file.

    Raises:
        OSError: it cannot be read.
    """
    with open_read(path) as file:
        return file.read()


def unlink(path: FilePath, *, missing_ok: bool = False) -> None:
    """Remove a file.

    Raises:
        OSError: it cannot be removed; FileNotFoundError only where one missing is not ok.
    """
    try:
        system.unlink(path)
    except FileNotFoundError:
        if not missing_ok:
            raise


def rename(source: FilePath, target: FilePath) -> None:
    """Give a file or folder another name; a file that has it goes.

    Raises:
        OSError: it cannot be renamed.
    """
    system.rename(source, target)


def replace(source: FilePath, target: FilePath) -> None:
    """The same.

    Raises:
        OSError: it cannot be renamed.
    """
    system.replace(source, target)


def link(source: FilePath, target: FilePath) -> None:
    """Give a file a second name; unlike a rename that replaces nothing.

    Raises:
        FileExistsError: the name is taken.
        OSError: it cannot be linked.
    """
    system.link(source, target)


def touch(path: FilePath) -> None:
    """Make an empty file unless there is one.

    Raises:
        OSError: it cannot be made.
    """
    system.close(system.open(path, system.O_WRONLY | system.O_CREAT, 0o666))


def sync(path: FilePath) -> None:
    """Make a file, or the names in a folder, durable.

    Raises:
        OSError: it cannot be synchronised.
    """
    handle = system.open(path, system.O_RDONLY)
    try:
        system.fsync(handle)
    finally:
        system.close(handle)


def remove_folder(folder: FilePath) -> None:
    """Remove a folder with all that is in it, links and not what they lead to; what cannot go stays."""
    with suppress(OSError):
        for entry in list(_listed(folder)):
            if entry.is_dir(follow_symlinks=False):
                remove_folder(entry.path)
            else:
                with suppress(OSError):
                    system.unlink(entry.path)
        system.rmdir(folder)


def _listed(folder: FilePath) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)
