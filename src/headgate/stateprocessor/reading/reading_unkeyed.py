"""Reads operator state and records in flight as rows.

Operator state: a row for each element of a list, or for each entry of a broadcast state. Records in flight of
an unaligned checkpoint: sender and receiver, place in their order, and the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from headgate.checkpoint.data_files import read_handle
from headgate.common.errors import StorageError, UsageError
from headgate.common.plain_data import Description, mappings_in
from headgate.common.ports import Disk
from headgate.offline.in_flight_records import Described, Records, records_in_flight
from headgate.serde.arrow.arrow_columns import ArrowColumn
from headgate.serde.arrow.stored_values import Beyond, is_open, open_batch
from headgate.state.canonical.value_columns import MAP_KEY, POSITION, VALUE
from headgate.state.operator_state import read_columns
from headgate.state.snapshots import CheckpointMetadata, InFlightStream, OperatorStateHandle

R = TypeVar("R")

RECORD: Final = "record"
_CHANNEL: Final = [
    pa.field("receiver", pa.string()),
    pa.field("receiver_subtask", pa.int32()),
    pa.field("sender", pa.string()),
    pa.field("sender_subtask", pa.int32()),
    pa.field("tag", pa.string()),
    pa.field("level", pa.int32()),
    pa.field("from_output", pa.bool_()),
    pa.field("position", pa.int64()),
    pa.field("key_group", pa.int32()),
    pa.field("timestamp", pa.int64()),
]
_TEXT: Final = pa.field(f"{RECORD}_text", pa.string())
_NOTHING: Final = Beyond(None)
"""Stands for a record that is not of the described type: no typed column holds it."""
SUBTASK = "subtask"


def operator_pieces(metadata: CheckpointMetadata, uid: str, state: str) -> tuple[OperatorPiece, ...]:
    """Return the pieces of a read of an operator state, one for each subtask's part; empty: no such state."""
    return tuple(
        OperatorPiece(subtask, handle)
        for subtask, stored in enumerate(metadata.operators.get(uid, []))
        for handle in stored.operator_state
        if handle.name == state
    )


def operator_columns(schema: Description) -> pa.Schema:
    """Return the columns of an operator state of type `schema`; UsageError: a custom serializer wrote it."""
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
    """Piece of a read: the elements or entries that one subtask stored of an operator state, a row each."""

    subtask: int
    handle: OperatorStateHandle

    def batches(self, disk: Disk, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        handle = self.handle
        made = _columns(handle.schema)
        try:
            stored = read_columns(read_handle(disk, handle.handle), len(made))
        except StorageError as error:
            raise StorageError(f"operator state {handle.name!r} of subtask {self.subtask}: {error}") from None
        own = slice(handle.first, handle.stop)
        parts = [
            open_batch(column.stored, data, handle.count)[own]
            for column, data in zip(made, stored, strict=True)
        ]
        rows = len(parts[0])
        arrays = [pa.array([self.subtask] * rows, pa.int32()), pa.array(range(rows), pa.int64())]
        for column, values in zip(made, parts, strict=True):
            arrays += column.arrays(values)
        yield pa.RecordBatch.from_arrays(arrays, schema=operator_columns(handle.schema))


def in_flight_columns(streams: Sequence[InFlightStream]) -> tuple[Description | None, pa.Schema]:
    """Return the type of the typed column of records in flight, and all columns of the read.

    None, and no typed column, unless all `streams` (channels) have records of one type that Arrow can hold.
    """
    types = [stream.record_type for stream in streams if stream.record_type is not None and stream.parts]
    alike = types[:1] if all(each == types[0] for each in types) and all(map(is_open, types)) else []
    record = alike[0] if alike and ArrowColumn(RECORD, alike[0]).fields[0].name == RECORD else None
    return record, _schema(record)


def _schema(record: Description | None) -> pa.Schema:
    typed = [] if record is None else ArrowColumn(RECORD, record).fields[:1]
    return pa.schema([*_CHANNEL, *typed, _TEXT])


@dataclass(frozen=True)
class InFlightPiece:
    """A piece of a read: one channel's records in flight; `record`: type of the typed column; None: none."""

    stream: InFlightStream
    record: Description | None
    max_parallelism: int

    def batches(self, disk: Disk, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        position = 0
        for found in records_in_flight(disk, self.stream, self.max_parallelism):
            yield self._batch(found, position)
            position += len(found.records)

    def _batch(self, found: Records, position: int) -> pa.RecordBatch:
        stream, rows = self.stream, len(found.records)
        nothing: list[None] = [None] * rows
        same = [
            stream.receiver, stream.receiver_subtask, stream.sender, stream.sender_subtask, stream.tag,
            stream.level, stream.from_output,
        ]  # fmt: skip
        arrays = [pa.array([value] * rows, field.type) for value, field in zip(same, _CHANNEL, strict=False)]
        arrays.append(pa.array(range(position, position + rows), pa.int64()))
        arrays.append(pa.array(found.groups or nothing, pa.int32()))
        arrays.append(pa.array(found.timestamps or nothing, pa.int64()))
        typed = [False] * rows
        if self.record is not None:
            plain = [r.plain if type(r) is Described else _NOTHING for r in found.records]
            column = ArrowColumn(RECORD, self.record).arrays(plain)[0]
            arrays.append(column)
            typed = column.is_valid().to_pylist()
        texts = [None if there else _text(record) for there, record in zip(typed, found.records, strict=True)]
        arrays.append(pa.array(texts, pa.string()))
        return pa.RecordBatch.from_arrays(arrays, schema=_schema(self.record))


def _text(record: R) -> str:
    shown = repr(record.plain if isinstance(record, Described) else record)
    return shown.encode(errors="backslashreplace").decode()
