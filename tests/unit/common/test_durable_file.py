"""Durable files: whole or not there, in the right order, and nothing left of what failed."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.common.files import durable_file
from headgate.common.files.durable import crc32, remove_folder, system
from headgate.common.files.durable_file import (
    Measured,
    NewFile,
    UnsyncedNameError,
    create_new,
    hold,
    made_beside,
    replace,
    writing,
)
from headgate.common.files.permissions import Permissions


def create(path: Path, parts: list[bytes]) -> None:
    """Make a file that is not there."""
    assert create_new(path, parts)


def write(path: Path, parts: list[bytes]) -> None:
    """Piece by piece."""
    with writing(path) as file:
        for part in parts:
            file.write(part)


every_way = pytest.mark.parametrize("make", [create, replace, write])


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to the disk, in order."""
    done: list[str] = []

    def noted(name: str, say: Callable[..., str]) -> None:
        real = getattr(system, name)

        def doing(*arguments: Any) -> Any:
            done.append(say(*arguments))
            return real(*arguments)

        monkeypatch.setattr(system, name, doing)

    def synced(descriptor: int) -> str:
        return f"sync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name[:5]}"

    noted("fsync", synced)
    noted("link", lambda _, target: f"name {Path(target).name}")
    noted("replace", lambda _, target: f"name {Path(target).name}")
    return done


@every_way
def test_bytes_are_synced_before_the_name_and_the_folder_after(
    make: Callable[..., None], steps: list[str], tmp_path: Path
) -> None:
    """Else a power cut may leave a name without its bytes, or a file that was promised without its name."""
    (tmp_path / "job").mkdir()
    make(tmp_path / "job" / "entry", [b"a", b"b"])
    assert steps == ["sync .tmp-", "name entry", "sync job"]
    assert (tmp_path / "job" / "entry").read_bytes() == b"ab"


def test_as_many_folders_are_synced_as_may_be_new(steps: list[str], tmp_path: Path) -> None:
    """Folders that the write makes itself are durable before anything is in them."""
    create_new(tmp_path / "out" / "lines" / "one", [b"x"], folders=3)
    made = [f"sync {tmp_path.name[:5]}", "sync out"]
    assert steps == [*made, "sync .tmp-", "name one", "sync lines", "sync out", f"sync {tmp_path.name[:5]}"]


def test_what_need_not_survive_is_not_synced(steps: list[str], tmp_path: Path) -> None:
    """It is complete under its name all the same."""
    replace(tmp_path / "a" / "b", [b"x"], durable=False)
    assert steps == ["name b"]


@every_way
@pytest.mark.parametrize("step", ["open", "write", "fsync", "rename"])
def test_of_a_failed_write_nothing_is_left(
    make: Callable[..., None], step: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The older file stays where one was."""
    path = tmp_path / "entry"
    if make is not create:
        path.write_bytes(b"old")
    before = sorted(tmp_path.iterdir())

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    for name in ("link", "replace") if step == "rename" else (step,):
        monkeypatch.setattr(system, name, fail)
    with pytest.raises(OSError, match="Input/output") as caught:
        make(path, [b"new"])
    assert not isinstance(caught.value, UnsyncedNameError)
    assert sorted(tmp_path.iterdir()) == before
    assert make is create or path.read_bytes() == b"old"


@every_way
def test_a_failure_of_whoever_gives_the_parts_leaves_nothing(
    make: Callable[..., None], tmp_path: Path
) -> None:
    """Whatever it raises."""

    def parts() -> Iterator[bytes]:
        yield b"half"
        raise KeyError("no more")

    with pytest.raises(KeyError):
        make(tmp_path / "entry", parts())
    assert list(tmp_path.iterdir()) == []


@every_way
def test_a_name_that_may_not_survive_is_told_apart(
    make: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The file is there; whoever asked must not take the failure for one that changed nothing."""

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(durable_file, "sync", fail)
    with pytest.raises(UnsyncedNameError, match="Input/output"):
        make(tmp_path / "entry", [b"x"])
    assert [path.name for path in tmp_path.iterdir()] == ["entry"]


def test_of_many_makers_of_one_name_one_wins(tmp_path: Path) -> None:
    """Its bytes stay."""
    start, won = threading.Barrier(8), list[int]()

    def compete(number: int) -> None:
        start.wait()
        if create_new(tmp_path / "entry", [b"%d" % number]):
            won.append(number)

    threads = [threading.Thread(target=compete, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("entry", b"%d" % won[0])]


def test_a_link_that_was_made_and_then_refused_is_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As on a network file system whose answer was lost; another one's file is not."""
    real = system.link

    def link(source: Path, target: Path) -> None:
        real(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(system, "link", link)
    assert create_new(tmp_path / "entry", [b"mine"])
    assert not create_new(tmp_path / "entry", [b"theirs"])
    assert (tmp_path / "entry").read_bytes() == b"mine"


@pytest.mark.parametrize("sizes", [[], [0], [1] * 1000, [70_000], [10, 70_000, 10, 65_535, 65_536, 3]])
def test_small_parts_are_collected_and_measured(sizes: list[int], tmp_path: Path) -> None:
    """In order, whatever their sizes; a device that takes some bytes at a time gets all of them."""
    data = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    with writing(tmp_path / "a") as file:
        measured = Measured(file)
        assert [measured.write(memoryview(part)) for part in data] == sizes
        assert (measured.size, measured.tell()) == (sum(sizes), sum(sizes))
        assert measured.crc32 == crc32(b"".join(data))
    assert (tmp_path / "a").read_bytes() == b"".join(data)


@pytest.mark.parametrize("taken", [7, 0])
def test_a_device_that_takes_little_and_one_that_takes_nothing(
    taken: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first gets all bytes; the second is an error, and no loop for ever."""
    real = os.write
    monkeypatch.setattr(system, "write", lambda to, data: real(to, data[:taken]) if taken else 0)
    if taken:
        replace(tmp_path / "a", [bytes(range(100)), bytes(70_000)])
        assert (tmp_path / "a").read_bytes() == bytes(range(100)) + bytes(70_000)
    else:
        with pytest.raises(OSError, match="took no bytes"):
            replace(tmp_path / "a", [b"x"])


def test_a_new_file_is_never_somebody_elses(tmp_path: Path) -> None:
    """Two writers of one name would be a broken rule."""
    NewFile(tmp_path / "a").end()
    with pytest.raises(FileExistsError):
        NewFile(tmp_path / "a")


def test_what_is_made_beside_is_whole_or_not_there(tmp_path: Path) -> None:
    """Readers of the old one go on reading it, and only the owner reads the new one."""
    target = tmp_path / "a"
    target.write_bytes(b"old")
    with target.open("rb") as reader:
        with made_beside(target) as made:
            made.write_bytes(b"new")
            assert target.read_bytes() == b"old"
        assert (reader.read(), target.read_bytes()) == (b"old", b"new")
    assert target.stat().st_mode & 0o777 == 0o600
    with pytest.raises(KeyError), made_beside(target) as made:
        made.write_bytes(b"half")
        raise KeyError
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert target.read_bytes() == b"new"


def test_a_held_file_has_its_bytes_and_its_mode_from_the_first_look_on(tmp_path: Path) -> None:
    """Whatever the mask; nothing is left when it cannot be made."""
    before = os.umask(0o077)
    try:
        os.close(hold(tmp_path / "a", b"x", 0o644))
    finally:
        os.umask(before)
    assert (tmp_path / "a").read_bytes() == b"x"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        hold(tmp_path / "folder", b"x", 0o600)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


@pytest.mark.parametrize("permissions", Permissions)
def test_files_have_the_permissions_that_were_asked_for(permissions: Permissions, tmp_path: Path) -> None:
    """Those of a group whatever the mask."""
    before = os.umask(0o027)
    try:
        replace(tmp_path / "a" / "b", [b"x"], permissions)
    finally:
        os.umask(before)
    expected = {"owner": 0o600, "group": 0o660, "umask": 0o640}[permissions.value]
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == expected


def test_of_a_link_to_a_folder_only_the_link_is_removed(tmp_path: Path) -> None:
    """At the folder itself, with a slash at its end too, and within it."""
    kept, gone = tmp_path / "kept", tmp_path / "gone"
    (kept / "inner").mkdir(parents=True)
    gone.mkdir()
    (gone / "link").symlink_to(kept)
    (tmp_path / "link").symlink_to(kept)
    remove_folder(gone)
    remove_folder(tmp_path / "link")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["inner", "kept"]
    (tmp_path / "link").symlink_to(kept)
    remove_folder(f"{tmp_path / 'link'}/")
    assert (kept / "inner").exists()
