"""How long after a record's arrival has the sink the whole mark that contains it, at a steady rate?

A mark tells the sink how many rows of each split its answer is of. A record's mark is the first one whose
count for the record's split exceeds its number, and it is whole when it has come to every subtask of the
sink. A record arrives when it is due, whether or not the source looks at once.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from bench.jobs.delay import BUCKET_US
from bench.jobs.due_bids import AUCTIONS, BIDS, Due, DueSource, began_ns, dearest
from bench.jobs.support import PARALLELISM, Stopwatch, environment, result
from bench.stats import percentile
from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import Plain
from headgate.connectors.committed import DriverResults
from headgate.relational.changes import CHANGE

COMES = (0, 2)
"""Changes by which a row comes; by the others one goes."""


class Received(DriverResults):
    """What came to the sink, and when.

    Attributes:
        marks: subtask of the sink -> (uid of a source, split) -> (rows, nanoseconds since 1970) of each mark
            by whose time the split had moved, in order.
        rows: that the sink shows at the end.
        total: sum of their prices.
        changes: rows that came or went.
    """

    def __init__(self) -> None:
        super().__init__()
        self.marks: dict[int, dict[tuple[str, str], list[tuple[int, int]]]] = {}
        self.rows = self.total = self.changes = 0

    def add(self, subtask: int, marks: Sequence[Sequence[Any]], sums: Sequence[int]) -> None:
        """What one subtask got between two checkpoints."""
        splits = self.marks.setdefault(subtask, {})
        for uid, split, rows, at_ns in marks:
            splits.setdefault((uid, split), []).append((rows, at_ns))
        rows, total, changes = sums
        self.rows, self.total, self.changes = self.rows + rows, self.total + total, self.changes + changes


class MarkSink(Sink[Any]):
    """Notes when marks come, and adds up the prices of the rows that are left."""

    accepts_columns = True

    def __init__(self) -> None:
        self.received = Received()

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[Any]:
        return _Writer(context)

    @override
    def create_committer(self) -> SinkCommitter:
        return _Committer(self.received)


class _Writer(SinkWriter[Any]):
    accepts_columns = True

    def __init__(self, context: SinkWriterContext) -> None:
        self._name = f"{context.job}/{context.attempt}/{context.subtask}"
        self._subtask, self._sequence = context.subtask, 0
        self._marks: list[list[Any]] = []
        self._sums = np.zeros(3, np.int64)

    @override
    def write(self, records: Any) -> None:
        signs = np.where(np.isin(records.column(CHANGE).to_numpy(), COMES), 1, -1)
        prices = records.column("price").to_numpy()
        self._sums += (signs.sum(), (signs * prices).sum(), len(signs))

    @override
    def mark(self, rows: Mapping[tuple[str, str], int]) -> None:
        now_ns = time.time_ns()
        self._marks += [[uid, split, count, now_ns] for (uid, split), count in rows.items()]

    @override
    def prepare_commit(self) -> list[Plain]:
        ready = [self._name, self._sequence, self._subtask, self._marks, self._sums.tolist()]
        self._sequence, self._marks = self._sequence + 1, []
        self._sums = np.zeros(3, np.int64)
        return [ready]


class _Committer(SinkCommitter):
    def __init__(self, received: Received) -> None:
        self._received = received

    @override
    def commit(self, committables: Sequence[Plain]) -> None:
        for writer, sequence, subtask, marks, sums in committables:
            if self._received.once.take(writer, sequence):
                self._received.add(subtask, marks, sums)


def delays(received: Received, due: Due, skip_s: float) -> tuple[Counter[int], int]:
    """How many records waited how long for their marks, in buckets of `BUCKET_US`.

    Args:
        received: by all subtasks of the sink.
        due: says when records arrived.
        skip_s: seconds at the beginning of each split that do not count.

    Returns:
        the histogram, and how many records have no mark.
    """
    histogram, missing = Counter[int](), 0
    for uid, split in sorted({key for splits in received.marks.values() for key in splits}):
        step_ns = due.step_ns(uid)
        numbers = np.arange(int(skip_s * 1e9 / step_ns), due.count(uid))
        whole_ns = _whole(received, (uid, split), numbers)
        late_us = (whole_ns - began_ns(split) - numbers * step_ns) / 1_000
        marked = whole_ns > 0
        missing += int((~marked).sum())
        buckets, counts = np.unique(late_us[marked] // BUCKET_US, return_counts=True)
        histogram.update(dict(zip(buckets.astype(int).tolist(), counts.tolist(), strict=True)))
    return histogram, missing


def _whole(received: Received, key: tuple[str, str], numbers: Any) -> Any:
    """When the marks of some records of a split have come to all subtasks of the sink; 0: not to all."""
    latest = np.zeros(len(numbers), np.int64)
    complete = np.ones(len(numbers), bool)
    for splits in received.marks.values():
        marks = np.array(splits.get(key, []), np.int64).reshape(-1, 2)
        place = np.searchsorted(marks[:, 0], numbers, side="right")
        complete &= place < len(marks)
        latest = np.maximum(latest, np.append(marks[:, 1], 0)[place])
    return np.where(complete, latest, 0)


def intervals_ms(received: Received) -> list[float]:
    """Milliseconds between the marks of one subtask of the sink."""
    times = sorted({at for marks in received.marks.get(0, {}).values() for _, at in marks})
    return [float(each) for each in np.diff(times) / 1e6]


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, required=True, help="records per second")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm-up-s", type=float, required=True, help="this part of them does not count")
    parser.add_argument("--interval", default="20ms", help="between two marks")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="of the job")
    asked = parser.parse_args()
    options = dict(text.split("=", 1) for text in asked.option)
    due = Due(asked.rate, asked.seconds, PARALLELISM)
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    stopwatch, sink = Stopwatch(), MarkSink()
    try:
        env = environment(stopwatch, "1s", storage, {"execution.mark-interval": asked.interval, **options})
        tables = [env.from_source(DueSource(due, name), uid=name).to_table() for name in (AUCTIONS, BIDS)]
        dearest(*tables).to_changes().sink_to(sink, uid="sink")
        env.execute("mark delay")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    received = sink.received
    seen, missing = delays(received, due, asked.warm_up_s)
    between = intervals_ms(received)
    result(
        counted=sum(seen.values()),
        missing=missing,
        verified=(received.rows, received.total) == due.answer(),
        changes=received.changes,
        marks=len(between) + 1,
        between_marks_ms=round(float(np.median(between)), 1) if between else None,
        **{f"p{share:g}_ms": _ms(percentile(seen, share / 100)) for share in (50, 90, 99, 99.9)},
        **stopwatch.facts(PARALLELISM * (due.count(AUCTIONS) + due.count(BIDS))),
    )


def _ms(bucket: int | None) -> float | None:
    """The upper end of a bucket."""
    return None if bucket is None else (bucket + 1) * BUCKET_US / 1000


if __name__ == "__main__":
    main()
