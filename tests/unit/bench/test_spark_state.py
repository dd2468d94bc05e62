"""What is said of state that was read into Spark, and the savepoint that is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench import spark_state
from bench.sections import spark_state as section
from headgate.stateprocessor.source import SavepointSource

TOLD: dict[str, Any] = {
    "keys": 1_000_000,
    "entries": 1_000,
    "bytes": 10_000_000,
    "seconds": {"headgate": [2.0, 2.0, 8.0], "minimal": [1.6, 1.8, 1.5], "parquet": [1.0, 1.0, 1.0]},
    "checkpoints_s": {"heap": 0.5, "rocksdb": 1.0},
}


def test_the_median_of_the_ratios_is_judged() -> None:
    """One slow round decides nothing; of a short run nothing is said."""
    rows = section.rows(TOLD, smoke=False)
    assert (rows[0].measured, rows[0].shown, rows[0].met) == (0.8, "0.80 x its rate", True)
    slow = TOLD | {"seconds": TOLD["seconds"] | {"minimal": [1.0, 1.0, 1.0]}}
    assert section.rows(slow, smoke=False)[0].met is False
    assert {row.met for row in section.rows(TOLD, smoke=True)} == {None}
    assert [row.what for row in rows][-1] == "1,000 counts of a checkpoint of rocksdb"
    assert section.rows({}, smoke=False) == []


def test_all_ways_read_the_same_batches(tmp_path: Path) -> None:
    """The tables, Arrow's files and the data source have the same rows."""
    (tmp_path / "arrow").mkdir()
    spark_state.write_savepoint(tmp_path / "savepoint", tmp_path / "arrow", 5_000)
    made = SavepointSource({"path": str(tmp_path / "savepoint"), "uid": "counts", "state": "count"})
    reader = made.reader(made.schema())
    ours = pa.Table.from_batches([batch for part in reader.partitions() for batch in reader.read(part)])
    files = sorted((tmp_path / "savepoint").rglob("*.parquet"))
    plain = pa.concat_tables([pq.read_table(file) for file in files])
    same = pa.concat_tables(
        [pa.ipc.open_file(file).read_all() for file in sorted((tmp_path / "arrow").glob("*.arrow"))]
    )
    assert ours.equals(same)
    assert ours.to_pydict() == plain.to_pydict()
    assert sorted(ours.column("key").to_pylist()) == list(range(5_000))
