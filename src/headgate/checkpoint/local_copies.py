"""Copies of checkpoint files on the disk of the machine that wrote them: made on the way, used at a restore.

A copy is never needed and never trusted: it is read only after its length and checksum were compared with
what the checkpoint says, and whatever is wrong with it leads back to the storage. So nothing is flushed
here, and no error of the local disk reaches a checkpoint.

::

    <folder>/headgate-copies-<host>-<job>/processes/<process id>-<slot>    who uses it
    <folder>/headgate-copies-<host>-<job>/slot-<n>/<name in the storage>   what the worker of a slot wrote
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from headgate.checkpoint.layout import checkpoint_of, job_folder
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.files.durable import link, remove_folder, replace, touch, unlink
from headgate.common.files.durable_file import NewFile, temporary_beside
from headgate.common.files.permissions import Permissions, make_folder, own_folder
from headgate.common.files.stored_paths import inside
from headgate.common.ids import JobId
from headgate.common.process.processes import process_lives
from headgate.state.snapshots import FileRange

_LOG: Final = logging.getLogger(__name__)
_MARKER: Final = re.compile(r"([0-9]+)-[0-9]+")

Part = bytes | memoryview


class CopyFolder(LocalDisk):
    """What one slot keeps, to be read as a disk."""

    def whole_file(self, handle: FileRange) -> Path | None:
        """The file, where it is the handle's bytes and nothing else."""
        path = self._path(handle.file)
        return path if handle.offset == 0 and path.stat().st_size == handle.length else None


class LocalCopies:
    """The copies of one job on this machine, of which a worker writes those of its slot.

    Writing, :meth:`refer` and :meth:`completed` are for the one thread that writes snapshots.
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
        """Who has a copy of a file: this slot, or another of the machine."""
        for folder in (self._own.root, *sorted(self._folder.glob("slot-*"))):
            if inside(folder, name, "a local copy").is_file():
                return CopyFolder(folder)
        return None

    @contextmanager
    def copying(self, name: str, source: Path | None) -> Iterator[_Copy]:
        """A copy in the making; it is there when the block ends well, unless the local disk refused.

        `source` is a local file with the same bytes that never changes; it is linked where that is possible.
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
        """A checkpoint refers to a file, which is wanted for as long as that is the newest or newer."""
        self._referred.setdefault(checkpoint, set()).add(name)

    def delete(self, name: str) -> None:
        """The file is not wanted any more, as its checkpoint was given up."""
        with suppress(OSError):
            unlink(inside(self._own.root, name, "a local copy"), missing_ok=True)

    def completed(self, checkpoint: int) -> None:
        """`checkpoint` is the newest complete one: what neither it nor a later one refers to goes."""
        for older in [number for number in self._referred if number < checkpoint]:
            del self._referred[older]
        wanted = set[str]().union(*self._referred.values())
        for name in self._own.list(""):
            of = checkpoint_of(name, self._job)
            if name not in wanted and (of is None or of < checkpoint):
                self._own.delete(name)

    def remove(self) -> None:
        """The job is over; the last worker of the machine takes everything with it."""
        remove_folder(self._own.root)
        with suppress(OSError):
            unlink(self._marker, missing_ok=True)
        if not _living(self._folder):
            remove_folder(self._folder)

    def _sign_in(self) -> None:
        for attempt in range(3):
            # Somebody may take the folder for abandoned as long as no process has signed in.
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
        """One line when the local disk begins to refuse, and one when it takes files again."""
        if copy.error is not None and not self._refused:
            _LOG.warning(
                "no local copy of %s (%s); checkpoints go on, and a restore reads the storage",
                copy.path, copy.error.strerror or copy.error,
            )  # fmt: skip
        elif copy.error is None and self._refused:
            _LOG.info("local copies are made again, now of %s", copy.path)
        self._refused = copy.error is not None


class _Copy:
    """One file in the making. The first error of the local disk ends it quietly."""

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
        """The parts as they are, each written on its way."""
        for part in parts:
            if self._file is not None:
                self._write(self._file, part)
            yield part

    def keep(self) -> None:
        """All parts have passed: give the copy its name."""
        if self.error is None:
            try:
                if self._file is not None:
                    self._file.finish(durable=False)
                replace(self._temporary, self.path)
            except OSError as error:
                self.error = error

    def drop(self) -> None:
        """Leave nothing but a copy that was kept."""
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
    """Remove the copies of jobs of which no process lives on this machine; gives what was found.

    A job that is between two gangs loses them too, and restores from the storage.

    Copies of the job `mine` stay.
    """
    found: list[Path] = []
    for folder in sorted(root.glob(f"headgate-copies-{host}-*")):
        if folder == mine or not _is_ours(folder) or _living(folder):
            continue
        remove_folder(folder)
        found.append(folder)
    return found


def _is_ours(folder: Path) -> bool:
    """Whether a folder in a place for everybody is this user's, and no link of somebody's to it."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _living(folder: Path) -> bool:
    """Whether a process that uses a job's folder lives."""
    markers = [_MARKER.fullmatch(marker.name) for marker in folder.glob("processes/*")]
    return any(match is not None and process_lives(int(match[1])) for match in markers)
