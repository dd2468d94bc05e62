"""What is no keyed state, conditions, types and options of a read of a snapshot."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from column_batches import to_arrow
from pyspark.sql import datasource as spark
from pyspark.sql.types import LongType, StringType, StructField, StructType
from reading_samples import GROUPS, Subtasks, pieces, rows, source

from headgate.common.errors import ConfigError, StorageError, UsageError
from headgate.common.keys.keygroups import key_group
from headgate.serde.resolve import serializer_for
from headgate.stateprocessor.reading.reading_filters import Condition, kept, understood, wanted_groups
from headgate.stateprocessor.reading.reading_options import read_request
from headgate.stateprocessor.reading.reading_shape import converter, spark_schema
from headgate.stateprocessor.source import FilteringReader, SavepointReader, SavepointSource

DATA = Path(__file__).parents[2] / "compat" / "data"


def golden(name: str) -> Path:
    """The newest checkpoint of a golden job."""
    (found,) = (path.parent for path in (DATA / name).glob("*/storage/*/*/_metadata"))
    return found


# -- records in flight


def test_typed_records_in_flight_have_columns() -> None:
    """Without the program's classes: the description that is stored beside the records is enough."""
    found = rows(golden("job-in-flight"), "in-flight", uid="slow-typed")
    assert len(found) == 14
    assert {row["receiver"] for row in found} == {"slow-typed"}
    assert all(row["record"] is not None and row["record_text"] is None for row in found)
    assert {key_group(row["record"]["key"], 128) == row["key_group"] for row in found} == {True}
    for channel in {(row["sender_subtask"], row["receiver_subtask"]) for row in found}:
        places = [r["position"] for r in found if (r["sender_subtask"], r["receiver_subtask"]) == channel]
        assert places == list(range(len(places)))


def test_records_of_no_declared_type_are_text() -> None:
    """As Python shows them."""
    found = rows(golden("job-in-flight"), "in-flight", uid="slow-plain")
    assert len(found) == 19
    assert all("record" not in row and row["record_text"] for row in found)
    with pytest.raises(
        UsageError, match=r"no state 'in-flight' of operator 'tally'; there is 'tally': count"
    ):
        rows(DATA / "savepoints" / "v2" / "canonical", "in-flight", uid="tally")


# -- operator state


def test_operator_state_is_a_row_for_each_element() -> None:
    """Lists that are dealt out, lists that all get, and broadcast state, with the subtask that had it."""
    whole = golden("job-whole")
    numbers = rows(whole, "numbers", uid="waiting")
    assert len(numbers) == 60
    assert {row["subtask"] for row in numbers} == {0, 1}
    assert numbers[0] == {"subtask": 0, "position": 0, "value": {"x": 1, "y": 0.5}, "value_raw": None}
    assert len(rows(whole, "counts", uid="waiting")) == 2
    limits = rows(golden("job-broadcast"), "limits", uid="limits")
    assert len({row["map_key"] for row in limits}) * 2 == len(limits) == 10


def test_values_that_only_the_program_can_take_apart_are_refused() -> None:
    """Told what to do instead; those of a canonical savepoint are bytes."""
    (checkpoint,) = (
        path.parent for path in (DATA / "job-rocksdb" / "v1-1-1-1-2-2-4-2989272").rglob("chk-*/_metadata")
    )
    with pytest.raises(UsageError, match=r"state 'warm' was .* serializer of the program's own.* canonical"):
        rows(checkpoint, "warm", uid="everything")
    assert len(rows(checkpoint, "count", uid="everything")) == 10


# -- conditions


def test_conditions_leave_out_files_and_rows(tmp_path: Path) -> None:
    """Those on key group and key leave whole pieces out; rows that come all the same are what Spark wants."""
    job = Subtasks(tmp_path, "heap")
    job.take([(f"k{n}", n) for n in range(200)])
    for snapshot in (job.savepoint(), job.checkpoint()):
        everything = rows(snapshot, "total")
        own = key_group("k17", GROUPS)
        cases: list[tuple[Any, Any]] = [
            (spark.EqualTo(("key",), "k17"), lambda row: row["key"] == "k17"),
            (spark.EqualTo(("key_group",), own), lambda row, own=own: row["key_group"] == own),
            (spark.In(("key_group",), (1, 2, 15)), lambda row: row["key_group"] in (1, 2, 15)),
            (spark.GreaterThan(("value",), 150), lambda row: row["value"] > 150),
            (spark.LessThanOrEqual(("key_group",), 3), lambda row: row["key_group"] <= 3),
            (spark.StringStartsWith(("key",), "k19"), lambda row: row["key"].startswith("k19")),
            (spark.IsNull(("value",)), lambda row: row["value"] is None),
            (spark.LessThan(("key_group",), 0), lambda row: False),
            (spark.Not(spark.EqualTo(("key",), "k17")), lambda row: True),  # left to Spark
        ]
        for condition, holds in cases:
            assert rows(snapshot, "total", [condition]) == [row for row in everything if holds(row)]
        reading = source(snapshot, "total").reading
        assert len(reading.pieces({own})) == 1
        assert reading.pieces(set()) == []
        assert len(pieces(snapshot, "total")) == 2
    job.close()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Condition(("n",), "=", (2,)), [2]),
        (Condition(("n",), "in", (1, 3)), [1, 3]),
        (Condition(("s", "x"), ">=", (20,)), [2, 3]),
        (Condition(("s", "x"), "null"), [None]),
        (Condition(("t",), "begins", ("a",)), [1]),
        (Condition(("n",), "not null"), [1, 2, 3]),
    ],
)
def test_rows_are_kept_as_spark_keeps_them(condition: Condition, expected: list[int | None]) -> None:
    """A row is kept where the condition is true: not where it is false, nor where it is null."""
    batch = pa.RecordBatch.from_pylist(
        [{"n": n, "s": {"x": n and n * 10}, "t": t} for n, t in [(1, "a"), (2, "b"), (3, None), (None, "c")]]
    )
    assert understood(condition, batch.schema)
    assert kept(batch, [condition]).column("n").to_pylist() == expected


@pytest.mark.parametrize(
    "condition",
    [
        Condition(("f",), "=", (1.0,)),  # NaN equals NaN in Spark
        Condition(("at",), "<", (dt.datetime(2024, 1, 1),)),
        Condition(("n",), "=", (True,)),
        Condition(("n",), "=", (2**80,)),
        Condition(("n",), "in", (1, None)),
        Condition(("n", "x"), "=", (1,)),
        Condition(("other",), "=", (1,)),
    ],
)
def test_what_spark_may_see_differently_is_left_to_it(condition: Condition) -> None:
    """Floats, moments, other types and columns that there are not."""
    schema = pa.schema({"n": pa.int64(), "f": pa.float64(), "at": pa.timestamp("us")})
    assert not understood(condition, schema)
    assert wanted_groups([condition], schema, GROUPS) is None


# -- types


def test_every_type_of_column_is_the_one_of_parquet(tmp_path: Path) -> None:
    """Durations, small and unsigned numbers and UUIDs are cast as Spark reads them, nested ones too."""
    every = tuple[
        dt.timedelta, uuid.UUID, np.uint8, np.uint16, np.uint32, np.uint64, dict[dt.date, list[dt.timedelta]]
    ]
    value = (dt.timedelta(1), uuid.UUID(int=1), np.uint8(1), np.uint16(2), np.uint32(3), np.uint64(2**64 - 1),
             {dt.date(2024, 1, 1): [dt.timedelta(2)]})  # fmt: skip
    batch = to_arrow(serializer_for(every), [value])
    pq.write_table(pa.Table.from_batches([batch]), tmp_path / "t.parquet")
    stored = next(pq.ParquetFile(tmp_path / "t.parquet").iter_batches())
    made = converter(stored.schema, ["value"])(stored)
    assert made.schema.types == [spark_schema(batch.schema).field("value").type]
    (row,) = made.column("value").to_pylist()
    assert row["_1"] == 86_400_000_000
    assert row["_2"] == uuid.UUID(int=1).bytes
    assert [int(row[name]) for name in ("_3", "_4", "_5", "_6")] == [1, 2, 3, 2**64 - 1]
    assert row["_7"] == [(dt.date(2024, 1, 1), [2 * 86_400_000_000])]


# -- the source


def test_what_was_found_travels_with_the_source() -> None:
    """Spark pickles the source after asking for its columns; what it plans later is of the same snapshot."""
    path = DATA / "savepoints" / "v2" / "canonical"
    first = SavepointSource({"path": str(path), "uid": "tally", "state": "count"})
    columns = first.schema()
    again: SavepointSource = pickle.loads(pickle.dumps(first))
    assert again._found is not None
    assert again._found.columns == first.reading.columns
    assert [field.name for field in columns][:3] == ["key_group", "key", "key_raw"]
    reader = again.reader(StructType([StructField("value", LongType())]))
    parts = [pickle.loads(pickle.dumps(part)) for part in reader.partitions()]
    assert {tuple(row) for part in parts for batch in reader.read(part) for row in batch.to_pylist()} == {
        ("value",)
    }
    assert list(reader.read(spark.InputPartition(None))) == []
    with pytest.raises(UsageError, match="column 'value' is bigint, and the schema of the read says string"):
        again.reader(StructType([StructField("value", StringType())]))


def test_conditions_are_taken_only_where_they_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Spark asks and the read does: what one query left out, Spark leaves out of the next."""
    path = str(DATA / "savepoints" / "v2" / "canonical")
    kinds = []
    for module in (
        "pyspark.sql.worker.plan_data_source_read",
        "pyspark.sql.worker.data_source_pushdown_filters",
    ):
        monkeypatch.setitem(sys.modules, module, sys)
        for pushdown in ("false", "true"):
            options = {"path": path, "uid": "tally", "state": "count", "pushdown": pushdown}
            made = SavepointSource(options)
            kinds.append(type(made.reader(made.schema())))
    assert kinds == [SavepointReader, SavepointReader, SavepointReader, FilteringReader]
    with pytest.raises(
        UsageError, match="option pushdown of headgate-savepoint is 'yes'; expected true or false"
    ):
        read_request({"path": path, "pushdown": "yes"})


def test_options_are_understood_or_refused() -> None:
    """A slip of the pen is told, with what was likely meant; so is a setting that does not exist."""
    with pytest.raises(UsageError, match="no option 'colums'; did you mean 'columns'"):
        read_request({"path": "/x", "colums": "key"})
    with pytest.raises(ConfigError, match=r"s3.endpont"):
        SavepointSource({"path": "/x", "uid": "a", "state": "b", "storage.s3.endpont": "x"}).schema()
    with pytest.raises(StorageError, match="holds no completed checkpoint"):
        SavepointSource({"path": str(DATA), "uid": "a", "state": "b"}).schema()


def test_all_golden_snapshots_are_read() -> None:
    """Every state that is listed has as many rows as the snapshot says, where it says so."""
    expected = json.loads((DATA / "savepoints" / "v2" / "expected.json").read_text())
    assert expected
    for form in ("canonical", "native"):
        found = {
            state: len(rows(DATA / "savepoints" / "v2" / form, state, uid="tally"))
            for state in ("count", "seen", "sizes", "timers")
        }
        assert found == {"count": 10, "seen": 60, "sizes": 30, "timers": 10}
