"""The pending savepoints of a job: where each is written, and when its folder is deleted.

The coordinator knows a savepoint by its ticket until it has an id; its target and the order that its barriers
carry are kept here. A failed savepoint's folder is emptied, a completed one is the user's and never touched.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import Final, TypeAlias

from headgate.checkpoint.savepoints import TOKEN_BYTES, SavepointFolder, prepare
from headgate.checkpoint.storage.uris import refuse_fleeting
from headgate.common.errors import ConfigError, StorageError
from headgate.common.ids import JobId
from headgate.common.settings.options import SAVEPOINT_DIR
from headgate.core.alignment.barriers import SavepointOrder
from headgate.core.checkpoint.effects import RequestKind
from headgate.runtime.job.master_ports import MasterPorts

FORMATS: Final = ("canonical", "native")

FAILED_MAX: Final = 16  # failed savepoints that are remembered, to delete files written late

_LOG: Final = logging.getLogger("headgate.checkpoints")


@dataclass(frozen=True, slots=True)
class SavepointRequest:
    """A user's request for a savepoint, alone or (`stop`) as the end of the job. Made by `JobControl` for
    each call of its `savepoint` or `stop`, and checked by :meth:`Savepoints.prepare`.
    """

    target: str | None = None  # URI of the directory that gets the savepoint's folder; None: as configured
    format: str = "canonical"  # or "native"
    stop: bool = False  # whether the job stops with the savepoint
    drain: bool = False  # whether event time ends before, so that all event-time timers fire

    @property
    def kind(self) -> RequestKind:
        return RequestKind.STOP if self.stop else RequestKind.SAVEPOINT


Prepared: TypeAlias = tuple[RequestKind, int, Exception | None]
"""Kind and ticket of a savepoint, and the error if its folder cannot be written; else None."""


@dataclass(slots=True)
class _Savepoint:
    folder: SavepointFolder
    order: SavepointOrder
    kept: bool = False


class Savepoints:
    """The pending savepoints of one job, by ticket of their request and later by checkpoint id.
    `own` is the URI of the job's checkpoint folder, where unknown files are deleted: no place for savepoints.
    """

    def __init__(
        self, job: JobId, default_target: str | None, ports: MasterPorts, own: str | None = None
    ) -> None:
        self._job, self._default, self._ports, self._own = job, default_target, ports, own
        self._expected: dict[int, _Savepoint] = {}
        self._open: dict[int, _Savepoint] = {}
        self._failed: dict[int, SavepointFolder] = {}
        self._prepared: list[Prepared] = []

    def prepare(self, ticket: int, request: SavepointRequest) -> None:
        """Name a savepoint's folder, test its target in the background; outcome: by :meth:`take_prepared`.
        Raises ConfigError for an unknown format, a target in memory, or none in request and configuration.
        """
        target = self._target(request)

        def work() -> SavepointFolder:
            disk = self._ports.disks(target)
            if self._own is not None and f"{disk.describe()}/".startswith(f"{self._own}/"):
                raise StorageError(
                    f"{disk.describe()} is in the folder of the job's own checkpoints, which the job cleans; "
                    "choose a folder beside it"
                )
            return prepare(disk, self._job, self._ports.randomness.token(TOKEN_BYTES))

        def done(folder: SavepointFolder | None, error: BaseException | None) -> None:
            self._ports.post(lambda: prepared(folder, error))

        def prepared(folder: SavepointFolder | None, error: BaseException | None) -> None:
            failure = error if isinstance(error, Exception) else StorageError(repr(error))
            if folder is not None:
                order = SavepointOrder(folder.uri, request.format, request.stop, request.drain)
                self._expected[ticket] = _Savepoint(folder, order)
            self._prepared.append((request.kind, ticket, failure if folder is None else None))

        self._ports.background.submit(work, done)

    def take_prepared(self) -> list[Prepared]:
        prepared, self._prepared = self._prepared, []
        return prepared

    def begun(self, checkpoint: int, ticket: int | None) -> SavepointOrder | None:
        """Give `ticket`'s prepared savepoint its id, as its trigger is due; return the order for its
        barriers. None: `ticket` is None or that of a checkpoint, not of a prepared savepoint.
        """
        savepoint = None if ticket is None else self._expected.pop(ticket, None)
        if savepoint is None:
            return None
        self._open[checkpoint] = savepoint
        return savepoint.order

    def refused(self, ticket: int) -> None:
        self._expected.pop(ticket, None)

    def folder(self, checkpoint: int) -> SavepointFolder | None:
        """Return the folder of a pending savepoint; None for a checkpoint, and after :meth:`ended`."""
        savepoint = self._open.get(checkpoint)
        return None if savepoint is None else savepoint.folder

    def order(self, checkpoint: int) -> SavepointOrder | None:
        """Return the order in a savepoint's barriers (target, format, stop, drain); None for a checkpoint."""
        savepoint = self._open.get(checkpoint)
        return None if savepoint is None else savepoint.order

    def kept(self, checkpoint: int) -> SavepointFolder | None:
        """Return the folder of a pending savepoint that is, or may be, complete (:meth:`keep`); else None."""
        savepoint = self._open.get(checkpoint)
        return None if savepoint is None or not savepoint.kept else savepoint.folder

    def keep(self, checkpoint: int) -> None:
        """Mark a savepoint as complete, or possibly complete: from now on none of its files is deleted."""
        if checkpoint in self._open:
            self._open[checkpoint].kept = True

    def forget_kept(self) -> None:
        self._open = {number: each for number, each in self._open.items() if not each.kept}

    def ended(self, checkpoint: int) -> None:
        """Forget savepoint `checkpoint`; unless marked by :meth:`keep` it failed, and its files are deleted
        in the background (a failure is logged). Ignored for checkpoints and unknown ids.
        """
        savepoint = self._open.pop(checkpoint, None)
        if savepoint is None or savepoint.kept:
            return
        self._failed[checkpoint] = savepoint.folder
        while len(self._failed) > FAILED_MAX:
            del self._failed[min(self._failed)]
        self._remove(savepoint.folder)

    def late(self, checkpoint: int) -> None:
        folder = self._failed.get(checkpoint)
        if folder is not None:
            self._remove(folder)

    def _remove(self, folder: SavepointFolder) -> None:
        def done(_: None, error: BaseException | None) -> None:
            if error is not None:
                _LOG.warning("files of the failed savepoint %s could not be deleted: %s", folder.uri, error)

        self._ports.background.submit(folder.remove, done)

    def _target(self, request: SavepointRequest) -> str:
        if request.format not in FORMATS:
            raise ConfigError(f"savepoint format is {request.format!r}; expected 'canonical' or 'native'")
        target = request.target or self._default
        if target is None:
            raise ConfigError(
                "nobody says where the savepoint goes; name a folder (--dir on the command line), or set "
                f"{SAVEPOINT_DIR.key} for the job"
            )
        # A program without type checks may pass anything.
        place: object = os.fspath(target) if isinstance(target, os.PathLike) else target
        if not isinstance(place, str):
            raise ConfigError(f"the savepoint's target is {target!r}; expected a path or URI")
        refuse_fleeting(place)
        return place
