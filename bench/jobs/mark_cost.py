"""The same job with more and with fewer marks, in turn, in one Spark: what do marks cost?

The job is Nexmark's q4, a join, a maximum for each auction and a mean for each category, over events in
Parquet at full speed.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from bench.compare.checksums import ChecksumSink, ChecksumWriter
from bench.compare.events import PARTS, event_set
from bench.jobs.support import PARALLELISM, Stopwatch, environment, result
from headgate.api.sink import SinkWriter, SinkWriterContext
from headgate.api.source import Plain
from headgate.nexmark.queries import QUERIES, Inputs

COLUMNS = ("category", "avg")
MARKS = "marks"
"""Name of the number of marks among the checksums."""


class CountingSink(ChecksumSink):
    """A :class:`ChecksumSink` that counts the marks that come to its subtasks as well."""

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[Any]:
        return _Writer(context, COLUMNS)


class _Writer(ChecksumWriter):
    _marks = 0

    @override
    def mark(self, rows: Any) -> None:
        self._marks += 1

    @override
    def prepare_commit(self) -> list[Plain]:
        [ready] = super().prepare_commit()
        name, sequence, records, columns = cast("list[Any]", ready)
        marks, self._marks = self._marks, 0
        return [[name, sequence, records, {**columns, MARKS: str(marks)}]]


class Untimed(Inputs):
    """Tables without event time: nothing of q4 needs it."""

    @override
    def table(self, name: str) -> Any:
        return self._env.table(self._folder / name, uid=name)


def right_answer(folder: Path) -> dict[str, Any]:
    """Rows and checksums of q4, by a batch engine."""
    import polars as pl

    auctions = pl.scan_parquet(folder / "auctions" / "*.parquet")
    bids = pl.scan_parquet(folder / "bids" / "*.parquet").select("auction", "price", at="dateTime")
    valid = auctions.join(bids, left_on="id", right_on="auction").filter(
        pl.col("at").is_between(pl.col("dateTime"), pl.col("expires"))
    )
    highest = valid.group_by("id", "category").agg(final=pl.col("price").max())
    mean = pl.col("final").sum() // pl.len()
    found = highest.group_by("category").agg(avg=mean.cast(pl.Int64)).collect()
    sums = {name: int(found[name].sum()) for name in COLUMNS}
    return {"records": len(found), "columns": sums}


def run_once(folder: Path, events: int, interval: str) -> dict[str, Any]:
    """One job; its measurements and its answer.

    Args:
        folder: of the events.
        events: in it.
        interval: of marks.
    """
    storage = tempfile.mkdtemp(prefix="headgate-bench-")
    stopwatch, sink = Stopwatch(), CountingSink(COLUMNS)
    try:
        env = environment(stopwatch, "1s", storage, {"execution.mark-interval": interval})
        QUERIES["q4"](Untimed(env, folder)).to_changes().sink_to(sink, uid="sink")
        env.execute("q4")
    finally:
        shutil.rmtree(storage, ignore_errors=True)
    sums = dict(sink.sums.columns)
    marks = sums.pop(MARKS, 0) / PARALLELISM
    answer = {"records": sink.sums.records, "columns": sums}
    cpu_s = round(stopwatch.workers_cpu_s, 3)
    return {
        "interval": interval,
        "marks": marks,
        "answer": answer,
        "workers_cpu_s": cpu_s,
        **stopwatch.facts(events),
    }


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("events", type=int, help="persons, auctions and bids")
    parser.add_argument("intervals", nargs="+", metavar="INTERVAL", help="of marks, one job after the other")
    asked = parser.parse_args()
    folder = event_set(asked.events).layout(PARTS).directory
    runs = [run_once(folder, asked.events, interval) for interval in asked.intervals]
    result(runs=runs, right=right_answer(folder))


if __name__ == "__main__":
    main()
