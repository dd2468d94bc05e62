"""Local copies of checkpoint files: read only when they are sound, gone when they are old, never needed."""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_disks import MemoryDisk
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.checkpoint import data_files
from headgate.checkpoint.data_files import DataFileWriter, StoredBytes, copy_handle, read_handle
from headgate.checkpoint.local_copies import BackedUpDisk, LocalCopies, NearbyDisk, remove_abandoned_copies
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import StorageError
from headgate.common.ids import JobId
from headgate.state.snapshots import FileRange

JOB = JobId("job")
DEAD = 2**22 + 1
"""Above the greatest process id."""


def copies(root: Path, slot: int = 0) -> LocalCopies:
    """Those of a slot of the job, on this machine."""
    return LocalCopies(root, "here", JOB, slot)


def folder(root: Path, slot: int = 0) -> Path:
    """Where they are."""
    return root / "headgate-copies-here-job" / f"slot-{slot}"


def names(root: Path, slot: int = 0) -> list[str]:
    """Which there are."""
    return list(LocalDisk(folder(root, slot)).list(""))


class Setup:
    """A storage in a folder, a slot's copies in another, and a file of two sections in both."""

    def __init__(self, root: Path) -> None:
        self.local, self.storage = root / "local", LocalDisk(root / "storage")
        self.copies = copies(self.local)
        self.writer = DataFileWriter(BackedUpDisk(self.storage, self.copies))
        self.first, self.second = self.writer.write_sections("job/chk-7/a", [[b"abc", b"def"], [b"ghij"]])
        self.copy = folder(self.local) / "job/chk-7/a"

    def nearby(self) -> NearbyDisk:
        """For a restore."""
        return NearbyDisk(self.storage, self.copies)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    """A file, stored and copied."""
    return Setup(tmp_path)


def as_bytes(disk: Any, handle: FileRange, target: Path) -> bytes:
    """At once."""
    return read_handle(disk, handle)


def as_parts(disk: Any, handle: FileRange, target: Path) -> bytes:
    """In parts, from where they lie."""
    stored = StoredBytes(disk, handle)
    return b"".join(stored.read(offset, 2) for offset in range(0, stored.size + 2, 2))


def as_file(disk: Any, handle: FileRange, target: Path) -> bytes:
    """As a local file."""
    copy_handle(disk, handle, target)
    return target.read_bytes()


READERS = [as_bytes, as_parts, as_file]


@pytest.mark.parametrize("read", READERS)
def test_a_restore_reads_the_copy(
    setup: Setup, tmp_path: Path, read: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the storage has lost the file, and where a handle is too large to be in memory."""
    monkeypatch.setattr(data_files, "PIECE_BYTES", 3)
    assert setup.copy.read_bytes() == b"abcdefghij"
    setup.storage.delete("job/chk-7/a")
    nearby = setup.nearby()
    assert read(nearby, setup.first, tmp_path / "1") == b"abcdef"
    assert read(nearby, setup.second, tmp_path / "2") == b"ghij"
    assert (nearby.bytes_local, nearby.bytes_remote) == (10, 0)


def flipped(copy: Path) -> None:
    """One byte of the first section is another."""
    copy.write_bytes(b"abXdefghij")


def cut(copy: Path) -> None:
    """The end is missing."""
    copy.write_bytes(b"abc")


def replaced(copy: Path) -> None:
    """As long, and of another attempt."""
    copy.write_bytes(b"jihgfedcba")


def emptied(copy: Path) -> None:
    """Nothing in it."""
    copy.write_bytes(b"")


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("harm", [flipped, cut, replaced, emptied])
def test_a_copy_that_is_wrong_is_not_used(
    setup: Setup, tmp_path: Path, read: Callable[..., bytes], harm: Callable[[Path], None], caplog: Any
) -> None:
    """The result is the storage's, with one line in the log."""
    harm(setup.copy)
    nearby = setup.nearby()
    assert read(nearby, setup.first, tmp_path / "1") == b"abcdef"
    assert (nearby.bytes_local, nearby.bytes_remote) == (0, 6)
    (line,) = caplog.messages
    assert line.startswith("a local copy is not used, the storage is read instead: ")
    assert str(setup.copy) in line


def test_copies_are_chosen_handle_by_handle(setup: Setup, tmp_path: Path, caplog: Any) -> None:
    """What is sound in a damaged file is used; a file without a copy is read silently from the storage."""
    flipped(setup.copy)
    (gone,) = setup.writer.write_sections("job/chk-7/b", [[b"12345"]])
    (folder(setup.local) / "job/chk-7/b").unlink()
    nearby = setup.nearby()
    handles = (setup.first, setup.second, gone)
    assert [read_handle(nearby, handle) for handle in handles] == [b"abcdef", b"ghij", b"12345"]
    assert (nearby.bytes_local, nearby.bytes_remote) == (4, 11)
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("read", READERS)
def test_without_storage_and_copy_the_error_is_the_storages(
    setup: Setup, tmp_path: Path, read: Callable[..., bytes]
) -> None:
    """Who has to act is told where the file should be."""
    setup.storage.delete("job/chk-7/a")
    flipped(setup.copy)
    with pytest.raises(StorageError, match="/storage/job/chk-7/a is missing"):
        read(setup.nearby(), setup.first, tmp_path / "1")


def test_another_slot_of_the_machine_lends_its_copies(setup: Setup) -> None:
    """What every subtask restores, such as a union list, was written by one of them."""
    nearby = NearbyDisk(setup.storage, copies(setup.local, slot=3))
    assert read_handle(nearby, setup.first) == b"abcdef"
    assert nearby.bytes_local == 6


def test_the_next_process_in_a_slot_takes_over(setup: Setup) -> None:
    """Its predecessor's copies are there, and what that left half done is not."""
    half = setup.copy.with_name(".tmp-0123")
    half.write_bytes(b"ab")
    nearby = NearbyDisk(setup.storage, copies(setup.local))
    assert read_handle(nearby, setup.first) == b"abcdef"
    assert (nearby.bytes_local, half.exists()) == (6, False)


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """The operating system refuses to write files beyond a size, as it does when a disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_local_disk_fails_nothing(tmp_path: Path, caplog: Any) -> None:
    """The storage has all bytes; of the copy nothing is left; the log says so when it begins and ends."""
    caplog.set_level(logging.INFO)
    storage = MemoryDisk()
    writer = DataFileWriter(BackedUpDisk(storage, copies(tmp_path)))
    with files_end_at(1_000):
        handles = [writer.write(f"job/chk-7/{n}", [bytes(600), bytes(600), bytes(600)]) for n in range(3)]
    assert names(tmp_path) == []
    assert [read_handle(storage, handle) for handle in handles] == [bytes(1_800)] * 3
    writer.write("job/chk-8/0", [b"small"])
    assert names(tmp_path) == ["job/chk-8/0"]
    assert [line.split(" (")[0].split(" of ")[0] for line in caplog.messages] == [
        "no local copy", "local copies are made again, now",
    ]  # fmt: skip


def test_a_folder_that_cannot_be_used_fails_nothing(tmp_path: Path) -> None:
    """Something stands in the way of one file's folder."""
    storage, kept = MemoryDisk(), copies(tmp_path)
    folder(tmp_path).mkdir()
    (folder(tmp_path) / "job").write_text("in the way")
    handle = DataFileWriter(BackedUpDisk(storage, kept)).write("job/chk-7/a", [b"abc"])
    assert read_handle(NearbyDisk(storage, kept), handle) == b"abc"


def test_what_the_storage_refused_has_no_copy(tmp_path: Path) -> None:
    """In the middle of a file, or before it."""

    class Refusing(MemoryDisk):
        def create(self, name: str, parts: Any) -> None:
            next(iter(parts))
            raise StorageError("no")

    with pytest.raises(StorageError, match="no"):
        DataFileWriter(BackedUpDisk(Refusing(), copies(tmp_path))).write("job/chk-7/a", [b"ab", b"cd"])
    assert names(tmp_path) == []
    assert list(folder(tmp_path).rglob(".tmp-*")) == []


def test_given_up_files_are_removed_in_both_places(setup: Setup) -> None:
    """What an aborted checkpoint wrote is wanted nowhere."""
    BackedUpDisk(setup.storage, setup.copies).delete("job/chk-7/a")
    assert (names(setup.local), setup.storage.list("")) == ([], [])


def test_a_file_that_never_changes_is_linked_both_ways(tmp_path: Path) -> None:
    """RocksDB's tables: neither the copy nor the restore costs space; a changed one is noticed."""
    table = tmp_path / "000012.sst"
    table.write_bytes(b"entries")
    storage, kept = LocalDisk(tmp_path / "storage"), copies(tmp_path / "local")
    writer = DataFileWriter(BackedUpDisk(storage, kept).linking(table))
    handle = writer.write("job/chk-7/a", [b"ent", b"ries"])
    copy = folder(tmp_path / "local") / "job/chk-7/a"
    copy_handle(NearbyDisk(storage, kept), handle, tmp_path / "restored.sst")
    assert table.stat().st_ino == copy.stat().st_ino == (tmp_path / "restored.sst").stat().st_ino
    table.write_bytes(b"ENTRIES")
    nearby = NearbyDisk(storage, kept)
    copy_handle(nearby, handle, tmp_path / "again.sst")
    assert ((tmp_path / "again.sst").read_bytes(), nearby.bytes_local) == (b"entries", 0)
    assert (tmp_path / "again.sst").stat().st_nlink == 1


def test_the_storages_own_files_are_never_linked(setup: Setup, tmp_path: Path) -> None:
    """A storage in a folder of this machine is no local copy: what is restored must not be one with it."""
    (whole,) = setup.writer.write_sections("job/chk-7/w", [[b"whole"]])
    copy_handle(setup.storage, whole, tmp_path / "restored")
    assert (tmp_path / "restored").stat().st_nlink == 1


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sets(st.integers(0, 9)), st.booleans()), min_size=1, max_size=8))
def test_copies_of_the_newest_complete_checkpoint_and_later_stay(
    tmp_path_factory: Any, drawn: list[tuple[set[int], bool]]
) -> None:
    """Whatever checkpoints share, complete or not: afterwards exactly what is still wanted is there."""
    root = tmp_path_factory.mktemp("copies")
    kept, storage = copies(root), MemoryDisk()
    writer = DataFileWriter(BackedUpDisk(storage, kept))
    wanted: dict[int, set[str]] = {}
    for checkpoint, (shared, completes) in enumerate(drawn, start=1):
        name = f"job/chk-{checkpoint}/new"
        writer.write(name, [b"x"])
        wanted[checkpoint] = {name}
        for other in shared & wanted.keys():
            if (before := f"job/chk-{other}/new") in set().union(*wanted.values()):
                kept.refer(checkpoint, before)
                wanted[checkpoint].add(before)
        if completes and checkpoint > 1:
            # The one before completes only now, while this one is already written.
            kept.completed(checkpoint - 1)
            wanted = {number: files for number, files in wanted.items() if number >= checkpoint - 1}
            assert set(names(root)) == set().union(*wanted.values())


def test_the_last_worker_of_a_job_takes_everything_with_it(setup: Setup) -> None:
    """Each its own slot; the last one also what a slot left that has moved to another machine."""
    other = copies(setup.local, slot=1)
    moved = folder(setup.local, slot=2) / "job/chk-3/a"
    moved.parent.mkdir(parents=True)
    moved.write_bytes(b"old")
    setup.copies.remove()
    assert (setup.copy.exists(), moved.exists()) == (False, True)
    other.remove()
    assert list(setup.local.iterdir()) == []


def test_copies_of_jobs_whose_processes_are_dead_are_removed(tmp_path: Path) -> None:
    """By the next worker on the machine; not those of a living process, of another machine, or its own."""

    def stands(name: str, pid: int) -> Path:
        marker = tmp_path / f"headgate-copies-{name}" / "processes" / f"{pid}-0"
        marker.parent.mkdir(parents=True)
        marker.touch()
        return marker.parents[1]

    gone, lives = stands("here-gone", DEAD), stands("here-lives", os.getpid())
    elsewhere, mine = stands("there-gone", DEAD), stands("here-job", DEAD)
    copies(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([lives, elsewhere, mine])
    assert remove_abandoned_copies(tmp_path, "here", mine) == []
    assert not gone.exists()
