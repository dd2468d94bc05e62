"""What a task makes of its range's rows: tables as a job writes them, or what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.storage.settings import StorageSettings
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import UsageError
from headgate.common.keys.keygroups import key_group, key_groups_of_arrow
from headgate.state.snapshots import StateTable
from headgate.state.stored.tables import open_table
from headgate.stateprocessor.writing.writing_rows import KeyRows, descriptor_of, outputs_of
from headgate.stateprocessor.writing.writing_tables import Place, TableTask

GROUPS = 16


def task_of(
    folder: Path, declared: Any, batch: Any, convert: Any = None, written_at: Any = None
) -> TableTask:
    """For a state `s` of one subtask; the key column is the first one, the value's is `value`."""
    types = {name: batch.schema.field(name).type for name in batch.schema.names}
    outputs = outputs_of(descriptor_of(declared, "s"), "value", types, convert, written_at)
    key = batch.schema.names[0]
    place = Place(str(folder), StorageSettings(), GROUPS, 1, "mark")
    return TableTask("op", outputs, [key], [types[key]], (), place)


def sorted_by_group(batch: Any) -> Any:
    """As Spark gives the rows: by key group, then by key."""
    groups = pa.array(key_groups_of_arrow(batch.column(0), GROUPS))
    table = pa.Table.from_batches([batch]).append_column("g", groups)
    whole = table.sort_by([("g", "ascending"), (batch.schema.names[0], "ascending")]).drop_columns(["g"])
    return whole.combine_chunks().to_batches()[0]


def pieces(batch: Any, rows: int) -> Iterator[Any]:
    """A batch in several."""
    return (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def written(folder: Path, task: TableTask, batch: Any, rows: int = 7) -> dict[str, Any]:
    """What a task gives back; by state."""
    (told,) = task(pieces(batch, rows))
    return {row["state"]: row for row in told.to_pylist()}


def contents(folder: Path, row: dict[str, Any]) -> Any:
    """The table's rows, after it was opened as a restore opens it."""
    stored = StateTable(row["state"], row["file"], row["length"], row["crc32"])
    table = open_table(DiskFiles(LocalDisk(folder)), stored)
    assert (table.info.first_group, table.info.last_group, table.info.max_parallelism) == (0, 15, GROUPS)
    list(table.entries((0, 15)))
    import pyarrow.parquet as pq

    return pq.read_table(folder / row["file"]).to_pylist()


def test_rows_lie_by_key_group(tmp_path: Path) -> None:
    """Whatever batches they come in; the file is one that a restore takes."""
    batch = sorted_by_group(pa.record_batch({"k": [f"k{n}" for n in range(100)], "value": range(100)}))
    row = written(tmp_path, task_of(tmp_path, hg.ValueState[int], batch), batch)["s"]
    found = contents(tmp_path, row)
    assert {one["key"]: one["value"] for one in found} == {f"k{n}": n for n in range(100)}
    assert all(one["key_group"] == key_group(one["key"], GROUPS) for one in found)
    assert row["entries"] == 100
    assert "-mark-" in row["file"], "the writer finds its files by its mark"


def test_lists_and_maps_are_a_row_for_each_part(tmp_path: Path) -> None:
    """With their places; an empty one is one row without."""
    lists = pa.record_batch({"k": [1, 2, 3], "value": [[5, 6], [], [7]]})
    batch = sorted_by_group(lists)
    found = contents(tmp_path, written(tmp_path, task_of(tmp_path, hg.ListState[int], batch), batch)["s"])
    by_key = {key: [(r["position"], r["value"]) for r in found if r["key"] == key] for key in (1, 2, 3)}
    assert by_key == {1: [(0, 5), (1, 6)], 2: [(None, None)], 3: [(0, 7)]}
    maps = pa.array([[("a", 1), ("b", 2)], []], pa.map_(pa.string(), pa.int64()))
    batch = sorted_by_group(pa.record_batch({"k": [1, 2], "value": maps}))
    found = contents(tmp_path, written(tmp_path, task_of(tmp_path, hg.MapState[str, int], batch), batch)["s"])
    assert {(r["key"], r["position"], r["map_key"], r["value"]) for r in found} == {
        (1, 0, "a", 1),
        (1, 1, "b", 2),
        (2, None, None, None),
    }


class Short:
    """State whose entries end."""

    s: hg.MapState[str, int] = hg.map_state(ttl=hg.StateTtl("1h"))


def test_stamps_lie_beside_what_they_are_of(tmp_path: Path) -> None:
    """One for each entry of a map, with its key; of the moment that the column tells."""
    maps = pa.array([[("a", 1), ("b", 2)], []], pa.map_(pa.string(), pa.int64()))
    batch = sorted_by_group(pa.record_batch({"k": [1, 2], "value": maps, "at": [1000, 2000]}))
    found = written(tmp_path, task_of(tmp_path, Short, batch, written_at="at"), batch)
    assert list(found) == ["s#ttl", "s"]
    stamps = contents(tmp_path, found["s#ttl"])
    assert {(r["key"], r["position"], r["map_key"], r["value"]) for r in stamps} == {
        (1, 0, "a", 1000),
        (1, 1, "b", 1000),
        (2, None, None, None),
    }


def test_a_function_makes_what_no_column_can_be(tmp_path: Path) -> None:
    """Through the state's own serializer; what it gives is checked."""
    batch = sorted_by_group(pa.record_batch({"k": [1, 2], "value": ["x", "7"]}))

    def number_or_text(text: str) -> int | str:
        return int(text) if text.isdigit() else text

    task = task_of(tmp_path, hg.ValueState[int | str], batch, number_or_text)
    assert len(contents(tmp_path, written(tmp_path, task, batch)["s"])) == 2
    wrong = task_of(tmp_path, hg.ValueState[int], batch, number_or_text)
    (told,) = wrong(iter([batch]))
    (row,) = told.to_pylist()
    assert row["error"] == "UsageError"
    assert "convert= of column 'value' gives what state 's' does not hold" in row["text"]


@pytest.mark.parametrize(
    ("keys", "rows", "why"),
    [
        ([4, 4], 1, "key 4 is there more than once"),
        ([4, 4], 2, "key 4 is there more than once"),
        ([4, None], 2, "key column 'k' holds null"),
        ([0.5, float("nan")], 2, "a key is NaN"),
    ],
)
def test_keys_that_are_none_are_told(tmp_path: Path, keys: Any, rows: int, why: str) -> None:
    """Also where the second one comes in the next batch."""
    batch = pa.record_batch({"k": pa.array(keys, from_pandas=False), "value": [1, 2]})
    (told,) = task_of(tmp_path, hg.ValueState[int], batch)(pieces(batch, rows))
    (row,) = told.to_pylist()
    assert row["error"] == "UsageError"
    assert f"state 's' of operator 'op': {why}" in row["text"]


def test_rows_in_another_order_are_our_fault(tmp_path: Path) -> None:
    """What Spark sorted by is compared with what a restore looks for."""
    batch = sorted_by_group(pa.record_batch({"k": range(50), "value": range(50)}))
    backwards = batch.take(pa.array(range(49, -1, -1)))
    (told,) = task_of(tmp_path, hg.ValueState[int], batch)(iter([backwards]))
    assert told.to_pylist()[0]["error"] == "InternalError"


def test_what_is_no_key_is_refused_at_once() -> None:
    """By its column and type."""
    with pytest.raises(UsageError, match=r"key column 'k' is of type list<item: int64>; expected columns"):
        KeyRows(["k"], [pa.list_(pa.int64())])
