"""Unpacked user code on a machine: folders by the hash of what they were made from.

::

    ROOT/                 mode 0700, the owner's; refused when it is not
        <hash>/           complete: it was renamed into place when it was ready
        <hash>.lease      locked, shared, by every process that uses the folder
        <hash>.making     locked by the one that makes it, while the others wait
        making-*/         half-made, or left by a process that died

A folder is removed by a process that gets the exclusive lock of its lease file: then no process uses it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from headgate.common.files.durable import clock
from headgate.common.files.permissions import Permissions, make_folder
from headgate.common.process.children import hide
from headgate.usercode.bundle.unpacking import remove
from headgate.usercode.loading_errors import UserCodeLoadError

OWNER_ONLY: Final = 0o700
ABANDONED_S: Final = 3600.0
"""How old something half-made must be to be taken for a dead process's."""
_KEY: Final = re.compile(r"[0-9a-f]{16,64}")


class Leased:
    """A folder of the cache that is not removed before :meth:`release`; keep this object until then."""

    def __init__(self, folder: Path, lock: IO[bytes]) -> None:
        self.folder, self._lock = folder, lock

    def release(self) -> None:
        """Give up the lease: the folder may be removed once no other process uses it."""
        self._lock.close()


class ArtifactCache:
    """One user's unpacked artifacts on one machine, in `root`; UserCodeLoadError if others may use that.

    Example:
        >>> cache = ArtifactCache(Path(tempfile.mkdtemp()) / "cache")
        >>> def make(folder):
        ...     _ = (folder / "job.py").write_text("x = 1")
        >>> leased = cache.lease("0" * 16, make)
        >>> [path.name for path in leased.folder.iterdir()]
        ['job.py']
        >>> cache.sweep(), leased.release(), cache.sweep()
        (0, None, 1)
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        with contextlib.suppress(FileExistsError):  # a file or a broken link, which is refused below
            make_folder(root, Permissions.OWNER, durable=False)
        found = root.lstat()
        mode = stat.S_IMODE(found.st_mode)
        if not stat.S_ISDIR(found.st_mode):
            raise UserCodeLoadError(
                f"the cache of user code {str(root)!r} must be a folder, got a link or a file, whose owner "
                "can have it lead elsewhere; remove it or name another folder"
            )
        if found.st_uid != os.getuid() or mode & 0o077:
            raise UserCodeLoadError(
                f"the cache of user code {str(root)!r} must be its owner's alone, expected user "
                f"{os.getuid()} and mode 700, got user {found.st_uid} and mode {mode:o}; remove it or name "
                "another folder"
            )

    def lease(self, key: str, make: Callable[[Path], None]) -> Leased:
        """Return a lease on the folder of `key`, which `make` fills first where it does not exist yet.

        `make` fills an empty folder while other processes that want the same `key` wait; where it raises,
        nothing of the folder is left. UserCodeLoadError if `key` is not 16 to 64 hexadecimal digits.
        """
        if _KEY.fullmatch(key) is None:
            raise UserCodeLoadError(f"{key!r} is no hash of user code")
        lock = self._lock(key)
        try:
            folder = self._root / key
            if not folder.is_dir():
                with self._making(key):
                    if not folder.is_dir():
                        self._publish(folder, make)
            os.utime(folder)
        except BaseException:
            lock.close()
            raise
        return Leased(folder, lock)

    def sweep(self, unused_s: float = 0.0) -> int:
        """Remove folders that no process leases and that were last leased `unused_s` seconds ago or longer.

        Returns their number. Half-made folders of processes that died are removed after an hour, uncounted.
        """
        removed = 0
        for folder in list(self._root.iterdir()):
            if not folder.is_dir():
                continue
            if folder.name.startswith("making-"):
                if _age_s(folder) > ABANDONED_S:
                    remove(folder)
            elif _KEY.fullmatch(folder.name) and _age_s(folder) >= unused_s:
                removed += self._remove_unused(folder)
        return removed

    def _publish(self, folder: Path, make: Callable[[Path], None]) -> None:
        making = Path(tempfile.mkdtemp(prefix="making-", dir=self._root))
        try:
            make(making)
            with contextlib.suppress(OSError):  # another process was first after all: its folder is as good
                making.rename(folder)
        finally:
            remove(making)

    @contextmanager
    def _making(self, key: str) -> Iterator[None]:
        path = self._root / f"{key}.making"
        with path.open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
            path.unlink(missing_ok=True)

    def _lock(self, key: str) -> IO[bytes]:
        path = self._root / f"{key}.lease"
        while True:
            lock = hide(path.open("ab"))
            fcntl.flock(lock, fcntl.LOCK_SH)
            if _is_still(path, lock):
                return lock
            lock.close()

    def _remove_unused(self, folder: Path) -> bool:
        with _alone(self._root / f"{folder.name}.lease") as alone:
            if not alone:
                return False
            going = folder.with_name(f"making-gone-{os.getpid()}-{clock.monotonic_ns()}")
            try:
                folder.rename(going)
            except FileNotFoundError:  # another process has swept since we looked, and its lease file with it
                return False
            remove(going)
            return True


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    with path.open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = _is_still(path, lock)
        except OSError:
            alone = False
        yield alone
        if alone:
            path.unlink(missing_ok=True)


def _is_still(path: Path, lock: IO[bytes]) -> bool:
    try:
        return os.fstat(lock.fileno()).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _age_s(folder: Path) -> float:
    try:
        return clock.time() - folder.stat().st_mtime
    except FileNotFoundError:
        return 0.0
