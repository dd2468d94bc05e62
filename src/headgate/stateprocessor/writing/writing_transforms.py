"""A state of an existing savepoint with other values: Spark's tasks read and write its tables."""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.checkpoint.storage.uris import open_disk
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import UsageError
from headgate.common.keys.keygroups import key_group, shortened
from headgate.serde.arrow.stored_values import open_batch
from headgate.state.backend import Entries
from headgate.state.canonical.key_columns import key_description
from headgate.state.canonical.table_layout import BYTES, row_of, stored_type
from headgate.state.snapshots import Inline, KeyedStateHandle, StateTable
from headgate.state.stored.subtask_state import stored_chunks
from headgate.state.stored.values import DeclaredValues
from headgate.state.targets import Target, target_of
from headgate.stateprocessor.writing.writing_rows import Convert
from headgate.stateprocessor.writing.writing_tables import (
    Place,
    TableFile,
    TableRow,
    result_of,
    table_info_of,
)


@dataclass(frozen=True, slots=True)
class Transform:
    """What becomes of the values of one state."""

    function: Convert
    before: StateDescriptor
    after: StateDescriptor


@dataclass(frozen=True, slots=True)
class TransformTask:
    """The tables of one state, one task for each; picklable."""

    uid: str
    transform: Transform
    source: str
    tables: dict[int, tuple[tuple[int, int], StateTable]]
    place: Place

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `DataFrame.mapInArrow` over rows with the indexes of subtasks."""
        shown = f"state {self.transform.before.name!r} of operator {self.uid!r}"
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield result_of(partial(self._written, index), shown)

    def _written(self, index: int) -> list[TableRow]:
        name = self.transform.after.name
        new = target_of(self.transform.after)
        parts = self._parts(index, new)
        first = next(parts)
        info = table_info_of(name, new.schema, key_description(first.keys[0]), self.place, index)
        with tempfile.TemporaryDirectory(prefix="headgate-table-") as folder:
            table, entries = TableFile(info, Path(folder) / "table"), len(first.keys)
            try:
                table.writer.add(first)
                for part in parts:
                    table.writer.add(part)
                    entries += len(part.keys)
                return [table.stored(self.place, self.uid, index, entries)]
            finally:
                table.close()

    def _parts(self, index: int, new: Target) -> Iterator[Entries]:
        groups, table = self.tables[index]
        old = target_of(self.transform.before)
        keyed = KeyedStateHandle(*groups, Inline(b""), table.length, tables=[table])
        disk = open_disk(self.source, self.place.settings)
        declared = DeclaredValues({table.name: old})
        for chunk in stored_chunks(DiskFiles(disk), keyed, declared, self.place.max_parallelism):
            values = [self._new(key, value) for key, value in zip(chunk.keys, chunk.values, strict=True)]
            group = key_group(chunk.keys[0], self.place.max_parallelism)
            yield Entries(group, chunk.keys, _plain(new, values), chunk.size)

    def _new(self, key: Hashable, value: Any) -> Any:
        try:
            return self.transform.function(value)
        except Exception as error:  # the user's code raises whatever it likes
            raise UsageError(
                f"the function raised {type(error).__name__} for key {shortened(key)}: {error}"
            ) from error


def _plain(target: Target, values: list[Any]) -> list[Any]:
    if row_of(target.schema) == BYTES:
        return [target.serializer.encode_many([value]) for value in values]
    stored = target.serializer.encode_checked(values)
    return open_batch(stored_type(target.schema), stored, len(values))
