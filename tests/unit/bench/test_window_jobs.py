"""The jobs that measure windows: what they send, and how they read results."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("duckdb", reason="their sink is that of the comparison")

from bench.jobs import open_sessions, window_delay
from bench.jobs.open_sessions import FillSource
from bench.jobs.window_delay import DueSource
from bench.plan import SMOKE
from bench.sections import windows
from headgate.api.source import END_OF_INPUT, NOTHING_AVAILABLE, SourceReaderContext, Split


def opened(source: Any) -> Any:
    """The second of two readers, with its split."""
    reader = source.create_reader(SourceReaderContext("s", 1, 2))
    assert reader.poll(10) is NOTHING_AVAILABLE
    reader.add_splits([Split("1")])
    return reader


@pytest.mark.parametrize("columns", [True, False])
def test_records_are_due_by_the_wall_clock(columns: bool) -> None:
    """At half of the rate in each of two readers, each with its own time, until all have come."""
    reader = opened(DueSource(2_000, 0.1, columns))
    began_ms, rows = time.time_ns() // 1_000_000, []
    while (found := reader.poll(7)) is not END_OF_INPUT:
        if found is not NOTHING_AVAILABLE:
            assert len(found) <= 7
            rows += found.to_pylist() if columns else found
            assert rows[-1]["at"] <= time.time_ns() // 1_000_000
    assert len(rows) == 100
    assert rows == sorted(rows, key=lambda row: row["at"])
    assert 95 <= rows[-1]["at"] - rows[0]["at"] <= 100
    assert rows[0]["at"] >= began_ms


def test_every_key_has_its_rounds() -> None:
    """Those of one reader, in order of time; then it rests, and then it ends."""
    reader = opened(FillSource(10, 2, 0.05, False))
    rows: list[Any] = []
    while len(rows) < 10:
        rows += reader.poll(3)
    assert [(row["key"], row["at"]) for row in rows] == [(k, t) for t in (0, 1000) for k in (1, 3, 5, 7, 9)]
    assert reader.poll(3) is NOTHING_AVAILABLE
    time.sleep(0.06)
    assert reader.poll(3) is END_OF_INPUT


def test_ends_of_windows_are_the_same_in_both_forms() -> None:
    """In microseconds since 1970."""
    end = datetime(2024, 5, 6, 7, 8, 9, 100_000, UTC)
    rows = [{"window": {"start": end, "end": end}}] * 2
    batch = pa.RecordBatch.from_pylist(rows)
    assert window_delay._ends(rows) == window_delay._ends(batch) == {round(end.timestamp() * 1e6): 2}


@pytest.mark.parametrize(("others", "met"), [(0.05, False), (0.4, None)])
def test_a_latency_is_judged_on_a_quiet_machine(others: float, met: bool | None) -> None:
    """Else it is only shown."""
    row = windows._late("rows", "p50", {"p50_ms": 31.0, "others": others}, windows.P50_MS)
    assert (row["met"], row["what"]) == (met, "p50, windows of rows")


def test_the_smoke_form_does_not_judge_memory() -> None:
    """So few sessions say nothing."""
    row = windows._held("rows", {"peak_mib": 300.0, "checkpoints_ms": [9, 7, 8]}, SMOKE)
    assert (row["met"], row["shown"]) == (None, "300 MiB at most, checkpoints 8 ms")


def test_workers_that_have_ended_have_no_memory() -> None:
    """A checkpoint may complete when one is gone."""
    assert open_sessions._memory(2**22 + 1) == (0.0, 0.0)
