"""At every mark a corrected query's result is DuckDB's answer on exactly the rows that the mark counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mini_jobs import environment
from typing_extensions import override

import headgate as hg
from headgate.nexmark.dataset import Dataset, open_files
from headgate.nexmark.files import generate_files
from headgate.nexmark.generator import NexmarkSettings
from headgate.nexmark.queries import QUERIES, Inputs
from headgate.nexmark.reference import ANSWERS, ordered
from headgate.nexmark.results import net_rows

pytest.importorskip("duckdb", reason="the answers are DuckDB's")

EVENTS, MARKS_MIN = 100_000, 4
CORRECTED = ["q4", "q6", "q9", "q15", "q16", "q17", "q18", "q19"]


class Parts(hg.Sink[Any]):
    """A sink whose one writer keeps what came before each mark: a file of changes, and one of counts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    def create_writer(self, context: Any, restored: Sequence[Any]) -> PartsWriter:
        self._folder.mkdir()
        return PartsWriter(self._folder)

    @override
    def create_committer(self) -> hg.SinkCommitter:
        return NothingToCommit()


class NothingToCommit(hg.SinkCommitter):
    """The files are there when they are written."""

    @override
    def commit(self, committables: Sequence[Any]) -> None:
        pass


class PartsWriter(hg.SinkWriter[Any]):
    """Writes a part at each mark."""

    accepts_columns = True

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder, 0
        self._changes: list[pa.RecordBatch] = []

    @override
    def write(self, records: Any) -> None:
        self._changes.append(records)

    @override
    def mark(self, rows: Mapping[tuple[str, str], int]) -> None:
        self._count += 1
        if self._changes:
            pq.write_table(pa.Table.from_batches(self._changes), self._folder / f"{self._count:06}.parquet")
            self._changes.clear()
        counts = [[*split, count] for split, count in rows.items()]
        (self._folder / f"{self._count:06}.json").write_text(json.dumps(counts))

    @override
    def prepare_commit(self) -> list[Any]:
        return []


def at_marks(folder: Path) -> Iterator[tuple[dict[str, int], pa.Table | None]]:
    """Yield for each mark how many rows of each file were read, and what the sink shows."""
    read: dict[str, int] = {}
    shown: pa.Table | None = None
    for path in sorted(folder.glob("*.json")):
        read |= {split: count for _, split, count in json.loads(path.read_text())}
        changes = path.with_suffix(".parquet")
        if changes.exists():
            fresh = pq.read_table(changes)
            shown = fresh if shown is None else pa.concat_tables([shown, fresh])
        yield read, None if shown is None else net_rows(shown)


def beginning(dataset: Dataset, read: Mapping[str, int], folder: Path) -> Dataset:
    """The files with as many rows as were read of each."""
    for paths in dataset.files.values():
        for path in paths:
            part = folder / path.relative_to(dataset.directory)
            part.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pq.read_table(path).slice(0, read.get(str(path), 0)), part)
    return open_files(folder)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Two files of each table, of about the same times."""
    folder = tmp_path_factory.mktemp("events") / "d"
    return generate_files(folder, NexmarkSettings(seed=3), EVENTS, files=2, interleaved=True)


@pytest.mark.ci
@pytest.mark.parametrize("query", CORRECTED)
def test_every_mark_has_the_exact_answer(query: str, events: Dataset, tmp_path: Path) -> None:
    """Which differs from mark to mark, with checkpoints in between."""
    env = environment(2, {"execution.mark-interval": "10ms", "restart-strategy.type": "none"})
    env.checkpoints(every="50ms", storage=str(tmp_path / "checkpoints"))
    result = QUERIES[query](Inputs(env, events.directory))
    result.to_changes().sink_to(Parts(tmp_path / "out"), uid="out").set_parallelism(1)
    env.execute(query)
    answer, schema = ANSWERS[query]
    different: set[tuple[int, ...]] = set()
    for number, (read, shown) in enumerate(at_marks(tmp_path / "out")):
        assert sum(read.values()) <= EVENTS
        right = answer(beginning(events, read, tmp_path / f"part-{number}"))
        rows = schema.empty_table() if shown is None else ordered(shown.select(schema.names).cast(schema))
        assert rows.equals(right), f"after {read}"
        different.add(tuple(read.values()))
    assert len(different) >= MARKS_MIN


def test_these_are_the_queries_whose_results_are_corrected(events: Dataset) -> None:
    """So none is left out."""
    results = {name: query(Inputs(environment(1), events.directory)) for name, query in QUERIES.items()}
    assert [name for name, result in results.items() if result.schema.updating] == CORRECTED
