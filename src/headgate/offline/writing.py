"""Writes the keyed state of new subtasks into files of a savepoint: canonical tables, or a native blob."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from headgate.checkpoint.data_files import DataFileWriter
from headgate.checkpoint.layout import table_name
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import InternalError
from headgate.common.keys.key_types import Shape, shapes_of, stored_shapes
from headgate.common.keys.keygroups import key_groups_of_keys
from headgate.common.ports import Disk
from headgate.state.backend import Entries, NewSection, Part, StateWriter
from headgate.state.canonical.writer import TablesWriter
from headgate.state.snapshots import FileRange, KeyedStateHandle
from headgate.state.stored.blob import SpooledBlob
from headgate.state.stored.contract import written
from headgate.state.stored.regroup import Sorter
from headgate.state.stored.subtask_state import stored_chunks
from headgate.state.stored.values import KeysOnly

CANONICAL, NATIVE = FORMATS = ("canonical", "native")


class SubtaskWriter:
    """Writes a savepoint's keyed state in format `form`; keeps `names` of files and counts `entries`.
    `folder` is for scratch files; `mark` makes names unique where several tasks may write the same subtask.
    """

    def __init__(self, disk: Disk, form: str, folder: Path, mark: str = "") -> None:
        self._disk, self._form, self._folder, self._mark = disk, form, folder, mark
        self.names: list[str] = []
        self.entries = 0

    def subtask(
        self, sorter: Sorter, uid: str, number: str, index: int, max_parallelism: int
    ) -> KeyedStateHandle:
        """Write what `sorter` has for new subtask `index`, and return its handle.
        `number` names the files of operator `uid`; `max_parallelism` is the savepoint's number of key groups.
        """
        shapes: set[Shape] = set()

        def add_sections(writer: StateWriter) -> None:
            for state, codec in sorter.codecs.items():
                target, entries = codec.target, self._counted(sorter.chunks(index, state), shapes)
                writer.add(NewSection(state, target.schema, target.serializer.encode_many), entries)

        keyed = written(self._writer(uid, number, index, sorter.ranges[index], max_parallelism), add_sections)
        return msgspec.structs.replace(keyed, key_types=stored_shapes(shapes))

    def _writer(
        self, uid: str, number: str, index: int, groups: tuple[int, int], max_parallelism: int
    ) -> StateWriter:
        def table(state: str, parts: Iterable[bytes]) -> str:
            name = f"{table_name(uid, state, index).removesuffix('.parquet')}{self._mark}.parquet"
            self.names.append(name)
            self._disk.create(name, parts)
            return name

        def blob(parts: Iterable[Part]) -> FileRange:
            self.names.append(f"data/{number}-s{index}{self._mark}")
            return DataFileWriter(self._disk).write(self.names[-1], parts)

        if self._form == CANONICAL:
            return TablesWriter(groups, max_parallelism, table, self._folder)
        return SpooledBlob(groups, max_parallelism, self._folder, blob)

    def _counted(self, entries: Iterator[Entries], shapes: set[Shape]) -> Iterator[Entries]:
        for each in entries:
            self.entries += len(each.keys)
            shapes |= shapes_of(each.keys)
            yield each


def count_entries(disk: Disk, keyed: KeyedStateHandle, max_parallelism: int) -> int:
    """Read back a subtask's state, return its count of entries and timers; InternalError: wrong key group."""
    total = 0
    for chunk in stored_chunks(DiskFiles(disk), keyed, KeysOnly(), max_parallelism):
        groups = key_groups_of_keys(chunk.keys, max_parallelism)
        if not keyed.first_group <= int(groups.min()) <= int(groups.max()) <= keyed.last_group:
            raise InternalError(
                f"state {chunk.state!r} was written to other key groups than its own; please report this"
            )
        total += len(chunk.keys)
    return total
