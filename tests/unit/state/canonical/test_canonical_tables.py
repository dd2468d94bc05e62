"""State as tables: what goes in comes out, for every kind, backend, parallelism and change of types."""

from __future__ import annotations

import datetime as dt
import io
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import pyarrow.parquet as pq
import pytest
from canonical_samples import (
    ALL,
    ENTRIES,
    GROUPS,
    STATES,
    Entry,
    Visit,
    Written,
    blob_of,
    fill,
    heap,
    restored,
    targets_of,
)
from hypothesis import given, settings

import headgate as hg
from headgate.api.declared.keyed_states import declared_state
from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.errors import InternalError, UsageError
from headgate.common.keys.keygroups import key_group, key_group_range
from headgate.state.backend import BlobReader
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory
from headgate.state.snapshots import StateHandle
from headgate.state.stored.blob_format import BytesBlob
from tests.stored_tables import SubtaskTables, restored_tables
from tests.stored_tables import restored as restored_blobs

MANY: list[Entry] = [
    *(("total", key, key * 3) for key in range(200)),
    *(("seen", key, [f"{key}", "\ud800"] * (key % 5)) for key in range(40)),
    *(("counts", key, {f"{n}": n for n in range(1 + key % 7)}) for key in range(40)),
    *(("timers:event", f"k{key}", key) for key in range(50)),
    *(("timers:processing", key, -key) for key in range(50)),
]


def of_blob(blob: bytes, groups: tuple[int, int] = ALL) -> list[Entry]:
    """The entries of a stored blob, as every restore reads them."""
    sections = restored_blobs([BytesBlob(blob)], targets_of(STATES), groups, GROUPS)
    return [(name, k, v) for name, keys, values in sections for k, v in zip(keys, values, strict=True)]


def alike(entries: list[Entry]) -> list[str]:
    """Entries such that equal texts mean the same values, classes included; in order within a section."""
    return sorted(
        (repr((name, key, value)) for name, key, value in entries), key=lambda text: text.split(",")[0]
    )


@settings(max_examples=12)
@given(ENTRIES)
def test_random_state_goes_through_tables_unchanged(entries: list[Entry]) -> None:
    """Heap to tables to heap: the same values of the same classes, in the same order, and the same blob."""
    blob = blob_of(heap(entries))
    back = restored([Written(blob, rows=3)])
    assert alike(back) == alike(of_blob(blob))
    again = heap(back)
    assert Written(blob_of(again)).files == Written(blob).files


@pytest.mark.proof
@settings(max_examples=500)
@given(ENTRIES)
def test_random_state_goes_through_tables_unchanged_many_times(entries: list[Entry]) -> None:
    """The same with many more states."""
    blob = blob_of(heap(entries))
    assert alike(restored([Written(blob, rows=3)])) == alike(of_blob(blob))


def test_tables_of_rocksdb_are_those_of_the_heap(tmp_path: Path) -> None:
    """Either backend writes the tables and takes them."""
    blob = blob_of(heap(MANY))
    rocks = RocksKeyedBackend(
        STATES, *ALL, GROUPS, directory=tmp_path / "state", memory=RocksMemory(LIMIT_MIN)
    )
    try:
        fill(rocks, restored([Written(blob)]))
        written = Written(blob_of(rocks))
    finally:
        rocks.close()
    assert sorted(alike(restored([written]))) == sorted(alike(of_blob(blob)))


@pytest.mark.parametrize(("old", "new"), [(1, 3), (3, 1), (3, 2), (2, 5)])
def test_key_groups_move_to_another_parallelism(old: int, new: int) -> None:
    """sS: each key is restored by the subtask that owns its group, and by no other."""
    ranges = [key_group_range(GROUPS, old, index) for index in range(old)]
    subtasks = [
        Written(
            blob_of(heap([e for e in MANY if first <= key_group(e[1], GROUPS) <= last], (first, last))),
            rows=8,
        )
        for first, last in ranges
    ]
    found: list[Entry] = []
    for index in range(new):
        groups = key_group_range(GROUPS, new, index)
        mine = restored(subtasks, groups)
        assert all(groups[0] <= key_group(key, GROUPS) <= groups[1] for _, key, _ in mine)
        found += mine
    assert sorted(alike(found)) == sorted(alike(of_blob(blob_of(heap(MANY)))))


class Watched:
    """The bytes of a verified file, whose reads are counted."""

    def __init__(self, files: WatchedFiles, blob: BlobReader) -> None:
        self._files, self._blob, self.size = files, blob, blob.size

    def read(self, offset: int, length: int) -> bytes:
        WatchedFiles.read_bytes += length
        return self._blob.read(offset, length)


class WatchedFiles(DiskFiles):
    """Counts what is read of files after they were verified."""

    read_bytes = 0

    def verified(self, handle: StateHandle) -> Any:
        return Watched(self, super().verified(handle))


def test_only_the_row_groups_that_are_needed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group ends where a key group does, and its statistics tell which it has."""
    written = Written(
        blob_of(heap([("seen", key, [sha256(bytes(key)).hexdigest()]) for key in range(8000)])), rows=400
    )
    file = pq.ParquetFile(io.BytesIO(written.files["seen"]))
    ends = [
        (
            file.metadata.row_group(n).column(0).statistics.min,
            file.metadata.row_group(n).column(0).statistics.max,
        )
        for n in range(file.num_row_groups)
    ]
    assert len(ends) == GROUPS
    assert all(low == high == number for number, (low, high) in enumerate(ends))
    (stored,) = written.stored().tables
    monkeypatch.setattr("headgate.state.stored.tables._MEMORY_MAX", 0)
    part = SubtaskTables(ALL, [stored])
    sections = restored_tables([part], targets_of(STATES), (3, 3), GROUPS, WatchedFiles)
    assert sum(len(keys) for _, keys, _ in sections) == sum(
        key_group(key, GROUPS) == 3 for key in range(8000)
    )
    # Besides all of it for the checksum: the footer and a sixteenth.
    assert WatchedFiles.read_bytes < stored.length / 2


def test_row_groups_end_between_keys() -> None:
    """A large key group is cut, the rows of one key never are."""
    entries: list[Entry] = [("seen", key, ["x"] * 30) for key in range(400)]
    written = Written(blob_of(heap(entries)), rows=100)
    file = pq.ParquetFile(io.BytesIO(written.files["seen"]))
    for number in range(file.num_row_groups):
        positions = file.read_row_group(number).column("position").to_pylist()
        assert positions == list(range(30)) * (len(positions) // 30)
        assert len(positions) <= 4 * 100 + 90
    assert alike(restored([written])) == alike(of_blob(blob_of(heap(entries))))


def test_empty_containers_and_large_ones_keep_their_keys() -> None:
    """An entry without elements is an entry; so is one whose elements are partly beyond 64 bits."""
    entries: list[Entry] = [
        ("seen", 1, []),
        ("seen", 2, ["a", "\ud800"]),
        ("counts", 1, {}),
        ("counts", 2, {"\ud800": 1, "a": 2**64}),
        ("colours", 1, {}),
    ]
    assert alike(restored([Written(blob_of(heap(entries)))])) == alike(entries)


def test_state_without_entries_has_no_table() -> None:
    """And a subtask without any is still one of those that cover the key groups."""
    nothing = Written(blob_of(heap((), (0, 7))))
    assert nothing.files == {}
    rest = Written(blob_of(heap([e for e in MANY if key_group(e[1], GROUPS) > 7], (8, 15))))
    assert restored([nothing, rest])
    with pytest.raises(InternalError, match="key groups 0 to 7 are in no blob"):
        restored([rest])
    with pytest.raises(InternalError, match="key groups 0 to 7 are in no blob"):
        restored([rest], (0, 7))


# -- changed types


@hg.formerly(f"{Visit.__module__}.Visit")
@dataclass
class PageView:
    url: Annotated[str, hg.alias("page")]
    count: float
    country: str = "?"


class Evolved:
    total: hg.ValueState[float] = hg.value_state(default=0.0)
    last: hg.ValueState[PageView | None] = hg.value_state(default=None)
    seen: hg.ListState[str | None] = hg.list_state()
    visits: hg.MapState[dt.date, PageView] = hg.map_state()


EVOLVED: list[Entry] = [
    ("total", 1, 5.0),
    ("total", 2, 2**70),
    ("last", 1, PageView("/", 3.0)),
    ("last", 2, PageView("\ud800", 2**70)),
    ("seen", 1, ["a", "\ud800"]),
    ("visits", 1, {dt.date.min: PageView("/", 1.0)}),
]


def test_changed_types_are_migrated_on_the_way() -> None:
    """Renamed, widened, added and removed fields in value and list state, as from every checkpoint."""
    entries: list[Entry] = [
        ("total", 1, 5),
        ("total", 2, 2**70),
        ("last", 1, Visit("/", 3, {1})),
        ("last", 2, Visit("\ud800", 2**70)),
        ("seen", 1, ["a", "\ud800"]),
        ("visits", 1, {dt.date.min: Visit("/", 1)}),
    ]
    found = restored([Written(blob_of(heap(entries)))], states=declared_state(Evolved()))
    assert sorted(found, key=repr) == sorted(EVOLVED, key=repr)
    assert type(next(value for name, key, value in found if (name, key) == ("total", 1))) is float


class Narrowed:
    total: hg.ValueState[str] = hg.value_state(default="")


def test_what_cannot_follow_is_refused_before_anything_is_read() -> None:
    """An incompatible type, a state that is not declared, another number of key groups."""
    written = Written(blob_of(heap([("total", 1, 5)])))
    with pytest.raises(UsageError, match="state 'total' of the checkpoint cannot be read as the program"):
        restored([written], states=declared_state(Narrowed()))
    with pytest.raises(UsageError, match="holds state 'total', which the program does not declare"):
        restored([written], states={})
    with pytest.raises(UsageError, match="max parallelism 16 and the program has 32"):
        list(restored_tables([written.stored()], targets_of(STATES), (0, 31), 32))


# -- serializers of the program's own


class Celsius(hg.TypeSerializer[float]):
    immutable = True

    def encode(self, value: float) -> bytes:
        return round(value * 10).to_bytes(2, "big", signed=True)

    def decode(self, data: bytes) -> float:
        return int.from_bytes(data, "big", signed=True) / 10

    def snapshot(self) -> Any:
        return CelsiusSnapshot()


class CelsiusSnapshot(hg.SimpleTypeSerializerSnapshot[float]):
    def __init__(self) -> None:
        super().__init__(Celsius)


class Weather:
    now: hg.ValueState[float] = hg.value_state(default=0.0, serializer=Celsius())
    before: hg.ListState[float] = hg.list_state(serializer=Celsius())
    by_place: hg.MapState[str, float] = hg.map_state(serializer=Celsius())


def test_state_of_a_custom_serializer_is_bytes_that_it_reads() -> None:
    """Nothing else can take such bytes apart: the writer needs the program, and a row is all of a key."""
    states = declared_state(Weather())
    entries: list[Entry] = [
        ("now", 1, 21.5),
        ("now", 2, -3.0),
        ("before", 1, [1.5, 2.5]),
        ("by_place", 1, {"a": 0.5, "b": 1.5}),
    ]
    blob = blob_of(heap(entries, states=states))
    written = Written(blob, targets_of(states))
    assert sorted(map(repr, restored([written], states=states))) == sorted(map(repr, entries))
    assert {info.rows_are for info in written.infos.values()} == {"bytes"}
    together = blob_of(heap([("now", key, 1.5) for key in range(40)], states=states))
    with pytest.raises(UsageError, match="state 'now' was written by a serializer of the program's own"):
        Written(together)


def test_large_values_make_small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in memory at a time is bounded in bytes, too, and not by the number of rows alone."""
    monkeypatch.setattr("headgate.state.canonical.writer.BYTES_OF_GROUP", 1000)
    entries: list[Entry] = [("free", key, "x" * 200) for key in range(160)]
    blob = blob_of(heap(entries))
    written = Written(blob)
    groups = pq.ParquetFile(io.BytesIO(written.files["free"])).metadata
    assert max(groups.row_group(n).num_rows for n in range(groups.num_row_groups)) <= 4 * 1000 // 200
    assert alike(restored([written])) == alike(of_blob(blob))
