"""Event times that windows cannot have are refused, and do not give wrong windows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mini_jobs import environment

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.runtime.worker.operators.unlikely_times import YEAR_9999

SCHEMA = pa.schema({"at": pa.int64(), "user": pa.string()})
WINDOWS = [F.window("at", "10s", "2s"), F.session_window("at", "1s"), F.cumulate_window("at", "10s", "2s")]
NANOSECONDS = 1_700_000_000 * 10**9


def ends(window: Any, at: int) -> list[Any]:
    """The ends of the windows of a record, which comes with an ordinary one; none is late."""
    rows = sorted([{"at": 0, "user": "ada"}, {"at": at, "user": "bob"}], key=lambda row: row["at"])
    table = environment(1).from_collection(rows).with_event_time("at").to_table(SCHEMA)
    counted = table.group_by("user", window).agg(F.count("*").alias("n"))
    name = "session_window" if "session_window" in counted.columns else "window"
    return counted.filter(F.col("user") == "bob").select(F.unix_millis(f"{name}.end").alias("end")).collect()


@pytest.mark.parametrize("at", [-(2**63), -9 * 10**15 - 1])
@pytest.mark.parametrize("window", WINDOWS)
def test_times_that_no_window_can_have_are_refused(window: Any, at: int) -> None:
    """The message has the record and its time."""
    with pytest.raises(hg.UsageError, match=rf"'bob'.* has the event time {at} ms .*not nanoseconds"):
        ends(window, at)


@pytest.mark.parametrize("window", WINDOWS)
def test_times_after_the_year_9998_are_refused(window: Any) -> None:
    """All later records would be late, whatever kind of window."""
    for at in (NANOSECONDS, 2**63 - 1, YEAR_9999):
        with pytest.raises(hg.UsageError, match=rf"'bob'.* is event time {at} ms, in the year 9999 or later"):
            ends(window, at)


@pytest.mark.parametrize("at", [YEAR_9999 - 1, -9 * 10**15])
def test_the_farthest_times_have_their_windows(at: int) -> None:
    """Past the years of Python's datetime, too."""
    assert [row["end"] for row in ends(WINDOWS[1], at)] == [at + 1_000]


def counted(table: Any) -> Any:
    """Windows of 10 s."""
    return table.group_by("user", F.window("at", "10s")).agg(F.count("*").alias("n"))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(
    "windows",
    [
        counted,
        lambda table: counted(table.map_batches(lambda batch: batch, "at timestamp, user string")),
        lambda table: table.select(F.window("at", "10s")),
    ],
)
def test_times_before_1970_are_in_their_windows(
    tmp_path: Path, windows: Callable[[Any], Any], unit: str
) -> None:
    """A microsecond before 1970 is before 1970, as in Spark."""
    last = pa.array([-1_000 if unit == "ns" else -1], pa.timestamp(unit, "UTC"))
    pq.write_table(pa.table({"at": last, "user": ["ada"]}), tmp_path / "rows.parquet")
    table = environment(1).read_parquet(tmp_path).with_event_time("at").to_table()
    starts = windows(table).select(F.unix_millis("window.start").alias("start")).collect()
    assert starts == [{"start": -10_000}]
