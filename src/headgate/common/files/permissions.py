"""Who may read and write the folders and files that Headgate makes for what it stores."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from typing import Final

from headgate.common.files.durable import sync, system

OWNER_FOLDER: Final = 0o700
OWNER_FILE: Final = 0o600


class Permissions(Enum):
    """`headgate.storage.permissions`: whose what is stored is. A folder that existed keeps what it has."""

    OWNER = "owner"
    GROUP = "group"
    UMASK = "umask"

    @property
    def folder_mode(self) -> int:
        """Of a new folder, before the process's mask; those of a group give it to what is made in them."""
        return {"owner": OWNER_FOLDER, "group": 0o2770, "umask": 0o777}[self.value]

    @property
    def file_mode(self) -> int:
        """Of a new file, before the process's mask."""
        return {"owner": OWNER_FILE, "group": 0o660, "umask": 0o666}[self.value]

    @property
    def exact(self) -> bool:
        """Whether the process's mask must not take from it: it is to leave the group its rights."""
        return self is Permissions.GROUP

    def settle(self, descriptor: int) -> None:
        """Undo what the process's mask has taken from a new file."""
        if self.exact:
            system.fchmod(descriptor, self.file_mode)


_of_process = Permissions.OWNER
_of_job: Final[ContextVar[Permissions | None]] = ContextVar("headgate.permissions", default=None)


def use_permissions(permissions: Permissions) -> None:
    """From here on this process makes folders so where nobody says otherwise.

    For processes that do one thing, such as a command or a worker.
    """
    global _of_process
    _of_process = permissions


@contextmanager
def permissions_of_job(permissions: Permissions) -> Iterator[None]:
    """What this thread makes meanwhile is made so, and what threads make that carry its context.

    For a driver, beside which another job's may run in the same process.

    Example:
        >>> with permissions_of_job(Permissions.GROUP):
        ...     permissions_in_use()
        <Permissions.GROUP: 'group'>
    """
    token = _of_job.set(permissions)
    try:
        yield
    finally:
        _of_job.reset(token)


def permissions_in_use() -> Permissions:
    """Those of the job that this thread works for, or of this process."""
    return _of_job.get() or _of_process


def make_folder(
    folder: str | os.PathLike[str], permissions: Permissions | None = None, *, durable: bool = True
) -> None:
    """Make a folder and those above it that are missing.

    Args:
        folder: that may exist, and then stays as it is.
        permissions: of what is made; those in use by default.
        durable: whether it must survive a power cut.

    Raises:
        OSError: it cannot be made.

    Example:
        >>> import tempfile
        >>> top = Path(tempfile.mkdtemp())
        >>> make_folder(top / "a" / "b", Permissions.OWNER)
        >>> oct(stat.S_IMODE((top / "a").stat().st_mode) & 0o777)
        '0o700'
    """
    path = Path(folder)
    chosen = permissions or permissions_in_use()
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent, chosen, durable=durable)
    try:
        system.mkdir(path, chosen.folder_mode)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    if chosen.exact:
        # Where the group is not the user's own, the system drops the inheritance and keeps the rights.
        with suppress(OSError):
            system.chmod(path, chosen.folder_mode)
    if durable:
        with suppress(PermissionError):  # one that may be passed through, and not be looked into
            sync(path.parent)


def own_folder(folder: Path) -> None:
    """Make a folder that is the user's alone, in a place where everybody may make some.

    Raises:
        PermissionError: one of this name is there, and is somebody else's, open to others, or a link.
        OSError: it cannot be made.
    """
    with suppress(FileExistsError):
        system.mkdir(folder, OWNER_FOLDER)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it is a link or another user's, and not ours alone", str(folder))
    if stat.S_IMODE(found.st_mode) & 0o077:
        system.chmod(folder, OWNER_FOLDER)
