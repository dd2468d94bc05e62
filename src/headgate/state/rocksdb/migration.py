"""Rewrites restored values of older types to the declared type, slice by slice between records."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from headgate.common.files.durable import clock
from headgate.state.backend import MigrationProgress
from headgate.state.rocksdb.database import ColumnStore
from headgate.state.rocksdb.value_layout import VersionedValues

SLICE_S: Final = 0.001
"""How long the operator's loop is held up at a time; a single large value may take longer."""

REPORT_EVERY_S: Final = 5.0
BATCH_ENTRIES: Final = 1_000
BATCH_BYTES: Final = 4 << 20

_LOG: Final = logging.getLogger(__name__)


class Migration:
    """Rewrites one state's values of older types to the declared type, in one walk over its column family. A
    restore of a RocksKeyedBackend makes it, and each call of the backend's `settle`, between records,
    advances it. Values written meanwhile are of the declared type.
    """

    def __init__(
        self, layout: VersionedValues, store: ColumnStore, now: Callable[[], float] = clock.monotonic
    ) -> None:
        self._layout, self._store, self._now = layout, store, now
        self._began = now()
        self._next_report = self._began + REPORT_EVERY_S
        self._about = store.about_entries
        self._done = self._rewritten = 0
        self._next = b""

    def step(self, seconds: float | None = None) -> bool:
        """Rewrite values for about `seconds`, None: 1 ms. Return whether the walk is at its end: the layout
        forgets the older types then. StorageError: a value is damaged; UsageError: it does not convert.
        """
        until = self._now() + (SLICE_S if seconds is None else seconds)
        while not (ended := self._portion(until)) and self._now() < until:
            pass
        if ended:
            self._layout.versions.forget_older()
        self._report(ended)
        return ended

    def progress(self) -> MigrationProgress:
        done, took = self._done, max(self._now() - self._began, 1e-9)
        about = max(self._about, done)
        return MigrationProgress(self._layout.versions.name, done, about, self._rewritten, done / took)

    def _portion(self, until: float) -> bool:
        # True: at the end of the column family
        prefix, batch, size = self._layout.versions.prefix, list[tuple[bytes, bytes | None]](), 0
        ended = True
        for stored, data in self._store.items(self._next, ahead=False):
            self._done += 1
            if not data.startswith(prefix):
                batch.append((stored, self._layout.migrated(stored, data)))
                size += len(data)
            if len(batch) >= BATCH_ENTRIES or size > BATCH_BYTES or self._now() >= until:
                self._next = stored + b"\0"  # the least bytes after it
                ended = False
                break
        if batch:
            self._store.write(batch)
            self._rewritten += len(batch)
        return ended

    def _report(self, ended: bool) -> None:
        now = self._now()
        if not ended and now < self._next_report:
            return
        self._next_report = now + REPORT_EVERY_S
        found = self.progress()
        if ended:
            _LOG.info(
                "state %r: every value is of the declared type now; %d of %d entries rewritten in %.1f s",
                found.state, found.rewritten, found.done, now - self._began,
            )  # fmt: skip
        else:
            _LOG.info(
                "state %r: rewriting values to the declared type, %d of about %d entries done (%.0f/s)",
                found.state, found.done, found.about, found.per_second,
            )  # fmt: skip
