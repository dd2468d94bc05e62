"""The files that a worker writes for a savepoint, all in the savepoint's own folder.

A canonical savepoint holds keyed state as tables, for every state backend. Each table is first written to a
local file, so that only parts of it are in memory.
"""

from __future__ import annotations

import itertools
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.checkpoint.data_files import DataFileWriter, little_of
from headgate.checkpoint.layout import savepoint_data_name, table_name
from headgate.common.errors import StorageError
from headgate.common.ids import SubtaskId
from headgate.common.ports import Disk
from headgate.core.alignment.barriers import SavepointOrder
from headgate.state.backend import NewWriter, Part
from headgate.state.canonical.writer import TablesWriter
from headgate.state.snapshots import Inline, StateHandle
from headgate.state.stored.local_files import Spool

CANONICAL = "canonical"


class WrittenFiles(ABC):
    """Base of implementations of `state.backend.StateFiles`, each for one snapshot of one subtask.
    It counts files and bytes, written and shared.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.shared_names: set[str] = set()
        self.written = self.shared_bytes = 0
        self._numbers = map(str, itertools.count())

    def wrote(self, name: str, length: int) -> None:
        self.names.add(name)
        self.written += length

    def write(self, uid: str, parts: Iterable[Part]) -> StateHandle:
        return self.write_sections(uid, [parts], inline=True)[0]

    @abstractmethod
    def write_sections(
        self, uid: str, sections: Sequence[Iterable[Part]], *, inline: bool
    ) -> list[StateHandle]:
        """Store sections of operator `uid`'s state durably; return a handle for each, in order.
        With `inline`, sections that are small together stay in the handles. Raises StorageError: it failed.
        """


def remove_files(disk: Disk, names: Iterable[str]) -> None:
    """Delete files that no snapshot will refer to; those that cannot be deleted are left to a later sweep."""
    for name in names:
        with suppress(StorageError, OSError):
            disk.delete(name)


class SavepointFiles(WrittenFiles):
    """Writes a subtask's state into a savepoint's folder, `disk`, in the state backend's own (native) format.
    Sections of up to `inline_size_max` bytes may be kept in the acknowledgement. Nothing is shared.
    """

    def __init__(self, disk: Disk, subtask: SubtaskId, inline_size_max: int) -> None:
        super().__init__()
        self._disk, self._subtask, self._inline_max = disk, subtask, inline_size_max

    def write_sections(
        self, uid: str, sections: Sequence[Iterable[Part]], *, inline: bool
    ) -> list[StateHandle]:
        rest, small = little_of(self._inline_max if inline else -1, sections)
        if rest is None:
            return [Inline(b"".join(parts)) for parts in small]
        name = savepoint_data_name(self._subtask, next(self._numbers))
        handles = DataFileWriter(self._disk).write_sections(name, rest)
        self.wrote(name, sum(handle.length for handle in handles))
        return list(handles)

    def share(self, handle: StateHandle, root: str | None) -> bool:
        # A savepoint refers to no file of another snapshot, so that it is self-contained.
        return False

    def delete(self) -> None:
        remove_files(self._disk, sorted(self.names))


class CanonicalFiles(SavepointFiles):
    """Writes a subtask's state into a savepoint's folder, keyed state as tables, for any state backend."""

    def new_tables(self, uid: str) -> NewWriter:
        """Return a function (key groups, number of all key groups) that makes the writer of `uid`'s keyed
        state. The writer gathers a table for each state in a local temporary file, and then stores it.
        """

        def store(state: str, table: Spool) -> str:
            name = table_name(uid, state, self._subtask.subtask)
            self._disk.create(name, table)
            self.wrote(name, table.size)
            return name

        folder = Path(tempfile.gettempdir())
        return lambda groups, max_parallelism: TablesWriter(groups, max_parallelism, store, folder)


def savepoint_files(
    disk: Disk, order: SavepointOrder, subtask: SubtaskId, inline_size_max: int
) -> SavepointFiles:
    kind = CanonicalFiles if order.format == CANONICAL else SavepointFiles
    return kind(disk, subtask, inline_size_max)
