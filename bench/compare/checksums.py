"""A sink that takes every column of every row, adds up a checksum of each, and forgets the rows; exactly
once.

A sum that counts each byte or number once does not depend on the order of rows, so the sums of a stream can
be compared with those of a batch answer. Of changes, the sums of rows that go are subtracted from the sums of
rows that come: the result is the sums of the rows that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import Plain
from headgate.connectors.committed import DriverResults
from headgate.relational.changes import CHANGE

_BITS = (1 << 64) - 1
_GOING = pa.array([1, 3], pa.int8())
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def checksums(columns: Sequence[pa.Array], names: Sequence[str]) -> dict[str, int]:
    """The checksum of each column.

    Example:
        >>> checksums([pa.array([1, 2, None]), pa.array(["ab", None, ""])], ["n", "text"])
        {'n': 3, 'text': 195}
    """
    return {name: _checksum(column) for name, column in zip(names, columns, strict=True)}


def table_checksums(table: pa.Table) -> dict[str, int]:
    """The checksums of a table's columns, of all chunks together."""
    sums = Sums()
    for batch in table.to_batches():
        sums.add(batch.num_rows, checksums(batch.columns, table.schema.names))
    return sums.columns


def _checksum(column: pa.Array) -> int:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _sum_of_bytes(column)
    if pa.types.is_decimal(kind):
        return _sum_of_low_words(column)
    if pa.types.is_floating(kind):
        column = column.view(pa.int64())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    return int(pc.sum(column.cast(pa.int64())).as_py() or 0) & _BITS


def sum_of_values(values: Sequence[int] | Sequence[datetime]) -> int:
    """The checksum of a column of whole numbers or of times as Python has them.

    Arrow would make an array of them first, for which it loads pandas, at the first time in each process.

    Example:
        >>> sum_of_values([1, 2]), sum_of_values([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)])
        (3, 1000000)
    """
    if isinstance(values[0], datetime):
        return sum([value - _EPOCH for value in values], timedelta()) // timedelta(microseconds=1) & _BITS
    return sum(values) & _BITS


def _sum_of_low_words(decimals: pa.Array) -> int:
    """Sum of the unscaled numbers, modulo 2^64: of each the lower of its two words says enough."""
    if decimals.null_count:
        decimals = decimals.fill_null(0)
    words = np.frombuffer(decimals.buffers()[1], np.uint64)[2 * decimals.offset :][: 2 * len(decimals) : 2]
    return int(words.sum())


def _sum_of_bytes(texts: pa.Array) -> int:
    """Sum of the bytes of all texts, by the kernel for sums over the buffer that holds them."""
    if texts.null_count:  # there may be bytes where a text is missing
        texts = texts.fill_null("")
    if texts.type == pa.large_string():
        texts = texts.cast(pa.string())
    if not len(texts):
        return 0
    _, offsets, data = texts.buffers()
    places = pa.Array.from_buffers(pa.int32(), texts.offset + len(texts) + 1, [None, offsets])
    begin, end = places[texts.offset].as_py(), places[-1].as_py()
    if data is None or begin == end:
        return 0
    return int(
        pc.sum(pa.Array.from_buffers(pa.uint8(), end - begin, [None, data], offset=begin)).as_py() or 0
    )


class Sums(DriverResults):
    """What was committed, each committable once.

    Attributes:
        records: rows.
        columns: name -> checksum.
    """

    def __init__(self) -> None:
        super().__init__()
        self.records = 0
        self.columns: dict[str, int] = {}

    def add(self, records: int, columns: dict[str, int]) -> None:
        """Add the sums of some rows."""
        self.records += records
        for name, more in columns.items():
            self.columns[name] = self.columns.get(name, 0) + more & _BITS

    def subtract(self, records: int, columns: dict[str, int]) -> None:
        """Take away the sums of some rows."""
        self.add(-records, {name: -value for name, value in columns.items()})


class ChecksumSink(Sink[Any]):
    """Takes rows or columns.

    Args:
        names: of the columns, for rows that are tuples.

    Attributes:
        sums: complete when the job has ended.
    """

    accepts_columns = True

    def __init__(self, names: Sequence[str]) -> None:
        self.sums, self._names = Sums(), tuple(names)

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[Any]:
        return ChecksumWriter(context, self._names)

    @override
    def create_committer(self) -> SinkCommitter:
        return _Committer(self.sums)

    @override
    def describe(self) -> str:
        return "checksums"


class ChecksumWriter(SinkWriter[Any]):
    """One subtask's part of it; see :class:`ChecksumSink`."""

    accepts_columns = True

    def __init__(self, context: SinkWriterContext, names: Sequence[str]) -> None:
        self._name = f"{context.job}/{context.uid}/{context.attempt}/{context.subtask}"
        self._names, self._sequence, self._sums = names, 0, Sums()

    @override
    def write(self, records: Any) -> None:
        if not isinstance(records, pa.RecordBatch):
            assert all(type(row) is tuple for row in records), f"expected tuples, got {records[0]!r}"
            columns = zip(self._names, zip(*records, strict=True), strict=True)
            self._sums.add(len(records), {name: sum_of_values(values) for name, values in columns})
        elif CHANGE in records.schema.names:
            self._write_changes(records)
        else:
            self._sums.add(records.num_rows, checksums(records.columns, self._names))

    def _write_changes(self, changes: pa.RecordBatch) -> None:
        *columns, kinds = changes.columns
        rows, going = pa.RecordBatch.from_arrays(columns, self._names), pc.is_in(kinds, _GOING)
        for taken, take in ((pc.invert(going), self._sums.add), (going, self._sums.subtract)):
            some = rows.filter(taken)
            if some.num_rows:
                take(some.num_rows, checksums(some.columns, self._names))

    @override
    def prepare_commit(self) -> list[Plain]:
        # As text: a sum may be larger than the largest integer that a committable holds.
        columns = {name: str(value) for name, value in self._sums.columns.items()}
        ready = [self._name, self._sequence, self._sums.records, columns]
        self._sequence, self._sums = self._sequence + 1, Sums()
        return [ready]


class _Committer(SinkCommitter):
    def __init__(self, sums: Sums) -> None:
        self._sums = sums

    @override
    def commit(self, committables: Sequence[Plain]) -> None:
        for writer, sequence, records, columns in committables:
            if self._sums.once.take(writer, sequence):
                self._sums.add(records, {name: int(value) for name, value in columns.items()})
