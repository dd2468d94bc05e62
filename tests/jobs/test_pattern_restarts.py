"""Partial matches survive a crash and a savepoint, whichever state backend the job has."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment
from running_jobs import Valve, wait_until
from test_pattern_jobs import SCHEMA, SPLITS, answer, dips, published

import headgate as hg

NUMBERS = count(9650)
ROWS = [sorted((row for split in SPLITS for row in split), key=lambda row: row["at"] // 500)]
"""In one split, at most half a second out of order: so matches are found while the job runs."""
HALF = 120
BACKENDS: dict[str, dict[str, Any]] = {
    "heap": {"state.backend.type": "hashmap"},
    "rocksdb": {"state.backend.type": "rocksdb"},
    "incremental": {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": True},
}


def job(folder: Path, source: hg.Source[Any], parallelism: int, backend: str, **more: Any) -> hg.Environment:
    """A program that matches the rows of `source`."""
    config = {**TINY, "restart-strategy.type": "none", **BACKENDS[backend], **more}
    env = environment(parallelism, config)
    env.checkpoints(every="10ms", storage=str(folder / "checkpoints"))
    table = env.from_source(source, uid="ticks").to_table(SCHEMA).with_watermark("at", "1s")
    dips(table).to_stream().write_json(str(folder / "out"), uid="out")
    return env


@pytest.mark.parametrize("backend", BACKENDS)
def test_partial_matches_are_restored_from_a_checkpoint(tmp_path: Path, backend: str) -> None:
    """The source crashes after a checkpoint of half of the rows is complete; the rest completes matches that
    began before it.
    """
    begun = [each for each in answer(ROWS) if each[1] < ROWS[0][HALF]["at"] - 1_500 < each[3]]
    assert begun, "some matches are open at the crash"
    source = Halting(next(NUMBERS), HALF, *ROWS)
    job(tmp_path, source, 2, backend, **RESTART_AT_ONCE).execute("dips")
    assert (source.name, "0") in Halting.crashed
    assert published(tmp_path) == answer(ROWS)


@pytest.mark.parametrize(
    ("before", "after", "form", "parallelism"),
    [
        ("rocksdb", "rocksdb", "native", 3),
        ("rocksdb", "heap", "canonical", 1),
        ("heap", "rocksdb", "canonical", 3),
    ],
)
def test_a_savepoint_goes_on_with_another_backend(
    tmp_path: Path, before: str, after: str, form: str, parallelism: int
) -> None:
    """And at another parallelism."""
    valve = Valve(next(NUMBERS), HALF, *ROWS)
    with job(tmp_path, valve, 2, before).execute_async("dips") as handle:
        wait_until(lambda: handle.done or _read(handle) == HALF, "the valve's records came")
        uri = handle.stop(str(tmp_path / "savepoints"), format=form)
        handle.result()
    valve.open_to()
    again = job(tmp_path, valve, parallelism, after)
    again.execute("dips", restore_from=unquote(urlsplit(uri).path))
    assert published(tmp_path) == answer(ROWS)


def _read(handle: Any) -> int:
    return sum(vertex.records_in for vertex in handle.status().vertices if "ticks" in vertex.uids)
