"""Staged files: what was written is read, from any row; anything else is refused before it is decoded."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headgate.common.errors import StorageError
from headgate.connectors.dataframe import staged_files
from headgate.connectors.dataframe.staged_files import StagedFile, read

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def batches(*sizes: int) -> list[pa.RecordBatch]:
    """Batches of so many rows, numbered through."""
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    numbers = [list(range(start, start + size)) for start, size in zip(starts, sizes, strict=True)]
    return [pa.record_batch({"n": mine, "text": [str(n) for n in mine]}, SCHEMA) for mine in numbers]


def staged(folder: Path, *sizes: int) -> StagedFile:
    """A file of such batches."""
    rows, size, checksum = staged_files._write_file(
        folder / "file.arrow", SCHEMA, iter(batches(*sizes)), durable=True
    )
    return StagedFile("file.arrow", rows, size, checksum, 0, 0)


@pytest.mark.parametrize("from_row", range(8))
def test_reading_begins_at_any_row(tmp_path: Path, from_row: int) -> None:
    """In, between and behind batches; nothing is read where nothing is left."""
    file = staged(tmp_path, 3, 1, 3)
    found = list(read(str(tmp_path), file, from_row))
    assert [n for batch in found for n in batch.column("n").to_pylist()] == list(range(from_row, 7))
    assert all(batch.num_rows for batch in found)


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    """Whichever it is, the file and its length are named."""
    file = staged(tmp_path, 5)
    whole = (tmp_path / file.path).read_bytes()
    for at in range(0, file.size, 7):
        damaged = bytearray(whole)
        damaged[at] ^= 0x40
        (tmp_path / file.path).write_bytes(damaged)
        with pytest.raises(
            StorageError, match=rf"file\.arrow' is damaged somewhere in bytes 0 to {file.size}"
        ):
            list(read(str(tmp_path), file))


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_a_truncated_file_is_noticed(tmp_path: Path, cut: int) -> None:
    """With the byte at which it ends."""
    file = staged(tmp_path, 5)
    data = (tmp_path / file.path).read_bytes()
    (tmp_path / file.path).write_bytes(data[:cut])
    with pytest.raises(StorageError, match=rf"ends at byte {cut}; expected {file.size} bytes"):
        list(read(str(tmp_path), file))


def test_another_number_of_rows_is_noticed(tmp_path: Path) -> None:
    """A whole file that is not the one that was meant."""
    file = staged(tmp_path, 5)._replace(rows=6)
    with pytest.raises(StorageError, match="has 5 rows; expected 6"):
        list(read(str(tmp_path), file))


def test_a_lost_file_is_named(tmp_path: Path) -> None:
    """With what may be the reason."""
    with pytest.raises(StorageError, match=r"cannot read .*gone\.arrow.*No such file.*all workers share"):
        list(read(str(tmp_path), StagedFile("gone.arrow", 1, 1, 1, 0, 0)))


def test_parts_have_no_more_rows_and_bytes_than_asked() -> None:
    """Long batches are cut, short ones go together, and no row is lost or moved."""
    given = batches(25, 3, 3, 3, 9, 1)
    parts = [list(part) for part in staged_files._in_parts(iter(given), (10, 10_000))]
    assert [sum(batch.num_rows for batch in part) for part in parts] == [10, 10, 8, 6, 10]
    assert [n for part in parts for batch in part for n in batch.column("n").to_pylist()] == list(range(44))
    narrow = [list(part) for part in staged_files._in_parts(iter(given[1:4]), (10, 1))]
    assert [len(part) for part in narrow] == [1, 1, 1]
    assert list(staged_files._in_parts(iter(batches(0)), (10, 10))) == []
