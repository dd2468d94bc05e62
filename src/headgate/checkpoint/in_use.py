"""Keeps a checkpoint that another job restores until that job has a checkpoint of its own.

::

    <job>/in-use/<checkpoint>-<token>    rewritten again and again by the driver that restores

The restoring driver writes its file and checks **then** whether the checkpoint is still in the log; a driver
that deletes takes the entry out of the log and looks **then** for such files. So one of the two sees the
other. A file that does not change for long is of a driver that died; the deleting driver's clock decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from headgate.checkpoint.layout import job_folder, log_folder, metadata_name
from headgate.checkpoint.metadata.metadata_bytes import read_metadata
from headgate.checkpoint.opening import referenced_files
from headgate.checkpoint.store.log import CompletedCheckpointLog
from headgate.common.errors import StorageError, UsageError
from headgate.common.ids import CheckpointId, JobId
from headgate.common.ports import Clock, Disk

IN_USE: Final = "in-use"  # folder in that of a job
EXPIRES_MS: Final = 150_000  # a file that has not changed for so long is of a driver that died


class InUse:
    """Keeps another job's checkpoint from deletion, by a marker file whose name ends in `token`.
    The restoring driver calls `begin`, then `renew` well within each 150 s, then `end`.
    """

    def __init__(self, disk: Disk, job: JobId, checkpoint: CheckpointId, token: str) -> None:
        self._disk, self._job, self._checkpoint = disk, job, checkpoint
        self._name = f"{job_folder(job)}/{IN_USE}/{checkpoint}-{token}"
        self._count = 0

    def begin(self) -> None:
        """Mark the checkpoint as in use; raise UsageError if it has just been deleted.
        If no log on the disk names it (as with ZooKeeper) it may be half deleted: read all of it afterwards.
        """
        was_logged = self._is_logged()
        self.renew()
        name = metadata_name(self._job, self._checkpoint)
        is_there = name in self._disk.list(name.rpartition("/")[0])
        if (was_logged and not self._is_logged()) or not is_there:
            self.end()
            raise UsageError(
                f"checkpoint {self._checkpoint} of job {self._job!r} has just been deleted, so that job "
                "runs; take a savepoint of it and begin from that, or begin from its newest checkpoint"
            )

    def renew(self) -> None:
        self._count += 1
        self._disk.create(self._name, [str(self._count).encode()])

    def end(self) -> None:
        """Delete the marker file, so that the checkpoint may be deleted; on a StorageError it expires."""
        with suppress(StorageError):  # then it stays until the file expires
            self._disk.delete(self._name)

    def _is_logged(self) -> bool:
        logged = CompletedCheckpointLog(self._disk, log_folder(self._job)).completed()
        return any(entry.checkpoint == self._checkpoint for entry in logged)


class Users:
    """Finds a job's checkpoints that other jobs are restoring, for the driver that deletes checkpoints.

    `clock` measures how long a file has not changed; with None every file counts.
    """

    def __init__(self, disk: Disk, job: JobId, clock: Clock | None) -> None:
        self._disk, self._job, self._clock = disk, job, clock
        self._seen: dict[str, tuple[bytes, int]] = {}

    def checkpoints(self) -> set[CheckpointId]:
        """Return ids of the checkpoints that other jobs use now; delete marker files unchanged for 150 s."""
        found = set()
        for name in self._disk.list(f"{job_folder(self._job)}/{IN_USE}"):
            number = name.rpartition("/")[2].partition("-")[0]
            if number.isascii() and number.isdigit() and self._lives(name):
                found.add(CheckpointId(int(number)))
        return found

    def files(self, checkpoints: Iterable[CheckpointId]) -> set[str]:
        """Return the names of all files of `checkpoints` (ids); unreadable metadata is skipped."""
        names: set[str] = set()
        for checkpoint in checkpoints:
            name = metadata_name(self._job, checkpoint)
            with suppress(StorageError, FileNotFoundError):
                names |= {name, *referenced_files(read_metadata(self._disk, name))}
        return names

    def _lives(self, name: str) -> bool:
        if self._clock is None:
            return True
        now_ms = self._clock.monotonic_ms()
        try:
            data = self._disk.read(name)
        except FileNotFoundError:
            return False
        before, since_ms = self._seen.get(name, (b"", now_ms))
        if data != before:
            self._seen[name] = data, now_ms
        elif now_ms - since_ms >= EXPIRES_MS:
            self._disk.delete(name)
            return False
        return True
