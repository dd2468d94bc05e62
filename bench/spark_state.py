"""State of many keys read into Spark: by the data source, by a minimal one, and as plain Parquet.

    python -m bench.spark_state KEYS ENTRIES [--rounds N]

A canonical savepoint of KEYS counts in four subtasks is written straight from arrays. Each round adds up all
of it in Spark, three ways in turn: as `headgate-savepoint`; by a Python data source that only yields the same
Arrow batches, mapped from files of Arrow's own format; and with `spark.read.parquet`. Then ENTRIES counts are
read out of a checkpoint of either backend. Two task slots; seconds are those of the query, planning included.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import headgate as hg
from bench.jobs.support import result
from bench.state_checkpoints import scattered
from bench.state_operator import GROUPS, Subtask
from headgate.api.declared.keyed_states import declared_state
from headgate.checkpoint.layout import METADATA, table_name
from headgate.checkpoint.metadata.metadata_bytes import encode_metadata
from headgate.common.format_config import fingerprint
from headgate.common.keys.keygroups import key_group_range
from headgate.common.keys.keygroups_vectorised import groups_of_hashes, hashes_of_ints
from headgate.serde.resolve import serializer_for
from headgate.state.backends import HeapBackends, RocksBackends, StateBackends
from headgate.state.canonical.table_layout import VERSION, TableInfo
from headgate.state.canonical.writer import TableWriter
from headgate.state.snapshots import (
    CheckpointMetadata,
    Inline,
    KeyedStateHandle,
    OperatorSubtaskState,
    StateTable,
)
from headgate.state.stored.blob_format import KEY_SERIALIZER
from headgate.state.targets import target_of
from headgate.stateprocessor.reading.reading_shape import converter, spark_schema
from headgate.stateprocessor.source import NAME, register

SUBTASKS: Final = 4
BATCH: Final = 65_536
UID, STATE = "counts", "count"


class Counts:
    """The state."""

    count: hg.ValueState[int] = hg.value_state(default=0)


SCHEMA: Final = target_of(declared_state(Counts())[STATE]).schema


# -- what is read


def write_savepoint(folder: Path, arrow: Path, keys: int) -> None:
    """A savepoint of counts, and the batches of it in files of Arrow's own format."""
    numbers = np.arange(keys, dtype=np.int64)
    groups = groups_of_hashes(hashes_of_ints(numbers), GROUPS).astype(np.int32)
    order = np.argsort(groups, kind="stable")
    numbers, groups = numbers[order], groups[order]
    states = []
    for subtask in range(SUBTASKS):
        low, high = key_group_range(GROUPS, SUBTASKS, subtask)
        mine = slice(np.searchsorted(groups, low), np.searchsorted(groups, high, side="right"))
        handle = _write_table(folder, arrow, subtask, numbers[mine], groups[mine])
        states.append(OperatorSubtaskState(UID, handle))
    metadata = _metadata(states, "savepoint", "canonical")
    (folder / METADATA).write_bytes(encode_metadata(metadata))


def _metadata(states: list[OperatorSubtaskState], kind: str, form: str | None = None) -> CheckpointMetadata:
    return CheckpointMetadata(
        "bench", "bench", 1, 1, 1, 0, GROUPS, fingerprint(), {UID: len(states)}, {UID: states}, {},
        {UID: {STATE: SCHEMA}}, kind=kind, format=form,
    )  # fmt: skip


def _write_table(folder: Path, arrow: Path, subtask: int, keys: Any, groups: Any) -> KeyedStateHandle:
    described = serializer_for(int).describe()
    low_high = key_group_range(GROUPS, SUBTASKS, subtask)
    info = TableInfo(
        VERSION, STATE, "value", "value", SCHEMA, KEY_SERIALIZER.describe(), described, GROUPS, *low_high
    )
    name = table_name(UID, STATE, subtask)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("wb") as stream:
        table = TableWriter(info, stream)
        convert = converter(table.schema, table.schema.names)
        with pa.ipc.new_file(arrow / f"{subtask}.arrow", spark_schema(table.schema)) as same:
            for at in range(0, len(keys), BATCH):
                batch = _rows(table.schema, keys[at : at + BATCH], groups[at : at + BATCH])
                table.add_rows(batch)
                same.write_batch(convert(batch))
        written = table.finish()
    stored = StateTable(STATE, name, written.length, written.crc32)
    return KeyedStateHandle(*low_high, Inline(b""), written.length, tables=[stored])


def _rows(schema: pa.Schema, keys: Any, groups: Any) -> pa.RecordBatch:
    made = {"key_group": groups, "key": keys, "value": keys * 7 % 1_000_003}
    arrays = [
        pa.array(made[field.name], field.type) if field.name in made else pa.nulls(len(keys), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def write_checkpoint(folder: Path, backends: StateBackends, entries: int) -> Path:
    """A checkpoint of one subtask."""
    storage = folder / "storage"
    subtask = Subtask(backends, storage)
    for batch in scattered(entries):
        subtask.take(batch)
    taken = subtask.checkpoint(1)
    subtask.close()
    place = storage / "bench" / "chk-1"
    place.mkdir(parents=True, exist_ok=True)
    (place / METADATA).write_bytes(encode_metadata(_metadata([taken.state], "checkpoint")))
    return place


# -- the three ways


class MinimalSource(DataSource):
    """The least that a Python data source can do for the same batches."""

    @classmethod
    def name(cls) -> str:
        return "minimal"

    def schema(self) -> Any:
        from pyspark.sql.pandas.types import from_arrow_schema

        with pa.memory_map(f"{self.options['path']}/0.arrow") as file:
            return from_arrow_schema(pa.ipc.open_file(file).schema)

    def reader(self, schema: Any) -> DataSourceReader:
        return MinimalReader(self.options["path"])


class MinimalReader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(SUBTASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(f"{self._path}/{partition.value}.arrow") as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def of_state(spark: SparkSession, path: Path) -> DataFrame:
    """By the data source."""
    return spark.read.format(NAME).option("uid", UID).option("state", STATE).load(path.as_uri())


def seconds(frame: DataFrame, keys: int) -> float:
    """How long all of it takes to be added up."""
    began = time.perf_counter()
    count, total = frame.agg(sql.count("value"), sql.sum("key")).collect()[0]
    took = time.perf_counter() - began
    if (count, total) != (keys, keys * (keys - 1) // 2):
        raise RuntimeError(f"read {count} counts of {keys}; their keys add up to {total}")
    return round(took, 3)


def measure(keys: int, entries: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Everything, in order."""
    savepoint, arrow = folder / "savepoint", folder / "arrow"
    arrow.mkdir()
    write_savepoint(savepoint, arrow, keys)
    checkpoints = {
        "heap": write_checkpoint(folder / "heap", HeapBackends(), entries),
        "rocksdb": write_checkpoint(
            folder / "rocks", RocksBackends(256 << 20, str(folder / "local"), True), entries
        ),
    }
    spark = _session()
    try:
        register(spark)
        spark.dataSource.register(MinimalSource)
        ways = {
            "headgate": lambda: of_state(spark, savepoint),
            "minimal": lambda: spark.read.format("minimal").load(str(arrow)),
            "parquet": lambda: spark.read.parquet(str(savepoint / "state" / UID / STATE)),
        }
        for way in ways.values():  # not counted: Python and the JVM warm up
            seconds(way(), keys)
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, way in ways.items():
                found[name].append(seconds(way(), keys))
        small = {name: seconds(of_state(spark, place), entries) for name, place in checkpoints.items()}
    finally:
        spark.stop()
    bytes_ = sum(file.stat().st_size for file in savepoint.rglob("*.parquet"))
    return {"keys": keys, "entries": entries, "bytes": bytes_, "seconds": found, "checkpoints_s": small}


def _session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.memory", "2g").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main() -> None:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("keys", type=int)
    parser.add_argument("entries", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-state-") as folder:
        result(**measure(asked.keys, asked.entries, asked.rounds, Path(folder)))


if __name__ == "__main__":
    main()
