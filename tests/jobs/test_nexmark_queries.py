"""Nexmark's queries as tables give what DuckDB gives on the same files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mini_jobs import environment

from headgate.nexmark.dataset import Dataset
from headgate.nexmark.files import generate_files
from headgate.nexmark.generator import NexmarkSettings
from headgate.nexmark.queries import QUERIES, Inputs
from headgate.nexmark.reference import ANSWERS, ordered

pytest.importorskip("duckdb", reason="the answers are DuckDB's")


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Twenty thousand events in two files, whose readers are at about the same event time."""
    folder = tmp_path_factory.mktemp("few") / "d"
    return generate_files(folder, NexmarkSettings(seed=1), 20_000, files=2, interleaved=True)


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A million events."""
    return generate_files(
        tmp_path_factory.mktemp("million") / "d",
        NexmarkSettings(seed=1),
        1_000_000,
        files=2,
        interleaved=True,
    )


def result(query: str, dataset: Dataset, folder: Path) -> pa.Table:
    """What a job with checkpoints writes, ordered."""
    env = environment(2)
    env.checkpoints(every="200ms", storage=str(folder / "checkpoints"))
    QUERIES[query](Inputs(env, dataset.directory)).write_parquet(folder / "out", uid="out")
    env.execute(query)
    files = [path for path in (folder / "out").rglob("*.parquet") if not path.name.startswith((".", "_"))]
    return ordered(pa.concat_tables(map(pq.read_table, sorted(files))).cast(ANSWERS[query][1]))


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_right_rows(query: str, few: Dataset, tmp_path: Path) -> None:
    """All of them, each as often as it has to be there."""
    assert result(query, few, tmp_path).equals(ANSWERS[query][0](few))


@pytest.mark.ci
@pytest.mark.timeout(240)
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_over_a_million_events(query: str, million: Dataset, tmp_path: Path) -> None:
    """At parallelism 2."""
    assert result(query, million, tmp_path).equals(ANSWERS[query][0](million))
