"""Nexmark's query 12 in windows of processing time, with a clock that the test moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from columns_under_test import ColumnsRun

import headgate as hg
from headgate.nexmark.files import generate_files
from headgate.nexmark.generator import NexmarkSettings
from headgate.nexmark.programs.q12 import q12_of_processing_time
from headgate.nexmark.queries import Inputs
from headgate.nexmark.reference import ANSWERS, ordered, q12
from headgate.records.arrow_batch import ArrowBatch
from headgate.testing import ManualClock, MiniCluster

pytest.importorskip("duckdb", reason="the answers are DuckDB's")


def test_bids_are_in_the_windows_in_which_they_were_processed(tmp_path: Path) -> None:
    """Whatever their own times; a restart in the middle changes nothing, since the clock goes on."""
    dataset = generate_files(tmp_path / "d", NexmarkSettings(seed=1), 5_000, files=1)
    clock = ManualClock(1_700_000_003_000)

    def table() -> Any:
        env = hg.Environment(parallelism=1, executor=MiniCluster())
        found = q12_of_processing_time(Inputs(env, dataset.directory).table("bids"))
        found.to_stream()  # its last columns become a step of the program
        return found

    tried, times, bids = ColumnsRun(table, clock), list[np.ndarray](), dataset.read("bids")
    for number, start in enumerate(range(0, len(bids), 300)):
        (columns,) = bids.slice(start, 300).combine_chunks().to_batches()
        tried.fire()
        tried.first.process(ArrowBatch(columns))
        times.append(np.full(len(columns), clock.now_ms() * 1000))
        clock.advance(1_700)
        if number == 5:
            tried.restart()
    clock.advance(20_000)
    tried.fire()
    processed = pa.array(np.concatenate(times)).cast(pa.timestamp("us", "UTC"))
    found = pa.Table.from_pylist([row for *_, row in tried.main.take()]).cast(ANSWERS["q12"][1])
    assert ordered(found).equals(q12(dataset, processed))
