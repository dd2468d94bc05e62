"""Columns as a stream: the bytes are those that Arrow's own writer gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headgate.records.arrow_stream import stream_of

ROWS = 1_000
TEXTS = pa.array([None if n % 7 == 0 else "word" * (n % 5) for n in range(ROWS)])
COLUMNS = {
    "numbers": pa.array(np.arange(ROWS)),
    "texts": TEXTS,
    "times": pa.array(np.arange(ROWS)).cast(pa.timestamp("us", "UTC")),
    "truth": pa.array([n % 3 == 0 for n in range(ROWS)]),
    "nothing": pa.nulls(ROWS),
    "lists": pa.array([[n] * (n % 3) for n in range(ROWS)]),
    "structs": pa.array([{"a": n, "b": str(n)} for n in range(ROWS)]),
    "codes": TEXTS.dictionary_encode(),
    "lists of codes": pa.ListArray.from_arrays(pa.array([0, ROWS]), TEXTS.dictionary_encode()),
    "identifiers": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * ROWS, pa.binary(16))),
}


def written(columns: pa.RecordBatch) -> bytes:
    """By Arrow's writer."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema) as writer:
        writer.write_batch(columns)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("name", COLUMNS)
def test_the_bytes_are_those_of_arrow(name: str) -> None:
    """Whole, sliced, empty, and with metadata of the schema."""
    for columns in _shapes(pa.RecordBatch.from_arrays([COLUMNS[name], COLUMNS[name]], ["a", "b"])):
        assert b"".join(stream_of(columns)) == written(columns)


def test_there_may_be_no_columns() -> None:
    """A batch of rows without any."""
    columns = pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    assert b"".join(stream_of(columns)) == written(columns)


def _shapes(columns: pa.RecordBatch) -> list[Any]:
    described = columns.replace_schema_metadata({"of": "something"})
    return [
        columns,
        columns.slice(0, 0),
        columns.slice(13, 100),
        columns.slice(columns.num_rows // 2),
        described,
    ]
