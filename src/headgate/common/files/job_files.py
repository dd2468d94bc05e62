"""The files that tell where running jobs answer: one for each job, in a folder of the user's own.

Whoever may read the file may control the job, because its secret is in it; so it is the user's alone. A
driver holds a lock on its file for as long as it lives: a file whose lock is free, or whose process is gone,
is of a driver that died without a word.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from headgate.common.decoders import json_decoder
from headgate.common.errors import StorageError
from headgate.common.files.durable import clock, system, unlink
from headgate.common.files.durable_file import hold
from headgate.common.files.permissions import OWNER_FILE, Permissions, make_folder
from headgate.common.files.stored_paths import inside
from headgate.common.process.children import hide
from headgate.common.process.processes import process_lives

HOME_VARIABLE: Final = "HEADGATE_HOME"
FORMAT_VERSION: Final = 1
FORGOTTEN_AFTER_S: Final = 7 * 24 * 3600
"""So long the file of a dead driver waits for somebody to list it."""

_SUFFIX: Final = ".json"
_FILE_BYTES_MAX: Final = 1 << 20


class JobFile(msgspec.Struct, frozen=True):
    """Where a job answers, and how to be heard.

    Attributes:
        job_id: names the submission.
        name: given to ``execute``.
        pid: of the driver.
        host: the driver's machine.
        started_ms: wall clock at the submission.
        address: such as ``http://127.0.0.1:40123``.
        secret: to be shown with every request.
        certificate: of the endpoint, as PEM, where it speaks TLS.
        storage: URI of its checkpoints; None where it takes none.
        version: of this format.
    """

    job_id: str
    name: str
    pid: int
    host: str
    started_ms: int
    address: str
    secret: str
    certificate: str | None = None
    storage: str | None = None
    version: int = FORMAT_VERSION

    def __repr__(self) -> str:
        """Without the secret, so that it gets into no log."""
        return f"JobFile({self.job_id!r}, pid {self.pid} on {self.host}, {self.address})"


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job that has a file.

    Attributes:
        file: what is in it.
        path: where it is.
        gone: whether the driver died.
    """

    file: JobFile
    path: Path
    gone: bool

    def forget(self) -> None:
        """Remove the file."""
        unlink(self.path, missing_ok=True)


_job_files: Final = json_decoder(JobFile)


def jobs_folder(variables: Mapping[str, str] | None = None) -> Path:
    """The folder of the files; it need not exist.

    Args:
        variables: the process's environment by default.

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


class PublishedJob:
    """The file of a job of this process, locked until it is withdrawn.

    Raises:
        StorageError: the file cannot be written; says where.
    """

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
        hide(self)  # a child that holds the lock would say that the driver lives

    def fileno(self) -> int:
        """The locked descriptor; -1 once it is given up."""
        return self._descriptor

    def withdraw(self) -> None:
        """The job is over, or another driver's: remove the file, unless it is that driver's by now."""
        try:
            with contextlib.suppress(FileNotFoundError):
                # Drivers of one job that replace each other share the path.
                if os.path.samestat(self._path.lstat(), os.fstat(self._descriptor)):
                    unlink(self._path)
        finally:
            descriptor, self._descriptor = self._descriptor, -1
            system.close(descriptor)


def known_jobs() -> list[KnownJob]:
    """All jobs that have a file, oldest first; files that are none are passed over."""
    found = [job for path in sorted(jobs_folder().glob(f"*{_SUFFIX}")) if (job := _read(path)) is not None]
    return sorted(found, key=lambda job: job.file.started_ms)


def forget_old() -> None:
    """Remove the files of drivers that died long ago and that nobody asked for."""
    oldest_ms = (clock.time() - FORGOTTEN_AFTER_S) * 1000
    for job in known_jobs():
        if job.gone and job.file.started_ms < oldest_ms:
            job.forget()


def _read(path: Path) -> KnownJob | None:
    try:
        descriptor = system.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None  # removed meanwhile, or somebody else's
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return None
        file = _job_files.decode(os.read(descriptor, _FILE_BYTES_MAX))
        return KnownJob(file, path, _gone(file, descriptor))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    finally:
        system.close(descriptor)


def _gone(file: JobFile, descriptor: int) -> bool:
    if file.host != socket.gethostname():
        return False  # its processes cannot be seen from here
    if not process_lives(file.pid):
        return True
    # The number may be another process's by now. The lock alone would not do: forked children inherit it.
    return _lock(descriptor, fcntl.LOCK_SH)


def _lock(descriptor: int, kind: int) -> bool:
    """Whether the lock was got; without locks in the file system nobody gets one."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
