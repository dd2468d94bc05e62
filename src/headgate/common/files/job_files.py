"""The files by which commands find running jobs: one for each job, in a folder of the user's own.

Whoever may read the file may control the job, because its secret is in it; so only the user may. A driver
holds a lock on its file for as long as it lives: a file whose lock is free, or whose process has exited, was
left by a driver that died.
"""

from __future__ import annotations

import contextlib
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
from headgate.common.files.durable_file import hold, try_lock
from headgate.common.files.permissions import OWNER_FILE, Permissions, make_folder
from headgate.common.files.stored_paths import inside
from headgate.common.process.children import hide
from headgate.common.process.processes import process_lives

HOME_VARIABLE: Final = "HEADGATE_HOME"
FORMAT_VERSION: Final = 1
FORGOTTEN_AFTER_S: Final = 7 * 24 * 3600
"""How long the file of a dead driver is kept for a command to list it."""

_SUFFIX: Final = ".json"
_FILE_BYTES_MAX: Final = 1 << 20


class JobFile(msgspec.Struct, frozen=True):
    """Where a job answers, and how to be heard; `secret` is shown with every request."""

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
        """Without the secret, so that it gets into no log."""
        return f"JobFile({self.job_id!r}, pid {self.pid} on {self.host}, {self.address})"


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job that has a file; `exited` is whether its driver died."""

    file: JobFile
    path: Path
    exited: bool

    def forget(self) -> None:
        """Remove the file."""
        unlink(self.path, missing_ok=True)


_job_files: Final = json_decoder(JobFile)


def jobs_folder(variables: Mapping[str, str] | None = None) -> Path:
    """The folder of the files, by the process's environment; it need not exist.

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
    """The file of a job of this process, locked until it is withdrawn."""

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
        """The locked descriptor; -1 once it is given up."""
        return self._descriptor

    def withdraw(self) -> None:
        """Remove the file, unless it is by now that of another driver of the job."""
        try:
            with contextlib.suppress(FileNotFoundError):
                # Drivers of one job that replace each other share the path.
                if os.path.samestat(self._path.lstat(), os.fstat(self._descriptor)):
                    unlink(self._path)
        finally:
            descriptor, self._descriptor = self._descriptor, -1
            system.close(descriptor)


def known_jobs() -> list[KnownJob]:
    """All jobs that have a file, oldest first; files of another kind are skipped."""
    found = [job for path in sorted(jobs_folder().glob(f"*{_SUFFIX}")) if (job := _read(path)) is not None]
    return sorted(found, key=lambda job: job.file.started_ms)


def forget_old() -> None:
    """Remove the files of drivers that died long ago and that no command has listed."""
    oldest_ms = (clock.time() - FORGOTTEN_AFTER_S) * 1000
    for job in known_jobs():
        if job.exited and job.file.started_ms < oldest_ms:
            job.forget()


def _read(path: Path) -> KnownJob | None:
    try:
        descriptor = system.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None  # removed meanwhile, or another user's
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return None
        file = _job_files.decode(os.read(descriptor, _FILE_BYTES_MAX))
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
