"""Tables are open: Arrow and Polars read them without Headgate; and what is damaged or foreign is refused."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from canonical_samples import (
    ALL,
    GROUPS,
    STATES,
    Colour,
    Entry,
    Visit,
    Written,
    blob_of,
    heap,
    restored,
    targets_of,
)

from headgate.common.errors import StorageError, UsageError
from headgate.common.keys.keygroups import key_group
from headgate.state.canonical.writer import TablesWriter
from tests.stored_tables import SubtaskTables, Table, restored_tables, write_tables

ENTRIES: list[Entry] = [
    ("total", "a", 5),
    ("total", "b", 2**64),
    ("last", "a", Visit("/", 3, {1})),
    ("free", "a", (1, 2)),
    ("seen", "a", ["x", "y"]),
    ("counts", ("a", 1), {"n": 1, "m": 2}),
    ("visits", 7, {dt.date(2024, 1, 2): Visit("/", 1)}),
    ("colours", True, {Colour.RED: [1, 2]}),
    ("most", 0.5, -0.0),
    ("mean", b"k", (2, 3.0)),
    ("timers:event", "a", 1000),
    ("timers:processing", "a", 2000),
]
GROUP_OF_A = key_group("a", GROUPS)


@pytest.fixture(scope="module")
def written() -> Written:
    """Tables of one entry or two for each kind of state."""
    return Written(blob_of(heap(ENTRIES)))


COLUMNS = {
    "total": {"key": "string", "key_raw": "binary", "value": "int64", "value_raw": "binary"},
    "last": {
        "key": "string", "key_raw": "binary",
        "value": "struct<page: string, count: int64, extra: binary>", "value_raw": "binary",
    },
    "free": {"key": "string", "key_raw": "binary", "value_raw": "binary"},
    "seen": {
        "key": "string", "key_raw": "binary", "position": "int64", "value": "string", "value_raw": "binary"
    },
    "counts": {
        "key": "struct<_1: string, _2: int64>", "key_raw": "binary", "position": "int64", "map_key": "string",
        "map_key_raw": "binary", "value": "int64", "value_raw": "binary",
    },
    "visits": {
        "key": "int64", "key_raw": "binary", "position": "int64", "map_key": "date32[day]",
        "value": "struct<page: string, count: int64, extra: binary>", "value_raw": "binary",
    },
    "colours": {
        "key": "bool", "key_raw": "binary", "position": "int64", "map_key": "string",
        "value": "list<element: int64>", "value_raw": "binary",
    },
    "most": {"key": "double", "key_raw": "binary", "value": "double", "value_raw": "binary"},
    "mean": {
        "key": "binary", "key_raw": "binary", "value": "struct<_1: int64, _2: double>", "value_raw": "binary"
    },
    "timers:all": {"key": "string", "key_raw": "binary", "time_domain": "string", "timestamp": "int64"},
}  # fmt: skip


def test_arrow_opens_every_table(written: Written) -> None:
    """Types and values of each column, as Arrow alone sees them."""
    assert written.files.keys() == COLUMNS.keys()
    for name, file in written.files.items():
        schema = pq.read_schema(io.BytesIO(file))
        assert schema.field("key_group").type == pa.int32()
        found = {f.name: str(f.type) for f in schema if f.name not in ("key_group", "namespace")}
        assert found == COLUMNS[name], name

    def rows(name: str, *columns: str) -> list[tuple[Any, ...]]:
        table = pq.read_table(io.BytesIO(written.files[name]), columns=list(columns))
        return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)

    assert rows("total", "key_group", "key", "value") == sorted(
        [(GROUP_OF_A, "a", 5), (key_group("b", GROUPS), "b", None)], key=repr
    )
    assert rows("seen", "key", "position", "value") == [("a", 0, "x"), ("a", 1, "y")]
    assert rows("counts", "key", "position", "map_key", "value") == [
        ({"_1": "a", "_2": 1}, 0, "n", 1),
        ({"_1": "a", "_2": 1}, 1, "m", 2),
    ]
    assert rows("timers:all", "key", "time_domain", "timestamp") == [
        ("a", "event", 1000),
        ("a", "processing", 2000),
    ]


def test_polars_opens_every_table(written: Written) -> None:
    """Types and values of each column, as Polars sees them."""
    frames = {name: pl.read_parquet(io.BytesIO(file)) for name, file in written.files.items()}
    visit = pl.Struct({"page": pl.String, "count": pl.Int64, "extra": pl.Binary})
    assert frames["last"].schema["value"] == visit
    assert frames["visits"].schema["map_key"] == pl.Date
    assert frames["colours"].schema["value"] == pl.List(pl.Int64)
    assert frames["mean"].schema["value"] == pl.Struct({"_1": pl.Int64, "_2": pl.Float64})
    assert {str(frame.schema["key_group"]) for frame in frames.values()} == {"Int32"}
    assert frames["total"].filter(pl.col("key") == "a").select("key_group", "value").rows() == [
        (GROUP_OF_A, 5)
    ]
    assert frames["last"].select("key", pl.col("value").struct.field("page", "count")).rows() == [
        ("a", "/", 3)
    ]
    assert frames["seen"].sort("position").get_column("value").to_list() == ["x", "y"]
    assert frames["visits"].get_column("map_key").to_list() == [dt.date(2024, 1, 2)]
    assert frames["colours"].select("key", "map_key", "value").rows() == [(True, "RED", [1, 2])]


def test_the_file_says_what_it_is(written: Written) -> None:
    """One text of JSON in the file's metadata: name, kind, descriptions, key groups, rows."""
    metadata = pq.read_metadata(io.BytesIO(written.files["counts"])).metadata
    told = json.loads(metadata[b"headgate.state"])
    assert told["schema"]["of"] == [{"kind": "str", "version": 1}, {"kind": "int", "version": 1}]
    del told["schema"], told["key"], told["key_schema"]
    assert told == {
        "format": 1, "name": "counts", "kind": "map", "rows_are": "entry", "max_parallelism": GROUPS,
        "first_group": 0, "last_group": GROUPS - 1, "rows": 2,
    }  # fmt: skip


def test_tables_of_stamps_are_skipped_where_the_program_declares_none(written: Written) -> None:
    """Time to live that was switched off: as from every checkpoint."""
    states = {**STATES, "total#ttl": replace(STATES["total"], name="total#ttl")}
    stamped = Written(blob_of(heap([("total", 1, 5), ("total#ttl", 1, 99)], states=states)))
    assert restored([stamped]) == [("total", 1, 5)]


# -- damage


def refused(data: bytes, stored: Table | None = None, why: str = "") -> None:
    """A file is refused before a row of it is given away."""
    whole = Written.stored(Written(blob_of(heap([("total", 1, 5)])))).tables[0] if stored is None else stored
    part = SubtaskTables(ALL, [whole._replace(data=data)])
    with pytest.raises(StorageError, match=why) as caught:
        list(restored_tables([part], targets_of(STATES), ALL, GROUPS))
    assert "\n" not in str(caught.value)


def test_every_flipped_bit_is_found_by_the_checksum(written: Written) -> None:
    """Before Parquet sees a byte of it."""
    (stored,) = Written(blob_of(heap([("seen", 1, ["a"])]))).stored().tables
    data = stored.data
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(StorageError, match=r"is damaged: .* checksum"):
            part = SubtaskTables(ALL, [stored._replace(data=bytes(damaged))])
            list(restored_tables([part], targets_of(STATES), ALL, GROUPS))
    refused(bytes(damaged), stored, r"is damaged: .* checksum")


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_files_of_another_length_are_refused(cut: int) -> None:
    """Cut short, or with other bytes in between."""
    (stored,) = Written(blob_of(heap([("total", 1, 5)]))).stored().tables
    data = stored.data
    refused(data[: stored.length - cut - 1], stored, "is truncated")
    refused(bytes(cut + 1) + data, stored, "is damaged")


def as_stored(data: bytes) -> Table:
    """A file with the checksum that it has: nothing is wrong with its bytes."""
    (table,) = Written(blob_of(heap([("total", 1, 5)]))).stored().tables

    return table._replace(length=len(data), crc32=crc32(data))


def rewritten(
    change: Callable[[pa.Table], pa.Table], info: Callable[[dict[str, Any]], None] = lambda _: None
) -> bytes:
    """A table of a list state, with other contents under a right checksum."""
    data = Written(blob_of(heap([("seen", 1, ["a", "b"]), ("seen", 2, ["c"])]))).files["seen"]
    table = pq.read_table(io.BytesIO(data))
    told = json.loads(pq.read_metadata(io.BytesIO(data)).metadata[b"headgate.state"])
    info(told)
    made = change(table).replace_schema_metadata({"headgate.state": json.dumps(told)})
    out = io.BytesIO()
    pq.write_table(made, out)
    return out.getvalue()


def set_column(name: str, values: list[Any]) -> Callable[[pa.Table], pa.Table]:
    """A change of one column."""
    return lambda table: table.set_column(
        table.schema.get_field_index(name),
        table.schema.field(name),
        pa.array(values, table.schema.field(name).type),
    )


def same(table: pa.Table) -> pa.Table:
    """No change."""
    return table


FOREIGN: list[tuple[bytes, str]] = [
    (b"no Parquet file at all", "is no Parquet file"),
    (b"", "is no Parquet file"),
    (rewritten(lambda table: table.drop_columns(["namespace"])), "'seen' has the columns .*; expected"),
    (rewritten(set_column("position", [0, 2, 0])), "positions are not in order"),
    (rewritten(set_column("position", [1, 2, 0])), "positions are not in order"),
    (rewritten(set_column("position", [None, 1, 0])), "positions are not in order"),
    (rewritten(set_column("key_group", [9, 8, 7])), "not in the order of its key groups"),
    (rewritten(set_column("key_group", [99, 99, 99])), "not in the order of its key groups"),
    (rewritten(set_column("key", [1, 1, 1000])), "key 1000 is in key group 15; its own is 7"),
    (rewritten(set_column("key", [1, 1, None])), "a row with no key"),
    (rewritten(set_column("namespace", ["w", "w", "w"])), "rows with a namespace"),
    (rewritten(set_column("value_raw", [b"\x09", None, None])), "'value' does not hold stored values"),
    (rewritten(lambda table: table.slice(1)), "has 2 rows; its metadata says 3"),
    (rewritten(same, lambda told: told.update(format=2)), "version 2 of its format; this Headgate reads 1"),
    (rewritten(same, lambda told: told.update(rows="x")), "does not decode"),
    (rewritten(same, lambda told: told.pop("format")), "does not decode"),
    (rewritten(same, lambda told: told.update(first_group=3)), "it belongs to another subtask"),
]


@pytest.mark.parametrize(("data", "why"), FOREIGN, ids=[why[:30] for _, why in FOREIGN])
def test_what_no_headgate_wrote_is_refused(data: bytes, why: str) -> None:
    """A file whose checksum is right and whose contents are not: one sentence says what is wrong."""
    refused(data, as_stored(data), why)


def test_a_strangers_parquet_file_is_refused() -> None:
    """A table without our metadata holds no state, whatever its columns are called."""
    out = io.BytesIO()
    pq.write_table(pa.table({"key": [1], "value": [2]}), out)
    refused(
        out.getvalue(), as_stored(out.getvalue()), "has no metadata 'headgate.state', so it holds no state"
    )


def test_a_damaged_blob_writes_no_table() -> None:
    """The blob's own checksums are verified, and the started file is let go of."""
    blob = bytearray(blob_of(heap([("total", 1, 5), ("total", 2, 6)])))
    blob[-1] ^= 1
    with pytest.raises(StorageError, match="damaged"):
        write_tables(bytes(blob), lambda _: io.BytesIO())


def test_a_value_that_no_cell_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet has a limit per cell; the state is named, and what was begun is let go of."""
    monkeypatch.setattr("headgate.serde.arrow.arrow_columns._CELL_MAX", 20)
    blob = blob_of(heap([("free", 1, "x"), ("free", 2, "x" * 30)]))
    with pytest.raises(
        UsageError, match=r"state 'free' cannot be written as a table: a value takes 3. bytes"
    ):
        write_tables(blob, lambda _: io.BytesIO())


def test_a_value_that_is_not_of_its_type_is_refused_as_in_every_form(tmp_path: Path) -> None:
    """Whether it is among the first entries or not."""
    for entries in ([("total", 1, "five"), ("total", 2, 6)], [("total", 1, 5), ("total", 2, "six")]):
        pending = heap(entries).snapshot_sync()
        with pytest.raises(UsageError, match=r"^state 'total' cannot be stored: "):
            pending.store_with(
                lambda groups, number: TablesWriter(groups, number, lambda name, _: name, tmp_path)
            )
