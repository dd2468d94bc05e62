"""Where a worker writes its part of a savepoint: files of the savepoint's own folder, and of nothing else.

A canonical savepoint has keyed state as tables, whatever backend keeps it. The blob that a backend writes and
each table pass over a local file, so only parts of them are in memory.
"""

from __future__ import annotations

import tempfile
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
from headgate.state.rocksdb.local_files import Spool
from headgate.state.snapshots import Inline, KeyedStateHandle, StateHandle, StateTable
from headgate.state.targets import Target

CANONICAL = "canonical"


class SavepointFiles:
    """Implements `state.backend.StateFiles` in a savepoint's folder; for the native format.

    Args:
        disk: of the folder.
        subtask: whose part it is.
        inline_size_max: what takes up to so many bytes may travel in the acknowledgement.
    """

    def __init__(self, disk: Disk, subtask: SubtaskId, inline_size_max: int) -> None:
        self._disk, self._subtask, self._inline_max = disk, subtask, inline_size_max
        self._calls = 0
        self.names: set[str] = set()  # the files written
        self.written = 0  # their bytes
        self.shared_names: frozenset[str] = frozenset()  # none: a savepoint refers to nothing outside
        self.shared_bytes = 0  # none

    def write(self, uid: str, parts: Iterable[Part]) -> StateHandle:
        """See `state.backend.StateFiles`."""
        return self.write_sections(uid, [parts], inline=True)[0]

    def write_sections(
        self, uid: str, sections: Sequence[Iterable[Part]], *, inline: bool
    ) -> list[StateHandle]:
        """See `state.backend.StateFiles`."""
        rest, small = little_of(self._inline_max if inline else -1, sections)
        if rest is None:
            return [Inline(b"".join(parts)) for parts in small]
        name = savepoint_data_name(self._subtask, str(self._calls))
        self._calls += 1
        handles = DataFileWriter(self._disk).write_sections(name, rest)
        self._wrote(name, sum(handle.length for handle in handles))
        return list(handles)

    def share(self, handle: StateHandle, root: str | None) -> bool:
        """See `state.backend.StateFiles`; a savepoint is whole by itself."""
        return False

    def _wrote(self, name: str, length: int) -> None:
        self.names.add(name)
        self.written += length

    def delete(self) -> None:
        """Nobody will refer to what was written; what cannot be removed goes with the folder."""
        for name in sorted(self.names):
            with suppress(StorageError, OSError):
                self._disk.delete(name)


class CanonicalFiles(SavepointFiles):
    """Implements `runtime.operators.base.TableFiles`; for the canonical format."""

    def write_tables(
        self, uid: str, pending: PendingSnapshot, groups: tuple[int, int], targets: Mapping[str, Target]
    ) -> KeyedStateHandle:
        """See `runtime.operators.base.TableFiles`."""
        blob = _spooled(pending)
        uploads = _Uploads(self._disk, uid, self._subtask, self._wrote)
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
        """A table begins, and the one before is complete."""
        self.finish()
        self.names.append(table_name(self._uid, state, self._subtask.subtask))
        self._spool = Spool(Path(tempfile.gettempdir()))
        return self

    def write(self, data: bytes | memoryview) -> None:
        """Bytes of the table that began last."""
        assert self._spool is not None
        self._spool.append([data])

    def finish(self) -> None:
        """The table that began last is complete: store it durably."""
        if self._spool is not None:
            self._disk.create(self.names[-1], self._spool)
            self._wrote(self.names[-1], self._spool.size)
            self.close()

    def close(self) -> None:
        """Give the local disk its space back."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None


def _spooled(pending: PendingSnapshot) -> Spool:
    """The whole state as one blob on the local disk."""
    parts = pending.write()
    if isinstance(parts, Spool):
        return parts
    spool = Spool(Path(tempfile.gettempdir()))
    try:
        spool.append(_let_go(list(parts)))
    except BaseException:
        spool.close()
        raise
    return spool


def _let_go(parts: list[bytes]) -> Iterator[bytes]:
    """The parts, each of which is given back to memory once the next one is asked for."""
    parts.reverse()
    while parts:
        yield parts.pop()


def savepoint_files(
    disk: Disk, order: SavepointOrder, subtask: SubtaskId, inline_size_max: int
) -> SavepointFiles:
    """What fits an order; see :class:`SavepointFiles`."""
    kind = CanonicalFiles if order.format == CANONICAL else SavepointFiles
    return kind(disk, subtask, inline_size_max)
