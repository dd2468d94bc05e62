"""Copies of checkpoint files on the local disk of the machine that wrote them, for a faster restore.

A copy is never needed and never trusted: a restore verifies its length and checksum against the checkpoint,
and reads the storage where they differ. So nothing is flushed here, and no error of the local disk reaches
a checkpoint.

::

    <folder>/headgate-copies-<host>-<job>/processes/<process id>-<slot>    a process that uses the folder
    <folder>/headgate-copies-<host>-<job>/slot-<n>/<name in the storage>   a file of the worker of a slot
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar

from headgate.checkpoint.layout import checkpoint_of, job_folder
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import StorageError
from headgate.common.files.durable import link, remove_folder, replace, touch, unlink
from headgate.common.files.durable_file import NewFile, temporary_beside
from headgate.common.files.permissions import Permissions, make_folder, own_folder
from headgate.common.files.stored_paths import inside
from headgate.common.ids import JobId
from headgate.common.ports import Disk
from headgate.common.process.processes import process_lives
from headgate.state.snapshots import FileRange

_LOG: Final = logging.getLogger(__name__)
_MARKER: Final = re.compile(r"([0-9]+)-[0-9]+")

T = TypeVar("T")
Part = bytes | memoryview


class CopyFolder(LocalDisk):
    """The folder with the local copies of one slot of a machine, which a restore reads like a storage."""

    def whole_file(self, handle: FileRange) -> Path | None:
        """Return a handle's file if it has only the handle's bytes, else None; FileNotFoundError: no file."""
        path = self._path(handle.file)
        return path if handle.offset == 0 and path.stat().st_size == handle.length else None


class LocalCopies:
    """Local copies of a job's checkpoint files; a worker writes its slot's, in the thread of its snapshots.
    The constructor creates the slot's folder below `root` (OSError if it cannot), and removes copies of this
    user's jobs that have no process on this machine, `host`.
    """

    def __init__(self, root: Path, host: str, job: JobId, slot: int) -> None:
        self._job = job
        self._folder = root / f"headgate-copies-{host}-{job_folder(job)}"
        self._own = CopyFolder(self._folder / f"slot-{slot}")
        self._referred: dict[int, set[str]] = {}
        self._refused = False
        self._marker = self._folder / "processes" / f"{os.getpid()}-{slot}"
        self._sign_in()
        remove_abandoned_copies(root, host, self._folder)
        for name in self._own.temporaries(""):  # of an earlier process
            self._own.delete(name)

    def find(self, name: str) -> CopyFolder | None:
        """Return the folder, of this slot or another of the machine, with a copy of file `name`, or None."""
        for folder in (self._own.root, *sorted(self._folder.glob("slot-*"))):
            if inside(folder, name, "a local copy").is_file():
                return CopyFolder(folder)
        return None

    @contextmanager
    def copying(self, name: str, source: Path | None) -> Iterator[_Copy]:
        """Yield a writer whose `of` passes bytes on and writes them to this slot's copy of file `name`.
        The copy is kept unless the block or the local disk fails; errors of the disk are only logged.
        `source`: a local file of the same bytes that never changes, to be linked instead of written if
        possible.
        """
        copy = _Copy(inside(self._own.root, name, "a local copy"), source)
        try:
            yield copy
            copy.keep()
        finally:
            copy.drop()
        self._note(copy)
        if copy.error is None and (checkpoint := checkpoint_of(name, self._job)) is not None:
            self.refer(checkpoint, name)

    def refer(self, checkpoint: int, name: str) -> None:
        """Keep the copy of file `name`, which checkpoint `checkpoint` (an id) needs.
        It stays until :meth:`completed` is called for a newer checkpoint that does not refer to it.
        """
        self._referred.setdefault(checkpoint, set()).add(name)

    def delete(self, name: str) -> None:
        """Delete this slot's copy of file `name`, whoever needs it; no error of the disk is raised."""
        with suppress(OSError):
            unlink(inside(self._own.root, name, "a local copy"), missing_ok=True)

    def completed(self, checkpoint: int) -> None:
        """Delete this slot's older copies that neither complete `checkpoint` nor a later one refers to."""
        for older in [number for number in self._referred if number < checkpoint]:
            del self._referred[older]
        wanted = set[str]().union(*self._referred.values())
        for name in self._own.list(""):
            of = checkpoint_of(name, self._job)
            if name not in wanted and (of is None or of < checkpoint):
                self._own.delete(name)

    def remove(self) -> None:
        """Delete this slot's copies and its sign that the process lives; call at the job's end, once.
        The job's folder goes too if no living process of this machine uses it. No error of the disk is
        raised.
        """
        remove_folder(self._own.root)
        with suppress(OSError):
            unlink(self._marker, missing_ok=True)
        if not _living(self._folder):
            remove_folder(self._folder)

    def _sign_in(self) -> None:
        for attempt in range(3):
            # Another process may take the folder for abandoned as long as no process has signed in.
            try:
                self._folder.parent.mkdir(parents=True, exist_ok=True)
                own_folder(self._folder)
                own_folder(self._marker.parent)
                touch(self._marker)
            except FileNotFoundError:
                if attempt == 2:
                    raise
            else:
                return

    def _note(self, copy: _Copy) -> None:
        if copy.error is not None and not self._refused:
            _LOG.warning(
                "no local copy of %s (%s); checkpoints go on, and a restore reads the storage",
                copy.path, copy.error.strerror or copy.error,
            )  # fmt: skip
        elif copy.error is None and self._refused:
            _LOG.info("local copies are made again, now of %s", copy.path)
        self._refused = copy.error is not None


class _Copy:
    """A copy that is being written; the first error of the local disk ends it and is put in `error`."""

    def __init__(self, path: Path, source: Path | None) -> None:
        self.path = path
        self.error: OSError | None = None
        self._temporary = temporary_beside(path)
        self._file: NewFile | None = None
        try:
            make_folder(path.parent, Permissions.OWNER, durable=False)
            if source is None or not _linked(source, self._temporary):
                self._file = NewFile(self._temporary, Permissions.OWNER)
        except OSError as error:
            self.error = error

    def of(self, parts: Iterable[Part]) -> Iterator[Part]:
        for part in parts:
            if self._file is not None:
                self._write(self._file, part)
            yield part

    def keep(self) -> None:
        if self.error is None:
            try:
                if self._file is not None:
                    self._file.finish(durable=False)
                replace(self._temporary, self.path)
            except OSError as error:
                self.error = error

    def drop(self) -> None:
        file, self._file = self._file, None
        with suppress(OSError):
            if file is not None:
                file.end()
        with suppress(OSError):
            unlink(self._temporary, missing_ok=True)

    def _write(self, file: NewFile, part: Part) -> None:
        try:
            file.write(part)
        except OSError as error:
            self.error = error
            self.drop()


def _linked(source: Path, target: Path) -> bool:
    try:
        link(source, target)
    except OSError:  # another device, or a file system without links
        return False
    return True


def remove_abandoned_copies(root: Path, host: str, mine: Path) -> list[Path]:
    """Remove this user's folders of jobs without a process on this machine, except `mine`; return them.
    A job whose workers are just being restarted loses its copies too, and restores from the storage.
    """
    found = [
        folder
        for folder in sorted(root.glob(f"headgate-copies-{host}-*"))
        if folder != mine and _is_ours(folder) and not _living(folder)
    ]
    for folder in found:
        remove_folder(folder)
    return found


def _is_ours(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _living(folder: Path) -> bool:
    markers = [_MARKER.fullmatch(marker.name) for marker in folder.glob("processes/*")]
    return any(match is not None and process_lives(int(match[1])) for match in markers)


# -- a storage with copies of its files nearby


class _Delegating:
    """Base of disks that pass each call on to the storage (a `common.ports.Disk`)."""

    def __init__(self, disk: Disk, copies: LocalCopies) -> None:
        self.disk, self.copies = disk, copies

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        self.disk.create(name, parts)

    def create_if_absent(self, name: str, data: bytes) -> bool:
        return self.disk.create_if_absent(name, data)

    def read(self, name: str) -> bytes:
        return self.disk.read(name)

    def list(self, prefix: str) -> Sequence[str]:
        return self.disk.list(prefix)

    def delete(self, name: str) -> None:
        self.disk.delete(name)

    def describe(self, name: str = "") -> str:
        return self.disk.describe(name)


class BackedUpDisk(_Delegating):
    """The disk to which a worker with local recovery writes snapshots; it copies each file that it creates.
    The storage alone decides what was written. `source` is a local file with all the bytes of the next file
    to be written, to be linked as its copy; None: there is none.
    """

    def __init__(self, disk: Disk, copies: LocalCopies, source: Path | None = None) -> None:
        super().__init__(disk, copies)
        self._source = source

    def linking(self, source: Path) -> BackedUpDisk:
        return BackedUpDisk(self.disk, self.copies, source)

    def create(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        with self.copies.copying(name, self._source) as copy:
            self.disk.create(name, copy.of(parts))

    def delete(self, name: str) -> None:
        self.copies.delete(name)
        self.disk.delete(name)


class NearbyDisk(_Delegating):
    """The disk from which a worker with local recovery restores; :meth:`best` prefers intact local copies.
    `bytes_local` and `bytes_remote` count the bytes of the handles read from copies and from the storage.
    """

    def __init__(self, disk: Disk, copies: LocalCopies) -> None:
        super().__init__(disk, copies)
        self.bytes_local = self.bytes_remote = 0
        self._lock = Lock()

    def best(self, handle: FileRange, read: Callable[[Disk], T]) -> T:
        """Return `read` of a local copy's folder; if none, or on StorageError or OSError, of the storage.
        `read` has to verify the bytes. What it raises for the storage is passed on. Any thread may call.
        """
        try:
            copy = self.copies.find(handle.file)
            if copy is not None:
                found = read(copy)
                self._count(local=handle.length)
                return found
        except (StorageError, OSError) as error:
            why = str(error).partition(";")[0]  # the advice is for readers without another copy
            _LOG.warning("a local copy is not used, the storage is read instead: %s", why)
        found = read(self.disk)
        self._count(remote=handle.length)
        return found

    def _count(self, local: int = 0, remote: int = 0) -> None:
        with self._lock:  # subtasks with a thread of their own restore concurrently
            self.bytes_local += local
            self.bytes_remote += remote


def best_of(disk: Disk, handle: FileRange, read: Callable[[Disk], T]) -> T:
    """Return `read(source)`: a local copy of the handle's file, if `disk` is a NearbyDisk, or else `disk`."""
    return disk.best(handle, read) if isinstance(disk, NearbyDisk) else read(disk)
