"""Files that outlive a process: each is complete under its name, or is not there.

::

    create_new   a file under a name that is free
    replace      a file under a name that may be taken
    writing      the same, written piece by piece
    made_beside  the same, written by code that wants a path
    hold         a small file that this process keeps locked

A file is written under a temporary name in the same folder; where it must survive a power cut it is synced to
the device; then it gets its name in one step, and last the folders above are synced, so the name survives.
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
_TRIES_MAX: Final = 16  # how often a folder is made again when another process removes it because it is empty


class UnsyncedNameError(OSError):
    """The file has its name, but a folder above could not be synced: a power cut may take the name away."""


class NewFile:
    """A new file at `path`, written once from its beginning, which is complete after :meth:`finish`.

    FileExistsError where the path is taken; `permissions` None: those in use.
    """

    def __init__(self, path: Path, permissions: Permissions | None = None) -> None:
        self.path = path
        chosen = permissions or permissions_in_use()
        flags = system.O_WRONLY | system.O_CREAT | system.O_EXCL | system.O_CLOEXEC
        self._descriptor = system.open(path, flags, chosen.file_mode)
        self._waiting = bytearray()
        try:
            chosen.apply(self._descriptor)
        except OSError:
            self.end()
            raise

    def write(self, data: Buffer) -> int:
        """Append all bytes of `data` and return their number; up to 64 KiB of small writes wait in memory."""
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
        """Write what waits in memory, sync to the device if `durable`, close; OSError leaves it open."""
        self._write_waiting()
        if durable:
            system.fsync(self._descriptor)
        self.end()

    def end(self) -> None:
        """Close the file; bytes that wait in memory are lost. A closed or detached file stays as it is."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            system.close(descriptor)

    def detach(self) -> int:
        """Write what waits in memory, and return the open descriptor, which the caller has to close."""
        self._write_waiting()
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def fileno(self) -> int:
        return self._descriptor

    def _write_waiting(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, bytearray()
            _write_all(self._descriptor, memoryview(waiting))


class Measured:
    """Wraps an open file for libraries that write into it; `size` and `crc32` are of the bytes so far.

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
        written = self._file.write(data)
        self.size += written
        self.crc32 = crc32(data, self.crc32)
        return written

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Do nothing: the file is written out when it is finished."""

    def close(self) -> None:
        """Do nothing: the owner of the file closes it."""


def create_new(
    path: Path, parts: Iterable[Part], permissions: Permissions | None = None, *, folders: int = 1
) -> bool:
    """Write a durable file under a free name and return True; return False when another file has the name.

    Of any number of callers at the same time exactly one makes the file, on network file systems too. `parts`
    are its bytes in order; missing folders are made. `permissions` (None: those in use) are of file and
    folders. The file and the `folders` nearest folders above it are synced. UnsyncedNameError: the file has
    its name, but a folder could not be synced. After another OSError there is no new file.

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
    """Write a file in one step: an older file of that name is replaced only when the new one is complete.

    `parts` are its bytes in order; missing folders are made; `permissions` None: those in use. If `durable`,
    the file and the `folders` nearest folders above it are synced. UnsyncedNameError: only a folder was not
    synced; after another OSError the older file is as it was.

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
    """Yield a file to write, which gets the name `path` when the block ends; an older file is replaced then.

    If the block fails, the older file is as it was. Missing folders are made; `permissions` None: those in
    use. If `durable`, the file and the `folders` nearest folders above it are synced; UnsyncedNameError says
    that the file has its name, but that a folder could not be synced.
    """
    with _unfinished(path, permissions, durable=durable) as file:
        yield file
        file.finish(durable=durable)
        renamed(file.path, path)
    if durable:
        sync_names(path, folders)


@contextmanager
def made_beside(path: Path) -> Iterator[Path]:
    """Yield the path of an empty file (mode 600) beside `path`, renamed to `path` if the block succeeds.

    For code that writes files itself; the folder must exist. Readers keep an old file. Nothing is synced.

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
    """Write a small file that is locked before others see it, replacing an older one; return its descriptor.

    By the lock others see that this process lives: closing the descriptor, at the latest by the end of the
    process, unlocks the file. Where the file system has no locks it is not locked. The permission bits are
    `mode` whatever the umask; the folder must exist.
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


def try_lock(descriptor: int, kind: int = fcntl.LOCK_SH) -> bool | None:
    """Lock an open file without waiting, as `flock` does; `kind` is LOCK_SH (shared) or LOCK_EX.

    Return True if it is locked, False if another opener holds a lock, None if the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def temporary_beside(path: Path) -> Path:
    return path.with_name(f"{TEMPORARY_PREFIX}{token(8)}")


def sync_names(path: Path, folders: int) -> None:
    """Sync the `folders` nearest folders above `path`, so that its name survives; else UnsyncedNameError."""
    try:
        for folder in list(path.parents)[:folders]:
            sync(folder)
    except OSError as error:
        raise UnsyncedNameError(error.errno, error.strerror, str(path)) from error


def sync_tree(folder: Path) -> None:
    """Sync `folder` and all files and folders in it to the device; those removed meanwhile are skipped."""
    for path in (folder, *folder.rglob("*")):
        with suppress(FileNotFoundError):
            sync(path)


@contextmanager
def _cleared(path: Path) -> Iterator[Path]:
    temporary = temporary_beside(path)
    try:
        yield temporary
    finally:
        with suppress(OSError):
            unlink(temporary, missing_ok=True)


@contextmanager
def _unfinished(path: Path, permissions: Permissions | None, *, durable: bool) -> Iterator[NewFile]:
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
        with suppress(FileNotFoundError):  # another process removed the empty folder meanwhile
            return NewFile(path, permissions)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def _linked(temporary: Path, path: Path) -> bool:
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
