"""Files that drivers keep locked while they run: how commands reach a job, and which jobs use a folder.

The file by which commands find a job lies in a folder of the user's own. Whoever may read it may control
the job, because its secret is in it; so only the user may. The files of the jobs that use a folder lie
in that folder. A driver that enters looks at the others first. Two that enter at once do so one after the
other, because the folder itself is locked meanwhile. No driver is found where the file system has no locks.

A file that no process has locked, or whose process has exited, was left by a driver that died.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from headgate.common.decoders import json_decoder
from headgate.common.errors import StorageError
from headgate.common.files.durable import clock, system, token, unlink
from headgate.common.files.durable_file import hold, try_lock
from headgate.common.files.permissions import OWNER_FILE, Permissions, make_folder, permissions_in_use
from headgate.common.files.stored_paths import inside
from headgate.common.process.children import hide
from headgate.common.process.processes import process_lives

HOME_VARIABLE: Final = "HEADGATE_HOME"
FORMAT_VERSION: Final = 1
FORGOTTEN_AFTER_S: Final = 7 * 24 * 3600
"""How long after its job's start the file of a dead driver is kept, so that commands can list it."""

RUNNING: Final = ".headgate-running"
"""Folder, in a checkpoint storage on local files, of the jobs that keep their checkpoints there."""

_SUFFIX: Final = ".json"
_FILE_BYTES_MAX: Final = 1 << 20
_READABLE: Final = 0o644
"""Mode of the files where the process's mask decides: other users must read them, and need not write."""

_GATE_S: Final = 5.0  # how long a driver waits for another one that is entering


class JobFile(msgspec.Struct, frozen=True):
    """Content of the file by which commands reach a job's driver; they send `secret` with every request.

    The driver is process `pid` on `host`; `address` is its endpoint's URL. `started_ms`: ms since 1970;
    `certificate`: PEM, None without TLS; `storage`: URI of the checkpoints, None without them.
    """

    job_id: str
    name: str
    pid: int
    host: str
    started_ms: int
    address: str  # such as http://127.0.0.1:40123
    secret: str
    certificate: str | None = None  # of the endpoint, as PEM, where it speaks TLS
    storage: str | None = None  # URI of its checkpoints; None where it takes none
    version: int = FORMAT_VERSION

    def __repr__(self) -> str:
        # Without the secret, so that it gets into no log.
        return f"JobFile({self.job_id!r}, pid {self.pid} on {self.host}, {self.address})"


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job found by its file in the user's folder; `exited`: its driver ran on this machine and is dead."""

    file: JobFile
    path: Path
    exited: bool

    def forget(self) -> None:
        unlink(self.path, missing_ok=True)


def jobs_folder(variables: Mapping[str, str] | None = None) -> Path:
    """Return the folder of this user's job files, by `variables` (None: the environment); it is not made.

    Example:
        >>> jobs_folder({"HEADGATE_HOME": "/srv/headgate"}).as_posix()
        '/srv/headgate/jobs'
        >>> jobs_folder({"XDG_STATE_HOME": "/home/ada/state"}).as_posix()
        '/home/ada/state/headgate/jobs'
    """
    known = os.environ if variables is None else variables
    if home := known.get(HOME_VARIABLE):
        return Path(home) / "jobs"
    state = known.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "headgate" / "jobs"


_JOB_FILES: Final = json_decoder(JobFile)


class PublishedJob:
    """The file by which commands find a job here, locked until withdrawn; StorageError if not written."""

    def __init__(self, job: JobFile) -> None:
        folder = jobs_folder()
        self._path = inside(folder, f"{job.job_id}{_SUFFIX}", "the file of a job")
        try:
            make_folder(folder, Permissions.OWNER, durable=False)
            self._descriptor = hold(self._path, msgspec.json.encode(job), OWNER_FILE)
        except (OSError, RuntimeError) as error:
            raise StorageError(
                f"{self._path} cannot be written ({error}), so no command could reach the job; set "
                f"{HOME_VARIABLE} to a folder that can be written, or rest.enabled to false"
            ) from None
        hide(self)  # a child that holds the lock would look like a living driver

    def fileno(self) -> int:
        return self._descriptor

    def withdraw(self) -> None:
        """Unlock the file and remove it, unless a later driver of the job has replaced it; call it once."""
        try:
            with contextlib.suppress(FileNotFoundError):
                # Drivers of one job that replace each other share the path.
                if os.path.samestat(self._path.lstat(), os.fstat(self._descriptor)):
                    unlink(self._path)
        finally:
            descriptor, self._descriptor = self._descriptor, -1
            system.close(descriptor)


def known_jobs() -> list[KnownJob]:
    """Return all jobs, also of dead drivers, that have a readable job file of this user, oldest first."""
    found = [job for path in sorted(jobs_folder().glob(f"*{_SUFFIX}")) if (job := _read(path)) is not None]
    return sorted(found, key=lambda job: job.file.started_ms)


def forget_old() -> None:
    """Remove the job files of this machine's dead drivers whose jobs started more than a week ago."""
    oldest_ms = (clock.time() - FORGOTTEN_AFTER_S) * 1000
    for job in known_jobs():
        if job.exited and job.file.started_ms < oldest_ms:
            job.forget()


def _read(path: Path) -> KnownJob | None:
    try:
        # Without waiting, as a named pipe would have one wait for who writes to it.
        descriptor = system.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None  # removed meanwhile, or another user's
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return None
        file = _JOB_FILES.decode(os.read(descriptor, _FILE_BYTES_MAX))
        return KnownJob(file, path, _has_exited(file, descriptor))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    finally:
        system.close(descriptor)


def _has_exited(file: JobFile, descriptor: int) -> bool:
    if file.host != socket.gethostname():
        return False  # its processes cannot be seen from here
    # The number may be another process's by now. The lock alone would not do: forked children inherit it.
    return not process_lives(file.pid) or try_lock(descriptor) is True


class Occupant(msgspec.Struct, frozen=True):
    """A job that uses a folder, with its driver's process: the content of its file in that folder."""

    job_id: str
    name: str
    pid: int
    host: str

    @property
    def where(self) -> str:
        return f"process {self.pid} on {self.host}"


_OCCUPANTS: Final = json_decoder(Occupant)


def this_driver_as(job_id: str, name: str) -> Occupant:
    return Occupant(job_id, name, os.getpid(), socket.gethostname())


class Occupancy:
    """A driver's registration (`me`) as a user of `folder`; the last user to leave removes the folder."""

    def __init__(self, folder: Path, me: Occupant) -> None:
        self._folder, self._me = folder, me
        self._path = folder / f"{me.job_id}-{token(4)}{_SUFFIX}"
        self._descriptor: int | None = None

    def enter(self, look: Callable[[Sequence[Occupant]], None]) -> None:
        """Make the folder, call `look` with its other users and, unless `look` raises, register this driver.

        Drivers that enter at the same time wait for each other, up to 5 s. OSError: folder or file cannot be
        made.
        """
        permissions = permissions_in_use()
        mode = _READABLE if permissions is Permissions.UMASK else permissions.file_mode
        while True:
            make_folder(self._folder)
            try:
                gate = system.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except FileNotFoundError:
                continue  # the driver that left last has removed it just now
            try:
                _lock_for_entering(gate)
                if not self._is(gate):
                    continue  # the driver that left last has removed it
                look(occupants_of(self._folder))
                self._descriptor = hold(self._path, msgspec.json.encode(self._me), mode)
                return
            finally:
                system.close(gate)

    def leave(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        with contextlib.suppress(OSError):
            if os.path.samestat(self._path.lstat(), os.fstat(descriptor)):
                unlink(self._path)
        system.close(descriptor)
        with contextlib.suppress(OSError):  # others use it
            system.rmdir(self._folder)

    def _is(self, gate: int) -> bool:
        try:
            return os.path.samestat(self._folder.stat(), os.fstat(gate))
        except FileNotFoundError:
            return False


def occupants_of(folder: Path) -> list[Occupant]:
    """Return the jobs whose drivers have locked files in `folder`; remove files of dead local drivers."""
    found = (_living(path) for path in sorted(folder.glob(f"*{_SUFFIX}")))
    return [occupant for occupant in found if occupant is not None]


def keeps_checkpoints(job: JobFile) -> bool:
    """Return whether the driver of `job` is seen in the folder of its checkpoints, which it leaves last; not
    where the storage is no local one.
    """
    parts = urlsplit(job.storage or "")
    if parts.scheme != "file":
        return False
    found = occupants_of(Path(unquote(parts.path)) / RUNNING)
    return any(each.job_id == job.job_id for each in found)


def _living(path: Path) -> Occupant | None:
    try:
        # Without waiting, also where it is a pipe that no process writes to.
        descriptor = system.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None  # its driver left meanwhile
    try:
        occupant = _OCCUPANTS.decode(os.read(descriptor, _FILE_BYTES_MAX))
        here = occupant.host == socket.gethostname()
        # The number may be another process's by now. The lock alone would not do: forked children inherit it.
        left = (here and not process_lives(occupant.pid)) or try_lock(descriptor)
        if here and left:  # of other machines the lock may not be seen, and without locks nothing is known
            unlink(path, missing_ok=True)
        return occupant if left is False else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    finally:
        system.close(descriptor)


def _lock_for_entering(gate: int) -> None:
    until = clock.monotonic() + _GATE_S
    while try_lock(gate, fcntl.LOCK_EX) is False and clock.monotonic() < until:
        clock.sleep(0.01)
