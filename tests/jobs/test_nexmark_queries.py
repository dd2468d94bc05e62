"""Nexmark's queries as tables give what DuckDB gives on the same files."""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mini_jobs import environment

import headgate as hg
from headgate.nexmark import queries
from headgate.nexmark.dataset import Dataset, open_files
from headgate.nexmark.files import generate_files
from headgate.nexmark.generator import NexmarkSettings
from headgate.nexmark.queries import QUERIES, Inputs
from headgate.nexmark.reference import ANSWERS
from headgate.nexmark.results import read_result
from headgate.testing import MiniCluster

pytest.importorskip("duckdb", reason="the answers are DuckDB's")

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "nexmark"
BEFORE_MIDNIGHT = 1_436_918_390_000
"""Ten seconds before 2015-07-15, in ms."""


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
    QUERIES[query].write(Inputs(env, dataset.directory), folder / "out")
    env.execute(query)
    return read_result(query, folder / "out")


@pytest.mark.ci
@pytest.mark.timeout(600)
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_over_a_million_events(query: str, million: Dataset, tmp_path: Path) -> None:
    """At parallelism 2."""
    assert result(query, million, tmp_path).equals(ANSWERS[query][0](million))


@pytest.mark.parametrize("query", QUERIES)
def test_the_example_runs_as_a_program(
    query: str, few: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the mini cluster in place of Spark; what it writes is what DuckDB gives."""
    monkeypatch.chdir(tmp_path)  # its checkpoints are in the working directory
    monkeypatch.setattr(hg, "Environment", partial(hg.Environment, executor=MiniCluster()))
    monkeypatch.setattr(sys, "argv", ["program", str(few.directory), str(tmp_path / "out")])
    runpy.run_path(str(EXAMPLES / f"{query}.py"), run_name="__main__")
    assert read_result(query, tmp_path / "out").equals(ANSWERS[query][0](few))


def test_events_for_the_examples_are_made_by_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the folders that they read, as many as were asked for."""
    monkeypatch.setattr(sys, "argv", ["program", str(tmp_path / "events"), "500"])
    runpy.run_path(str(EXAMPLES / "make_events.py"), run_name="__main__")
    made = open_files(tmp_path / "events")
    assert sum(made.read(table).num_rows for table in made.files) == 500


def test_a_query_may_have_no_rows(tmp_path: Path) -> None:
    """Of twenty events none is on an auction that q2 wants."""
    dataset = generate_files(tmp_path / "tiny", NexmarkSettings(seed=1), 20, files=1)
    answer = result("q2", dataset, tmp_path)
    assert answer.num_rows == 0
    assert answer.equals(ANSWERS["q2"][0](dataset))


def test_every_example_is_a_query() -> None:
    """And each query has its program there, which the package reaches by its link."""
    assert {path.stem for path in EXAMPLES.glob("*.py")} - {"make_events"} == set(QUERIES)
    linked = Path(queries.__file__).parent / "programs"
    assert linked.resolve() == EXAMPLES.resolve()


def test_the_log_is_in_folders_by_day_and_minute(tmp_path: Path) -> None:
    """q10: each folder has the rows of its minute and no others, and a marker says that all is there."""
    slow = NexmarkSettings(seed=1, rate=100)  # 20 s for 2,000 events
    dataset = generate_files(tmp_path / "slow", replace(slow, base_time_ms=BEFORE_MIDNIGHT), 2_000, files=2)
    answer = result("q10", dataset, tmp_path)
    assert answer.equals(ANSWERS["q10"][0](dataset))
    out, days = tmp_path / "out", {"dt=2015-07-14/hm=23%3A59", "dt=2015-07-15/hm=00%3A00"}
    files = {path: path.relative_to(out).parent.as_posix() for path in out.rglob("*.parquet")}
    assert set(files.values()) == days
    for path, folder in files.items():
        times = pq.ParquetFile(path).read(["dateTime"])["dateTime"].to_pylist()
        assert {f"dt={at:%Y-%m-%d}/hm={at:%H%%3A%M}" for at in times} == {folder}
    assert (out / "_SUCCESS").exists()
