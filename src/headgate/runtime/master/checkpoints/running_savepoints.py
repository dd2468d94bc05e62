"""The savepoints under way, in the job master: where each one goes, and what becomes of its folder.

The coordinator knows a savepoint by its ticket until it has an id; this file keeps what only the shell
needs, the place and the order that barriers carry. A failed savepoint's folder is emptied; a finished
one is the user's, and is never touched again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from headgate.checkpoint.savepoints import TOKEN_BYTES, SavepointFolder, prepare
from headgate.checkpoint.storage.uris import refuse_fleeting
from headgate.common.errors import ConfigError, StorageError
from headgate.common.ids import JobId
from headgate.common.settings.options import SAVEPOINT_DIR
from headgate.core.alignment.barriers import SavepointOrder
from headgate.core.checkpoint.effects import RequestKind
from headgate.runtime.job.master_ports import MasterPorts

FORMATS: Final = ("canonical", "native")

GONE_MAX: Final = 16
"""Failed savepoints of which a late file is still recognised."""

_LOG: Final = logging.getLogger("headgate.checkpoints")


@dataclass(frozen=True, slots=True)
class SavepointWish:
    """What somebody asks for.

    Attributes:
        target: URI of the folder that gets the savepoint's folder; None: the configured one.
        format: "canonical" or "native".
        stop: whether the job ends with it.
        drain: whether event time ends before.
    """

    target: str | None = None
    format: str = "canonical"
    stop: bool = False
    drain: bool = False

    @property
    def kind(self) -> RequestKind:
        """As the coordinator calls it."""
        return RequestKind.STOP if self.stop else RequestKind.SAVEPOINT


@dataclass(slots=True)
class _Savepoint:
    folder: SavepointFolder
    order: SavepointOrder
    kept: bool = field(default=False)


class Savepoints:
    """Used by the job master's loop; its work on disks is done in the background.

    Args:
        default_target: where they go when nobody says; None: then it must be said.
        own: URI of the folder of the job's checkpoints, where sweeps delete what they do not know.
    """

    def __init__(
        self, job: JobId, default_target: str | None, ports: MasterPorts, own: str | None = None
    ) -> None:
        self._job, self._default, self._ports, self._own = job, default_target, ports, own
        self._expected: dict[int, _Savepoint] = {}
        self._open: dict[int, _Savepoint] = {}
        self._gone: dict[int, SavepointFolder] = {}

    def prepare(self, ticket: int, wish: SavepointWish, then: Callable[[Exception | None], None]) -> None:
        """Find a place for a savepoint and try it out.

        `then` is called in the loop, with None when the savepoint may be triggered; :meth:`begun` asks by
        `ticket`.
        """
        target = self._target(wish)

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
            if folder is None:
                then(error if isinstance(error, Exception) else StorageError(repr(error)))
                return
            order = SavepointOrder(folder.uri, wish.format, wish.stop, wish.drain)
            self._expected[ticket] = _Savepoint(folder, order)
            then(None)

        self._ports.background.submit(work, done)

    def begun(self, checkpoint: int, ticket: int | None) -> SavepointOrder | None:
        """A checkpoint is triggered: the order for its barriers if it is a savepoint."""
        savepoint = None if ticket is None else self._expected.pop(ticket, None)
        if savepoint is None:
            return None
        self._open[checkpoint] = savepoint
        return savepoint.order

    def refused(self, ticket: int) -> None:
        """Nothing was triggered for this ticket."""
        self._expected.pop(ticket, None)

    def folder(self, checkpoint: int) -> SavepointFolder | None:
        """Where a savepoint under way goes; None for a checkpoint."""
        savepoint = self._open.get(checkpoint)
        return None if savepoint is None else savepoint.folder

    def order(self, checkpoint: int) -> SavepointOrder | None:
        """What the barriers of a savepoint under way say; None for a checkpoint."""
        savepoint = self._open.get(checkpoint)
        return None if savepoint is None else savepoint.order

    def kept(self, checkpoint: int) -> SavepointFolder | None:
        """Where a savepoint under way is, if it is whole."""
        savepoint = self._open.get(checkpoint)
        return None if savepoint is None or not savepoint.kept else savepoint.folder

    def keep(self, checkpoint: int) -> None:
        """It is whole, or may be: from now on nobody deletes any of its files."""
        if checkpoint in self._open:
            self._open[checkpoint].kept = True

    def forget_kept(self) -> None:
        """A new attempt begins: what is whole of the last one concerns nobody here any more."""
        self._open = {number: each for number, each in self._open.items() if not each.kept}

    def over(self, checkpoint: int) -> None:
        """Nothing more will happen to it; one that is not kept has failed, and its files go."""
        savepoint = self._open.pop(checkpoint, None)
        if savepoint is None or savepoint.kept:
            return
        self._gone[checkpoint] = savepoint.folder
        while len(self._gone) > GONE_MAX:
            del self._gone[min(self._gone)]
        self._remove(savepoint.folder)

    def late(self, checkpoint: int) -> None:
        """A task wrote files for a savepoint that may have failed meanwhile: then they go too."""
        folder = self._gone.get(checkpoint)
        if folder is not None:
            self._remove(folder)

    def _remove(self, folder: SavepointFolder) -> None:
        def done(_: None, error: BaseException | None) -> None:
            if error is not None:
                _LOG.warning("files of the failed savepoint %s could not be deleted: %s", folder.uri, error)

        self._ports.background.submit(folder.remove, done)

    def _target(self, wish: SavepointWish) -> str:
        if wish.format not in FORMATS:
            raise ConfigError(f"savepoint format is {wish.format!r}; expected 'canonical' or 'native'")
        target = wish.target or self._default
        if target is None:
            raise ConfigError(
                "nobody says where the savepoint goes; name a folder (--dir on the command line), or set "
                f"{SAVEPOINT_DIR.key} for the job"
            )
        # From a program that is not checked, anything may come.
        place: object = os.fspath(target) if isinstance(target, os.PathLike) else target
        if not isinstance(place, str):
            raise ConfigError(f"the savepoint's target is {target!r}; expected a path or URI")
        refuse_fleeting(place)
        return place
