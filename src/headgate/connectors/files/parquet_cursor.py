"""Reader of one Parquet file, batch by batch; its position is (row group, row in it), with any filters.

Memory stays flat: columns are read through small buffers, one row group at a time and by one thread; nothing
is fetched ahead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypedDict

from headgate.api.source import BadRecord
from headgate.common.errors import OperatingError, StorageError, UsageError
from headgate.common.files.durable import crc32
from headgate.relational.column_tests import ColumnTest

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS: Final = 32_768
_BUFFER_BYTES: Final = 1024 * 1024
_FOOTER_BYTES: Final = 64 * 1024


class ParquetPosition(TypedDict):
    """Position in a Parquet file: the next row to read, and a checksum to recognise the file."""

    row_group: int  # from 0
    row: int  # in the row group
    seal: list[int]  # size and checksum that distinguish the file from another


class ParquetCursor:
    """An open Parquet file, as the `FileCursor` of a reader; its polls give record batches, no bad records.
    It reads `columns` (None: all) from the position `start` on (None: the first row), without row groups in
    which no row passes `filters`. OperatingError if the file has changed since then, StorageError if it
    cannot be read as Parquet, now or at a later poll.
    """

    def __init__(
        self,
        path: str,
        columns: Sequence[str] | None,
        start: ParquetPosition | None,
        filters: Sequence[ColumnTest] = (),
    ) -> None:
        import pyarrow.parquet as pq

        from headgate.connectors.files.parquet_statistics import RowGroupTests

        self._path, self._columns = path, None if columns is None else list(columns)
        self._seal = _seal(path)
        self._group, self._row = (0, 0) if start is None else (start["row_group"], start["row"])
        if start is not None and start["seal"] != self._seal:
            raise OperatingError(
                f"{path} was changed since the checkpoint, which stands at row group {self._group}, row "
                f"{self._row}; put the file back as it was, or start without the checkpoint"
            )
        try:
            self._file = pq.ParquetFile(path, pre_buffer=False, memory_map=False, buffer_size=_BUFFER_BYTES)
            self._tests = RowGroupTests(self._file, filters)
        except Exception as problem:
            raise self._unreadable(problem) from problem
        self._groups = self._file.metadata.num_row_groups
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._batch: pa.RecordBatch | None = None
        self._at = 0

    def poll(self, max_records: int) -> tuple[pa.RecordBatch, list[BadRecord]] | None:
        try:
            if not self._fill():
                return None
        except Exception as problem:
            raise self._unreadable(problem) from problem
        assert self._batch is not None  # filled, as there are rows left
        piece = self._batch.slice(self._at, max(1, max_records))
        self._at += piece.num_rows
        self._row += piece.num_rows
        return piece, []

    def position(self) -> ParquetPosition:
        return {"row_group": self._group, "row": self._row, "seal": self._seal}

    def bytes_left(self) -> int:
        """Return the file's bytes for each of the rows that are left, if all rows were of one size."""
        groups = range(self._group, self._groups)
        left: int = sum(self._file.metadata.row_group(group).num_rows for group in groups) - self._row
        rows: int = self._file.metadata.num_rows
        return self._seal[0] * max(0, left) // max(1, rows)

    def close(self) -> None:
        self._batch = self._batches = None
        self._file.close()

    def _fill(self) -> bool:
        while self._batch is None or self._at == self._batch.num_rows:
            if self._batches is None:
                if self._group >= self._groups:
                    return False
                if self._tests.may_pass(self._group):
                    self._open_group()
                else:
                    self._group, self._row = self._group + 1, 0
                continue
            self._batch, self._at = next(self._batches, None), 0
            if self._batch is None:
                self._batches, self._group, self._row = None, self._group + 1, 0
        return True

    def _open_group(self) -> None:
        self._batches = self._file.iter_batches(
            batch_size=BATCH_ROWS, row_groups=[self._group], columns=self._columns, use_threads=False
        )
        to_skip = self._row
        for batch in self._batches:
            if to_skip < batch.num_rows:
                self._batch, self._at = batch, to_skip
                return
            to_skip -= batch.num_rows

    def _unreadable(self, problem: BaseException) -> StorageError:
        return StorageError(
            f"{self._path}, row group {self._group}, row {self._row}: the Parquet data cannot be read "
            f"({problem}); write the file again or take it out of the input"
        )


def _seal(path: str) -> list[int]:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _FOOTER_BYTES))
        return [size, crc32(file.read())]


def schema_of_file(path: str, columns: Sequence[str] | None) -> pa.Schema:
    """Return a Parquet file's schema without metadata, reduced to `columns` in their order (None: all).
    UsageError if the file cannot be read as Parquet, or lacks one of the columns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path).remove_metadata()
        return schema if columns is None else pa.schema([schema.field(name) for name in columns])
    except KeyError as problem:
        raise UsageError(f"{path!r} has no column {problem}; read columns that it has") from None
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise UsageError(f"{path!r} is not a readable Parquet file ({problem}); write it again") from problem


def missing_columns(path: str, columns: Sequence[str]) -> list[str]:
    """Return those of `columns` that a Parquet file does not have; UsageError if it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        names = set(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise UsageError(f"{path!r} is not a readable Parquet file ({problem}); write it again") from problem
    return [column for column in columns if column not in names]
