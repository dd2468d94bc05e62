"""Keyed state read from every form in which it is stored: the rows are those of the canonical tables."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reading_samples import (
    BACKENDS,
    PLAIN,
    WITH_STAMPS,
    Subtasks,
    handles,
    in_order,
    parquet_rows,
    pieces,
    rows,
    source,
)

from headgate.checkpoint.storage.uris import local_path
from headgate.common.errors import StorageError, UsageError
from headgate.state.snapshots import FileRange
from headgate.stateprocessor.reading import reading_plan
from headgate.stateprocessor.reading.reading_keyed import EntriesPiece
from headgate.stateprocessor.reading.reading_plan import TablePiece

KEYS = [f"k{n:02}" for n in range(13)]
CLEARED = "k04"


def filled(folder: Path, backend: str, seed: int = 1) -> Subtasks:
    """Subtasks that changed everything, with two checkpoints in between, and cleared a key."""
    job, chance = Subtasks(folder, backend), random.Random(seed)
    for _ in range(2):
        job.take([(chance.choice(KEYS), chance.randrange(50)) for _ in range(60)])
        job.checkpoint()
    job.take([(chance.choice(KEYS), chance.randrange(50)) for _ in range(20)])
    job.take([(CLEARED, -1)])
    return job


SLOWER = [pytest.param(backend, marks=pytest.mark.ci) for backend in BACKENDS[1:]]


@pytest.fixture(params=["heap", *SLOWER])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subtasks]:
    """Each backend."""
    made = filled(tmp_path, request.param)
    yield made
    made.close()


def test_every_form_has_the_rows_of_the_canonical_tables(job: Subtasks) -> None:
    """A checkpoint, incremental or not, and savepoints of both formats have the same rows."""
    canonical = job.savepoint()
    snapshots = [canonical, job.savepoint("native"), job.checkpoint()]
    for state in PLAIN:
        expected = in_order(parquet_rows(canonical, state))
        assert len(expected) >= 12
        for snapshot in snapshots:
            assert in_order(rows(snapshot, state)) == expected, (snapshot, state)
    keys = {row["key"] for row in rows(canonical, "total")}
    assert keys == {*KEYS} - {CLEARED}


def test_stamps_stand_beside_the_entries_that_they_are_of(job: Subtasks) -> None:
    """Of a state with a time to live each value, element and entry has the time of its last write."""
    canonical = job.savepoint()
    snapshots = [canonical, job.savepoint("native"), job.checkpoint()]
    for state in WITH_STAMPS:
        told = {_place(row): row["value"] for row in parquet_rows(canonical, f"{state}%23ttl")}
        expected = parquet_rows(canonical, state)
        assert {_place(row) for row in expected} == told.keys()
        for row in expected:
            row["ttl_written_at"] = dt.datetime.fromtimestamp(told[_place(row)] / 1000, dt.UTC)
        for snapshot in snapshots:
            assert in_order(rows(snapshot, state)) == in_order(expected), (snapshot, state)
        assert len({row["ttl_written_at"] for row in expected}) > 1


def _place(row: dict[str, Any]) -> Any:
    """Of a map's entry its key: stamps have an order of their own."""
    return row["key"], row.get("map_key", row.get("position"))


def test_no_key_type_is_lost_where_tables_differ(tmp_path: Path) -> None:
    """Keys of another type than the first are in `key_raw`, whichever file they are in."""
    job = Subtasks(tmp_path, "heap")
    job.take([(key, 1) for key in (*range(40), *KEYS, (1, "a"))])
    for snapshot in (job.savepoint(), job.checkpoint()):
        found = rows(snapshot, "total")
        assert len(found) == 54
        typed = [row["key"] for row in found if row["key"] is not None]
        assert {type(key) for key in typed} in ({int}, {str})
        assert sum(row["key_raw"] is not None for row in found) == 54 - len(typed)
    job.close()


def test_a_state_that_nobody_filled_is_an_empty_table(tmp_path: Path) -> None:
    """A subtask without entries has no piece; the columns are known all the same."""
    job = Subtasks(tmp_path, "heap", parallelism=1)
    job.take([("a", 1)])
    job.take([("a", -1)])
    snapshot = job.checkpoint()
    assert len(rows(snapshot, "timers")) == 2
    with pytest.raises(UsageError, match="has no state 'total'"):
        rows(snapshot, "total")
    job.close()


def test_a_large_table_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of tables are row groups, of blobs key groups; together they are everything."""
    job = filled(tmp_path, "heap")
    canonical, checkpoint = job.savepoint(), job.checkpoint()
    expected = in_order(rows(canonical, "seen"))
    monkeypatch.setattr(reading_plan, "PIECE_BYTES", 1)
    monkeypatch.setattr(reading_plan, "PIECE_ENTRIES", 3)
    assert all(isinstance(piece, TablePiece) for piece in pieces(canonical, "seen"))
    parts = pieces(checkpoint, "seen")
    assert all(isinstance(piece, EntriesPiece) for piece in parts)
    assert len(parts) > 2
    assert in_order(rows(canonical, "seen")) == in_order(rows(checkpoint, "seen")) == expected
    job.close()


@pytest.mark.proof
def test_a_flipped_bit_is_refused_with_file_and_bytes(job: Subtasks) -> None:
    """Nothing is decoded of what is damaged, in whichever form it is; the message says where."""
    chance = random.Random(1)
    for snapshot in (job.savepoint(), job.savepoint("native"), job.checkpoint()):
        ranges = [each for handle in handles(snapshot) for each in handle.handles()]
        files = [each for each in ranges if isinstance(each, FileRange) and each.length]
        root = source(snapshot, "total").reading.open()
        for each in files:
            path = Path(local_path(root.describe(each.file)))
            whole = path.read_bytes()
            damaged = bytearray(whole)
            damaged[each.offset + chance.randrange(each.length)] ^= 1
            path.write_bytes(damaged)
            found = _first_error(snapshot)
            assert path.name in found, (each, found)
            assert "byte" in found
            path.write_bytes(whole)
        assert files
        assert _first_error(snapshot) == ""


def _first_error(snapshot: Path) -> str:
    """What is said of the damage; nothing where all rows came as they were."""
    for state in (*PLAIN, *WITH_STAMPS):
        try:
            rows(snapshot, state)
        except StorageError as error:
            return str(error)
    return ""


def test_what_a_snapshot_has_is_listed_where_a_read_names_nothing(tmp_path: Path) -> None:
    """The message names operators, states and types."""
    job = filled(tmp_path, "heap")
    snapshot = job.checkpoint()
    there = r"'op': total \(value\[int\]\), seen \(list\[str\]\), counts \(map\[str, int\]\), .*, timers$"
    with pytest.raises(UsageError, match=rf"has no state 'totals' of operator 'op'; there is {there}"):
        rows(snapshot, "totals")
    with pytest.raises(UsageError, match=rf"has no state of an operator 'pp'; there is {there}"):
        rows(snapshot, "total", uid="pp")
    job.close()


def test_only_the_named_columns_are_read(tmp_path: Path) -> None:
    """In the order of the table; a column that does not exist is refused."""
    job = filled(tmp_path, "heap")
    for snapshot in (job.savepoint(), job.checkpoint()):
        assert {tuple(row) for row in rows(snapshot, "total", columns="value, key")} == {("key", "value")}
        with pytest.raises(UsageError, match="there is no column 'valu'; the columns are key_group, key"):
            rows(snapshot, "total", columns="valu")
    job.close()
