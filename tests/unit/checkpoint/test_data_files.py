"""Large files pass through in pieces: verified as a whole, never in memory as a whole."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_disks import MemoryDisk

from headgate.checkpoint import data_files
from headgate.checkpoint.data_files import DataFileWriter, Part, StoredBytes, copy_handle, verified_pieces
from headgate.checkpoint.storage.local import LocalDisk
from headgate.common.errors import StorageError
from headgate.common.ports import Disk
from headgate.state.snapshots import FileRange, Inline

DATA = bytes(range(200))


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 bytes at a time."""
    monkeypatch.setattr(data_files, "PIECE_BYTES", 64)


@pytest.fixture(params=["local", "without random access"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    """A disk that reads parts of files, and one that cannot."""
    return LocalDisk(tmp_path / "storage") if request.param == "local" else MemoryDisk()


def stored(disk: Disk) -> FileRange:
    """A section with others around it, whose parts are given once."""
    once: Iterator[Part] = iter([DATA[:50], memoryview(DATA)[50:]])
    sections: list[Iterable[Part]] = [[b"before"], once, [b"behind"]]
    return DataFileWriter(disk).write_sections("job/chk-1/a", sections)[1]


def test_parts_are_asked_for_once_and_as_the_disk_takes_them(tmp_path: Path) -> None:
    """So what is written need not be in memory together."""
    events: list[str] = []

    class Recording(LocalDisk):
        def create(self, name: str, parts: Any) -> None:
            def told() -> Iterator[Any]:
                for part in parts:
                    events.append(f"written {part!r}")
                    yield part

            super().create(name, told())

    def parts() -> Iterator[bytes]:
        for part in (b"one", b"two"):
            events.append(f"made {part!r}")
            yield part

    handle = DataFileWriter(Recording(tmp_path)).write("a", parts())
    assert events == ["made b'one'", "written b'one'", "made b'two'", "written b'two'"]
    assert handle.length == 6


def test_pieces_and_ranges_give_the_section(disk: Disk, tmp_path: Path) -> None:
    """In order, by any range, and as a local file."""
    handle = stored(disk)
    assert b"".join(verified_pieces(disk, handle)) == DATA
    blob = StoredBytes(disk, handle)
    assert blob.size == len(DATA)
    assert [blob.read(*r) for r in [(0, 3), (60, 80), (190, 50), (300, 5)]] == [
        DATA[:3], DATA[60:140], DATA[190:], b"",
    ]  # fmt: skip
    copy_handle(disk, handle, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == DATA
    inline = StoredBytes(disk, Inline(b"abc"))
    assert (inline.size, inline.read(1, 5)) == (3, b"bc")


@pytest.mark.parametrize("place", [0, 63, 64, 199])
def test_a_changed_byte_is_refused_and_no_copy_is_left(disk: Disk, tmp_path: Path, place: int) -> None:
    """In whichever piece it is; bytes of other sections do not matter."""
    handle = stored(disk)
    for offset, refused in [(handle.offset + place, True), (2, False)]:
        whole = bytearray(disk.read(handle.file))
        whole[offset] ^= 1
        disk.create(handle.file, [bytes(whole)])
        for use in (lambda: StoredBytes(disk, handle), lambda: copy_handle(disk, handle, tmp_path / "copy")):
            if refused:
                with pytest.raises(StorageError, match=r"job/chk-1/a is damaged: bytes 6 to 206"):
                    use()
                assert not list(tmp_path.glob("copy*"))
            else:
                use()
        whole[offset] ^= 1
        disk.create(handle.file, [bytes(whole)])


def test_a_short_or_missing_file_is_refused_by_name(disk: Disk) -> None:
    """Also when the end of the file is the end of a piece."""
    handle = stored(disk)
    disk.create(handle.file, [disk.read(handle.file)[: handle.offset + 64]])
    with pytest.raises(StorageError, match=r"job/chk-1/a is truncated: it ends at byte 70, .* to 206"):
        list(verified_pieces(disk, handle))
    disk.delete(handle.file)
    with pytest.raises(StorageError, match="job/chk-1/a is missing"):
        list(verified_pieces(disk, handle))


def test_a_local_disk_that_refuses_is_named(tmp_path: Path) -> None:
    """It is another disk than the storage: the message says which."""
    disk = LocalDisk(tmp_path / "storage")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=rf"cannot copy .* to .*file/copy: {os.strerror(errno.ENOTDIR)}"):
        copy_handle(disk, stored(disk), tmp_path / "file" / "copy")
