"""Sessions that stay open: a worker's resident memory when each of many keys has one, on the heap.

Every key has a few records close to each other, so that each has one open session and nothing comes out.
Then the source rests while checkpoints go on, and memory is looked at after each of them.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa
from typing_extensions import override

import headgate as hg
import headgate.functions as F  # noqa: N812  # as users of PySpark write it
from bench.compare.checksums import ChecksumSink
from bench.jobs.support import result
from bench.jobs.window_delay import OneEach
from headgate.api.source import END_OF_INPUT, NOTHING_AVAILABLE, SourceReader, SourceReaderContext, Split
from headgate.common.errors import HeadgateError
from headgate.testing import JobListener, ProcessCluster

SCHEMA: Final = pa.schema({"key": pa.int64(), "at": pa.int64(), "price": pa.int64()})
COLUMNS, ROWS = "columns", "rows"
KINDS: Final = (COLUMNS, ROWS)
GAP: Final = "1h"
_MIB: Final = 2**20


class FillSource(hg.Source[Any]):
    """A few records of each key, one round after the other, and then none for some seconds.

    Args:
        keys: how many, of all readers together.
        rounds: records of each.
        rest_s: how long it rests before it ends.
        columns: whether records come as record batches, else as dicts.
    """

    def __init__(self, keys: int, rounds: int, rest_s: float, columns: bool) -> None:
        self.keys, self.rounds, self.rest_s, self.produces_columns = keys, rounds, rest_s, columns

    @override
    def create_enumerator(self, restored: Any) -> hg.SplitEnumerator:
        return OneEach(restored or [])

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return _FillReader(self, context.subtask, context.parallelism)

    @override
    def arrow_schema(self) -> pa.Schema | None:
        return SCHEMA if self.produces_columns else None


class _FillReader(SourceReader[Any]):
    """See :class:`FillSource`. It has every so many-th key."""

    def __init__(self, source: FillSource, subtask: int, readers: int) -> None:
        self.bad_records = []
        self._source, self._splits, self._done = source, list[Split](), 0
        self._keys = np.arange(subtask, source.keys, readers, dtype=np.int64)
        self._ends_s: float | None = None

    @override
    def add_splits(self, splits: Sequence[Split]) -> None:
        self._splits += splits

    @override
    def no_more_splits(self) -> None:
        """Its one split is all it waits for."""

    @override
    def poll(self, max_records: int) -> Any:
        keys, source = self._keys, self._source
        if not self._splits:
            return NOTHING_AVAILABLE
        if self._done == len(keys) * source.rounds:
            self._ends_s = self._ends_s or time.monotonic() + source.rest_s
            return END_OF_INPUT if time.monotonic() >= self._ends_s else NOTHING_AVAILABLE
        turn, start = divmod(self._done, len(keys))
        found = keys[start : start + max_records]
        self._done += len(found)
        columns = [found, np.full(len(found), turn * 1_000), found % 1_000]
        if source.produces_columns:
            return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [{"key": key, "at": at, "price": price} for key, at, price in rows]

    @override
    def snapshot(self) -> list[Split]:
        return self._splits


class Memory(JobListener):
    """Looks at the workers' memory.

    Attributes:
        rss_mib: of the largest worker, after each checkpoint.
        peak_mib: the most that any worker ever had.
        checkpoints_ms: how long each took.
        failures: attempts that failed.
    """

    def __init__(self) -> None:
        self.rss_mib: list[float] = []
        self.peak_mib = 0.0
        self.checkpoints_ms: list[int] = []
        self.failures: list[str] = []
        self._workers: set[int] = set()

    @override
    def worker_registered(self, slot: int, pid: int, host: str) -> None:
        """See :class:`JobListener`."""
        self._workers.add(pid)

    @override
    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        """See :class:`JobListener`."""
        self.checkpoints_ms.append(took_ms)
        rss, peak = zip(*(_memory(pid) for pid in self._workers), strict=True)
        self.rss_mib.append(max(rss))
        self.peak_mib = max(self.peak_mib, *peak)

    @override
    def failed(self, attempt: int, error: HeadgateError, restart_in_ms: int | None) -> None:
        """See :class:`JobListener`."""
        self.failures.append(str(error))


def _memory(pid: int) -> tuple[float, float]:
    """Resident memory of a process now, and the most it ever had, in MiB; zeros if it has ended."""
    with contextlib.suppress(psutil.Error, OSError):
        now = psutil.Process(pid).memory_info().rss / _MIB
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        most = next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), now)
        return round(now, 1), round(most, 1)
    return 0.0, 0.0


def sessions(stream: Any, columns: bool) -> Any:
    """The sessions of all keys: how many records each has, and the highest price."""
    if columns:
        table = stream.to_table().group_by("key", F.session_window("at", GAP))
        found = table.agg(F.count("*").alias("n"), F.max("price").alias("top"), uid="sessions")
        return found.select("key", "n", "top").to_stream()
    windows = stream.key_by("key").window(hg.session(GAP))
    found = windows.aggregate(n=hg.count(), top=hg.max("price"), uid="sessions")
    return found.map(lambda row: (row["key"], row["n"], row["top"]))


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=2, help="records of each key")
    parser.add_argument("--rest-s", type=float, default=10.0, help="how long checkpoints go on afterwards")
    parser.add_argument("--parallelism", type=int, default=1)
    asked = parser.parse_args()
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    memory, sink = Memory(), ChecksumSink(("key", "n", "top"))
    began = time.monotonic()
    try:
        env = hg.Environment(
            parallelism=asked.parallelism,
            executor=ProcessCluster(memory),
            # A busy machine may keep a worker from its heartbeat; a failure is to be seen, and not repeated.
            config={"restart-strategy.type": "none", "heartbeat.timeout": "2min"},
        )
        env.checkpoints(every="1s", storage=storage)
        source = FillSource(asked.keys, asked.rounds, asked.rest_s, asked.kind == COLUMNS)
        stream = env.from_source(source, uid="visits").with_event_time("at")
        sessions(stream, asked.kind == COLUMNS).sink_to(sink, uid="sink")
        env.execute("open sessions")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    result(
        kind=asked.kind,
        keys=asked.keys,
        sessions=sink.sums.records,
        visits=sink.sums.columns.get("n"),
        rss_mib=memory.rss_mib,
        resting_mib=max(memory.rss_mib[-4:-1], default=None),
        peak_mib=memory.peak_mib,
        checkpoints_ms=memory.checkpoints_ms,
        took_s=round(time.monotonic() - began, 1),
        failures=memory.failures,
    )


if __name__ == "__main__":
    main()
