"""How long after a window's end does its result come to the sink, through two exchanges, at a steady rate?

Records are due at even distances by the wall clock, which is their event time, and nothing is out of order.
So the record whose watermark passes a window's end arrives at the source at that end, whether or not the
source looks at once; the delay is from there to the sink's receipt of each of the window's results.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
from typing_extensions import override

import headgate as hg
import headgate.functions as F  # noqa: N812  # as users of PySpark write it
from bench.jobs.delay import BUCKET_US, Delays, _DelayCommitter
from bench.jobs.support import Stopwatch, environment, result
from bench.stats import percentile
from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import (
    END_OF_INPUT,
    NOTHING_AVAILABLE,
    Plain,
    SourceReader,
    SourceReaderContext,
    Split,
)

KEYS: Final = 1_000
SCHEMA: Final = pa.schema({"key": pa.int64(), "at": pa.int64(), "price": pa.int64()})
COLUMNS, ROWS, REDUCE = "columns", "rows", "reduce"
KINDS: Final = (COLUMNS, ROWS, REDUCE)


class DueSource(hg.Source[Any]):
    """Records that are due at even distances by the wall clock; those that are due are there when it looks.

    Args:
        rate: records per second of all readers.
        seconds: how long.
        columns: whether they come as record batches, else as dicts.
    """

    def __init__(self, rate: int, seconds: float, columns: bool) -> None:
        self.rate, self.seconds, self.produces_columns = rate, seconds, columns

    @override
    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return OneEach(restored or [])

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return _DueReader(self.rate / context.parallelism, self.seconds, self.produces_columns)

    @override
    def arrow_schema(self) -> pa.Schema | None:
        return SCHEMA if self.produces_columns else None


class OneEach(hg.SplitEnumerator):
    """Gives each reader a split of its own."""

    def __init__(self, given: Sequence[int]) -> None:
        self._given = list(given)

    @override
    def next_splits(self, subtask: int) -> list[Split] | None:
        if subtask in self._given:
            return None
        self._given.append(subtask)
        return [Split(str(subtask))]

    @override
    def snapshot(self) -> list[int]:
        return self._given


class _DueReader(SourceReader[Any]):
    """See :class:`DueSource`. The first look says when the first record is due."""

    def __init__(self, rate: float, seconds: float, columns: bool) -> None:
        self.bad_records = []
        self._step_ns, self._count, self._columns = 1e9 / rate, int(rate * seconds), columns
        self._began_ns, self._next, self._splits = 0, 0, list[Split]()

    @override
    def add_splits(self, splits: Sequence[Split]) -> None:
        self._splits += splits

    @override
    def no_more_splits(self) -> None:
        """Its one split is all it waits for."""

    @override
    def poll(self, max_records: int) -> Any:
        if not self._splits:
            return NOTHING_AVAILABLE
        if self._next == self._count:
            return END_OF_INPUT
        now_ns = time.time_ns()
        self._began_ns = self._began_ns or now_ns
        due = int((now_ns - self._began_ns) / self._step_ns)
        stop = min(due, self._count, self._next + max_records)
        if stop <= self._next:
            return NOTHING_AVAILABLE
        numbers = np.arange(self._next, stop)
        self._next = stop
        at = (self._began_ns + (numbers * self._step_ns).astype(np.int64)) // 1_000_000
        columns = [numbers * 7_919 % KEYS, at, numbers % 1_000]
        if self._columns:
            return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [{"key": key, "at": time_ms, "price": price} for key, time_ms, price in rows]

    @override
    def snapshot(self) -> list[Split]:
        return self._splits


class WindowDelaySink(Sink[Any]):
    """Notes how long after the end of their window results come; those of the first windows do not count.

    Args:
        skip_s: seconds after the first result.
    """

    accepts_columns = True

    def __init__(self, skip_s: float) -> None:
        self.delays, self._skip_s = Delays(), skip_s

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[Any]:
        return _Writer(context, self._skip_s)

    @override
    def create_committer(self) -> SinkCommitter:
        return _DelayCommitter(self.delays)


class _Writer(SinkWriter[Any]):
    accepts_columns = True

    def __init__(self, context: SinkWriterContext, skip_s: float) -> None:
        self._name = f"{context.job}/{context.attempt}/{context.subtask}"
        self._skip_ns, self._first_ns, self._sequence = int(skip_s * 1e9), 0, 0
        self._histogram: Counter[int] = Counter()

    @override
    def write(self, records: Any) -> None:
        now_ns = time.time_ns()
        self._first_ns = self._first_ns or now_ns
        if now_ns - self._first_ns < self._skip_ns:
            return
        for end_us, count in _ends(records).items():
            self._histogram[max(0, now_ns // 1000 - end_us) // BUCKET_US] += count

    @override
    def prepare_commit(self) -> list[Plain]:
        ready = [self._name, self._sequence, sorted(self._histogram.items())]
        self._sequence, self._histogram = self._sequence + 1, Counter()
        return [ready]


def _ends(records: Any) -> Counter[int]:
    """The ends of the windows of results, in microseconds, and how many results each has."""
    if isinstance(records, pa.RecordBatch):
        ends = records.column("window").field("end").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        return Counter(ends.to_pylist())
    return Counter(int(record["window"]["end"].timestamp() * 1e6) for record in records)


def _in_windows(stream: Any, kind: str, size: str) -> Any:
    """The results of the windows of a stream."""
    if kind == COLUMNS:
        table = stream.to_table().group_by("key", F.window("at", size))
        return table.agg(F.count("*").alias("n"), F.max("price").alias("top"), uid="windows").to_stream()
    windows = stream.key_by("key").window(hg.tumbling(size))
    if kind == ROWS:
        return windows.aggregate(n=hg.count(), top=hg.max("price"), uid="windows")
    return windows.reduce(_dearer, uid="windows").map(partial(_shaped, size_ms=int(size.removesuffix("ms"))))


def _dearer(left: Any, right: Any) -> Any:
    return max(left, right, key=_price)


def _price(record: Any) -> Any:
    return record["price"], record["at"]


def _shaped(record: Any, size_ms: int) -> dict[str, Any]:
    import datetime

    end_ms = record["at"] // size_ms * size_ms + size_ms
    return {"window": {"end": datetime.datetime.fromtimestamp(end_ms / 1000, datetime.UTC)}}


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--rate", type=int, required=True, help="records per second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm-up-s", type=float, required=True, help="this part of them does not count")
    parser.add_argument("--window-ms", type=int, default=100)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="of the job")
    asked = parser.parse_args()
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    stopwatch, sink = Stopwatch(), WindowDelaySink(asked.warm_up_s)
    try:
        env = environment(stopwatch, "1s", storage, dict(text.split("=", 1) for text in asked.option))
        source = env.from_source(DueSource(asked.rate, asked.seconds, asked.kind == COLUMNS), uid="clock")
        # The first exchange: as if the source had fewer partitions than there are workers.
        stream = source.with_event_time("at").rebalance()
        _in_windows(stream, asked.kind, f"{asked.window_ms}ms").sink_to(sink, uid="sink")
        env.execute("window delay")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    seen = sink.delays.histogram
    shown = {f"p{share:g}_ms": _ms(percentile(seen, share / 100)) for share in (50, 90, 99, 99.9)}
    count = int(asked.rate * asked.seconds)
    result(kind=asked.kind, rate=asked.rate, results=sum(seen.values()), **shown, **stopwatch.facts(count))


def _ms(bucket: int | None) -> float | None:
    """The upper end of a bucket."""
    return None if bucket is None else (bucket + 1) * BUCKET_US / 1000


if __name__ == "__main__":
    main()
