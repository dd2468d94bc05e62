"""Bids like those of the Nexmark benchmark, from a seed, and the answers that a batch engine gives on them.

A bid has auction, bidder, price, channel, url and date_time. Half of the bids go to the auction that is
hot at the moment, three quarters come from a hot bidder; 5 % are up to two seconds late. A set lies
in several layouts, because engines read different ones best:

    parquet_p2/  json_p2/   two files, row i in file i % 2, in order of arrival
    parquet_seq/            25 files, one after the other, for engines that read in micro-batches
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.cache import cache_folder, made_once

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEED: Final = 20240607
VERSION: Final = 1
"""Part of the folder's name; grows when the generator changes what it makes."""

BIDS_PER_SECOND: Final = 10_000
BEGIN_MS: Final = 1_700_000_000_000
BIDS_PER_PERSON: Final = 46
AUCTIONS_PER_PERSON: Final = 3
AUCTIONS_IN_FLIGHT: Final = 100
PERSONS_ACTIVE: Final = 1_000
LEAD: Final = 10
FIRST_ID: Final = 1_000
CHANNELS: Final = 10_000
HOT_CHANNELS: Final = ("Google", "Facebook", "Baidu", "Apple")
LATE_SHARE: Final = 0.05
LATE_MS: Final = 2_000
ROW_GROUP_ROWS: Final = 50_000
PARTS: Final = 2
SEQUENCE_FILES: Final = 25


@dataclass(frozen=True, slots=True)
class Answer:
    """What a running count per auction must come to.

    Attributes:
        records: bids, which is also how many counts are emitted.
        total: the sum of all emitted counts.
        keys: auctions.
        highest: the largest count.
    """

    records: int
    total: int
    keys: int
    highest: int


@dataclass(frozen=True, slots=True)
class DataSet:
    """Generated bids on disk."""

    folder: Path
    answer: Answer

    def layout(self, name: str) -> Path:
        """The folder of a layout."""
        return self.folder / name


def data_set(events: int, layouts: tuple[str, ...]) -> DataSet:
    """The set of `events` bids with at least these layouts, made at the first use.

    Example:
        >>> import os, tempfile
        >>> os.environ["HEADGATE_BENCH_CACHE"] = tempfile.mkdtemp()
        >>> made = data_set(1_000, ("parquet_p2",))
        >>> made.answer.records, sorted(path.name for path in made.layout("parquet_p2").iterdir())
        (1000, ['part-0.parquet', 'part-1.parquet'])
        >>> _ = os.environ.pop("HEADGATE_BENCH_CACHE")
    """
    folder = cache_folder() / f"bids-v{VERSION}-{events}"
    missing = [name for name in layouts if not (folder / name).is_dir()]
    answers = folder / "answer.json"
    if missing or not answers.is_file():
        table = bids(events)
        for name in missing:
            made_once(folder / name, partial(_LAYOUTS[name], table))
        answers.write_text(json.dumps(asdict(running_count_answer(table["auction"]))))
    return DataSet(folder, Answer(**json.loads(answers.read_text())))


def running_count_answer(auctions: pa.ChunkedArray) -> Answer:
    """The answer by a batch aggregation: a key with c records emits 1 + 2 + ... + c."""
    counts = pc.value_counts(auctions.combine_chunks()).field("counts").to_numpy()
    total = int((counts * (counts + 1) // 2).sum())
    return Answer(int(counts.sum()), total, len(counts), int(counts.max(initial=0)))


def bids(events: int, seed: int = SEED) -> pa.Table:
    """All bids in order of arrival."""
    rng = np.random.default_rng(seed)
    index = np.arange(events, dtype=np.int64)
    epoch = index // BIDS_PER_PERSON
    auction = _auctions(rng, epoch)
    bidder = _bidders(rng, epoch)
    price = np.round(10.0 ** (rng.random(events) * 6.0) * 100.0).astype(np.int64)
    channel, url = _channels(rng, events)
    arrival = BEGIN_MS + index * 1000 // BIDS_PER_SECOND
    late = rng.random(events) < LATE_SHARE
    time = arrival - np.where(late, rng.integers(1, LATE_MS, events), 0)
    return pa.table(
        {
            "auction": auction,
            "bidder": bidder,
            "price": price,
            "channel": channel,
            "url": url,
            "date_time": pa.array(time).cast(pa.timestamp("ms")),
        }
    )


def _auctions(rng: np.random.Generator, epoch: NDArray[np.int64]) -> NDArray[np.int64]:
    newest = epoch * AUCTIONS_PER_PERSON + AUCTIONS_PER_PERSON - 1
    oldest = np.maximum(newest - AUCTIONS_IN_FLIGHT, 0)
    cold = oldest + np.floor(rng.random(len(epoch)) * (newest - oldest + 1 + LEAD)).astype(np.int64)
    hot = newest // AUCTIONS_IN_FLIGHT * AUCTIONS_IN_FLIGHT
    chosen: NDArray[np.int64] = np.where(rng.integers(0, 2, len(epoch)) > 0, hot, cold) + FIRST_ID
    return chosen


def _bidders(rng: np.random.Generator, epoch: NDArray[np.int64]) -> NDArray[np.int64]:
    active = np.minimum(epoch, PERSONS_ACTIVE)
    cold = epoch - active + np.floor(rng.random(len(epoch)) * (active + LEAD)).astype(np.int64)
    hot = epoch // 100 * 100 + 1
    chosen: NDArray[np.int64] = np.where(rng.integers(0, 4, len(epoch)) > 0, hot, cold) + FIRST_ID
    return chosen


def _channels(rng: np.random.Generator, events: int) -> tuple[pa.Array, pa.Array]:
    number = rng.integers(0, CHANNELS, events)
    hot = pa.array(rng.integers(0, 2, events) > 0)
    hot_name = pa.array(HOT_CHANNELS).take(pa.array(rng.integers(0, len(HOT_CHANNELS), events)))
    text = pa.array(number).cast(pa.string())
    item = pa.array(number * 7 % 9973).cast(pa.string())
    channel = pc.if_else(hot, hot_name, pc.binary_join_element_wise("channel-", text, ""))
    base, query = "https://www.nexmark.com/", "/item.htm?query=1&channel_id="
    return channel, pc.binary_join_element_wise(base, item, query, text, "")


def _parts(table: pa.Table) -> list[pa.Table]:
    return [table.take(pa.array(np.arange(part, table.num_rows, PARTS))) for part in range(PARTS)]


def _write_parquet_parts(table: pa.Table, folder: Path) -> None:
    for number, part in enumerate(_parts(table)):
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=ROW_GROUP_ROWS)


def _write_json_parts(table: pa.Table, folder: Path) -> None:
    import polars as pl

    numbers = table.set_column(5, "date_time", table["date_time"].cast(pa.int64()))
    for number, part in enumerate(_parts(numbers)):
        frame: Any = pl.from_arrow(part)
        frame.write_ndjson(folder / f"part-{number}.json")


def _write_sequence(table: pa.Table, folder: Path) -> None:
    rows = -(-table.num_rows // SEQUENCE_FILES)
    for number in range(SEQUENCE_FILES):
        pq.write_table(table.slice(number * rows, rows), folder / f"part-{number:05d}.parquet")


_LAYOUTS: Final = {
    "parquet_p2": _write_parquet_parts,
    "json_p2": _write_json_parts,
    "parquet_seq": _write_sequence,
}
