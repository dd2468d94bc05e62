"""Small Nexmark datasets made by hand, and checksums of tables."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.nexmark import AUCTIONS, BIDS, PERSONS, Dataset, open_files


class Bid(NamedTuple):
    """A bid of a test; only what the test is about is given."""

    auction: int = 1000
    bidder: int = 1000
    price: int = 100
    ms: int = 0  # since 1970
    channel: str = "channel-1"
    url: str = "https://host/a/b/c/item?query=1"
    extra: str = "x"


def bids_table(bids: Iterable[Bid]) -> pa.Table:
    """The bids as a table."""
    columns = [list(column) for column in zip(*bids, strict=True)] or [[]] * 7
    auction, bidder, price, ms, channel, url, extra = columns
    times = pa.array([each * 1000 for each in ms], pa.int64()).view(pa.timestamp("us", "UTC"))
    return pa.table([auction, bidder, price, channel, url, times, extra], schema=BIDS)


def filled(schema: pa.Schema, rows: Sequence[dict[str, int | str]]) -> pa.Table:
    """A table of the rows; integers and times that a row leaves out are 0, texts "x"."""
    empty = {field.name: "x" if field.type == pa.string() else 0 for field in schema}
    raw = pa.schema(
        [field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field for field in schema]
    )
    return pa.Table.from_pylist([{**empty, **row} for row in rows], raw).cast(schema)


def dataset_of(
    folder: Path,
    *bids: Bid,
    persons: Sequence[dict[str, int | str]] = (),
    auctions: Sequence[dict[str, int | str]] = (),
) -> Dataset:
    """A dataset with these events, in Parquet; the times of persons and auctions are in microseconds."""
    tables = {
        "persons": filled(PERSONS, persons),
        "auctions": filled(AUCTIONS, auctions),
        "bids": bids_table(bids),
    }
    for name, table in tables.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(table, folder / name / "part-0.parquet")
    return open_files(folder)


def checksum(table: pa.Table | pa.RecordBatch) -> str:
    """The first 16 hex digits of the SHA-256 of all values, column by column, whatever the chunks."""
    sum_of_all = hashlib.sha256()
    for name in table.schema.names:
        column = table[name]
        sum_of_all.update(name.encode())
        if column.type == pa.string():
            sum_of_all.update("\n".join(column.to_pylist()).encode())
        else:
            sum_of_all.update(np.asarray(column.cast(pa.int64())).astype("<i8").tobytes())
    return sum_of_all.hexdigest()[:16]
