"""Permissions of folders and files that Headgate makes to store data: which users may read and write them."""

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
    """Who may use new files and folders; the option `headgate.storage.permissions` chooses.

    OWNER: only the process's user; GROUP: the folder's group too; UMASK: as the process's umask says.
    """

    OWNER = "owner"
    GROUP = "group"
    UMASK = "umask"

    @property
    def folder_mode(self) -> int:
        return {"owner": OWNER_FOLDER, "group": 0o2770, "umask": 0o777}[self.value]

    @property
    def file_mode(self) -> int:
        return {"owner": OWNER_FILE, "group": 0o660, "umask": 0o666}[self.value]

    @property
    def exact(self) -> bool:
        return self is Permissions.GROUP

    def apply(self, descriptor: int) -> None:
        if self.exact:
            system.fchmod(descriptor, self.file_mode)


_of_process = Permissions.OWNER
_of_job: Final[ContextVar[Permissions | None]] = ContextVar("headgate.permissions", default=None)


def use_permissions(permissions: Permissions) -> None:
    """Set the permissions of new files for a whole process that serves one job: a command or a worker."""
    global _of_process
    _of_process = permissions


@contextmanager
def permissions_of_job(permissions: Permissions) -> Iterator[None]:
    """Set the permissions of new files that this thread, and threads with its context, make in the block.

    For a driver, since another job's driver may run in the same process.

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
    """Return the permissions for new files: of the job that this thread works for, else of this process."""
    return _of_job.get() or _of_process


def make_folder(
    folder: str | os.PathLike[str], permissions: Permissions | None = None, *, durable: bool = True
) -> None:
    """Make a folder and missing ones above it; one that exists stays as it is, a file: FileExistsError.

    New folders get `permissions` (None: those in use), whatever the umask for GROUP. If `durable`, each new
    name is synced to the device. Another OSError if a folder cannot be made.

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
    """Make or restrict a folder for this user alone; PermissionError: a link, a file or another user's."""
    with suppress(FileExistsError):
        system.mkdir(folder, OWNER_FOLDER)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it is a link or another user's, and not ours alone", str(folder))
    if stat.S_IMODE(found.st_mode) & 0o077:
        system.chmod(folder, OWNER_FOLDER)
