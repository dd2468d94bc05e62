"""The main job on local Spark, with a worker killed half-way and every output checked against Spark SQL.

    make demo

Runs the job of `examples/commits.py` with two workers. Spark's Structured Streaming reads the events, and
Spark writes the output; with `--files` Headgate's own files source and sink do. Events come piece by piece,
for about twenty seconds, so that there is something to see; `--fast` takes about five. While it runs, it has
a page for a browser, whose address is told. At the end it shows what `headgate checkpoints --last` says, and
leaves a picture of the run; `--keep` keeps checkpoints and output, to ask more.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import commits
from demo_picture import Story, drawn
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

import headgate as hg
from headgate.cli.checkpoints import CheckpointsRequest, show
from headgate.deploy.spark.executor import SparkExecutor
from headgate.runtime.job.listener import JobListener

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = 51_194
PIECES_PER_S = 1.5
"""About so many epochs pass in a second."""

PICTURE = Path("out") / "demo.svg"

CONSOLE = Console()


class Saboteur(JobListener):
    """Shows the progress, and kills one worker when half of the events are through."""

    def __init__(self, progress: Progress, task: TaskID, kill_after: int) -> None:
        self.workers: dict[int, int] = {}
        self.killed_ms = self.recovered_ms = 0.0
        self.story, self._began = Story(EVENTS), 0.0
        self._progress, self._task, self._kill_after = progress, task, kill_after
        self._base = self._checkpointed = self._read = 0
        self._checkpoint = "none yet"

    def worker_registered(self, slot: int, pid: int, host: str) -> None:
        self.workers[slot] = pid

    def deploying(self, attempt: int, checkpoint: int | None) -> None:
        self._began = self._began or time.monotonic()
        origin = "nothing" if checkpoint is None else f"checkpoint {checkpoint}"
        self._say(f"attempt {attempt}: two workers deployed, state restored from {origin}")
        self._note_read()
        self._base = self._read = self._checkpointed
        self._note_read()

    def running(self, attempt: int) -> None:
        if attempt > 1:
            self.recovered_ms = time.monotonic() * 1000
            self.story.recovered = self._now_s()
            self._say(f"running again after {(self.recovered_ms - self.killed_ms) / 1000:.1f} s")

    def progress(self, counters: Sequence[Any]) -> None:
        self._read = self._base + sum(entry.records_in for entry in counters if entry.vertex == 0)
        self._note_read()
        self._show()
        if not self.killed_ms and self._read >= self._kill_after:
            slot, pid = random.choice(sorted(self.workers.items()))
            self.killed_ms = time.monotonic() * 1000
            self.story.killed = self._now_s()
            self._say(f"[red]kill -9 of worker {slot} (process {pid}) after {self._read:,} events[/red]")
            os.kill(pid, signal.SIGKILL)

    def checkpoint_completed(self, checkpoint: int, took_ms: int) -> None:
        self._checkpoint = f"{checkpoint} ({took_ms} ms)"
        self._checkpointed = self._read
        self.story.checkpoints.append(self._now_s())
        self._show()

    def failed(self, attempt: int, error: hg.HeadgateError, restart_in_ms: int | None) -> None:
        again = "giving up" if restart_in_ms is None else f"restart in {restart_in_ms / 1000:.1f} s"
        self._say(f"attempt {attempt} failed: {error} - {again}")

    def note(self, text: str) -> None:
        self._say(text)

    def finished(self) -> None:
        """The job has read all events; the last heartbeat may have come before."""
        self._read = EVENTS
        self._note_read()

    def _now_s(self) -> float:
        return time.monotonic() - self._began

    def _note_read(self) -> None:
        self.story.read.append((self._now_s(), min(self._read, EVENTS)))

    def _say(self, text: str) -> None:
        self._progress.console.print(f"  {text}")

    def _show(self) -> None:
        self._progress.update(self._task, completed=min(self._read, EVENTS), checkpoint=self._checkpoint)


def run_job(folder: Path, seconds: float, with_spark: bool) -> tuple[hg.JobResult, Saboteur]:
    """The streaming job, sabotaged."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,}/{task.total:,} events, last checkpoint {task.fields[checkpoint]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=CONSOLE) as progress:
        task = progress.add_task("commits", total=EVENTS, checkpoint="none yet")
        saboteur = Saboteur(progress, task, EVENTS // 2)
        spark = session() if with_spark else None
        env = hg.Environment(parallelism=2, spark=spark, executor=SparkExecutor(saboteur))
        env.checkpoints(every="1s", storage=str(folder / "checkpoints"))
        env.config("heartbeat.interval", "200ms")
        if spark is not None:
            cut(folder / "in", pieces=round(seconds * PIECES_PER_S))
            commits.build_on_spark(env, spark, str(folder / "in"), str(folder / "out"))
        else:
            # The rate is shared by two readers, and one file keeps only one of them busy.
            commits.build(env, str(folder / "out"), rate_per_s=2 * EVENTS / seconds)
        result = env.execute("demo")
        progress.update(task, completed=EVENTS)
        saboteur.finished()
    return result, saboteur


def session() -> SparkSession:
    """Spark in this process: two slots for the workers, one for its own tasks."""
    spark = hg.spark.session(slots=3)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    return spark


def cut(folder: Path, pieces: int) -> None:
    """Write the events as so many files, each of which becomes an epoch of Spark's."""
    folder.mkdir()
    with gzip.open(commits.DATA, "rt", encoding="utf-8") as events:
        lines = list(events)
    size = -(-len(lines) // pieces)
    for number in range(pieces):
        path = folder / f"{number:03}.jsonl"
        path.write_text("".join(lines[number * size : (number + 1) * size]), encoding="utf-8")
        # Spark takes the oldest first.
        os.utime(path, (number, number))


def batch_answer(spark: SparkSession) -> DataFrame:
    """What the job must have written, by a batch query over the same file in the same order.

    The watermark before a record is the greatest timestamp before it, less seven days and 1 ms. An
    author's note stands if no later commit of theirs came before the watermark passed its time.
    """
    spark.read.json(str(commits.DATA)).selectExpr(
        "monotonically_increasing_id() AS pos", "author", "author_ms", "insertions"
    ).createOrReplaceTempView("events")
    return spark.sql(f"""
        WITH timed AS (
            SELECT *, max(author_ms) OVER (ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                      - {7 * hg.DAYS} - 1 AS watermark
            FROM events),
        counted AS (
            SELECT *, row_number() OVER author AS commits, sum(insertions) OVER author AS lines,
                      max(author_ms) OVER (PARTITION BY author ORDER BY pos
                                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS latest
            FROM timed WINDOW author AS (PARTITION BY author ORDER BY pos)),
        raised AS (
            SELECT *, lead(watermark) OVER (PARTITION BY author ORDER BY pos) AS next_watermark,
                      lead(pos) OVER (PARTITION BY author ORDER BY pos) AS next_pos
            FROM counted WHERE latest IS NULL OR author_ms > latest)
        SELECT author, commits, lines, CAST(NULL AS BIGINT) AS quiet_since FROM counted
        UNION ALL
        SELECT author, NULL, NULL, author_ms FROM raised
        WHERE next_pos IS NULL OR next_watermark >= author_ms + {commits.QUIET_MS}""")


def verify(folder: Path, with_spark: bool) -> tuple[int, int, int]:
    """Lines written, lines too many, lines missing."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    out = str(folder / "out")
    read = spark.read.parquet(out) if with_spark else spark.read.schema(commits.LINES).json(out)
    written = read.select("author", "commits", "lines", "quiet_since").cache()
    expected = batch_answer(spark).cache()
    return written.count(), written.exceptAll(expected).count(), expected.exceptAll(written).count()


def report(result: hg.JobResult, saboteur: Saboteur, lines: int, duplicates: int, missing: int) -> None:
    """The short table at the end."""
    table = Table(title="Every output line compared with a Spark SQL batch query over the same file")
    table.add_column("")
    table.add_column("", justify="right")
    recovery = (saboteur.recovered_ms - saboteur.killed_ms) / 1000
    for name, value in (
        ("events", f"{result.records_in['commits']:,}"),
        ("output lines", f"{lines:,}"),
        ("workers killed with SIGKILL", "1"),
        ("restarts", str(result.restarts)),
        ("recovery", f"{recovery:.1f} s"),
        ("checkpoints", str(result.checkpoints)),
        ("duplicates", str(duplicates)),
        ("missing", str(missing)),
    ):
        table.add_row(name, value)
    CONSOLE.print(table)


def diagnose(folder: Path, kept: bool) -> None:
    """What `headgate checkpoints --last` says of the job, and where to ask again."""
    checkpoints = folder / "checkpoints"
    where = str(checkpoints) if kept else "<checkpoint directory>"
    CONSOLE.print(f"[bold]headgate checkpoints {where} --last[/]", soft_wrap=True, highlight=False)
    request = CheckpointsRequest(str(checkpoints), last=True)
    CONSOLE.out(show(request, CONSOLE.width, CONSOLE.is_terminal), highlight=False)
    if kept:
        CONSOLE.print(f"The checkpoints are in {checkpoints}, the output beside them.", soft_wrap=True)
    else:
        CONSOLE.print("The checkpoints are deleted now; --keep leaves them in place.")


def leave_picture(story: Story) -> None:
    """Write the picture, and tell where it is."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(story), encoding="utf-8")
    CONSOLE.print(f"A picture of the run is in {PICTURE}.", soft_wrap=True)


def main(arguments: Sequence[str]) -> int:
    """Run, sabotage, verify; 0 when nothing was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="take about 5 seconds instead of 20")
    parser.add_argument(
        "--files", action="store_true", help="Headgate's own files source and sink, instead of Spark's"
    )
    parser.add_argument("--keep", action="store_true", help="keep checkpoints and output, and tell where")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="headgate-demo-"))
    try:
        CONSOLE.print("Starting Spark in this process, two workers ...")
        result, saboteur = run_job(folder, 5 if options.fast else 20, not options.files)
        CONSOLE.print("Comparing with Spark SQL ...")
        lines, duplicates, missing = verify(folder, not options.files)
        report(result, saboteur, lines, duplicates, missing)
        diagnose(folder, options.keep)
        leave_picture(saboteur.story)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    exact = duplicates == 0 and missing == 0 and result.records_in["commits"] == EVENTS
    return 0 if exact and result.restarts >= 1 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
