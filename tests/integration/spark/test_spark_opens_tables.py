"""Spark opens the tables of state with nothing of ours: every type of column that a table can have."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from column_batches import to_arrow

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.ids import SubtaskId, SubtaskIndex, VertexId
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.runtime.worker.snapshot.savepoint_files import CanonicalFiles
from headgate.serde.resolve import serializer_for
from headgate.state.heap.backend import HeapKeyedBackend

pytestmark = [pytest.mark.spark, pytest.mark.ci]

TABLES = Path(__file__).resolve().parents[2] / "compat" / "data" / "canonical" / "v1"

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
read = spark.read.parquet
*tables, all_types, folder = sys.argv[1:]
found = {path: read(path).count() for path in tables}
total = [tuple(row) for row in read(next(p for p in tables if "total" in p)).select("key", "value").collect()]
visits = read(next(p for p in tables if "last" in p)).where("value is not null")
pages = [tuple(row) for row in visits.select("key", "value.page", "value.at.zone", "value.tags").collect()]
types = read(all_types).schema["value"].dataType.simpleString()
row = read(all_types).select("value.*").collect()[0].asDict(recursive=True)
parts = sorted(tuple(row) for row in read(folder).select("key", "value", "key_group").collect() if row.key)
print(json.dumps([found, total, pages, types, str(row), parts]))
"""

EVERY_TYPE = tuple[
    bool, int, float, str, bytes, dt.datetime, dt.time, dt.date, dt.timedelta, uuid.UUID, np.int8, np.uint8,
    np.uint16, np.uint32, np.uint64, np.float32, list[int | None], dict[dt.date, list[str]], int | None,
]  # fmt: skip
VALUE = (
    True, 1, 0.5, "a", b"b", dt.datetime(2024, 5, 6), dt.time(1, 2), dt.date(2024, 5, 6), dt.timedelta(1),
    uuid.UUID(int=1), np.int8(-1), np.uint8(1), np.uint16(1), np.uint32(1), np.uint64(2**64 - 1),
    np.float32(0.5), [1, None], {dt.date(1, 1, 1): ["x"]}, None,
)  # fmt: skip


GROUPS = 16


class Counts:
    count: hg.ValueState[int] = hg.value_state(default=0)


def savepoint_folder(tmp_path: Path) -> Path:
    """A state of two subtasks in a savepoint, of an operator with an odd name."""
    states = declared_state(Counts())
    for subtask in (0, 1):
        groups = key_group_range(GROUPS, 2, subtask)
        backend = HeapKeyedBackend(states, *groups, GROUPS)
        for key in range(1, 41):
            if groups[0] <= key_group(key, GROUPS) <= groups[1]:
                backend.bind(key)
                backend.handles["count"].value = -key  # type: ignore[union-attr]
                backend.store()
        files = CanonicalFiles(
            LocalDisk(tmp_path / "savepoint-1"), SubtaskId(VertexId(0), SubtaskIndex(subtask)), 0
        )
        backend.snapshot_sync().store_with(files.new_tables("_odd/naïve name=1"))
    (folder,) = (tmp_path / "savepoint-1" / "state").glob("*/count")
    return folder


def test_spark_reads_every_table_and_type(tmp_path: Path) -> None:
    """Columns of every type come up as Spark's own, with their values."""
    every = tmp_path / "types.parquet"
    pq.write_table(pa.Table.from_batches([to_arrow(serializer_for(EVERY_TYPE), [VALUE])]), every)
    files = sorted(map(str, TABLES.glob("*.parquet")))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *files, str(every), str(savepoint_folder(tmp_path))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows, total, pages, types, value, parts = json.loads(done.stdout.splitlines()[-1])
    assert [(key, value) for key, value, _ in parts] == [(key, -key) for key in range(1, 41)]
    assert all(group == key_group(key, GROUPS) for key, _, group in parts)
    assert rows == {file: pq.read_metadata(file).num_rows for file in files}
    assert [1, 5] in total
    assert [None, 8] in total
    assert ["a", "/a", "CEST", ["x", "y"]] in pages
    assert "_6:struct<wall:timestamp_ntz,fold:boolean,zone:string,utc_offset:bigint>" in types
    assert "_18:map<date,array<string>>" in types
    assert "'wall': datetime.datetime(2024, 5, 6, 0, 0)" in value
    assert "'_15': Decimal('18446744073709551615')" in value
