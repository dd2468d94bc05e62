"""Files in folders of partitions, in whole jobs: once across crashes, taken back, marked at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mini_jobs import RESTART_AT_ONCE, TINY, Halting, environment
from running_jobs import Valve, wait_until

import headgate as hg

ROWS = [{"n": n, "kind": f"k{n % 5}", "even": n % 2 == 0} for n in range(300)]


def published(folder: Path) -> list[dict[str, Any]]:
    """All records in the folders of partitions, with what the folders' names say."""
    found = []
    for file in folder.rglob("part-*.jsonl"):
        parts = file.relative_to(folder).parts[:-1]
        if not any(part.startswith("_") and "=" not in part for part in parts):
            named = dict(part.split("=") for part in parts)
            found += [named | json.loads(line) for line in file.read_text().splitlines()]
    return sorted(found, key=lambda row: row["n"])


def expected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The batch answer."""
    return [{"n": row["n"], "kind": row["kind"], "even": str(row["even"]).lower()} for row in rows]


def job(folder: Path, source: hg.Source[Any], parallelism: int = 2, **options: Any) -> hg.Environment:
    """Writes what a source has, in folders by two columns, with a checkpoint every 20 ms."""
    env = environment(parallelism, {**TINY, **RESTART_AT_ONCE})
    env.checkpoints(every="20ms", storage=str(folder / "checkpoints"))
    stream = env.from_source(source, uid="in")
    stream.write_json(folder / "out", uid="out", partition_by=("kind", "even"), **options)
    return env


@pytest.mark.parametrize("open_files", [64, 2])
def test_each_record_is_published_once_across_a_crash(tmp_path: Path, open_files: int) -> None:
    """In its folder, whether all files of a subtask stay open or the oldest is closed for the next."""
    source = Halting(7100 + open_files, 60, ROWS[:150], ROWS[150:])
    result = job(tmp_path, source, open_files=open_files, success_markers=True).execute("partitions")
    assert result.restarts > 0
    assert published(tmp_path / "out") == expected(ROWS)
    assert (tmp_path / "out/_SUCCESS").read_bytes() == b""
    assert not list((tmp_path / "out/_pending").rglob("*.jsonl"))
    assert sorted(path.name for path in (tmp_path / "out").glob("kind=*")) == [f"kind=k{n}" for n in range(5)]


def test_few_open_files_make_more_of_them(tmp_path: Path) -> None:
    """The bound holds: a subtask with two of them closes one for each change of folder."""
    for name, open_files in (("few", 1), ("many", 64)):
        env = environment(1)
        env.from_collection(ROWS[:20]).map(lambda row: row).write_json(
            tmp_path / name, uid="out", partition_by="kind", open_files=open_files
        )
        env.execute("files")
    few, many = (len(list((tmp_path / name).rglob("part-*.jsonl"))) for name in ("few", "many"))
    assert many == 5 <= few


def test_output_after_a_savepoint_is_taken_back_with_its_folders(tmp_path: Path) -> None:
    """The job that goes on from the savepoint removes it, and publishes each record once."""
    valve = Valve(7110, 40, ROWS[:150], ROWS[150:])
    with job(tmp_path, valve).execute_async("first") as handle:
        wait_until(lambda: handle.done or handle.status().checkpoints_completed > 1, "checkpoints complete")
        uri = handle.savepoint(str(tmp_path / "savepoints"))
        valve.open_to()
        handle.result()
    assert published(tmp_path / "out") == expected(ROWS)
    again = job(tmp_path, Valve(7111, float("inf"), ROWS[:150], ROWS[150:]), parallelism=3)
    again.config("execution.sinks.older-snapshot", "take-back")
    again.execute("second", restore_from=uri)
    assert published(tmp_path / "out") == expected(ROWS)
    assert list((tmp_path / "out/_taken_back").rglob("kind=*/even=*/part-*"))


def test_a_marker_is_of_a_job_that_has_ended_well(tmp_path: Path) -> None:
    """Not of one that was stopped, or failed; output of a later job removes it until that one ends."""
    marker = tmp_path / "out/_SUCCESS"
    valve = Valve(7120, 40, ROWS)
    with job(tmp_path, valve, success_markers=True).execute_async("stopped") as handle:
        wait_until(lambda: handle.done or handle.status().checkpoints_completed > 1, "checkpoints complete")
        uri = handle.stop(str(tmp_path / "savepoints"))
        handle.result()
    assert published(tmp_path / "out")
    assert not marker.exists()
    job(tmp_path, Valve(7121, float("inf"), ROWS), success_markers=True).execute("ended", restore_from=uri)
    assert marker.exists()
    assert published(tmp_path / "out") == expected(ROWS)
    valve = Valve(7122, 40, [{**row, "n": row["n"] + 1_000} for row in ROWS])
    env = environment(1, {**TINY, "restart-strategy.type": "none"})
    env.checkpoints(every="20ms", storage=str(tmp_path / "other"))
    env.from_source(valve, uid="in").write_json(
        tmp_path / "out", uid="other", partition_by=("kind", "even"), success_markers=True
    )
    with env.execute_async("more") as handle:
        wait_until(lambda: not marker.exists(), "the marker is removed with the first output")
        valve.open_to()
        handle.result()
    assert marker.exists()


def test_a_table_is_written_in_folders(tmp_path: Path) -> None:
    """As Parquet, which other readers of such folders read back; the columns are not in the files."""
    env = environment(2)
    table = env.from_collection(ROWS).to_table(
        pa.schema({"n": pa.int64(), "kind": pa.string(), "even": pa.bool_()})
    )
    table.write_parquet(tmp_path / "out", uid="out", partition_by="KIND")
    env.execute("table")
    read = pq.read_table(tmp_path / "out", partitioning="hive").to_pylist()
    assert sorted(row["n"] for row in read) == list(range(300))
    assert all(row["kind"] == f"k{row['n'] % 5}" and row["even"] == (row["n"] % 2 == 0) for row in read)
    file = next((tmp_path / "out").rglob("part-*.parquet"))
    assert pq.read_schema(file).names == ["n", "even"]


def test_wrong_partitions_are_refused_where_they_are_written(tmp_path: Path) -> None:
    """Of a table already while the plan is made."""
    table = environment(1).from_collection(ROWS).to_table(pa.schema({"n": pa.int64(), "kind": pa.string()}))
    with pytest.raises(
        hg.PlanError, match=r"write_json\(\) \(test_partitioned_files.py:\d+\).*'kynd'; did you m"
    ):
        table.write_json(tmp_path, partition_by="kynd")
    with pytest.raises(hg.PlanError, match="partition_by has every column"):
        table.write_parquet(tmp_path, partition_by=("n", "kind"))
    with pytest.raises(hg.UsageError, match="expected names of columns"):
        environment(1).from_collection(ROWS).write_json(tmp_path, partition_by=("n", "n"))
