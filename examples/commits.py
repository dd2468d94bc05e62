"""Per author: running count of commits and lines added, and a note when 30 days pass without one.

    headgate run examples/commits.py -D execution.checkpointing.interval=500ms

Real input: commit events of seven projects in arrival order, 14 % of them over an hour late.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headgate as hg
from headgate.connectors.files import json_source
from headgate.connectors.generator import throttled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent / "data" / "commits.jsonl.gz"
QUIET_MS = 30 * hg.DAYS

Commit = dict[str, Any]
Line = dict[str, Any]


class Streak(hg.KeyedProcessFunction[str, Commit, Line]):
    """Counts an author's commits and notices when they fall silent."""

    count: hg.ValueState[int] = hg.value_state(default=0)
    lines: hg.ValueState[int] = hg.value_state(default=0)
    quiet_at: hg.ValueState[int | None] = hg.value_state(default=None)

    def process(self, commit: Commit, ctx: hg.KeyedContext[str]) -> Iterator[Line]:
        self.count.value += 1
        self.lines.value += commit["insertions"]
        quiet_at = commit["author_ms"] + QUIET_MS
        if self.quiet_at.value is None or quiet_at > self.quiet_at.value:
            self.quiet_at.value = quiet_at
            ctx.timers.register_event_time(quiet_at)
        yield {"author": ctx.key, "commits": self.count.value, "lines": self.lines.value}

    def on_timer(self, timestamp: int, ctx: hg.OnTimerContext[str]) -> Iterator[Line]:
        if timestamp == self.quiet_at.value:
            yield {"author": ctx.key, "quiet_since": timestamp - QUIET_MS}


def build(
    env: hg.Environment,
    output: str = "out/commits",
    rate_per_s: float | None = None,
    data: str = str(DATA),
) -> None:
    """The dataflow: read, give event time, key by author, count, write."""
    source = json_source(data)
    commits = env.from_source(throttled(source, rate_per_s) if rate_per_s else source, uid="commits")
    (
        commits.with_event_time("author_ms", out_of_orderness="7d")
        .key_by("author")
        .process(Streak(), uid="streaks")
        .write_json(output, uid="lines")
    )


SCHEMA = "author string, author_ms long, insertions long"
LINES = "author string, commits long, lines long, quiet_since long"


def build_on_spark(env: hg.Environment, spark: SparkSession, folder: str, output: str) -> None:
    """The same with Spark at both ends: it reads the folder, a file at a time, and writes Parquet."""
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(folder)
    # One reader: the notes depend on the order of events, which is that of the files.
    commits = env.from_spark(files, uid="commits", trigger="available-now").set_parallelism(1)
    (
        commits.with_event_time("author_ms", out_of_orderness="7d")
        .set_parallelism(1)
        .key_by("author")
        .process(Streak(), uid="streaks")
        .to_spark(hg.spark.parquet(output), uid="lines", schema=LINES)
    )


if __name__ == "__main__":
    env = hg.Environment(parallelism=2)
    env.checkpoints(every="1s", storage="checkpoints")
    build(env, *sys.argv[1:2])
    result = env.execute("commits")
    print(
        f"{result.records_in['commits']} commits, {result.checkpoints} checkpoints, "
        f"{result.restarts} restarts"
    )
