"""Where a worker writes its part of a savepoint: files of the savepoint's own folder, and of nothing else.

A canonical savepoint has keyed state as tables, whatever backend keeps it. The blob that a backend writes and
each table are spooled to a local file, so only parts of them are in memory.
"""

from __future__ import annotations

import itertools
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.checkpoint.data_files import DataFileWriter, little_of
from headgate.checkpoint.layout import savepoint_data_name, table_name
from headgate.common.errors import StorageError
from headgate.common.ids import SubtaskId
from headgate.common.ports import Disk
from headgate.core.alignment.barriers import SavepointOrder
from headgate.state.backend import Part, PendingSnapshot
from headgate.state.canonical.writer import write_tables
from headgate.state.stored.local_files import Spool
from headgate.state.snapshots import Inline, KeyedStateHandle, StateHandle, StateTable
from headgate.state.targets import Target

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

    def write_tables(
        self, uid: str, pending: PendingSnapshot, groups: tuple[int, int], targets: Mapping[str, Target]
    ) -> KeyedStateHandle:
        """See `operator_contract.TableFiles`."""
        blob = _spooled(pending)
        uploads = _Uploads(self._disk, uid, self._subtask, self.wrote)
        try:
            written = write_tables(blob, uploads.create, targets)
            uploads.finish()
        finally:
            uploads.close()
            blob.close()
        tables = [
            StateTable(table.info.name, name, table.length, table.crc32)
            for table, name in zip(written, uploads.names, strict=True)
        ]
        return KeyedStateHandle(*groups, Inline(b""), sum(table.length for table in tables), tables=tables)


class _Uploads:
    """Tables on their way from the local disk to the savepoint, one after the other."""

    def __init__(self, disk: Disk, uid: str, subtask: SubtaskId, wrote: Callable[[str, int], None]) -> None:
        self._disk, self._uid, self._subtask, self._wrote = disk, uid, subtask, wrote
        self._spool: Spool | None = None
        self.names: list[str] = []

    def create(self, state: str) -> _Uploads:
        """Begin a table; the one before is complete."""
        self.finish()
        self.names.append(table_name(self._uid, state, self._subtask.subtask))
        self._spool = Spool(Path(tempfile.gettempdir()))
        return self

    def write(self, data: bytes | memoryview) -> None:
        """Append to the table that began last."""
        assert self._spool is not None
        self._spool.append([data])

    def finish(self) -> None:
        """Store the table that began last durably."""
        if self._spool is not None:
            self._disk.create(self.names[-1], self._spool)
            self._wrote(self.names[-1], self._spool.size)
            self.close()

    def close(self) -> None:
        """Remove the local file."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None


def _spooled(pending: PendingSnapshot) -> Spool:
    parts = pending.write()
    if isinstance(parts, Spool):
        return parts
    spool = Spool(Path(tempfile.gettempdir()))
    try:
        spool.append(_released(list(parts)))
    except BaseException:
        spool.close()
        raise
    return spool


def _released(parts: list[bytes]) -> Iterator[bytes]:
    """The parts, each of which is freed once the next one is asked for."""
    parts.reverse()
    while parts:
        yield parts.pop()


def savepoint_files(
    disk: Disk, order: SavepointOrder, subtask: SubtaskId, inline_size_max: int
) -> SavepointFiles:
    """The files that an order asks for; see :class:`SavepointFiles`."""
    kind = CanonicalFiles if order.format == CANONICAL else SavepointFiles
    return kind(disk, subtask, inline_size_max)
