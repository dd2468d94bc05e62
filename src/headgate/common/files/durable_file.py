"""Files that outlive a process: each is complete under its name, or is not there.

::

    create_new   a file under a name that is free
    replace      a file under a name that may be taken
    writing      the same, written piece by piece
    made_beside  the same, written by somebody who wants a path
    hold         a small file that this process keeps locked

A file is made under a temporary name beside its own and written; where it must survive a power cut it is
synced to the device; then it gets its name in one step, and last the folders above are synced, so that the
name survives too. All of that is done by functions of `common/files/durable.py`, which no program replaces.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headgate.common.files.durable import crc32, link, sync, system, token, unlink
from headgate.common.files.durable import replace as renamed
from headgate.common.files.permissions import Permissions, make_folder, permissions_in_use

if TYPE_CHECKING:
    from typing_extensions import Buffer

TEMPORARY_PREFIX: Final = ".tmp-"
"""How the names of unfinished files begin, on any storage; no finished file may be called so."""

Part = bytes | memoryview

_BUFFER_BYTES: Final = 1 << 16
_TRIES_MAX: Final = 16
"""So often a folder is made anew that somebody else removes because it is empty."""


class UnsyncedNameError(OSError):
    """The file has its name, but a folder above could not be synced: a power cut may take the name away."""


class NewFile:
    """A new file that is written from front to end.

    Args:
        path: of the file, which must not exist; its folder must.
        permissions: of the file; those in use by default.

    Attributes:
        path: where it is.

    Raises:
        OSError: it exists, or cannot be made.
    """

    def __init__(self, path: Path, permissions: Permissions | None = None) -> None:
        self.path = path
        chosen = permissions or permissions_in_use()
        flags = system.O_WRONLY | system.O_CREAT | system.O_EXCL | system.O_CLOEXEC
        self._descriptor = system.open(path, flags, chosen.file_mode)
        self._waiting = bytearray()
        try:
            chosen.settle(self._descriptor)
        except OSError:
            self.end()
            raise

    def write(self, data: Buffer) -> int:
        """Write all bytes of a buffer; small ones are collected.

        Raises:
            OSError: the device does not take them.
        """
        view = memoryview(data).cast("B")
        if view.nbytes < _BUFFER_BYTES:
            self._waiting += view
            if len(self._waiting) >= _BUFFER_BYTES:
                self._write_waiting()
        else:
            self._write_waiting()
            _write_all(self._descriptor, view)
        return view.nbytes

    def finish(self, *, durable: bool) -> None:
        """Write what is collected, sync the bytes to the device where they must be durable, and close.

        Raises:
            OSError: the device does not take them.
        """
        self._write_waiting()
        if durable:
            system.fsync(self._descriptor)
        self.end()

    def end(self) -> None:
        """Close the file as it is; again does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            system.close(descriptor)

    def detach(self) -> int:
        """Write what is collected; the descriptor is the caller's from here on.

        Raises:
            OSError: the device does not take it.
        """
        self._write_waiting()
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def fileno(self) -> int:
        """The descriptor; -1 once it is closed."""
        return self._descriptor

    def _write_waiting(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, bytearray()
            _write_all(self._descriptor, memoryview(waiting))


class Measured:
    """Counts and sums up what passes into a file; libraries that write files may write into it.

    Args:
        file: that is written; whoever has begun it finishes it.

    Attributes:
        size: bytes written so far.
        crc32: their checksum.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, writing(Path(folder, "a")) as file:
        ...     measured = Measured(file)
        ...     measured.write(b"abc"), measured.write(b"de")
        ...     measured.size, measured.crc32 == crc32(b"abcde")
        (3, 2)
        (5, True)
    """

    closed = False

    def __init__(self, file: NewFile) -> None:
        self._file = file
        self.size = self.crc32 = 0

    def write(self, data: Buffer) -> int:
        """Write all bytes of a buffer.

        Raises:
            OSError: the device does not take them.
        """
        written = self._file.write(data)
        self.size += written
        self.crc32 = crc32(data, self.crc32)
        return written

    def tell(self) -> int:
        """Bytes written so far."""
        return self.size

    def flush(self) -> None:
        """Nothing: the file is written out when it is finished."""

    def close(self) -> None:
        """Nothing, likewise."""


def create_new(
    path: Path, parts: Iterable[Part], permissions: Permissions | None = None, *, folders: int = 1
) -> bool:
    """Make a durable file under a name that nobody has; False when somebody has it.

    Of any number of callers at the same time exactly one makes the file, on network file systems too.

    Args:
        path: of the file; folders that are missing are made.
        parts: its bytes in order.
        permissions: of what is made; those in use by default.
        folders: how many of the folders above are synced.

    Raises:
        UnsyncedNameError: it has its name, but a folder could not be synced.
        OSError: it could not be written, and nothing changed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder, "entry")
        ...     create_new(path, [b"mine"]), create_new(path, [b"theirs"]), path.read_bytes()
        (True, False, b'mine')
    """
    with _unfinished(path, permissions, durable=True) as file:
        for part in parts:
            file.write(part)
        file.finish(durable=True)
        if not _linked(file.path, path):
            return False
    sync_names(path, folders)
    return True


def replace(
    path: Path,
    parts: Iterable[Part],
    permissions: Permissions | None = None,
    *,
    durable: bool = True,
    folders: int = 1,
) -> None:
    """Make a file, in the place of an older one only when the new one is complete.

    Args:
        path: of the file; folders that are missing are made.
        parts: its bytes in order.
        permissions: of what is made; those in use by default.
        durable: whether it must survive a power cut.
        folders: how many of the folders above are synced.

    Raises:
        UnsyncedNameError: it has its name, but a folder could not be synced.
        OSError: it could not be written, and nothing changed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     replace(Path(folder, "a", "b"), [b"old"])
        ...     replace(Path(folder, "a", "b"), [b"new", b"er"])
        ...     Path(folder, "a", "b").read_bytes()
        b'newer'
    """
    with writing(path, permissions, durable=durable, folders=folders) as file:
        for part in parts:
            file.write(part)


@contextmanager
def writing(
    path: Path, permissions: Permissions | None = None, *, durable: bool = True, folders: int = 1
) -> Iterator[NewFile]:
    """Write a file, which has its name once the block ends well; arguments and errors as for `replace`."""
    with _unfinished(path, permissions, durable=durable) as file:
        yield file
        file.finish(durable=durable)
        renamed(file.path, path)
    if durable:
        sync_names(path, folders)


@contextmanager
def made_beside(path: Path) -> Iterator[Path]:
    """A file beside another one, whose name it takes when the block ends well; for readers of this process.

    Whoever reads a file while it is replaced goes on reading the old one. It is not synced.

    Raises:
        OSError: it cannot be made or renamed.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "job.zip"
        >>> with made_beside(target) as made:
        ...     _ = made.write_text("x"), target.exists()
        >>> [path.name for path in target.parent.iterdir()]
        ['job.zip']
    """
    with _cleared(path) as temporary:
        NewFile(temporary, Permissions.OWNER).end()
        yield temporary
        renamed(temporary, path)


def hold(path: Path, data: bytes, mode: int) -> int:
    """Make a small file that is locked before anybody sees it, in the place of an older one.

    Args:
        path: of the file; its folder must exist.
        data: its bytes.
        mode: of the file, whatever the process's mask.

    Returns:
        The descriptor; the file is locked until it is closed, also by the end of the process.

    Raises:
        OSError: it cannot be made.
    """
    with _cleared(path) as temporary:
        descriptor = system.open(temporary, system.O_WRONLY | system.O_CREAT | system.O_EXCL, mode)
        try:
            # Owner and mode are settled before there is anything to read in it.
            system.fchmod(descriptor, mode)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write_all(descriptor, memoryview(data))
            renamed(temporary, path)
        except OSError:
            system.close(descriptor)
            raise
    return descriptor


def temporary_beside(path: Path) -> Path:
    """A name beside a file that nobody has yet, and that all readers know as that of an unfinished file."""
    return path.with_name(f"{TEMPORARY_PREFIX}{token(8)}")


def sync_names(path: Path, folders: int) -> None:
    """Make the name of a file durable, and the names of folders that may be as new as it is.

    Raises:
        UnsyncedNameError: one of them could not be synced.
    """
    try:
        for folder in list(path.parents)[:folders]:
            sync(folder)
    except OSError as error:
        raise UnsyncedNameError(error.errno, error.strerror, str(path)) from error


def sync_tree(folder: Path) -> None:
    """Make all files and names in a folder durable that somebody else has written; what goes meanwhile went.

    Raises:
        OSError: something cannot be synced.
    """
    for path in (folder, *folder.rglob("*")):
        with suppress(FileNotFoundError):
            sync(path)


@contextmanager
def _cleared(path: Path) -> Iterator[Path]:
    """A name for an unfinished file beside another one; what has it at the end is removed."""
    temporary = temporary_beside(path)
    try:
        yield temporary
    finally:
        with suppress(OSError):
            unlink(temporary, missing_ok=True)


@contextmanager
def _unfinished(path: Path, permissions: Permissions | None, *, durable: bool) -> Iterator[NewFile]:
    """A file that will be another one; it is closed at the end, and removed unless it was renamed."""
    with _cleared(path) as temporary:
        file = _opened(temporary, permissions, durable)
        try:
            yield file
        finally:
            file.end()


def _opened(path: Path, permissions: Permissions | None, durable: bool) -> NewFile:
    for _ in range(_TRIES_MAX):
        with suppress(FileExistsError, FileNotFoundError):  # opening says what is wrong
            make_folder(path.parent, permissions, durable=durable)
        with suppress(FileNotFoundError):  # somebody removed the empty folder meanwhile
            return NewFile(path, permissions)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _linked(temporary: Path, path: Path) -> bool:
    """Give a file its name unless somebody has it; a link, unlike a rename, replaces nothing."""
    try:
        link(temporary, path)
    except FileExistsError:
        # A network file system may carry out a link, lose the answer, and refuse the repetition.
        return temporary.stat().st_nlink == 2
    return True


def _write_all(descriptor: int, rest: memoryview) -> None:
    while rest:
        written = system.write(descriptor, rest)
        if written == 0:  # no error and no progress: asking again might never end
            raise OSError(errno.EIO, "the device took no bytes")
        rest = rest[written:]
