"""Where a worker writes its part of a savepoint: files of the savepoint's own folder, and of nothing else.

A canonical savepoint has keyed state as tables, whatever backend keeps it. Each table passes over a local
file, so only parts of it are in memory.
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
    """What `state.backend.StateFiles` have written and shared for one snapshot."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.shared_names: set[str] = set()
        self.written = self.shared_bytes = 0
        self._numbers = map(str, itertools.count())

    def wrote(self, name: str, length: int) -> None:
        """Count a part of a file that was written."""
        self.names.add(name)
        self.written += length

    def write(self, uid: str, parts: Iterable[Part]) -> StateHandle:
        """Store one section, which may stay inline."""
        return self.write_sections(uid, [parts], inline=True)[0]

    @abstractmethod
    def write_sections(
        self, uid: str, sections: Sequence[Iterable[Part]], *, inline: bool
    ) -> list[StateHandle]:
        """See `state.backend.StateFiles`."""


def remove_files(disk: Disk, names: Iterable[str]) -> None:
    """Remove files to which no snapshot will refer; what cannot be removed is left for the next sweep."""
    for name in names:
        with suppress(StorageError, OSError):
            disk.delete(name)


class SavepointFiles(WrittenFiles):
    """Implements `state.backend.StateFiles` in a savepoint's folder, `disk`; for the native format.

    Sections of up to `inline_size_max` bytes may travel in the acknowledgement. A savepoint shares nothing.
    """

    def __init__(self, disk: Disk, subtask: SubtaskId, inline_size_max: int) -> None:
        super().__init__()
        self._disk, self._subtask, self._inline_max = disk, subtask, inline_size_max

    def write_sections(
        self, uid: str, sections: Sequence[Iterable[Part]], *, inline: bool
    ) -> list[StateHandle]:
        """See `state.backend.StateFiles`."""
        rest, small = little_of(self._inline_max if inline else -1, sections)
        if rest is None:
            return [Inline(b"".join(parts)) for parts in small]
        name = savepoint_data_name(self._subtask, next(self._numbers))
        handles = DataFileWriter(self._disk).write_sections(name, rest)
        self.wrote(name, sum(handle.length for handle in handles))
        return list(handles)

    def share(self, handle: StateHandle, root: str | None) -> bool:
        """Refuse: a savepoint is complete by itself."""
        return False

    def delete(self) -> None:
        """Remove what was written, of which a later operator's part failed."""
        remove_files(self._disk, sorted(self.names))


class CanonicalFiles(SavepointFiles):
    """Implements `operator_contract.TableFiles`; for the canonical format."""

    def new_tables(self, uid: str) -> NewWriter:
        """See `operator_contract.TableFiles`."""

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
    """Return the files that an order asks for; see :class:`SavepointFiles`."""
    kind = CanonicalFiles if order.format == CANONICAL else SavepointFiles
    return kind(disk, subtask, inline_size_max)
