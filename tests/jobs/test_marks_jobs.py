"""Whole jobs with tables whose rows are corrected: what a sink has at each mark is an exact answer."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.sink import Sink, SinkWriter, SinkWriterContext
from headgate.api.tables.updating import folded
from headgate.testing import MiniCluster


@dataclass
class Seen:
    """What the writers of a sink saw: of each subtask changes and marks, in order."""

    stories: dict[int, list[Any]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


SEEN: dict[str, Seen] = {}


class Watched(Sink[Any]):
    """Keeps in memory what its writers get."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_writer(self, context: SinkWriterContext, restored: Any) -> SinkWriter[Any]:
        return _Writer(SEEN[self.name].stories.setdefault(context.subtask, []))


class _Writer(SinkWriter[Any]):
    accepts_columns = True

    def __init__(self, story: list[Any]) -> None:
        self.story = story

    def write(self, records: Any) -> None:
        self.story.append(records.to_pylist())

    def mark(self, rows: Mapping[tuple[str, str], int]) -> None:
        self.story.append(dict(rows))

    def prepare_commit(self) -> list[Any]:
        return []


ROWS_A_FILE, FILES = 20_000, 4


def written(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Files of bids; returns their rows by path."""
    found = {}
    for number in range(FILES):
        rows = [
            {"auction": (index * 7 + number) % 50, "price": index % 100 - 3} for index in range(ROWS_A_FILE)
        ]
        path = folder / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=2_000)
        found[str(path)] = rows
    return found


def answer(rows: list[dict[str, Any]]) -> Counter[tuple[int, int, int]]:
    counts, sums = Counter[int](), Counter[int]()
    for row in rows:
        counts[row["auction"]] += 1
        sums[row["auction"]] += row["price"]
    return Counter((auction, count, sums[auction]) for auction, count in counts.items())


@pytest.mark.parametrize("parallelism", [1, 2])
def test_each_mark_at_a_sink_is_the_answer_of_the_rows_that_it_counts(
    tmp_path: Path, parallelism: int
) -> None:
    """One subtask of the sink, so that it sees all; sources at different speeds."""
    (tmp_path / "bids").mkdir()
    files = written(tmp_path / "bids")
    SEEN["exact"] = seen = Seen()
    env = hg.Environment(parallelism=parallelism, executor=MiniCluster())
    env.config("execution.mark-interval", "5ms")
    env.checkpoints(every="50ms", storage=str(tmp_path / "checkpoints"))

    bids = env.table(str(tmp_path / "bids"), uid="bids")
    counts = bids.group_by("auction").agg(F.count("*").alias("n"), F.sum("price").alias("s"), uid="counts")
    counts.to_changes().sink_to(Watched("exact"), uid="sink").set_parallelism(1)
    env.execute("exact")
    (story,) = seen.stories.values()
    changes, read, checked = list[dict[str, Any]](), dict[str, int](), 0
    for entry in story:
        if isinstance(entry, list):
            changes += entry
            continue
        read |= {split: rows for (source, split), rows in entry.items() if source == "bids"}
        got = Counter((row["auction"], row["n"], row["s"]) for row in folded(map(dict, changes)))
        wanted = [row for path, rows in files.items() for row in rows[: read.get(path, 0)]]
        assert got == answer(wanted)
        checked += bool(wanted)
    assert checked >= 3
    final = folded(map(dict, changes))
    assert Counter((r["auction"], r["n"], r["s"]) for r in final) == answer(
        [row for rows in files.values() for row in rows]
    )


def test_what_is_credited_and_debited_adds_up_to_nothing_at_every_mark(tmp_path: Path) -> None:
    """Two groups of one table, joined and added up: a diamond in which no half of a transfer may be seen."""
    transfers = [{"from": i * 7 % 30, "to": i * 11 % 30, "amount": i % 50 + 1} for i in range(60_000)]
    for number in range(4):
        part = pa.Table.from_pylist(transfers[number::4])
        pq.write_table(part, tmp_path / f"{number}.parquet", row_group_size=1_000)
    SEEN["transfers"] = seen = Seen()
    env = hg.Environment(parallelism=2, executor=MiniCluster())
    env.config("execution.mark-interval", "5ms")
    moved = env.table(str(tmp_path), uid="transfers")
    credits_ = (
        moved.group_by("to").agg(F.sum("amount").alias("credit"), uid="credits").rename({"to": "account"})
    )
    debits = (
        moved.group_by("from").agg(F.sum("amount").alias("debit"), uid="debits").rename({"from": "account"})
    )
    accounts = credits_.join(debits, "account", "full", uid="accounts")
    balance = F.coalesce(F.col("credit"), F.lit(0)) - F.coalesce(F.col("debit"), F.lit(0))
    totals = accounts.select("account", balance.alias("balance")).group_by()
    total = totals.agg(F.sum("balance").alias("total"), F.count("*").alias("n"), uid="total")
    total.to_changes().sink_to(Watched("transfers"), uid="sink").set_parallelism(1)
    env.execute("transfers")
    (story,) = seen.stories.values()
    answers, changes = list[Any](), list[dict[str, Any]]()
    for entry in story:
        if isinstance(entry, list):
            changes += entry
        else:
            answers.append(folded(map(dict, changes)))
    answers.append(folded(map(dict, changes)))
    assert {row["total"] for rows in answers for row in rows} == {0}
    assert all(len(rows) <= 1 for rows in answers)
    assert answers[-1] == [{"total": 0, "n": 30}]
    assert len({row["n"] for rows in answers for row in rows}) >= 1


def test_corrections_come_after_each_batch_where_they_are_wanted_at_once(tmp_path: Path) -> None:
    """No mark comes in this time. At marks each group is answered once, at the end; at once it is many
    times.
    """
    (tmp_path / "bids").mkdir()
    files = written(tmp_path / "bids")
    counts = {}
    for emission in ("marks", "eager"):
        SEEN[emission] = seen = Seen()
        env = hg.Environment(parallelism=2, executor=MiniCluster())
        env.config("execution.mark-interval", "1h")
        env.config("execution.changelog-emission", emission)
        bids = env.table(str(tmp_path / "bids"), uid="bids")
        groups = bids.group_by("auction").agg(F.count("*").alias("n"), F.sum("price").alias("s"), uid="c")
        again = groups.join(groups.rename({"n": "m"}).drop("s"), "auction", uid="again").select(
            "auction", "n", "s"
        )
        again.to_changes().sink_to(Watched(emission), uid="sink")
        env.execute(emission)
        lists = [each for story in seen.stories.values() for each in story if isinstance(each, list)]
        changes = [change for each in lists for change in each]
        counts[emission] = len(changes)
        final = folded(map(dict, changes))
        everything = [row for rows in files.values() for row in rows]
        assert Counter((r["auction"], r["n"], r["s"]) for r in final) == answer(everything)
    assert counts["marks"] == 50 < counts["eager"]
