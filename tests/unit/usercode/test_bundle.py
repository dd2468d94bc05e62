"""User code on its way: hashes, packing, archives that are not trusted, and the cache of unpacked folders."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from headgate.usercode.bundle import cache as cache_module
from headgate.usercode.bundle.artifacts import abi_of_this, made_from, unpacked
from headgate.usercode.bundle.cache import ABANDONED_S, ArtifactCache
from headgate.usercode.bundle.packing import hash_of
from headgate.usercode.bundle.unpacking import Bounds, unpack
from headgate.usercode.loading_errors import UserCodeLoadError

KEY = "ab" * 16


def code(folder: Path, **files: str) -> Path:
    """A folder with modules."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def zipped(path: Path, *entries: tuple[Any, bytes]) -> Path:
    """A zip."""
    with zipfile.ZipFile(path, "w") as made:
        for entry, data in entries:
            made.writestr(entry, data)
    return path


def tarred(path: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    """A tar."""
    with tarfile.open(path, "w:gz") as made:
        for entry, data in entries:
            entry.size = len(data)
            made.addfile(entry, io.BytesIO(data))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """One of a tar's."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def linked(name: str) -> zipfile.ZipInfo:
    """A symbolic link in a zip."""
    made = zipfile.ZipInfo(name)
    made.external_attr = (stat.S_IFLNK | 0o777) << 16
    return made


def test_hashes_are_of_contents(tmp_path: Path) -> None:
    """Not of times, places, or what tools leave behind."""
    one, two = code(tmp_path / "one", a="x = 1"), code(tmp_path / "two", a="x = 1")
    os.utime(two / "a.py", (0, 0))
    (two / "__pycache__").mkdir()
    (two / "__pycache__" / "a.pyc").touch()
    assert hash_of(one) == hash_of(two)
    (two / "a.py").rename(two / "b.py")
    assert hash_of(one) != hash_of(two)
    with pytest.raises(UserCodeLoadError, match="cannot be read"):
        hash_of(tmp_path / "none.zip")


def test_a_bundle_goes_from_the_driver_to_a_worker(tmp_path: Path) -> None:
    """Equal folders give equal bundles; what arrives is what was there."""
    cache = ArtifactCache(tmp_path / "cache")
    first, files = made_from([code(tmp_path / "job", a="x = 1", b="")], tmp_path)
    again, _ = made_from([code(tmp_path / "copy" / "job", b="", a="x = 1")], tmp_path / "copy")
    assert first.key == again.key
    (leased,) = unpacked(first, files, cache)
    assert sorted(path.name for path in leased.folder.iterdir()) == ["a.py", "b.py"]
    assert (leased.folder / "a.py").read_text() == "x = 1"
    leased.release()


def test_what_has_changed_on_the_way_is_refused(tmp_path: Path) -> None:
    """By its hash; nothing of it stays."""
    cache = ArtifactCache(tmp_path / "cache")
    bundle, (file,) = made_from([code(tmp_path / "job", a="x = 1")], tmp_path)
    file.write_bytes(zipped(tmp_path / "other.zip", ("a.py", b"x = 2")).read_bytes())
    with pytest.raises(UserCodeLoadError, match="is not what the driver has sent"):
        unpacked(bundle, [file], cache)
    assert [path for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []


def test_another_interpreter_is_refused(tmp_path: Path) -> None:
    """Shared objects are tied to one."""
    bundle, files = made_from([code(tmp_path / "job", a="")], tmp_path)
    other = type(bundle)(bundle.artifacts, "cpython-399-x86_64")
    with pytest.raises(UserCodeLoadError, match=f"bundled for cpython-399-x86_64, and .* {abi_of_this()}"):
        unpacked(other, files, ArtifactCache(tmp_path / "cache"))


def test_what_is_no_bundle_is_refused(tmp_path: Path) -> None:
    """A module by itself, and nothing at all."""
    for path in (code(tmp_path / "job", a="") / "a.py", tmp_path / "none"):
        with pytest.raises(UserCodeLoadError, match="neither a folder nor an archive"):
            made_from([path], tmp_path)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../out.py", "leads out"),
        ("/etc/out.py", "leads out"),
        ("a/../../out.py", "leads out"),
        ("C:/out.py", "leads out"),
        ("..\\out.py", "leads out"),
    ],
)
def test_names_that_lead_out_are_refused(name: str, why: str, tmp_path: Path) -> None:
    """In zips and in tars; nothing is written beside the folder."""
    target = tmp_path / "in" / "folder"
    target.mkdir(parents=True)
    for archive in (
        zipped(tmp_path / "a.zip", (name, b"x")),
        tarred(tmp_path / "a.tar.gz", (entry(name), b"x")),
    ):
        with pytest.raises(UserCodeLoadError, match=why):
            unpack(archive, target)
    assert list(tmp_path.rglob("out.py")) == []


def test_links_stay_inside(tmp_path: Path) -> None:
    """One that leads out is refused, and so is what lies behind one; others are kept."""
    inside = tmp_path / "inside"
    inside.mkdir()
    unpack(
        tarred(tmp_path / "a.tar.gz", (entry("a.py"), b"x"), (entry("b", tarfile.SYMTYPE, "a.py"), b"")),
        inside,
    )
    assert (inside / "b").read_bytes() == b"x"
    for number, archive in enumerate(
        (
            tarred(tmp_path / "b.tar.gz", (entry("b", tarfile.SYMTYPE, "../../x"), b"")),
            tarred(tmp_path / "c.tar.gz", (entry("b", tarfile.SYMTYPE, "/etc"), b"")),
            tarred(tmp_path / "d.tar.gz", (entry("b", tarfile.LNKTYPE, "/etc/passwd"), b"")),
            zipped(tmp_path / "e.zip", (linked("b"), b"../../x")),
        )
    ):
        target = tmp_path / f"out{number}"
        target.mkdir()
        with pytest.raises(UserCodeLoadError, match=r"outside of the archive|no file that comes"):
            unpack(archive, target)


def test_devices_and_doubles_are_refused(tmp_path: Path) -> None:
    """And so is what is no archive."""
    for number, (archive, why) in enumerate(
        (
            (tarred(tmp_path / "a.tar.gz", (entry("d", tarfile.CHRTYPE), b"")), "no file, folder"),
            (tarred(tmp_path / "b.tar.gz", (entry("d", tarfile.FIFOTYPE), b"")), "no file, folder"),
            (tarred(tmp_path / "c.tar.gz", (entry("x"), b"1"), (entry("x"), b"2")), "two of this name"),
            (zipped(tmp_path / "d.zip", ("x", b"1"), ("./x", b"2")), "two of this name"),
        )
    ):
        target = tmp_path / str(number)
        target.mkdir()
        with pytest.raises(UserCodeLoadError, match=why):
            unpack(archive, target)
    (tmp_path / "text.zip").write_text("no zip")
    with pytest.raises(UserCodeLoadError, match="cannot be unpacked"):
        unpack(tmp_path / "text.zip", tmp_path)


def test_bounds_hold(tmp_path: Path) -> None:
    """Counted as it is written, whatever the archive says of itself."""
    bomb = zipfile.ZipInfo("big")
    bomb.compress_type = zipfile.ZIP_DEFLATED
    archive = zipped(tmp_path / "a.zip", (bomb, bytes(1 << 20)), ("b", b""), ("c", b""))
    for number, (bounds, why) in enumerate(
        ((Bounds(2, 1 << 30), "more than 2 entries"), (Bounds(9, 1000), "more than 1000 bytes"))
    ):
        (tmp_path / str(number)).mkdir()
        with pytest.raises(UserCodeLoadError, match=why):
            unpack(archive, tmp_path / str(number), bounds)


def test_damage_is_noticed(tmp_path: Path) -> None:
    """Flipped and missing bytes."""
    whole = zipped(tmp_path / "a.zip", ("a.py", b"x = 1" * 100)).read_bytes()
    for number, damaged in enumerate((whole[:60] + b"!" + whole[61:], whole[: len(whole) // 2])):
        (tmp_path / str(number)).mkdir()
        (tmp_path / "damaged.zip").write_bytes(damaged)
        with pytest.raises(UserCodeLoadError, match="cannot be unpacked"):
            unpack(tmp_path / "damaged.zip", tmp_path / str(number))


def test_a_cache_of_others_is_refused(tmp_path: Path) -> None:
    """Nobody else may write into what is executed."""
    root = tmp_path / "cache"
    root.mkdir(mode=0o755)
    root.chmod(0o755)
    with pytest.raises(UserCodeLoadError, match="must be its owner's alone"):
        ArtifactCache(root)


def test_a_cache_behind_a_link_is_refused(tmp_path: Path) -> None:
    """Whoever made the link may have it lead elsewhere, also where the folder behind it is the owner's."""
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "cache").symlink_to(tmp_path / "folder")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    for name in ("cache", "broken", "file"):
        with pytest.raises(UserCodeLoadError, match="must be a folder, got a link or a file"):
            ArtifactCache(tmp_path / name)


def test_a_folder_that_another_process_has_swept_is_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at it and the lock on its lease."""
    cache = ArtifactCache(tmp_path / "cache")
    leased = cache.lease(KEY, lambda folder: None)
    leased.release()

    def swept(folder: Path) -> float:
        folder.rmdir()
        return 3600.0

    monkeypatch.setattr(cache_module, "_age_s", swept)
    assert cache.sweep() == 0
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_folder_is_packed_once(tmp_path: Path) -> None:
    """The zip of the same content is left alone: Spark may be sending it; another one does not change it."""
    _, (first,) = made_from([code(tmp_path / "job", a="x = 1")], tmp_path)
    os.utime(first, (1, 1))
    _, (again,) = made_from([tmp_path / "job"], tmp_path)
    assert (again, again.stat().st_mtime) == (first, 1)
    _, (other,) = made_from([code(tmp_path / "job", a="x = 2")], tmp_path)
    assert (other != first, first.stat().st_mtime) == (True, 1)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", ".zip", ".zip"]


def test_a_folder_is_made_once_and_whole(tmp_path: Path) -> None:
    """What fails on the way leaves nothing."""
    cache, made = ArtifactCache(tmp_path / "cache"), []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "half").touch()
        if len(made) == 1:
            raise ValueError("on the way")

    with pytest.raises(ValueError, match="on the way"):
        cache.lease(KEY, make)
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []
    leases = [cache.lease(KEY, make) for _ in range(3)]
    assert len(made) == 2
    assert [leased.folder for leased in leases] == [tmp_path / "cache" / KEY] * 3
    for leased in leases:
        leased.release()
    for bad in ("../x", "", "AB" * 16):
        with pytest.raises(UserCodeLoadError, match="no hash"):
            cache.lease(bad, make)


def test_a_leased_folder_stays(tmp_path: Path) -> None:
    """Until its last lease is gone; what a dead process has left half-made goes after an hour."""
    cache = ArtifactCache(tmp_path / "cache")
    one, two = (cache.lease(KEY, lambda folder: None) for _ in range(2))
    one.release()
    assert (cache.sweep(), one.folder.is_dir()) == (0, True)
    two.release()
    assert (cache.sweep(unused_s=60.0), one.folder.is_dir()) == (0, True)
    assert (cache.sweep(), one.folder.is_dir()) == (1, False)
    for name, age_s in (("making-old", 2 * ABANDONED_S), ("making-new", 0.0)):
        (tmp_path / "cache" / name).mkdir()
        os.utime(tmp_path / "cache" / name, (time.time() - age_s,) * 2)
    cache.sweep()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["making-new"]


LEASES_AND_SWEEPS = """
import sys
from pathlib import Path
from headgate.usercode.bundle.cache import ArtifactCache

cache, wrong = ArtifactCache(Path(sys.argv[1])), 0
for _ in range(30):
    leased = cache.lease(sys.argv[2], lambda folder: (folder / "a").touch())
    wrong += not (leased.folder / "a").exists()
    leased.release()
    cache.sweep()
print(wrong)
"""


def test_processes_that_lease_and_sweep_at_once(tmp_path: Path) -> None:
    """None ever finds a folder gone while it holds a lease."""
    command = [sys.executable, "-c", LEASES_AND_SWEEPS, str(tmp_path / "cache"), KEY]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for _ in range(3)
    ]
    ended = [process.communicate(timeout=50) for process in running]
    assert ended == [("0\n", "")] * 3
