"""The data source `headgate-savepoint` in Spark: found by name, and equal to Parquet of the same tables."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.checkpoint.layout import METADATA
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.format_config import fingerprint
from headgate.common.ids import SubtaskId, SubtaskIndex, VertexId
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.runtime.worker.snapshot.savepoint_files import CanonicalFiles
from headgate.state.heap.backend import HeapKeyedBackend
from headgate.state.snapshots import CheckpointMetadata, OperatorSubtaskState

pytestmark = [pytest.mark.spark, pytest.mark.ci, pytest.mark.timeout(900)]

DATA = Path(__file__).resolve().parents[2] / "compat" / "data"

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession, functions as sql
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
savepoint, checkpoint = sys.argv[1:]

def state(path, uid, name, **options):
    return spark.read.format("headgate-savepoint").options(uid=uid, state=name, **options).load(path)

def rows(frame):
    return sorted(map(str, frame.collect()))

found = {"same": {}}
for name in ("every", "count", "tags", "timers"):  # nothing was registered, nothing is switched on
    ours, plain = state(savepoint, "op", name), spark.read.parquet(f"{savepoint}/state/op/{name}")
    found["same"][name] = [ours.schema == plain.schema, rows(ours) == rows(plain), ours.count()]
found["off"] = state(savepoint, "op", "count").where("key = 7").select("value").collect()[0][0]

from headgate.stateprocessor.source import register
register(spark)
counts = state(savepoint, "op", "count", columns="key,value,key_group")
found["columns"] = counts.columns
found["point"] = [tuple(row) for row in counts.where("key = 7 and value < 0").collect()]
found["again"] = counts.count()  # what one query wants is nothing to the next
pushed = lambda where: state(savepoint, "op", "count", pushdown="true").where(where)
found["partitions"] = [frame.rdd.getNumPartitions() for frame in (counts, pushed("key = 7"))]
found["pushed"] = [pushed("key = 7").count(), pushed("key_group > 100").count()]
total = state(checkpoint, "everything", "count").agg(sql.sum("value"), sql.max("ttl_written_at").isNotNull())
found["rocksdb"] = list(total.collect()[0])
try:
    state(savepoint, "op", "counts")
except Exception as error:
    found["refused"] = str(error)
print(json.dumps(found))
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
GROUPS, KEYS = 16, range(40)


class States:
    every: hg.ValueState[EVERY_TYPE | None] = hg.value_state(default=None)
    count: hg.ValueState[int] = hg.value_state(default=0)
    tags: hg.MapState[str, int] = hg.map_state()


def written(folder: Path) -> Path:
    """A canonical savepoint of two subtasks."""
    states = declared_state(States())
    told = []
    for subtask in (0, 1):
        groups = key_group_range(GROUPS, 2, subtask)
        backend = HeapKeyedBackend(states, *groups, GROUPS)
        for key in KEYS:
            if groups[0] <= key_group(key, GROUPS) <= groups[1]:
                _fill(backend, key)
        files = CanonicalFiles(LocalDisk(folder), SubtaskId(VertexId(0), SubtaskIndex(subtask)), 0)
        handle = backend.snapshot_sync().store_with(files.new_tables("op"))
        told.append(OperatorSubtaskState("op", handle))
    metadata = CheckpointMetadata(
        "job", "job", 1, 1, 1, 0, GROUPS, fingerprint(), {"op": 2}, {"op": told}, {}, {}, kind="savepoint",
        format="canonical",
    )  # fmt: skip
    (folder / METADATA).write_bytes(encode_metadata(metadata))
    return folder


def _fill(backend: Any, key: int) -> None:
    backend.bind(key)
    backend.handles["every"].value = VALUE
    backend.handles["count"].value = -key - 1
    backend.handles["tags"].put(f"t{key % 3}", 2**70 if key == 9 else key)
    backend.store()
    backend.event_timers.register(1_000 + key, key)


def test_a_snapshot_is_a_dataframe(tmp_path: Path) -> None:
    """Rows and types are those of plain Parquet; conditions leave files out; what is not there is told."""
    (checkpoint,) = (DATA / "job-rocksdb" / "v1-1-1-1-2-2-4-2989272").rglob("chk-*/_metadata")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(written(tmp_path / "savepoint")), str(checkpoint.parent)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["same"] == {name: [True, True, 40] for name in ("every", "count", "tags", "timers")}
    assert found["off"] == -8
    assert found["columns"] == ["key_group", "key", "value"]
    assert found["point"] == [[key_group(7, GROUPS), 7, -8]]
    assert found["partitions"] == [2, 1]
    assert found["again"] == 40
    assert found["pushed"] == [1, 0]
    assert found["rocksdb"] == [60, True]
    assert "has no state 'counts' of operator 'op'; there is 'op': " in found["refused"]
    assert "count (value[int])" in found["refused"]
