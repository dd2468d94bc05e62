"""The log of state without windows: every order of snapshots that are stored, complete, fail or are aborted.

The search below takes every sequence of events up to a length. Whenever a checkpoint completes, all files
that it refers to must be there, and what they say must be the state as it was at its snapshot.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.common.errors import StorageError, UsageError
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns
from headgate.runtime.worker.operators.columns.updating import logged_state
from headgate.runtime.worker.operators.columns.updating.kept_for_good import SETTLED, KeptForGood, newest
from headgate.runtime.worker.operators.columns.updating.logged_state import LoggedState
from headgate.serde.resolve import serializer_for
from headgate.state.chunk_log.log_file import WAITING, log_bytes, log_name, places_in
from headgate.state.chunk_log.opened_log import OpenedLog
from headgate.state.chunk_log.pending_log import PendingLog
from headgate.state.chunk_stores import keeps_log
from headgate.state.rocksdb.chunk_bytes import ChunkKey, read_chunk
from headgate.state.snapshots import FileRange, StateHandle
from headgate.state.stored.entry_store import check_readable
from headgate.state.targets import Target

GROUPS, LENGTH, PENDING_MAX, SEQUENCES = (0, 7), 8, 2, 1_000
KEYS, VALUES = pa.schema([("key", pa.int64())]), pa.schema([("value", pa.int64())])
COLUMNS = ChunkColumns(KEYS, VALUES, 8, placed=True, numbered=False)
LONGS = serializer_for(int)
TARGET = Target({"kind": "value", "of": [LONGS.describe()]}, LONGS)


class Rows(KeptForGood):
    """A number for each key."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[int, int] = {}
        self._changed: set[int] = set()

    @property
    def count(self) -> int:
        return len(self.rows)

    def change(self, key: int, value: int) -> None:
        self.rows[key] = value
        self._changed.add(key)

    def gather(self, rows: pa.Table) -> None:
        raise NotImplementedError

    restore = gather

    def settled(self) -> Callable[[], Iterator[pa.Table]]:
        return lambda rows=dict(self.rows): iter([table_of(rows)])

    def since(self) -> list[pa.Table]:
        return []

    def take_log(self) -> list[pa.Table]:
        changed, self._changed = self._changed, set()
        return [table_of({key: self.rows[key] for key in changed})] if changed else []

    def compacted(self, log: pa.Table) -> pa.Table:
        return newest(log, ["key"])


def table_of(rows: Mapping[int, int]) -> pa.Table:
    return pa.table(
        {
            "key": pa.array(list(rows), pa.int64()),
            PANE: pa.array([SETTLED] * len(rows), pa.int64()),
            "value": pa.array(list(rows.values()), pa.int64()),
        }
    )


@dataclass
class Snapshot:
    """A snapshot on its way: what the state was, and its files, once they are stored."""

    number: int
    pending: PendingLog
    rows: dict[int, int]
    files: Mapping[str, StateHandle] | None = None


@dataclass
class Storage:
    """Files by name; those of a snapshot begin with its number. Implements `StateFiles`."""

    files: dict[str, bytes] = field(default_factory=dict)
    number: int = 0

    def write_sections(self, uid: str, sections: object, *, inline: bool) -> list[FileRange]:
        handles = []
        for place, parts in enumerate(sections):  # type: ignore[var-annotated, arg-type]
            name = f"{self.number}/{place}"
            self.files[name] = b"".join(parts)
            handles.append(FileRange(name, 0, len(self.files[name]), 0))
        return handles

    def share(self, handle: StateHandle, root: str | None) -> bool:
        return True

    def remove(self, which: Callable[[int, str], bool]) -> None:
        for name in [name for name in self.files if which(int(name.split("/")[0]), name)]:
            del self.files[name]


class Run:
    """One sequence of events over a log."""

    def __init__(self) -> None:
        self.kept, self.storage = Rows(), Storage()
        self.log = LoggedState(self.kept, "rows", TARGET, GROUPS, COLUMNS, mock.Mock())
        self.snapshots: list[Snapshot] = []
        self.taken = self.completed = 0
        self._forgot = False

    def events(self) -> list[str]:
        """What may happen next."""
        found = ["take"] if len(self.snapshots) < PENDING_MAX else []
        for place, each in enumerate(self.snapshots):
            # Snapshots are written one after the other, in the order in which they were taken.
            if each.files is None and all(one.files is not None for one in self.snapshots[:place]):
                found.append(f"store {place}")
            found += [f"abort {place}"] if each.files is None else [f"complete {place}", f"abort {place}"]
        if self.kept.rows and not self._forgot:
            found.append("forget")
        return found

    def do(self, event: str) -> None:
        what, _, place = event.partition(" ")
        getattr(self, f"_{what}")(*([int(place)] if place else []))

    def _forget(self) -> None:
        # As after a time to live: what is kept is made anew, without the rows of a key.
        kept = Rows()
        kept.rows = {key: value for key, value in self.kept.rows.items() if key != self.taken % 3}
        self.kept, self._forgot = kept, True
        self.log.replace(kept)

    def _take(self) -> None:
        self.taken, self._forgot = self.taken + 1, False
        self.kept.change(self.taken % 3, self.taken)
        pending = self.log.snapshot(self.taken, self.completed)
        assert isinstance(pending, PendingLog)
        self.snapshots.append(Snapshot(self.taken, pending, dict(self.kept.rows)))

    def _store(self, place: int) -> None:
        snapshot = self.snapshots[place]
        self.storage.number = snapshot.number
        handle = snapshot.pending.store("rows", self.storage)  # type: ignore[arg-type]
        assert handle.native is not None
        snapshot.files = handle.native.files

    def _abort(self, place: int) -> None:
        snapshot = self.snapshots.pop(place)
        snapshot.pending.release()
        self.storage.remove(lambda number, _: number == snapshot.number)

    def _complete(self, place: int) -> None:
        snapshot, later = self.snapshots[place], self.snapshots[place + 1 :]
        # Earlier ones that are not complete yet never will be, and older files go.
        self.snapshots, self.completed = later, snapshot.number
        assert snapshot.files is not None
        names = {handle.file for handle in snapshot.files.values() if isinstance(handle, FileRange)}
        self.storage.remove(lambda number, name: number <= snapshot.number and name not in names)
        assert names <= self.storage.files.keys(), "a complete checkpoint lacks files"
        assert self.rows_in(snapshot.files) == snapshot.rows

    def rows_in(self, files: Mapping[str, StateHandle]) -> dict[int, int]:
        """What a restore makes of files."""
        rows: dict[int, int] = {}
        for name in sorted(set(files) - {WAITING}):
            handle = files[name]
            assert isinstance(handle, FileRange)
            for _, data in entries_of(self.storage.files[handle.file]):
                table = COLUMNS.table(ChunkKey(0, 0, 0), read_chunk(data))
                rows.update(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
        return rows


def entries_of(data: bytes) -> list[tuple[bytes, bytes]]:
    return [(place.key, data[place.start : place.stop]) for place in places_in(data, Path("file"))]


def search(length: int, files_max: int = 1_000) -> int:
    """Carry out every sequence of events of that length, and return how many there are."""
    found, open_ends = 0, [()]  # type: list[tuple[str, ...]]
    with (
        mock.patch.object(logged_state, "ROWS_MIN", 0),
        mock.patch.object(logged_state, "FILES_MAX", files_max),
    ):
        while open_ends:
            done = open_ends.pop()
            run = Run()
            for event in done:
                run.do(event)
            found += 1
            if len(done) < length:
                open_ends += [(*done, event) for event in run.events()]
    return found


@pytest.mark.parametrize("files_max", [2, 1_000])
def test_every_complete_checkpoint_has_its_state(files_max: int) -> None:
    """Whatever is aborted or written twice in between."""
    assert search(LENGTH, files_max) > SEQUENCES


_seal = LoggedState._seal


def _what_may_fail(self: LoggedState, _completed: int) -> None:
    _seal(self, self._last)


def _behind_a_later_one(self: LoggedState, completed: int) -> None:
    self._last = completed
    _seal(self, completed)


def _forgetting(self: LoggedState, completed: int) -> None:
    _seal(self, completed)
    self._unsealed = []


def _of_before(self: LoggedState, completed: int) -> None:
    self._last = max(self._reported, default=0)
    _seal(self, completed)


@pytest.mark.parametrize("wrong", [_of_before, _what_may_fail, _behind_a_later_one, _forgetting])
def test_mistakes_are_found(wrong: Callable[[LoggedState, int], None]) -> None:
    """Files from before everything was replaced, files of checkpoints that may fail, files that a later one
    has anew, and changes that are lost.
    """
    with mock.patch.object(LoggedState, "_seal", wrong), pytest.raises(AssertionError):
        search(LENGTH)


def test_few_changes_are_few_bytes() -> None:
    """A checkpoint refers to what is stored, and writes what changed."""
    with mock.patch.object(logged_state, "ROWS_MIN", 0):
        run = Run()
        for key in range(10_000):
            run.kept.change(key, key)
        for _ in range(3):
            for event in ("take", "store 0", "complete 0"):
                run.do(event)
    sizes = {name.split("/")[0]: len(data) for name, data in run.storage.files.items() if len(data) > 8}
    assert sizes["1"] > 100_000
    assert sizes["3"] < 2_000


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cannot be read"),
        (b"SQLite format 3", r"begins with b'SQLite f'; expected b'HGCHUNK1' or b'HGCHUNK2'"),
        (b"HGCHUNK2" + b"\xff" * 2 + b"\0" * 30, "a chunk of columns has 0 bytes; it is damaged"),
        (b"HGCHUNK1" + b"\0" * 20, "28 bytes and ends in the middle of a chunk"),
        (b"HGCHUNK1" + b"\0" * 24 + b"\x09" + b"\0" * 9, "42 bytes and ends in the middle of a chunk"),
    ],
)
def test_damaged_files_are_refused(data: bytes, message: str, tmp_path: Path) -> None:
    """With the file's name and what is wrong with it."""
    (tmp_path / "00000000000000000001.chunks").write_bytes(data)
    with pytest.raises(StorageError, match=message):
        OpenedLog(tmp_path, "rows", 8)


KEY_VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.string(): st.text(max_size=70),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(allow_nan=False),
    pa.binary(): st.binary(max_size=9),
    pa.timestamp("us", tz="UTC"): st.integers(-(10**15), 10**15),
    pa.date32(): st.integers(-100_000, 100_000),
}


@settings(max_examples=30)
@given(
    st.data(), st.lists(st.sampled_from(list(KEY_VALUES)), min_size=1, max_size=2), st.sampled_from([8, 100])
)
def test_a_reader_sorts_as_a_writer_did(data: st.DataObject, kinds: list[pa.DataType], groups: int) -> None:
    """A file of chunks of any key groups reads as one whose chunks are of one group each."""
    count = data.draw(st.integers(1, 20))
    keys = pa.schema([pa.field(f"key{place}", kind) for place, kind in enumerate(kinds)])
    columns = ChunkColumns(keys, VALUES, groups, placed=True, numbered=True)
    drawn = [data.draw(st.lists(KEY_VALUES[kind], min_size=count, max_size=count)) for kind in kinds]
    arrays = [pa.array(each, kind) for each, kind in zip(drawn, kinds, strict=True)]
    numbers = pa.array(range(count), pa.int64())
    table = pa.Table.from_arrays(
        [*arrays, pa.nulls(count, pa.int64()).fill_null(0), numbers], schema=columns.schema
    )
    found = []
    for pieces in (columns.pieces(table, 3), columns.whole_pieces(table, 3)):
        with TemporaryDirectory() as folder:
            Path(folder, log_name(1)).write_bytes(b"".join(map(bytes, log_bytes(pieces, 1 << 32, 7))))
            entries = OpenedLog(Path(folder), "rows", groups).stores["rows"].items()
            found.append([(ChunkKey.of(key)[:2], read_chunk(data)) for key, data in entries])
    assert found[0] == found[1]


def test_without_its_package_a_heap_has_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are whole there, and one with a log is refused with what to install."""
    assert keeps_log(None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert not keeps_log(None)
    with pytest.raises(UsageError, match=r"package rocksdict, which reads them, is not installed; install"):
        check_readable()
