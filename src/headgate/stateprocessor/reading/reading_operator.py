"""State that belongs to no key: a row for each element of a list, or for each entry of a broadcast state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headgate.checkpoint.data_files import read_handle
from headgate.common.errors import StorageError, UsageError
from headgate.common.plain_data import Description, mappings_in
from headgate.common.ports import Disk
from headgate.serde.arrow.arrow_columns import ArrowColumn
from headgate.serde.arrow.stored_values import is_open, open_batch
from headgate.state.canonical.value_columns import MAP_KEY, POSITION, VALUE
from headgate.state.operator_blob import read_columns
from headgate.state.snapshots import CheckpointMetadata, OperatorStateHandle

SUBTASK = "subtask"


def operator_handles(
    metadata: CheckpointMetadata, uid: str, state: str
) -> list[tuple[int, OperatorStateHandle]]:
    """Subtasks and what they have of an operator state."""
    return [
        (subtask, handle)
        for subtask, stored in enumerate(metadata.operators.get(uid, []))
        for handle in stored.operator_state
        if handle.name == state
    ]


def operator_columns(schema: Description) -> pa.Schema:
    """The columns of an operator state."""
    if not all(map(is_open, mappings_in(schema, "of"))):
        raise UsageError(
            "this operator state was written by a serializer of the program's own, which alone can take its "
            "elements apart; read it in the program"
        )
    fields = [field for column in _columns(schema) for field in column.fields]
    return pa.schema([pa.field(SUBTASK, pa.int32()), pa.field(POSITION, pa.int64()), *fields])


def _columns(schema: Description) -> list[ArrowColumn]:
    parts = mappings_in(schema, "of")
    names = [VALUE] if len(parts) == 1 else [MAP_KEY, VALUE]
    return [ArrowColumn(name, of) for name, of in zip(names, parts, strict=True)]


@dataclass(frozen=True)
class OperatorPiece:
    """What one subtask has of an operator state."""

    subtask: int
    handle: OperatorStateHandle

    def batches(self, disk: Disk, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See `reading_plan.Piece`."""
        handle = self.handle
        made = _columns(handle.schema)
        try:
            stored = read_columns(read_handle(disk, handle.handle), len(made))
        except StorageError as error:
            raise StorageError(f"operator state {handle.name!r} of subtask {self.subtask}: {error}") from None
        meant = slice(handle.first, handle.stop)
        parts = [
            open_batch(column.stored, data, handle.count)[meant]
            for column, data in zip(made, stored, strict=True)
        ]
        rows = len(parts[0])
        arrays = [pa.array([self.subtask] * rows, pa.int32()), pa.array(range(rows), pa.int64())]
        for column, values in zip(made, parts, strict=True):
            arrays += column.arrays(values)
        yield pa.RecordBatch.from_arrays(arrays, schema=operator_columns(handle.schema))
