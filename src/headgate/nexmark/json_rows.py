"""Generated events as JSON lines, made column by column. Fit for the generator's plain ASCII texts only."""

from __future__ import annotations

from functools import cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_SECOND_US: Final = 1_000_000
_MS_US: Final = 1000


def json_lines(batch: pa.RecordBatch) -> pa.Buffer:
    """Return the rows of a batch as JSON objects, one per line.

    Integers are numbers, texts are written as they are, so they must need no escapes, and times are ISO 8601
    texts in UTC with milliseconds.

    Example:
        >>> batch = pa.record_batch({"id": [1, 2], "city": ["Bonn", "Ulm"]})
        >>> print(json_lines(batch).to_pybytes().decode(), end="")
        {"id":1,"city":"Bonn"}
        {"id":2,"city":"Ulm"}
    """
    parts = []
    for number, (field, column) in enumerate(zip(batch.schema, batch.columns)):
        quote = "" if pa.types.is_integer(field.type) else '"'
        before = "{" if number == 0 else ","
        parts += [f'{before}"{field.name}":{quote}', _text(column), quote]
    lines = pc.binary_join_element_wise(*parts, "}\n", "")
    _, offsets, data = lines.buffers()
    ends = pa.Array.from_buffers(pa.int32(), len(lines) + 1, [None, offsets])
    return data.slice(0, ends[-1].as_py())


def _text(column: pa.Array) -> pa.StringArray:
    return _time_text(column) if pa.types.is_timestamp(column.type) else column.cast(pa.string())


def _time_text(times: pa.TimestampArray) -> pa.StringArray:
    # Only one time of each second is formatted, since that takes microseconds.
    us = times.view(pa.int64())
    seconds = pc.divide(us, _SECOND_US)
    ms = pc.divide(pc.subtract(us, pc.multiply(seconds, _SECOND_US)), _MS_US)
    coded = seconds.dictionary_encode()
    texts = pc.strftime(coded.dictionary.cast(pa.timestamp("s")), format="%Y-%m-%dT%H:%M:%S")
    return pc.binary_join_element_wise(texts.take(coded.indices), _milliseconds().take(ms), "")


@cache
def _milliseconds() -> pa.StringArray:
    return pa.array([f".{each:03d}Z" for each in range(1000)])
