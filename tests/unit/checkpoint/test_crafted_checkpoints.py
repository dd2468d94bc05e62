"""File names in checkpoints, logs and deeds come from strangers: nothing outside their storage is touched."""

from __future__ import annotations

import contextlib
import os
import zlib
from pathlib import Path

import pytest

from headgate.checkpoint.data_files import read_handle
from headgate.checkpoint.local_copies import LocalCopies, NearbyDisk
from headgate.checkpoint.opening import open_logged
from headgate.checkpoint.ownership import ClaimRecord, release
from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.store.entries import Completed
from headgate.common.errors import StorageError, StrayPathError
from headgate.common.files.job_files import JobFile, PublishedJob
from headgate.common.ids import JobId
from headgate.state.snapshots import FileRange, Inline, KeyedStateHandle, NativeFiles
from headgate.state.stored.heads import filled_natively

SECRET = b"not for everybody"


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    """A storage with one file, and a secret beside it."""
    (tmp_path / "secret").write_bytes(SECRET)
    disk = LocalDisk(tmp_path / "checkpoints")
    disk.create("job/chk-1/x", [b"x"])
    return disk


@pytest.mark.parametrize(
    "name", ["../secret", "job/../../secret", "{tmp}/secret", "job/chk-1/link", "job/folder/secret"]
)
def test_state_is_read_from_the_storage_alone(disk: LocalDisk, tmp_path: Path, name: str) -> None:
    """By its disk, and where copies nearby are looked for first; links inside do not lead out."""
    (disk.root / "job" / "chk-1" / "link").symlink_to(tmp_path / "secret")
    (disk.root / "job" / "folder").symlink_to(tmp_path)
    copies = LocalCopies(tmp_path / "copies", "host", JobId("job"), 0)
    handle = FileRange(name.format(tmp=tmp_path), 0, len(SECRET), zlib.crc32(SECRET))
    for place in (disk, NearbyDisk(disk, copies)):
        with pytest.raises(StorageError, match=r"is no file name below|leads out of"):
            read_handle(place, handle)


def test_a_copy_nearby_that_is_a_link_is_not_used(disk: LocalDisk, tmp_path: Path) -> None:
    """The storage is read instead."""
    copies = LocalCopies(tmp_path / "copies", "host", JobId("job"), 0)
    nearby = copies.find("job/chk-1/x")
    assert nearby is None
    with copies.copying("job/chk-1/x", None) as copy:
        list(copy.of([b"x"]))
    found = copies.find("job/chk-1/x")
    assert found is not None
    path = found.root / "job" / "chk-1" / "x"
    path.unlink()
    (tmp_path / "other").write_bytes(b"x")
    path.symlink_to(tmp_path / "other")
    disk_beside = NearbyDisk(disk, copies)
    assert read_handle(disk_beside, FileRange("job/chk-1/x", 0, 1, zlib.crc32(b"x"))) == b"x"
    assert (disk_beside.bytes_local, disk_beside.bytes_remote) == (0, 1)


def test_a_link_in_the_storage_can_be_removed(disk: LocalDisk, tmp_path: Path) -> None:
    """Itself, and not what it leads to."""
    (disk.root / "job" / "chk-1" / "link").symlink_to(tmp_path / "secret")
    disk.delete("job/chk-1/link")
    assert disk.list("") == ["job/chk-1/x"]
    assert (tmp_path / "secret").read_bytes() == SECRET


@pytest.mark.parametrize(
    "name", ["../../evil.sst", "/tmp/evil.sst", "000001.sst/../../x", "LOCK", "OPTIONS-000007"]
)
def test_files_of_a_database_are_put_nowhere_else(disk: LocalDisk, name: str) -> None:
    """What looks into a snapshot while no job runs writes none of its files outside its own folder."""
    native = NativeFiles(
        "rocksdb", {"CURRENT": Inline(b""), name: Inline(b"evil")}, {"checkpoint": 1, "formats": {}}
    )
    keyed = KeyedStateHandle(0, 1, Inline(b""), 0, native)
    with pytest.raises(StorageError, match=r"the checkpoint lists .* for RocksDB"):
        filled_natively(disk, keyed)


@pytest.mark.parametrize("name", ["file:///etc/passwd", "file:///etc/_metadata/x", "s3://bucket/x/"])
def test_a_log_leads_to_metadata_alone(disk: LocalDisk, name: str) -> None:
    """What it names outside of the storage is a savepoint's metadata or nothing."""
    opened: list[str] = []

    def noting(uri: str) -> LocalDisk:
        opened.append(uri)
        return disk

    with pytest.raises(StrayPathError, match="as the metadata of a savepoint"):
        open_logged(disk, [Completed(1, "", 1, name, "")], noting)
    assert opened == []


@pytest.mark.parametrize("job", [None, "job", "../job", "/job"])
@pytest.mark.parametrize("files", [["../secret"], ["job/chk-1/../../../secret"], ["secret"], ["job/chk-1/x"]])
def test_a_claim_record_deletes_nothing_that_nobody_claimed(
    disk: LocalDisk, tmp_path: Path, job: str | None, files: list[str]
) -> None:
    """It is only words: the mark, or the log, must agree."""
    record = ClaimRecord(tmp_path.as_uri(), "secret-metadata", "0", 1, files, "thief", job)
    kept: list[ClaimRecord] = []
    why: str | None = "it was refused"
    with contextlib.suppress(StorageError):
        why = release(record, kept.append, lambda uri: LocalDisk(uri.removeprefix("file://")))
    assert why is not None
    assert kept == []
    assert (tmp_path / "secret").read_bytes() == SECRET
    assert disk.list("") == ["job/chk-1/x"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "secret"]


def test_a_pipe_in_a_files_place_keeps_nobody_waiting(disk: LocalDisk, tmp_path: Path) -> None:
    """A stranger who may write into a storage cannot hang who restores from it."""
    os.mkfifo(tmp_path / "checkpoints" / "job" / "chk-1" / "_metadata")
    for read in (disk.read, lambda name: disk.read_range(name, 0, 4)):
        with pytest.raises(StorageError, match="it is no regular file"):
            read("job/chk-1/_metadata")
    with pytest.raises(StorageError, match="Is a directory"):
        disk.read("job/chk-1")


def test_a_job_file_lies_among_the_job_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the job's id is."""
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    with pytest.raises(StrayPathError, match="the file of a job"):
        PublishedJob(JobFile("../../evil", "job", 1, "host", 0, "http://127.0.0.1:1", "s"))
    assert not list(tmp_path.rglob("evil*"))
