"""The keyed state of new subtasks becomes files of a savepoint: tables of the canonical form, or a blob."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from headgate.checkpoint.data_files import DataFileWriter
from headgate.checkpoint.layout import table_name
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import InternalError
from headgate.common.keys.key_types import Shape, shapes_of, stored_shapes
from headgate.common.keys.keygroups import key_groups_of_keys
from headgate.common.ports import Disk
from headgate.state.backend import Entries
from headgate.state.canonical.writer import write_tables
from headgate.state.stored.local_files import FileParts, Spool
from headgate.state.snapshots import Inline, KeyedStateHandle, StateTable
from headgate.state.stored.blob_writer import SpooledBlob
from headgate.state.stored.regroup import Sorter
from headgate.state.stored.subtask_state import stored_chunks
from headgate.state.stored.values import KeysOnly

CANONICAL, NATIVE = FORMATS = ("canonical", "native")


class StateWriter:
    """Writes the keyed state of a savepoint in the format "canonical" or "native".

    `folder` is for scratch files; `mark` makes names unique where several tasks may write the same subtask.
    """

    def __init__(self, disk: Disk, form: str, folder: Path, mark: str = "") -> None:
        self._disk, self._form, self._folder, self._mark = disk, form, folder, mark
        self.names: list[str] = []
        self.entries = 0

    def subtask(
        self, sorter: Sorter, uid: str, number: str, index: int, max_parallelism: int
    ) -> KeyedStateHandle:
        """Write the state of one new subtask of an operator; `number` is in names of files."""
        first, last = sorter.ranges[index]
        shapes: set[Shape] = set()
        writer = SpooledBlob(self._folder, (first, last), max_parallelism)
        try:
            for state, codec in sorter.codecs.items():
                entries = self._counted(sorter.chunks(index, state), shapes)
                writer.add(state, codec.target.schema, entries, codec.target.serializer.encode_many)
            blob, key_types = writer.finish(), stored_shapes(shapes)
            if self._form == CANONICAL:
                tables = self._tables(blob, sorter, uid, index)
                size = sum(table.length for table in tables)
                return KeyedStateHandle(first, last, Inline(b""), size, tables=tables, key_types=key_types)
            name = f"data/{number}-s{index}{self._mark}"
            self.names.append(name)
            handle = DataFileWriter(self._disk).write(name, blob)
            return KeyedStateHandle(first, last, handle, blob.size, key_types=key_types)
        finally:
            writer.close()

    def _counted(self, entries: Iterator[Entries], shapes: set[Shape]) -> Iterator[Entries]:
        """The same; also adds the types of all keys, those of timers included, to `shapes`."""
        for each in entries:
            self.entries += len(each.keys)
            shapes |= shapes_of(each.keys)
            yield each

    def _tables(self, blob: Spool, sorter: Sorter, uid: str, index: int) -> list[StateTable]:
        files: dict[str, Path] = {}
        with ExitStack() as stack:

            def create(state: str) -> BinaryIO:
                files[state] = self._folder / f"table-{len(files)}"
                return stack.enter_context(files[state].open("wb"))

            targets = {name: codec.target for name, codec in sorter.codecs.items()}
            written = write_tables(blob, create, targets)
        tables = []
        for table in written:
            whole, path = table_name(uid, table.info.name, index), files[table.info.name]
            name = f"{whole.removesuffix('.parquet')}{self._mark}.parquet"
            self.names.append(name)
            self._disk.create(name, FileParts(path))
            path.unlink()
            tables.append(StateTable(table.info.name, name, table.length, table.crc32))
        return tables


def count_entries(disk: Disk, keyed: KeyedStateHandle, max_parallelism: int) -> int:
    """Read back everything that was written of one subtask; gives the number of entries and timers."""
    total = 0
    for chunk in stored_chunks(DiskFiles(disk), keyed, KeysOnly(), max_parallelism):
        groups = key_groups_of_keys(chunk.keys, max_parallelism)
        if not keyed.first_group <= int(groups.min()) <= int(groups.max()) <= keyed.last_group:
            raise InternalError(
                f"state {chunk.state!r} was written to other key groups than its own; please report this"
            )
        total += len(chunk.keys)
    return total
