"""Headgate's programs J1, J3 and J4 of the comparison give the answer, from Parquet and from JSON lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mini_jobs import environment

pytest.importorskip("duckdb", reason="the answers are DuckDB's")

from bench.compare.answers import answer, schema_of
from bench.compare.headgate_job import stream_of, written_as_table
from bench.compare.orders import Order, TableFiles
from bench.compare.queries import QUERIES
from headgate.nexmark import Dataset, FileFormat, NexmarkSettings, generate_files, ordered

COUNT = 20_000


def dataset(folder: Path, form: FileFormat) -> Dataset:
    """The events of all tests, two hundred seconds of them in two files that cover the same time."""
    settings = NexmarkSettings(seed=2, rate=100)
    return generate_files(folder / form.value, settings, COUNT, file_format=form, files=2, interleaved=True)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    """The events in both formats."""
    folder = tmp_path_factory.mktemp("events")
    return {form.value: dataset(folder, form) for form in FileFormat}


def order(query: str, form: str, folder: Path) -> Order:
    """What the program is told."""
    files: dict[str, TableFiles] = {"bid": TableFiles(str(folder / "bids"), [])}
    more: dict[str, Any] = {"text": "", "columns": [], "timed": True, "work": "", "out": None}
    more |= {"files_per_batch": 1, "rows": 0, "counted": None, "total": 0, "wait_s": 0.0}
    return Order(query=query, format=form, tables=files, **more)


@pytest.mark.parametrize("form", [form.value for form in FileFormat])
@pytest.mark.parametrize("query", ["J1", "J3", "J3-py", "J4", "J4-py"])
def test_a_program_gives_the_answer(
    query: str, form: str, events: dict[str, Dataset], tmp_path: Path
) -> None:
    """All rows, at parallelism 2 with checkpoints."""
    env = environment(2)
    env.checkpoints(every="200ms", storage=str(tmp_path / "checkpoints"))
    asked = order(query, form, events[form].directory)
    written_as_table(stream_of(env, asked), asked).write_parquet(tmp_path / "out", uid="out")
    env.execute(query)
    files = [path for path in (tmp_path / "out").rglob("*.parquet") if path.name[0] not in "._"]
    schema = schema_of(QUERIES[query])
    found = pa.concat_tables(pq.read_table(path) for path in files).cast(schema)
    assert ordered(found).equals(ordered(answer(QUERIES[query], events["parquet"])))
