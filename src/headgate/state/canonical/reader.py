"""Reads one canonical table (a Parquet file), row group by row group, as entries or as columns."""

from __future__ import annotations

import io
from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.common.errors import StorageError, UsageError
from headgate.common.keys.keygroups import key_groups_of_keys, shortened
from headgate.serde.evolution.undecodable import stored_description
from headgate.state.backend import BlobReader
from headgate.state.canonical.table_layout import table_info
from headgate.state.canonical.value_columns import TableRows


class OpenTable:
    """A canonical table, opened from its Parquet file; StorageError: it is none. `open_table` verifies it."""

    def __init__(self, blob: BlobReader) -> None:
        try:
            self._file = pq.ParquetFile(_BlobFile(blob), page_checksum_verification=True)
        except (pa.ArrowException, OSError, ValueError) as error:  # a name in it may be no UTF-8
            raise StorageError(
                f"a table of state is no Parquet file in its bytes 0 to {blob.size} ({error})"
            ) from None
        self.info = table_info(self._file.metadata.metadata)
        with stored_description():
            self._rows = TableRows(self.info)
        self._check()

    def _check(self) -> None:
        schema = self._file.schema_arrow
        if schema.names != self._rows.schema.names or schema.types != self._rows.schema.types:
            raise self._error(f" has the columns {_shown(schema)}; expected {_shown(self._rows.schema)}")
        if self._file.metadata.num_rows != self.info.rows:
            found = self._file.metadata.num_rows
            raise self._error(f" has {found} rows; its metadata says {self.info.rows}")
        self._borders = [self._border(number) for number in range(self._file.metadata.num_row_groups)]
        borders = [self.info.first_group, *chain.from_iterable(self._borders), self.info.last_group]
        if borders != sorted(borders):
            raise self._error()

    def check_groups(self, first: int, last: int) -> None:
        """Raise a StorageError if the table is not of key groups `first` to `last`, so of another subtask."""
        info = self.info
        if (info.first_group, info.last_group) != (first, last):
            raise self._error(
                f" is of key groups {info.first_group} to {info.last_group}; expected {first} to {last}: it "
                "belongs to another subtask"
            )

    def _border(self, number: int) -> tuple[int, int]:
        statistics = self._file.metadata.row_group(number).column(0).statistics
        if statistics is None or not statistics.has_min_max:
            raise self._error(
                f" does not tell which key groups are in row group {number}; restore from the files of a "
                "savepoint as they were written"
            )
        return statistics.min, statistics.max

    def _error(self, why: str = " is not in the order of its key groups") -> StorageError:
        return StorageError(f"the table of state {self.info.name!r}{why}")

    def record_batches(
        self, groups: Container[int], columns: Sequence[str], row_groups: Iterable[int]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the named `columns`, undecoded, of all rows in those of `row_groups` (numbers from 0) that
        may hold rows of the key `groups`; other groups' rows come with them. StorageError: damaged.
        """
        for number in row_groups:
            if self.holds(groups, [number]):
                yield from self._table(number, columns).to_batches()

    def holds(self, groups: Container[int], row_groups: Iterable[int]) -> bool:
        borders = (self._borders[number] for number in row_groups)
        return any(group in groups for low, high in borders for group in range(low, high + 1))

    @property
    def row_groups(self) -> int:
        return len(self._borders)

    def entries(self, groups: tuple[int, int]) -> Iterator[tuple[list[int], list[Any], list[Any]]]:
        """Yield key groups, keys and plain values (lists of one length) per Parquet row group with entries of
        `groups` (first, last). StorageError: damaged, or a key is in a key group that is not its own.
        """
        for number, (low, high) in enumerate(self._borders):
            batch = self._read(number, groups) if low <= groups[1] and high >= groups[0] else None
            if batch is None or not len(batch):
                continue
            try:
                found, keys, values = self._rows.entries(batch)
                _check_groups(found, keys, self.info.max_parallelism)
            except (StorageError, UsageError) as error:
                raise self._error(f": {error}") from None
            yield found, keys, values

    def _read(self, number: int, groups: tuple[int, int]) -> pa.RecordBatch:
        table = self._table(number)
        stored = table.column("key_group").to_numpy()
        if (np.diff(stored) < 0).any():
            raise self._error()
        start, stop = np.searchsorted(stored, groups[0]), np.searchsorted(stored, groups[1], side="right")
        (batch,) = table.slice(start, stop - start).to_batches() or [
            pa.RecordBatch.from_pylist([], table.schema)
        ]
        return batch

    def _table(self, number: int, columns: Sequence[str] | None = None) -> pa.Table:
        names = None if columns is None else list(columns)
        try:
            return self._file.read_row_group(number, names, use_threads=False).combine_chunks()
        except (pa.ArrowException, OSError) as error:
            group = self._file.metadata.row_group(number)
            starts = [_start(group.column(place)) for place in range(group.num_columns)]
            raise self._error(
                f" cannot be read in row group {number}, which begins at byte {min(starts)} ({error})"
            ) from None


def _start(column: pq.ColumnChunkMetaData) -> int:
    return int(column.dictionary_page_offset or column.data_page_offset)


def _check_groups(groups: list[int], keys: list[Hashable], max_parallelism: int) -> None:
    # no restore would find such a key
    own = key_groups_of_keys(keys, max_parallelism).tolist() if keys else []
    for group, right, key in zip(groups, own, keys, strict=True):
        if group != right:
            raise StorageError(f"key {shortened(key)} is in key group {group}; its own is {right}")


def _shown(schema: pa.Description) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


class _BlobFile(io.RawIOBase):
    """A file object over a blob's reader, through which Arrow reads a table."""

    def __init__(self, blob: BlobReader) -> None:
        self._blob, self._at = blob, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._blob.size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._blob.size - self._at)
        data = self._blob.read(self._at, left if size is None or size < 0 else min(size, left))
        self._at += len(data)
        return data
