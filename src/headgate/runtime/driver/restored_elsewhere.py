"""Protects another job's checkpoint from deletion while this job restores it; see `checkpoint.in_use`."""

from __future__ import annotations

import logging
import secrets
import threading
from typing import Final

from headgate.checkpoint.in_use import EXPIRES_MS, InUse
from headgate.common.errors import StorageError
from headgate.common.ids import CheckpointId, JobId
from headgate.common.ports import Disk
from headgate.state.snapshots import CheckpointMetadata

RENEW_S: Final = EXPIRES_MS / 1000 / 10
CLOSE_S: Final = 5.0  # how long the end of a job waits for the storage

_LOG: Final = logging.getLogger("headgate.checkpoints")


class Keeping:
    """Protection of one checkpoint of another job: from :meth:`begin` until :meth:`end` or :meth:`close`."""

    def __init__(self, disk: Disk, checkpoint: CheckpointMetadata) -> None:
        self.checkpoint = checkpoint.checkpoint
        ident = JobId(checkpoint.job), CheckpointId(checkpoint.checkpoint)
        self._use = InUse(disk, *ident, secrets.token_hex(8))
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Mark the checkpoint as in use, and renew the mark in a thread, so that its job does not delete it.
        Without write access to the storage it stays unprotected, which is only logged.
        """
        try:
            self._use.begin()
        except StorageError as error:
            _LOG.info("checkpoint %d is restored without a word to its job: %s", self.checkpoint, error)
            return
        self._thread = threading.Thread(target=self._renew, name="headgate-in-use", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop protecting the checkpoint, which is not needed any more. Does not wait; can be repeated."""
        self._ended.set()

    def close(self) -> None:
        """Stop protecting the checkpoint; wait at most 5 s until its mark is removed from the storage."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _renew(self) -> None:
        while not self._ended.wait(RENEW_S):
            try:
                self._use.renew()
            except StorageError as error:
                _LOG.warning("checkpoint %d may be deleted while it is restored: %s", self.checkpoint, error)
        self._use.end()
