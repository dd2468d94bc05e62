"""A CSV file whose header is alone in its first block."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headgate.connectors.files import csv_source

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])


def header_member(folder: Path) -> Path:
    """As `cat header.csv.gz part-*.csv.gz` makes it."""
    path = folder / "x.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n") + gzip.compress(b"1,x\n2,y\n3,z\n"))
    return path


def long_first_row(folder: Path) -> Path:
    """The first row does not fit into the block of the header."""
    path = folder / "x.csv"
    path.write_bytes(b"a,b\n1," + b"x" * 200_000 + b"\n2,y\n3,z\n")
    return path


@pytest.mark.parametrize("write", [header_member, long_first_row])
def test_a_header_alone_in_its_block_gives_columns(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    """The block has no records; the batch of the next one is what a poll returns."""
    path = write(tmp_path)
    cursor = csv_source(path, SCHEMA).open_cursor(str(path), None)
    found: list[Any] = []
    while (polled := cursor.poll(1_000)) is not None:
        assert isinstance(polled[0], pa.RecordBatch) or not polled[0]
        found += polled[0].to_pylist() if polled[0] else []
    cursor.close()
    assert [row["a"] for row in found] == [1, 2, 3]
