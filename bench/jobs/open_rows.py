"""Rows that wait for a partner: a worker's memory when the tables of a join have many, on RocksDB.

Each table has rows of keys that the other one lacks, so no pair comes out. Then the sources rest while
checkpoints go on, and memory is looked at after each of them. At last each table gets a few rows with keys of
the other one, and their pairs show that the rows are there.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

import headgate as hg
from bench.compare.checksums import ChecksumSink, table_checksums
from bench.jobs.open_sessions import Memory
from bench.jobs.support import result
from bench.jobs.window_delay import OneEach
from headgate.api.source import END_OF_INPUT, NOTHING_AVAILABLE, SourceReader, SourceReaderContext, Split
from headgate.testing import ProcessCluster

SIDES: Final = ("left", "right")
MATCHES_MOST: Final = 1_000
"""Rows of each table that find a partner."""


def schema_of(side: str) -> pa.Schema:
    """Columns of a table; all but the key have the side in their names."""
    kinds = {"id": pa.int64(), "price": pa.int64(), "text": pa.string()}
    return pa.schema([("key", pa.int64()), *((f"{side}_{name}", kind) for name, kind in kinds.items())])


def rows_of(side: str, keys: Any) -> pa.RecordBatch:
    """Rows of a table with these keys."""
    ids = pa.array(keys * 31 + SIDES.index(side))
    texts = pc.binary_join_element_wise("item", ids.cast(pa.string()), "-")
    columns = [pa.array(keys), ids, pa.array(keys % 1_000), texts]
    return pa.RecordBatch.from_arrays(columns, schema=schema_of(side))


def own_keys(side: str, rows: int) -> Any:
    """Keys of a table's rows, half of `rows`: the left one has the even ones."""
    return np.arange(SIDES.index(side), rows, 2, dtype=np.int64)


def matching_keys(side: str, rows: int) -> Any:
    """Keys of the other table, spread over all of them."""
    keys = own_keys(SIDES[1 - SIDES.index(side)], rows)
    return keys[:: max(1, len(keys) // MATCHES_MOST)][:MATCHES_MOST]


def right_answer(rows: int) -> tuple[int, dict[str, int]]:
    """How many pairs come out, and the checksums of their columns."""
    keys = np.concatenate([matching_keys(side, rows) for side in SIDES])
    left, right = (rows_of(side, keys) for side in SIDES)
    pairs = pa.table([*left.columns, *right.columns[1:]], names=pair_columns())
    return pairs.num_rows, table_checksums(pairs)


def pair_columns() -> list[str]:
    """Columns of a pair."""
    return [*schema_of("left").names, *schema_of("right").names[1:]]


class WaitingSource(hg.Source[Any]):
    """The rows of one table: those without a partner, then none for some seconds, then those with one.

    Args:
        side: which table.
        rows: of both tables, of all readers together.
        rest_s: how long it rests.
    """

    produces_columns = True

    def __init__(self, side: str, rows: int, rest_s: float) -> None:
        self.side, self.rows, self.rest_s = side, rows, rest_s

    @override
    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return OneEach(restored or [])

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return _Reader(self, context.subtask, context.parallelism)

    @override
    def arrow_schema(self) -> pa.Schema:
        return schema_of(self.side)


class _Reader(SourceReader[Any]):
    """See :class:`WaitingSource`. It has every so many-th key."""

    def __init__(self, source: WaitingSource, subtask: int, readers: int) -> None:
        self.bad_records = []
        self._source, self._split, self._done = source, "", 0
        own = own_keys(source.side, source.rows)[subtask::readers]
        self._waiting = len(own)
        self._keys = np.concatenate([own, matching_keys(source.side, source.rows)[subtask::readers]])
        self._goes_on_s: float | None = None

    @override
    def add_splits(self, splits: Sequence[Split]) -> None:
        for split in splits:
            self._split, self._done = split.id, split.position or 0

    @override
    def no_more_splits(self) -> None:
        """Its one split is all it waits for."""

    @override
    def poll(self, max_records: int) -> Any:
        if not self._split or self._rests():
            return NOTHING_AVAILABLE
        if self._done == len(self._keys):
            return END_OF_INPUT
        end = self._waiting if self._done < self._waiting else len(self._keys)
        keys = self._keys[self._done : min(end, self._done + max_records)]
        self._done += len(keys)
        return rows_of(self._source.side, keys)

    def _rests(self) -> bool:
        if self._done != self._waiting:
            return False
        now_s = time.monotonic()
        self._goes_on_s = self._goes_on_s or now_s + self._source.rest_s
        return now_s < self._goes_on_s

    @override
    def snapshot(self) -> list[Split]:
        return [Split(self._split, self._done)] if self._split else []


def pairs(env: hg.Environment, rows: int, rest_s: float) -> Any:
    """Rows of both tables with equal keys."""
    left, right = (env.from_source(WaitingSource(side, rows, rest_s), uid=side).to_table() for side in SIDES)
    return left.join(right, "key", uid="pairs").select(*pair_columns())


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, required=True, help="of both tables together")
    parser.add_argument("--rest-s", type=float, default=10.0, help="how long checkpoints go on afterwards")
    parser.add_argument("--parallelism", type=int, default=2)
    asked = parser.parse_args()
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    memory, sink = Memory(), ChecksumSink(pair_columns())
    began = time.monotonic()
    try:
        env = hg.Environment(
            parallelism=asked.parallelism,
            executor=ProcessCluster(memory),
            config={
                "state.backend.type": "rocksdb",
                "execution.checkpointing.incremental": "true",
                # A busy machine may keep a worker from its heartbeat; a failure is to be seen, and
                # not repeated.
                "restart-strategy.type": "none",
                "heartbeat.timeout": "2min",
            },
        )
        env.checkpoints(every="1s", storage=storage)
        pairs(env, asked.rows, asked.rest_s).to_stream().sink_to(sink, uid="sink")
        env.execute("open rows")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    found = sink.sums.records, sink.sums.columns
    result(
        rows=asked.rows,
        pairs=sink.sums.records,
        verified=found == right_answer(asked.rows),
        rss_mib=memory.rss_mib,
        resting_mib=max(memory.rss_mib[-4:-1], default=None),
        peak_mib=memory.peak_mib,
        checkpoints_ms=memory.checkpoints_ms,
        took_s=round(time.monotonic() - began, 1),
        failures=memory.failures,
    )


if __name__ == "__main__":
    main()
