"""Bundles that are not trusted, one kind of attack each; `test_bundle.py` has their everyday neighbours."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import stat
import struct
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headgate.usercode.bundle.artifacts import made_from, unpacked
from headgate.usercode.bundle.cache import ArtifactCache
from headgate.usercode.bundle.unpacking import Bounds, unpack
from headgate.usercode.loading_errors import UserCodeLoadError

UNBOUNDED = Bounds()
Findings = Callable[[str], dict[str, Any]]


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """An empty folder to unpack into, two levels deep."""
    folder = tmp_path / "in" / "folder"
    folder.mkdir(parents=True)
    return folder


def a_wheel(path: Path, entries: dict[str, bytes], mode: int = 0) -> Path:
    """A wheel with some entries."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in entries.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr, entry.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            made.writestr(entry, data)
    return path


def a_tar(path: Path, *entries: tuple[str, bytes, str]) -> Path:
    """A tar with entries of a name, a type, and where they link to."""
    with tarfile.open(path, "w:gz") as made:
        for name, kind, link in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, link
            made.addfile(entry, io.BytesIO(b""))
    return path


def refused(archive: Path, folder: Path, why: str, bounds: Bounds = UNBOUNDED) -> None:
    """It is refused, and the message names archive and reason."""
    with pytest.raises(UserCodeLoadError, match=why) as error:
        unpack(archive, folder, bounds)
    assert archive.name in str(error.value)


@pytest.mark.parametrize("name", ["../out.py", "a/../../out.py", "..\\out.py", "a\\..\\..\\out.py"])
def test_path_traversal(name: str, inside: Path, tmp_path: Path) -> None:
    """A name with `..` in it, in either spelling; nothing is written outside."""
    refused(a_wheel(tmp_path / "a.whl", {name: b"x"}), inside, "leads out of the archive")
    refused(a_tar(tmp_path / "a.tgz", (name, tarfile.REGTYPE, "")), inside, "leads out of the archive")
    assert list(tmp_path.rglob("out.py")) == []


@pytest.mark.parametrize("name", ["/etc/out.py", "//host/out.py", "C:/out.py", "\\\\host\\out.py"])
def test_absolute_paths(name: str, inside: Path, tmp_path: Path) -> None:
    """Of this system, of another one, of a network."""
    refused(a_wheel(tmp_path / "a.whl", {name: b"x"}), inside, "leads out of the archive")
    refused(a_tar(tmp_path / "a.tgz", (name, tarfile.REGTYPE, "")), inside, "leads out of the archive")


@pytest.mark.parametrize("to", ["/etc", "..", "../..", "a/../../.."])
def test_links_out_of_the_root(to: str, inside: Path, tmp_path: Path) -> None:
    """A symbolic link, in a tar and in a zip."""
    refused(a_tar(tmp_path / "a.tgz", ("b", tarfile.SYMTYPE, to)), inside, "outside of the archive")
    refused(
        a_wheel(tmp_path / "a.whl", {"b": to.encode()}, stat.S_IFLNK | 0o777),
        inside,
        "outside of the archive",
    )
    assert list(inside.iterdir()) == []


def test_hard_links(inside: Path, tmp_path: Path) -> None:
    """One is only followed to a file that the same archive has brought before it."""
    for to in ("/etc/passwd", "../a", "b", "nowhere"):
        archive = a_tar(tmp_path / "a.tgz", ("b", tarfile.LNKTYPE, to), ("nowhere", tarfile.REGTYPE, ""))
        refused(archive, inside, "hard link to .*, which is no file that comes before it")
    through = a_tar(tmp_path / "b.tgz", ("c", tarfile.SYMTYPE, "d"), ("e", tarfile.LNKTYPE, "c"))
    refused(through, inside, "hard link to 'c', which is no file")


def test_links_that_lead_out_together(inside: Path, tmp_path: Path) -> None:
    """A link that a later one turns is looked at again."""
    together = (("a/b", tarfile.DIRTYPE, ""), ("out", tarfile.SYMTYPE, "a/b/c/../../.."))
    later = ("a/b/c", tarfile.SYMTYPE, "../..")
    refused(a_tar(tmp_path / "a.tgz", *together, later), inside, "outside of the archive")


def test_links_in_a_circle(inside: Path, tmp_path: Path) -> None:
    """What lies behind them lies nowhere."""
    circle = (("a", tarfile.SYMTYPE, "b"), ("b", tarfile.SYMTYPE, "a"), ("a/x", tarfile.REGTYPE, ""))
    refused(a_tar(tmp_path / "a.tgz", *circle), inside, "cannot be unpacked")


def test_a_file_behind_a_link_out(inside: Path, tmp_path: Path) -> None:
    """A folder that was replaced by a link after it had been checked is looked at again."""
    (inside / "a").symlink_to(tmp_path)
    refused(a_wheel(tmp_path / "a.whl", {"a/out.py": b"x"}), inside, "below a link that leads out")
    assert not (tmp_path / "out.py").exists()


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices(kind: bytes, inside: Path, tmp_path: Path) -> None:
    """And pipes, in a tar; in a zip by the mode of the entry."""
    refused(a_tar(tmp_path / "a.tgz", ("d", kind, "")), inside, "no file, folder")
    refused(a_wheel(tmp_path / "a.whl", {"d": b""}, stat.S_IFCHR | 0o600), inside, "no file, folder")


def test_zip_bombs(inside: Path, tmp_path: Path) -> None:
    """Too many bytes, counted as they are written; the disk gets no more than the bound."""
    bomb = a_wheel(tmp_path / "a.whl", {"big": bytes(64 << 20)})
    assert bomb.stat().st_size < 1 << 20
    refused(bomb, inside, "more than 2097152 bytes", Bounds(10, 2 << 20))
    assert sum(path.stat().st_size for path in inside.rglob("*")) <= 2 << 20


def test_zip_bombs_of_many_files(inside: Path, tmp_path: Path) -> None:
    """Too many entries, however small; folders count."""
    many = a_wheel(tmp_path / "a.whl", {f"d{number}/": b"" for number in range(12)})
    refused(many, inside, "more than 10 entries", Bounds(10, 1 << 30))


def test_a_size_that_is_a_lie(inside: Path, tmp_path: Path) -> None:
    """What an entry says of its own size is not believed."""
    wheel = a_wheel(tmp_path / "a.whl", {"big": bytes(4 << 20)})
    data = wheel.read_bytes()
    said = (4 << 20).to_bytes(4, "little")
    assert said in data
    wheel.write_bytes(data.replace(said, (100).to_bytes(4, "little")))
    refused(wheel, inside, "cannot be unpacked|more than", Bounds(10, 1 << 20))


def test_a_wrong_hash(tmp_path: Path) -> None:
    """What arrives is not what the driver has sent; nothing of it is left in the cache."""
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "a.py").write_text("x = 1")
    bundle, (file,) = made_from([tmp_path / "job"], tmp_path)
    a_wheel(file, {"a.py": b"x = 2"})
    with pytest.raises(UserCodeLoadError, match="is not what the driver has sent"):
        unpacked(bundle, [file], ArtifactCache(tmp_path / "cache"))
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []


def test_a_truncated_wheel(tmp_path: Path) -> None:
    """Cut anywhere; there is no end of a zip then."""
    whole = a_wheel(tmp_path / "a.whl", {"a.py": b"x = 1\n" * 50, "b.py": b"y = 2\n"}).read_bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / str(length)).mkdir()
        cut = tmp_path / "cut.whl"
        cut.write_bytes(whole[:length])
        refused(cut, tmp_path / str(length), "cannot be unpacked")


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "check",
    [
        pytest.param("neither sitecustomize nor usercustomize is run", id="sitecustomize"),
        pytest.param("lines of .pth files are not run", id="pth imports"),
        "a .pth file adds what the bundle holds",
        "a .pth file adds nothing else",
        pytest.param("files that shadow the standard library", id="shadows the standard library"),
        "nor in a process that the job spawns",
        "the framework's own path is as it was",
        "nothing was run",
        "the trap works",
    ],
)
def test_code_that_nobody_asked_for(check: str, findings: Findings) -> None:
    """Files that Python runs by itself at its start, or takes for its own, are none of a bundle's."""
    assert findings("hostile_program.py")[check] == "ok"


LARGE = 200 << 20
PACKERS: dict[str, Any] = {"tar.gz": gzip.open, "tar.bz2": bz2.open, "tar.xz": lzma.open}


@contextlib.contextmanager
def in_little_memory() -> Iterator[None]:
    """Whatever happens takes less than a tenth of what the bomb unpacks to."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < LARGE // 10
    finally:
        tracemalloc.stop()


def a_large_tar(path: Path, packer: Any, *headers: bytes, size: int = LARGE) -> Path:
    """A packed tar of headers with a lot of zeros behind them, of which a kilobyte packs a megabyte."""
    piece = bytes(1 << 20)
    with packer(path, "wb", 1) if packer is not lzma.open else packer(path, "wb", preset=0) as made:
        for header in headers:
            made.write(header)
        for _ in range(size >> 20):
            made.write(piece)
    return path


def a_header(kind: bytes, size: int, name: str = "x") -> bytes:
    """The header of an entry of a tar."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = kind, size
    return entry.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE])
@pytest.mark.parametrize("packer", PACKERS)
def test_tar_bombs_before_the_first_file(kind: bytes, packer: str, inside: Path, tmp_path: Path) -> None:
    """A name, a link's end or attributes that unpack to more than any have, however the tar is packed."""
    bomb = a_large_tar(tmp_path / f"a.{packer}", PACKERS[packer], a_header(kind, LARGE))
    with in_little_memory():
        refused(bomb, inside, "the description of one entry has more than")
    assert list(inside.iterdir()) == []


@pytest.mark.parametrize("packer", PACKERS)
def test_tar_bombs(packer: str, inside: Path, tmp_path: Path) -> None:
    """One large file: refused by what it says of itself, before anything is written."""
    bomb = a_large_tar(tmp_path / f"a.{packer}", PACKERS[packer], a_header(tarfile.REGTYPE, LARGE))
    with in_little_memory():
        refused(bomb, inside, "all together unpacks to more than", Bounds(10, 1 << 20))
    assert list(inside.iterdir()) == []


def test_an_xz_that_wants_much_memory(inside: Path, tmp_path: Path) -> None:
    """It says itself how large its dictionary is; what `xz -9` makes is unpacked, and 512 MiB are not."""
    plain = tmp_path / "plain.tar"
    with tarfile.open(plain, "w") as made:
        for number in range(2):
            entry = tarfile.TarInfo(f"module_{number}.py")
            entry.size = 3
            made.addfile(entry, io.BytesIO(b"x=1"))
    packed = bytearray(lzma.compress(plain.read_bytes(), preset=9))
    good = tmp_path / "good.tar.xz"
    good.write_bytes(packed)
    unpack(good, inside / "good")
    assert [path.read_bytes() for path in sorted((inside / "good").iterdir())] == [b"x=1", b"x=1"]
    # The first block's header: its length, flags, the filter with its dictionary, and a checksum behind.
    end = 12 + (packed[12] + 1) * 4
    packed[16] = 34  # 2 ** (34 / 2 + 12) bytes
    packed[end - 4 : end] = struct.pack("<I", zlib.crc32(packed[12 : end - 4]))
    bomb = tmp_path / "bomb.tar.xz"
    bomb.write_bytes(packed)
    refused(bomb, inside, "takes more than 128 MiB of memory")


def test_an_xz_of_several_streams_and_one_that_is_cut_short(inside: Path, tmp_path: Path) -> None:
    """Parallel packers make the first kind."""
    header, rest = a_header(tarfile.REGTYPE, 3, "a.py"), b"x=1".ljust(512, b"\0") + bytes(1024)
    first = lzma.compress(header) + bytes(4)
    whole = first + lzma.compress(rest)
    (tmp_path / "a.tar.xz").write_bytes(whole)
    unpack(tmp_path / "a.tar.xz", inside / "whole")
    assert (inside / "whole" / "a.py").read_bytes() == b"x=1"
    (tmp_path / "b.tar.xz").write_bytes(whole[: len(first) + 30])
    refused(tmp_path / "b.tar.xz", inside, "ends before its end")


def test_a_sparse_file_is_counted_with_its_holes(inside: Path, tmp_path: Path) -> None:
    """A few bytes of a tar can say that a file has gigabytes of zeros."""
    header = bytearray(a_header(tarfile.GNUTYPE_SPARSE, 0))
    header[483:495] = b"%011o\0" % (1 << 32)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    bomb = a_large_tar(tmp_path / "a.tar.gz", gzip.open, bytes(header), size=1 << 20)
    with in_little_memory():
        refused(bomb, inside, "all together unpacks to more than", Bounds(10, 1 << 30))


def test_a_zip_bomb_that_is_a_link(inside: Path, tmp_path: Path) -> None:
    """What a link leads to is read as far as any system takes it."""
    bomb = tmp_path / "a.zip"
    with zipfile.ZipFile(bomb, "w") as made:
        entry = zipfile.ZipInfo("link")
        entry.external_attr, entry.compress_type = (stat.S_IFLNK | 0o777) << 16, zipfile.ZIP_DEFLATED
        with made.open(entry, "w") as file:
            for _ in range(LARGE >> 20):
                file.write(b"a" * (1 << 20))
    with in_little_memory():
        refused(bomb, inside, "links to a name of more than 4096 bytes")
        refused(bomb, inside, "all together unpacks to more than", Bounds(10, 1 << 20))
    assert list(inside.iterdir()) == []


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_bomb_in_one_piece(method: int, inside: Path, tmp_path: Path) -> None:
    """Python takes a whole piece at once of what is packed so; wheels are not."""
    bomb = tmp_path / "a.whl"
    with zipfile.ZipFile(bomb, "w", method) as made:
        made.writestr("big", bytes(32 << 20))
    with in_little_memory():
        refused(bomb, inside, "neither stored nor deflated")


@pytest.mark.parametrize("wide", [False, True])
def test_a_zip_whose_list_is_too_long(wide: bool, inside: Path, tmp_path: Path) -> None:
    """It is not read: Python would take it whole, and make an object of each entry."""
    size = 65 << 20
    end = b"PK\5\6" + bytes(4) + b"\1\0" * 2 + (0xFFFFFFFF if wide else size).to_bytes(4, "little") + bytes(6)
    if wide:
        record = b"PK\6\6" + (44).to_bytes(8, "little") + bytes(28) + size.to_bytes(8, "little") + bytes(8)
        end = record + b"PK\6\7" + bytes(16) + end
    with (tmp_path / "a.zip").open("wb") as made:
        made.seek(size)
        made.write(end)
    with in_little_memory():
        refused(tmp_path / "a.zip", inside, "its list of entries has 68157440 bytes")


def test_an_archive_in_an_archive_stays_one(inside: Path, tmp_path: Path) -> None:
    """What it unpacks to is nobody's concern, as nobody unpacks it."""
    inner = a_wheel(tmp_path / "inner.zip", {"../out.py": bytes(1 << 20)})
    unpack(a_wheel(tmp_path / "a.whl", {"inner.zip": inner.read_bytes()}), inside, Bounds(10, 1 << 20))
    assert [path.name for path in inside.rglob("*")] == ["inner.zip"]


def test_folders_count(inside: Path, tmp_path: Path) -> None:
    """Also those that only stand in the names of others, and those that are too deep."""
    many = a_wheel(tmp_path / "a.whl", {f"a{n}/b/c/x": b"" for n in range(3)})
    refused(many, inside, "more than 10 entries and folders", Bounds(10, 1 << 20))
    deep = a_wheel(tmp_path / "b.whl", {"d/" * 200 + "x": b""})
    refused(deep, inside, "below more than 100 folders")
    negative = bytearray(a_header(tarfile.REGTYPE, 0))
    negative[124:136] = b"\xff" * 11 + b"\x00"
    negative[148:156] = b" " * 8
    negative[148:156] = b"%06o\0 " % sum(negative)
    refused(
        a_large_tar(tmp_path / "c.tar.gz", gzip.open, bytes(negative), size=1 << 20), inside, "its size is -"
    )
