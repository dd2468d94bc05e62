"""Columns in Arrow's stream format, as they go to other workers and into snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

_END: Final = b"\xff\xff\xff\xff\0\0\0\0"


def stream_of(columns: pa.RecordBatch) -> Sequence[bytes | memoryview]:
    """Return a stream that has `columns` as its only batch, in parts that belong one after the other.

    The bytes are those of `pyarrow.ipc.new_stream`. That grows its buffer as it writes and copies what it has
    each time, where a batch alone gets a buffer of the right size.

    Example:
        >>> parts = stream_of(pa.RecordBatch.from_pydict({"user": ["ada", "bob"]}))
        >>> pa.ipc.open_stream(b"".join(parts)).read_next_batch().column("user").to_pylist()
        ['ada', 'bob']
    """
    if any(_has_dictionary(kind) for kind in columns.schema.types):
        return [_written(columns)]
    return [memoryview(columns.schema.serialize()), memoryview(columns.serialize()), _END]


def _has_dictionary(kind: pa.DataType) -> bool:
    # Dictionaries are messages of their own, between schema and batch.
    if isinstance(kind, pa.BaseExtensionType):
        return _has_dictionary(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(place).type) for place in range(kind.num_fields))


def _written(columns: pa.RecordBatch) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_batch(columns)
    return memoryview(sink.getvalue())
