"""Copies of checkpoint files on a worker's local disk, from which it restores faster.

A failure here never fails a job or a checkpoint: without copies a job runs as if the options were off.
"""

from __future__ import annotations

import logging
import platform
import tempfile
from pathlib import Path
from typing import Final

from headgate.checkpoint.local_copies import BackedUpDisk, LocalCopies, NearbyDisk
from headgate.common.errors import StorageError
from headgate.common.ids import JobId
from headgate.common.ports import Background, Disk
from headgate.runtime.job.shipped_program import WorkerSettings

_LOG: Final = logging.getLogger(__name__)


class LocalRecovery:
    """The local copies of one slot's checkpoint files, in all attempts; off until :meth:`configure`."""

    def __init__(self, job: JobId, slot: int) -> None:
        self._job, self._slot = job, slot
        self._settings = WorkerSettings()
        self._copies: LocalCopies | None = None

    def configure(self, settings: WorkerSettings) -> None:
        """Apply an attempt's settings; if local copies are on, open their folder; a failure is logged."""
        self._settings = settings
        wanted = settings.local_backup or settings.recover_from_local
        if not wanted or self._copies is not None:
            return
        root = Path(settings.local_backup_dir or tempfile.gettempdir())
        try:
            self._copies = LocalCopies(root, platform.node(), self._job, self._slot)
        except (OSError, StorageError) as error:
            _LOG.warning("no local copies can be kept in %s (%s); the job goes on without", root, error)

    def writing(self, disk: Disk | None) -> Disk | None:
        """Return the storage for writing snapshots: `disk`, with copies on the local disk if these are on."""
        copies = self._copies if self._settings.local_backup else None
        return disk if disk is None or copies is None else BackedUpDisk(disk, copies)

    def reading(self, disk: Disk | None) -> Disk | None:
        """Return the storage for restoring: `disk`, before which local copies are read if these are on."""
        copies = self._copies if self._settings.recover_from_local else None
        return disk if disk is None or copies is None else NearbyDisk(disk, copies)

    def report(self, checkpoint: int | None, restored: Disk | None) -> None:
        if isinstance(restored, NearbyDisk):
            _LOG.info(
                "slot %d restored checkpoint %s: %d bytes from local copies, %d bytes from %s",
                self._slot, checkpoint, restored.bytes_local, restored.bytes_remote, restored.describe(),
                extra={"checkpoint": checkpoint},
            )  # fmt: skip

    def completed(self, checkpoint: int, background: Background) -> None:
        """Delete, in the background, local copies that only checkpoints before complete `checkpoint` need."""
        copies = self._copies
        if copies is not None:
            background.submit(lambda: copies.completed(checkpoint), _note_failure)

    def close(self, background: Background, *, job_over: bool) -> None:
        """Stop using the copies; if `job_over`, delete them in the background, after pending writes."""
        copies, self._copies = self._copies, None
        if copies is not None and job_over:
            background.submit(copies.remove, _note_failure)


def _note_failure(_: None, error: BaseException | None) -> None:
    if error is not None:
        _LOG.warning("old local copies of checkpoints could not be removed: %s", error)
