"""The keyed state of new subtasks becomes files of a savepoint: tables of the canonical form, or a blob."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from headgate.checkpoint.data_files import DataFileWriter
from headgate.checkpoint.layout import table_name
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import InternalError
from headgate.common.files.durable import crc32
from headgate.common.keys.key_types import Shape, shapes_of, stored_shapes
from headgate.common.keys.keygroups import key_groups_of_keys
from headgate.common.ports import Disk
from headgate.state.canonical.writer import write_tables
from headgate.state.heap import heap_blob as stored
from headgate.state.heap.snapshot import KEY_SERIALIZER
from headgate.state.rocksdb.local_files import FileParts, Spool
from headgate.state.snapshots import Inline, KeyedStateHandle, StateTable
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
        with ExitStack() as stack:
            spools = {name: Spool(self._folder) for name in sorter.codecs}
            for spool in spools.values():
                stack.callback(spool.close)
            shapes: set[Shape] = set()
            sections = self._sections(sorter, index, spools, shapes)
            blob = _Blob(spools, sections, (first, last), max_parallelism)
            told = stored_shapes(shapes)
            if self._form == CANONICAL:
                tables = self._tables(blob, sorter, uid, index)
                size = sum(table.length for table in tables)
                return KeyedStateHandle(first, last, Inline(b""), size, tables=tables, key_types=told)
            name = f"data/{number}-s{index}{self._mark}"
            self.names.append(name)
            handle = DataFileWriter(self._disk).write(name, blob.parts())
            return KeyedStateHandle(first, last, handle, blob.size, key_types=told)

    def _sections(
        self, sorter: Sorter, index: int, spools: Mapping[str, Spool], shapes: set[Shape]
    ) -> list[stored.Section]:
        """Also adds the types of all keys, those of timers included, to `shapes`."""
        sections = []
        for name, codec in sorter.codecs.items():
            chunks = []
            for chunk in sorter.chunks(index, name):
                spool, encode = spools[name], codec.target.serializer.encode_many
                data = stored.chunk_bytes(KEY_SERIALIZER.encode_many(chunk.keys), encode(chunk.values))
                chunks.append(stored.Chunk(chunk.group, spool.size, len(data), len(chunk.keys), crc32(data)))
                spool.append([data])
                self.entries += len(chunk.keys)
                shapes |= shapes_of(chunk.keys)
            sections.append(stored.Section(name, codec.target.schema, chunks))
        return sections

    def _tables(self, blob: _Blob, sorter: Sorter, uid: str, index: int) -> list[StateTable]:
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


class _Blob:
    """A blob whose sections lie in files of their own, to be read and written as one."""

    def __init__(
        self,
        spools: Mapping[str, Spool],
        sections: Sequence[stored.Section],
        groups: tuple[int, int],
        max_parallelism: int,
    ) -> None:
        self._spools, moved, offset = list(spools.values()), [], 0
        for section, spool in zip(sections, self._spools, strict=True):
            chunks = [
                msgspec.structs.replace(chunk, offset=chunk.offset + offset) for chunk in section.chunks
            ]
            moved.append(msgspec.structs.replace(section, chunks=chunks))
            offset += spool.size
        header = stored.Header(max_parallelism, *groups, KEY_SERIALIZER.describe(), moved, offset)
        self._head = stored.preamble_and_header(header)
        self.size = len(self._head) + offset

    def parts(self) -> Iterator[bytes]:
        """All bytes in order."""
        return chain([self._head], *self._spools)

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`; fewer where they end."""
        found = [self._head[offset : offset + length]]
        left, start = length - len(found[0]), len(self._head)
        for spool in self._spools:
            at = max(0, offset + length - left - start)
            if left and at < spool.size:
                found.append(spool.read(at, min(left, spool.size - at)))
                left -= len(found[-1])
            start += spool.size
        return b"".join(found)


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
