"""The RocksDB backend and its local disk: directories, locks, hard links, damage, a disk that is full."""

from __future__ import annotations

import hashlib
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate.api.declared.keyed_states import StateDescriptor
from headgate.common.errors import StorageError
from headgate.metrics.of_rocksdb import (
    CACHE_HITS,
    CACHE_MISSES,
    ENTRIES,
    FILTERED,
    OF_DATABASES,
    OF_FAMILIES,
    OF_STATISTICS,
    SST_BYTES,
    STOPPED,
)
from headgate.state.rocksdb.backend import RocksKeyedBackend
from headgate.state.rocksdb.database import Database
from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory
from headgate.state.snapshots import Inline
from headgate.state.stored.blob import in_metadata
from headgate.testing.suites.value_checks import snapshot_blob

GROUPS = 16
MEMORY = RocksMemory(LIMIT_MIN)
STATES = {"v": StateDescriptor("v", "value", (str,), lambda: "")}


def backend(directory: Path, cache: int = 100_000) -> RocksKeyedBackend:
    """An empty backend of one value state."""
    return RocksKeyedBackend(
        STATES, 0, GROUPS - 1, GROUPS, directory=directory, memory=MEMORY, cache_entries=cache
    )


def fill(made: RocksKeyedBackend, first: int, last: int) -> None:
    """One value per number, hard to compress."""
    table: Any = made.handles["v"].table
    for number in range(first, last):
        table[number] = hashlib.sha256(b"%d" % number).hexdigest()


def values(made: RocksKeyedBackend, first: int, last: int) -> list[str]:
    """The values of the numbers."""
    table: Any = made.handles["v"].table
    return [table.get(number, "") for number in range(first, last)]


def test_a_checkpoint_shares_its_files_with_the_database(tmp_path: Path) -> None:
    """What was stored before is a hard link in two snapshots; releasing takes the links away."""
    made = backend(tmp_path / "attempt")
    fill(made, 0, 1000)
    one = made.snapshot_sync()
    fill(made, 1000, 1100)
    two = made.snapshot_sync()
    snapshots = tmp_path / "attempt" / "snapshots"
    tables = sorted(file.stat().st_ino for file in (tmp_path / "attempt" / "db").glob("*.sst"))
    first, second = ({file.stat().st_ino for file in (snapshots / name).glob("*.sst")} for name in ("1", "2"))
    assert len(tables) == 2
    assert first < second == set(tables)
    one.release()
    one.release()
    assert [entry.name for entry in snapshots.iterdir()] == ["2"]
    snapshot_blob(two)
    assert list(snapshots.iterdir()) == []
    made.close()


def test_close_frees_the_lock_and_the_directory(tmp_path: Path) -> None:
    """A closed backend leaves nothing; its directory can be used again at once."""
    for _ in range(2):
        made = backend(tmp_path / "attempt")
        fill(made, 0, 10)
        snapshot_blob(made.snapshot_sync())
        with pytest.raises(StorageError, match=r"could not open .*attempt/db"):
            backend(tmp_path / "attempt")
        assert values(made, 0, 11)[9:] == [values(made, 9, 10)[0], ""]
        made.close()
        made.close()
        assert list(tmp_path.iterdir()) == []


def test_a_snapshot_outlives_its_backend(tmp_path: Path) -> None:
    """Closing does not take the files from under a writer; the last release removes the directory."""
    made = backend(tmp_path / "attempt")
    fill(made, 0, 10)
    expected = values(made, 0, 10)
    kept, dropped = made.snapshot_sync(), made.snapshot_sync()
    made.close()
    dropped.release()
    blob = snapshot_blob(kept)
    assert list(tmp_path.iterdir()) == []
    again = backend(tmp_path / "attempt")
    again.restore([blob])
    assert values(again, 0, 10) == expected
    again.close()


def test_a_directory_that_holds_a_database_is_refused(tmp_path: Path) -> None:
    """What an earlier attempt left behind is not state: it may be of any moment."""
    abandoned = Database(tmp_path / "attempt" / "db", STATES, MEMORY)
    abandoned.close()
    with pytest.raises(StorageError, match=r"could not open .*exists.*check the local disk"):
        backend(tmp_path / "attempt")


def test_a_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    """The message says which path, and what is wrong with it."""
    (tmp_path / "file").write_text("here first")
    with pytest.raises(StorageError, match=r"could not make a directory for .*file/db"):
        backend(tmp_path / "file")


def test_a_checkpoint_that_cannot_be_made_names_its_database(tmp_path: Path) -> None:
    """The running state is unharmed: the next snapshot holds it."""
    made = backend(tmp_path / "attempt")
    fill(made, 0, 10)
    snapshots = tmp_path / "attempt" / "snapshots"
    snapshots.write_text("in the way")
    refused = made.snapshot_sync()
    with pytest.raises(StorageError, match=r"could not make a checkpoint of .*attempt/db"):
        snapshot_blob(refused)
    refused.release()
    snapshots.unlink()
    assert snapshot_blob(made.snapshot_sync())
    made.close()


def test_a_damaged_file_is_told_and_never_a_short_snapshot(tmp_path: Path) -> None:
    """A block whose checksum does not fit ends the iteration: that must not pass for the end of the state."""
    made = backend(tmp_path / "attempt")
    fill(made, 0, 5_000)
    pending = made.snapshot_sync()
    (table,) = (tmp_path / "attempt" / "snapshots" / "1").glob("*.sst")
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.unlink()  # it is a hard link: the database keeps the sound one
    table.write_bytes(data)
    with pytest.raises(StorageError, match=r"could not read state 'v' in .*Corruption"):
        snapshot_blob(pending)
    assert list((tmp_path / "attempt" / "snapshots").iterdir()) == []
    made.close()


class InMetadata:
    """Takes what a snapshot stores into the metadata."""

    def write(self, uid: str, parts: Any) -> Inline:
        return in_metadata(parts)


def test_the_local_files_of_a_snapshot_are_gone_before_it_is_sent(tmp_path: Path) -> None:
    """Sending takes long; meanwhile the disk would keep every table that the database drops."""
    made, snapshots = backend(tmp_path / "attempt"), tmp_path / "attempt" / "snapshots"
    fill(made, 0, 100)
    left: list[list[Path]] = []

    class Sending(InMetadata):
        def write(self, uid: str, parts: Any) -> Inline:
            left.append(list(snapshots.iterdir()))
            return super().write(uid, parts)

    made.snapshot_sync().store("op", Sending())  # type: ignore[arg-type]
    assert left == [[]]
    made.close()


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes: what a full disk looks like to a writer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_without_room_fails_the_checkpoint_and_not_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB is not asked to flush what does not fit, as it would refuse changes afterwards."""
    made = backend(tmp_path / "attempt")
    fill(made, 0, 5_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(1 << 30, 1 << 30, 10_000))
    refused = made.snapshot_sync()
    monkeypatch.undo()
    with pytest.raises(StorageError, match=r"has 10000 bytes left for .*attempt/db, and a checkpoint of it"):
        snapshot_blob(refused)
    fill(made, 5_000, 5_010)
    assert snapshot_blob(made.snapshot_sync())
    assert values(made, 5_009, 5_010) != [""]
    made.close()


def test_a_blob_that_does_not_fit_the_local_disk_fails_the_checkpoint_alone(tmp_path: Path) -> None:
    """The tables are written already; the blob, which is larger, is not."""
    made = backend(tmp_path / "attempt")
    fill(made, 0, 5_000)
    made.snapshot_sync().release()
    pending = made.snapshot_sync()
    with files_up_to(1 << 17), pytest.raises(StorageError, match=r"cannot write .*snapshots: File too large"):
        pending.store("op", InMetadata())
    fill(made, 5_000, 5_010)
    assert snapshot_blob(made.snapshot_sync())
    assert list((tmp_path / "attempt" / "snapshots").iterdir()) == []
    made.close()


def test_a_full_disk_fails_the_snapshot_and_can_be_closed(tmp_path: Path) -> None:
    """A flush that finds no space is an error of the snapshot; the backend still goes away cleanly."""
    made = backend(tmp_path / "attempt")
    fill(made, 0, 5_000)
    with files_up_to(1 << 16):
        refused = made.snapshot_sync()
    with pytest.raises(StorageError, match=r"could not make .*IO error.*local disk"):
        snapshot_blob(refused)
    made.close()
    assert list(tmp_path.iterdir()) == []


def test_a_database_knows_every_property_that_is_told(tmp_path: Path) -> None:
    """A name that RocksDB does not know would be 0 for ever; and a database that is full is not empty."""
    made = backend(tmp_path / "attempt")
    fill(made, 0, 1000)
    pending = made.snapshot_sync()
    store = made._database.stores["v"]._store
    known = [store.property_int_value(metric.flink[0]) for metric in (*OF_FAMILIES, *OF_DATABASES)]
    assert None not in known
    told = made.measured()
    assert told[ENTRIES.at()] == 1000
    assert told[SST_BYTES.at()] == sum(
        file.stat().st_size for file in (tmp_path / "attempt/db").glob("*.sst")
    )
    assert not {metric.at() for metric in OF_STATISTICS} & told.keys()
    pending.release()
    made.close()


def test_with_statistics_reads_are_counted(tmp_path: Path) -> None:
    """A block is missed once, and then found; RocksDB knows every count that is told."""
    database = Database(tmp_path / "db", ["v", "w"], RocksMemory(LIMIT_MIN, statistics=True))
    store = database.stores["v"]
    store.write([(b"%05d" % n, b"x" * 100) for n in range(1_000)])
    store.flush()
    for _ in range(10):
        store.get(b"00500")
    told = database.measured()
    assert {metric.at() for metric in OF_STATISTICS} <= told.keys()
    assert told[CACHE_MISSES.at()] > 0
    assert told[CACHE_HITS.at()] >= 9
    assert told[FILTERED.at()] == 0
    assert store.get(b"00500x") is None
    assert database.measured()[FILTERED.at()] == 1
    before = told[CACHE_MISSES.at()]
    store.get(b"00500")
    assert database.measured()[CACHE_MISSES.at()] == before
    database.close()


def test_a_property_of_the_database_is_told_once(tmp_path: Path) -> None:
    """However many states it has: one database that is held up is one."""
    database = Database(tmp_path / "db", ["v", "w", "x"], MEMORY)
    for store in database.stores.values():
        store.number = lambda name: 1 if name == STOPPED.flink[0] else 0  # type: ignore[method-assign]
    assert database.measured()[STOPPED.at()] == 1
    database.close()
