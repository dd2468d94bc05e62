"""What must hold of a job with Spark at both ends; each check gives sentences about what does not.

Spark's own batch answer to the same question is computed by the last driver, with a window function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from headgate.checkpoint.opening import load_metadata
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import HeadgateError
from headgate.connectors.dataframe.to_spark_journal import State
from headgate.connectors.dataframe.to_spark_log import Log
from proof.job import Answer, Place, line
from proof.relays import Found

TO_SPARK, STAGED = ".headgate-to-spark", ".headgate-staging"
SHOWN_MAX = 5


@dataclass(frozen=True)
class Table:
    """What readers of the output see.

    Attributes:
        rows: as :func:`proof.job.line` writes them, with how often.
        epochs: line and number of each, as often as its directory is there.
    """

    rows: Answer
    epochs: tuple[tuple[str, int], ...] = ()

    @property
    def numbers(self) -> set[int]:
        """Of the epochs."""
        return {number for _, number in self.epochs}


def counts_of(answer: Answer) -> Answer:
    """Of the batch answer of the proof's other job, what this one writes too."""
    return Counter({text: times for text, times in answer.items() if '"count"' in text})


def published(folder: Path) -> Table:
    """The table in a folder."""
    rows: Answer = Counter()
    epochs = []
    for place in sorted(folder.glob("_lineage=*/_sink=*/_epoch=*")):
        epochs.append((place.parent.parent.name, int(place.name.partition("=")[2])))
        rows += rows_in(place)
    return Table(rows, tuple(epochs))


def rows_in(folder: Path) -> Answer:
    """The rows of Parquet files that Spark has written."""
    rows: Answer = Counter()
    for path in sorted(folder.glob("*.parquet")):
        rows.update(map(line, pq.read_table(path, partitioning=None).to_pylist()))
    return rows


def compare(answer: Answer, rows: Answer, whose: str) -> Iterator[str]:
    """Rows that are missing, and rows too many."""
    if missing := answer - rows:
        yield f"{whose}: {missing.total()} lines missing, such as {sorted(missing)[:SHOWN_MAX]}"
    yield from not_too_many(answer, rows, whose)


def not_too_many(answer: Answer, rows: Answer, whose: str) -> Iterator[str]:
    """While the job runs: what is there so far is part of the answer, none of it twice."""
    if more := rows - answer:
        yield f"{whose}: {more.total()} lines too many, such as {sorted(more)[:SHOWN_MAX]}"


def check_epochs(epochs: Sequence[tuple[str, int]]) -> Iterator[str]:
    """All drivers are of one line, and every epoch is there once."""
    lines = {lineage for lineage, _ in epochs}
    if len(lines) != 1:
        yield f"the epochs are of {len(lines)} lines instead of one: {sorted(lines)}"
    twice = [number for number, times in Counter(number for _, number in epochs).items() if times > 1]
    if twice:
        yield f"epochs were published twice: {sorted(twice)[:SHOWN_MAX]}"


def journal(storage: Path) -> tuple[State, list[str]]:
    """What the sink's journal amounts to, and what is wrong with it; none: nothing was begun."""
    folders = sorted((storage / TO_SPARK / "journal").glob("*"))
    if not folders:
        return State(), []
    wrong = [f"there are {len(folders)} journals instead of one"] if len(folders) > 1 else []
    try:
        return Log(folders[0]).refresh(), wrong
    except HeadgateError as error:
        return State(), [*wrong, f"the journal cannot be read: {error}"]


def committed(kept: State) -> set[int]:
    """Of the latest epochs those that the journal calls written; it forgets the numbers of older ones."""
    return {begun.epoch for begun in kept.remembered}


def check_journal(
    before: Collection[int], kept: State, there: Collection[int], *, over: bool
) -> Iterator[str]:
    """What was committed is there, and nothing is there that was not begun.

    Args:
        before: epochs that were called written earlier.
        kept: the journal now.
        there: epochs in the table.
        over: whether the job has finished, so that nothing may be open.
    """
    if lost := {*before, *committed(kept)} - {*there}:
        yield f"epochs {sorted(lost)} were committed and are not in the table: they are lost"
    known = {number for run in kept.written for number in run.epochs}
    if kept.begun is not None:
        known.add(kept.begun.epoch)
        if over:
            yield f"epoch {kept.begun.epoch} was begun and never finished"
    if stray := {*there} - known:
        yield f"epochs {sorted(stray)} are in the table and the journal does not know them"
    if forgotten := {number for number in before if number not in known}:
        yield f"epochs {sorted(forgotten)} were committed and the journal does not know them any more"


def source_epoch(storage: Path, found: Found) -> int | None:
    """How far the newest completed checkpoint says that Spark's query is; None where it says nothing."""
    if not found.logged:
        return None
    newest = found.logged[-1]
    enumerators: dict[str, Any] = load_metadata(
        LocalDisk(storage), newest.metadata, newest.sha256
    ).enumerators
    epochs = [
        state["epoch"] for state in enumerators.values() if isinstance(state, dict) and "epoch" in state
    ]
    return max(epochs, default=None)


def check_source(before: int | None, now: int | None, most: int) -> Iterator[str]:
    """The source goes on behind what was complete; that it is through at the end is seen from the rows.

    Args:
        before: epoch of the source in the checkpoint before.
        now: that in the newest one.
        most: the greatest that there can be. A query that begins anew behind a crash may have noted a file
            already and then reads two in one epoch, so there may be fewer.
    """
    if before is not None and (now is None or now < before):
        yield f"the checkpoint before held the source at epoch {before}, the newest holds it at {now}"
    if now is not None and now > most:
        yield f"the newest checkpoint holds the source at epoch {now}; its last one is {most} at most"


def check_tidy(place: Place) -> Iterator[str]:
    """Behind a job that has finished no try of an epoch is left, and no rows wait at either end."""
    tries = [path.name for path in place.out.glob("_attempts/*/*")]
    if tries:
        yield f"{len(tries)} tries of epochs are left, such as {tries[0]}"
    waiting = [path.name for path in (place.storage / TO_SPARK / "_pending").rglob("*") if path.is_file()]
    if waiting:
        yield f"{len(waiting)} files of staged rows are left, such as {waiting[0]}"
    if staged := [path.name for path in place.storage.glob(f"{STAGED}*")]:
        yield f"{len(staged)} folders with staged epochs are left, such as {staged[0]}"
