"""Local storage: durable, atomic, confined to its root, and clear about what failed."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.checkpoint.storage.local import LocalDisk
from headgate.checkpoint.storage.reachability import (
    check_marker,
    delete_marker,
    probe,
    take_over_markers,
    write_marker,
)
from headgate.checkpoint.storage.storage_contract import KeepsTemporaries, RandomAccess, UnsureWriteError
from headgate.checkpoint.storage.uris import open_disk
from headgate.common.errors import ConfigError, StorageError
from headgate.common.files import durable, durable_file


@pytest.fixture
def disk(tmp_path: Path) -> LocalDisk:
    """A disk whose root does not exist yet."""
    return LocalDisk(tmp_path / "root")


def everything(disk: LocalDisk) -> list[str]:
    """Names of all files, unfinished ones too."""
    return sorted(path.name for path in disk.root.rglob("*") if path.is_file())


def test_create_read_replace_list_delete(disk: LocalDisk) -> None:
    """A file has all its parts, is replaced whole, listed by folder, and gone after delete."""
    disk.create("job/chk-1/a", [b"one", memoryview(b"two")])
    disk.create("job/chk-1/a", [b"three"])
    disk.create("job/chk-10/b", [])
    assert disk.read("job/chk-1/a") == b"three"
    assert disk.list("job/chk-1") == ["job/chk-1/a"]
    assert disk.list("") == ["job/chk-1/a", "job/chk-10/b"]
    disk.delete("job/chk-1/a")
    disk.delete("job/chk-1/a")
    assert disk.list("job") == ["job/chk-10/b"]
    assert not (disk.root / "job/chk-1").exists()
    assert disk.list("nowhere") == []


def test_absent_file(disk: LocalDisk) -> None:
    """Reading what is not there is FileNotFoundError, for every way to read."""
    for read in (disk.read, disk.size, lambda name: disk.read_range(name, 0, 1)):
        with pytest.raises(FileNotFoundError):
            read("job/x")


def test_ranges_and_sizes(disk: LocalDisk) -> None:
    """Parts of a file can be read; past its end there is less."""
    disk.create("x", [b"0123456789"])
    assert disk.size("x") == 10
    assert (disk.read_range("x", 2, 3), disk.read_range("x", 8, 5)) == (b"234", b"89")
    assert isinstance(disk, RandomAccess)
    assert isinstance(disk, KeepsTemporaries)


def test_create_if_absent_has_one_winner(disk: LocalDisk) -> None:
    """Of any number of concurrent callers exactly one creates the file, and its bytes stay."""
    start = threading.Barrier(8)
    won: list[int] = []

    def compete(number: int) -> None:
        start.wait()
        if disk.create_if_absent("job/log/0", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=compete, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert disk.read("job/log/0") == b"%d" % won[0]
    assert everything(disk) == ["0"]


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/\0", "a/", "job/.tmp-1", ".."]
)
def test_names_that_leave_the_root_are_refused(disk: LocalDisk, name: str) -> None:
    """Absolute, climbing, empty and reserved names are refused by every operation."""
    calls: list[Callable[[], Any]] = [
        lambda: disk.create(name, [b""]),
        lambda: disk.create_if_absent(name, b""),
        lambda: disk.read(name),
    ]
    for call in calls:
        with pytest.raises(StorageError, match="is no file name below file://"):
            call()


def test_symbolic_link_out_of_the_root_is_refused(disk: LocalDisk, tmp_path: Path) -> None:
    """A link inside the root cannot lead out of it."""
    (tmp_path / "outside").mkdir()
    disk.create("job/x", [b""])
    (disk.root / "job/link").symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match="leads out of"):
        disk.create("job/link/x", [b"data"])
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("method", ["create", "create_if_absent"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_failed_write_leaves_nothing(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch, method: str, code: int
) -> None:
    """A full disk or a failed flush is a StorageError with path and cause; the old file stays, no other."""
    disk.create("job/x", [b"old"])
    name = "job/x" if method == "create" else "job/y"
    target = {errno.ENOSPC: "write", errno.EIO: "fsync", errno.EACCES: "open"}[code]

    def fail(*arguments: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(durable.system, target, fail)
    with pytest.raises(StorageError, match=os.strerror(code)) as caught:
        disk.create(name, [b"new"]) if method == "create" else disk.create_if_absent(name, b"new")
    assert str(disk.root / name) in str(caught.value)
    assert not isinstance(caught.value, UnsureWriteError)
    monkeypatch.undo()
    assert everything(disk) == ["x"]
    assert disk.read("job/x") == b"old"


@pytest.mark.parametrize("method", ["create", "create_if_absent"])
def test_unflushed_folder_is_unsure(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """When only the folder's flush fails the file is there, and the error says that this is unsure."""
    disk.create("job/other", [b""])

    def fail(folder: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(durable_file, "sync", fail)
    with pytest.raises(UnsureWriteError, match="could not be flushed"):
        disk.create("job/x", [b"new"]) if method == "create" else disk.create_if_absent("job/x", b"new")
    assert disk.read("job/x") == b"new"
    assert everything(disk) == ["other", "x"]


def test_every_write_is_flushed_before_it_is_named(disk: LocalDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Order of a write: flush the bytes, give the name, flush the folder."""
    disk.create("job/x", [b""])
    steps: list[str] = []
    real_fsync, real_link = os.fsync, os.link

    def fsync(descriptor: int) -> None:
        steps.append("folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file")
        real_fsync(descriptor)

    def link(source: Path, target: Path) -> None:
        steps.append("name")
        real_link(source, target)

    monkeypatch.setattr(durable.system, "fsync", fsync)
    monkeypatch.setattr(durable.system, "link", link)
    disk.create_if_absent("job/y", b"data")
    assert steps == ["file", "name", "folder"]


def test_file_in_place_of_folder(tmp_path: Path) -> None:
    """A root that is a file is refused in one sentence with advice."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="a file stands where a folder is needed"):
        LocalDisk(tmp_path / "file").create("job/x", [b""])


def test_repeated_link_of_a_network_file_system_counts(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that was made although the answer says it existed is a success: the link count tells."""
    real_link = os.link

    def link(source: Path, target: Path) -> None:
        real_link(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(durable.system, "link", link)
    assert disk.create_if_absent("x", b"mine")


def test_temporaries_are_hidden_but_found(disk: LocalDisk) -> None:
    """What a killed writer left is no file of the listing, and can be found and deleted."""
    disk.create("job/chk-1/a", [b""])
    (disk.root / "job/chk-1/.tmp-1234").write_bytes(b"half")
    assert disk.list("job") == ["job/chk-1/a"]
    assert disk.temporaries("job") == ["job/chk-1/.tmp-1234"]
    disk.delete("job/chk-1/.tmp-1234")
    assert disk.temporaries("job") == []


def test_writer_survives_removal_of_its_empty_folder(
    disk: LocalDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that another process removes just before the file is opened is made anew."""
    real_open = os.open
    removals = iter([True])

    def open_late(path: Any, flags: int, *rest: Any) -> int:
        if flags & os.O_CREAT and next(removals, False):
            os.rmdir(os.path.dirname(path))
        return real_open(path, flags, *rest)

    monkeypatch.setattr(durable.system, "open", open_late)
    disk.create("job/chk-1/a", [b"data"])
    assert disk.read("job/chk-1/a") == b"data"


def test_open_disk_by_scheme(tmp_path: Path) -> None:
    """Plain paths and file URIs are served, everything else is refused in one sentence."""
    for uri in (str(tmp_path), tmp_path.as_uri(), f"file://localhost{tmp_path}"):
        open_disk(uri).create("x", [b"data"])
    assert (tmp_path / "x").read_bytes() == b"data"
    assert open_disk(f"file://{tmp_path}/a%20b").describe() == f"file://{tmp_path}/a%20b"
    for uri in ("ftp://host/x", "gs://bucket/x", "unknown:x"):
        with pytest.raises(ConfigError, match=f"scheme '{uri.split(':')[0]}', which is not supported; use"):
            open_disk(uri)
    for uri in ("file://elsewhere/x", "file:x"):
        with pytest.raises(ConfigError, match="no absolute path of this machine"):
            open_disk(uri)
    with pytest.raises(ConfigError, match="is empty"):
        open_disk("")


def test_whoever_takes_over_removes_the_markers_of_its_job(disk: LocalDisk) -> None:
    """And no others; its own is one that the next driver will know."""
    dead, other = take_over_markers(disk, "job-0", "abc"), take_over_markers(disk, "job-1", "abc")
    for token in (dead, other, "abc"):
        write_marker(disk, token)
    token = take_over_markers(disk, "job-0", "def")
    write_marker(disk, token)
    left = {name.rpartition("/")[2] for name in disk.list(".headgate-probe")}
    assert left == {other, "abc", token}
    assert take_over_markers(disk, "job-0", "ghi") != token
    assert {name.rpartition("/")[2] for name in disk.list(".headgate-probe")} == {other, "abc"}


def test_probe_leaves_no_trace(disk: LocalDisk) -> None:
    """The driver's check writes, reads and removes its marker."""
    probe(disk)
    assert everything(disk) == []


def test_markers_prove_the_same_storage(disk: LocalDisk, tmp_path: Path) -> None:
    """A worker that sees the marker passes; one with another folder, or other bytes, is told why."""
    write_marker(disk, "abc1")
    check_marker(LocalDisk(disk.root), "abc1")
    with pytest.raises(StorageError, match="a folder that the driver and all workers share"):
        check_marker(LocalDisk(tmp_path / "other"), "abc1")
    with pytest.raises(StorageError, match="exists already"):
        write_marker(disk, "abc1")
    disk.create(".headgate-probe/abc1", [b"other"])
    with pytest.raises(StorageError, match="reads back differently"):
        check_marker(disk, "abc1")
    delete_marker(disk, "abc1")
    assert everything(disk) == []
    with pytest.raises(StorageError, match="not made of letters and digits"):
        write_marker(disk, "../x")
