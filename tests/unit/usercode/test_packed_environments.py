"""Packed environments: only their modules are brought, wherever they lie, and only of this Python."""

from __future__ import annotations

import io
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.common.settings.config import Config
from headgate.common.settings.loader_options import USER_CODE_PATH
from headgate.usercode.bundle.artifacts import inside_of, key_of_folder, made_from, unpacked
from headgate.usercode.bundle.cache import ArtifactCache
from headgate.usercode.bundle.layouts import inside_of_names, version_of_this
from headgate.usercode.bundle.program_artifacts import artifacts_of
from headgate.usercode.bundle.unpacking import Bounds, names_of, unpack
from headgate.usercode.loading_errors import UserCodeLoadError

THIS = f"lib/python{version_of_this()}/site-packages"
OTHER = "lib/python3.2/site-packages"
Link = tuple[str, str]
PLAIN = {"attr/__init__.py": b"V = 1", "six.py": b""}
LINKS: tuple[Link, ...] = (("bin/python3", "/usr/bin/python3"), ("lib64", "lib"), ("share/out", "../../x"))
"""As in what `venv-pack`, `conda-pack` or `tar` make of an environment."""


def a_tar(path: Path, files: dict[str, bytes], links: tuple[Link, ...] = (), hard: bool = False) -> Path:
    """A tar with files, then links."""
    with tarfile.open(path, "w:gz") as made:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            made.addfile(entry, io.BytesIO(data))
        for name, to in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.LNKTYPE if hard else tarfile.SYMTYPE, to
            made.addfile(entry)
    return path


def a_zip(path: Path, files: dict[str, bytes], links: tuple[Link, ...] = ()) -> Path:
    """A zip with files, then links."""
    with zipfile.ZipFile(path, "w") as made:
        for name, data in files.items():
            made.writestr(name, data)
        for name, to in links:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            made.writestr(entry, to)
    return path


def below(folder: str) -> dict[str, bytes]:
    """Modules in a folder."""
    return {f"{folder}/{name}": data for name, data in PLAIN.items()}


ARCHIVES = [pytest.param(a_tar, "env.tar.gz", id="tar"), pytest.param(a_zip, "env.zip", id="zip")]
Maker = Callable[..., Path]


@pytest.mark.parametrize("top", ["", "env/", "./", "./env/"])
@pytest.mark.parametrize(("make", "name"), ARCHIVES)
def test_only_the_modules_of_an_environment_are_brought(
    make: Maker, name: str, top: str, tmp_path: Path
) -> None:
    """Links to the interpreter that it was made with are not looked at."""
    links = tuple((f"{top}{link}", to) for link, to in LINKS)
    packed = make(tmp_path / name, {f"{top}bin/activate": b"", **below(f"{top}{THIS}")}, links)
    bundle, files = made_from([packed], tmp_path)
    assert bundle.artifacts[0].inside == f"{top.removeprefix('./')}{THIS}"
    (leased,) = unpacked(bundle, files, ArtifactCache(tmp_path / "cache"))
    entry = leased.folder / bundle.artifacts[0].inside
    assert (entry / "attr" / "__init__.py").read_bytes() == b"V = 1"
    found = [path for path in leased.folder.rglob("*") if not path.is_dir()]
    assert sorted(path.relative_to(entry).as_posix() for path in found) == sorted(PLAIN)
    leased.release()


@pytest.mark.parametrize(("make", "name"), ARCHIVES)
def test_modules_at_the_top_are_found_there(make: Maker, name: str, tmp_path: Path) -> None:
    """What an archive is, its list says and not its name."""
    packed = make(tmp_path / name, PLAIN)
    bundle, files = made_from([packed], tmp_path)
    assert bundle.artifacts[0].inside == ""
    (leased,) = unpacked(bundle, files, ArtifactCache(tmp_path / "cache"))
    assert (leased.folder / "six.py").is_file()
    leased.release()


@pytest.mark.parametrize(("make", "name"), ARCHIVES)
def test_a_program_finds_what_it_brings(
    make: Maker, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the machine where it runs itself, too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "job").mkdir()
    packed = make(tmp_path / name, below(THIS), LINKS)
    brought = artifacts_of(
        tmp_path / "job" / "job.py", Config().with_command_line([f"{USER_CODE_PATH.key}={packed}"])
    )
    assert (Path(brought.folders[1]) / "six.py").is_file()
    brought.release()


@pytest.mark.parametrize(("make", "name"), ARCHIVES)
def test_an_environment_of_another_python_is_refused(make: Maker, name: str, tmp_path: Path) -> None:
    """By whoever looks at it; one that serves several is taken."""
    packed = make(tmp_path / name, below(OTHER), LINKS)
    said = rf"environment of Python 3\.2, and this is Python {version_of_this()}"
    for look in (inside_of, lambda path: unpack(path, tmp_path), lambda path: made_from([path], tmp_path)):
        with pytest.raises(UserCodeLoadError, match=said):
            look(packed)
    both = make(tmp_path / f"both-{name}", {**below(OTHER), **below(THIS)})
    assert inside_of(both) == THIS


def test_an_environment_deep_in_an_archive_is_none() -> None:
    """Nor one beside other modules: then the top is meant."""
    for names in (["a/b/" + f"{THIS}/x.py"], [f"env/{THIS}/x.py", "job.py"], [f"{THIS}.py"]):
        assert inside_of_names(names, Path("a.zip")) == ""
    assert inside_of_names(["lib/x.py", f"{THIS}/"], Path("a.zip")) == THIS


def test_a_folder_of_an_environment_means_its_modules(tmp_path: Path) -> None:
    """They are packed, and neither its scripts nor its interpreter."""
    for name, data in {"pyvenv.cfg": b"", "bin/python": b"x", **below(THIS)}.items():
        (tmp_path / "venv" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "venv" / name).write_bytes(data)
    bundle, (file,) = made_from([tmp_path / "venv"], tmp_path)
    assert inside_of(tmp_path / "venv") == THIS
    assert (bundle.artifacts[0].inside, sorted(names_of(file))) == ("", sorted(PLAIN))
    (tmp_path / "venv" / THIS).rename(tmp_path / "venv" / "lib" / "was")
    (tmp_path / "venv" / OTHER).mkdir(parents=True)
    with pytest.raises(UserCodeLoadError, match=r"environment of Python 3\.2"):
        made_from([tmp_path / "venv"], tmp_path)


@pytest.mark.parametrize("to", ["/etc", "../../../share", "../../../../..", ".."])
@pytest.mark.parametrize(("make", "name"), ARCHIVES)
def test_links_out_of_the_modules_are_refused(make: Maker, name: str, to: str, tmp_path: Path) -> None:
    """Also those to what is in the archive and not unpacked; others are kept."""
    files = {**below(THIS), "share/x": b""}
    with pytest.raises(UserCodeLoadError, match=f"links to '{to}', outside of {THIS}"):
        unpack(make(tmp_path / name, files, ((f"{THIS}/out", to),)), tmp_path / "out")
    unpack(make(tmp_path / name, files, ((f"{THIS}/seven.py", "six.py"),)), tmp_path / "in")
    assert (tmp_path / "in" / THIS / "seven.py").resolve().name == "six.py"


def test_names_that_lead_out_of_the_modules_are_refused(tmp_path: Path) -> None:
    """Their beginning is that of a module's."""
    packed = a_zip(tmp_path / "env.zip", {**below(THIS), f"{THIS}/../../../out.py": b""})
    with pytest.raises(UserCodeLoadError, match="leads out of the archive"):
        unpack(packed, tmp_path / "env")
    assert not list(tmp_path.rglob("out.py"))


def test_a_hard_link_becomes_a_file_of_its_own(tmp_path: Path) -> None:
    """Where its other name is among the modules, too."""
    files = {**below(THIS), "bin/x": b""}
    good = ((f"{THIS}/seven.py", f"{THIS}/six.py"),)
    unpack(a_tar(tmp_path / "good.tar.gz", files, good, hard=True), tmp_path / "good")
    six, seven = (tmp_path / "good" / THIS / name for name in ("six.py", "seven.py"))
    assert seven.read_bytes() == six.read_bytes()
    assert (seven.stat().st_nlink, seven.stat().st_mode & 0o777) == (1, 0o700)
    with pytest.raises(UserCodeLoadError, match="hard link to 'bin/x', which is no file that comes before"):
        unpack(a_tar(tmp_path / "b.tar.gz", files, ((f"{THIS}/y", "bin/x"),), hard=True), tmp_path / "bad")


def test_copies_by_hard_links_are_counted(tmp_path: Path) -> None:
    """A small tar cannot fill the disk with them."""
    links = tuple((f"{number}.py", "a.py") for number in range(20))
    packed = a_tar(tmp_path / "a.tar.gz", {"a.py": bytes(1000)}, links, hard=True)
    with pytest.raises(UserCodeLoadError, match="more than 9000 bytes"):
        unpack(packed, tmp_path / "a", Bounds(100, 9000))


def test_a_list_of_names_has_bounds(tmp_path: Path) -> None:
    """Reading it takes as long as unpacking."""
    packed = a_tar(tmp_path / "env.tar.gz", {"big": bytes(1 << 20), **PLAIN})
    for bounds, why in (
        (Bounds(2, 1 << 30), "more than 2 entries"),
        (Bounds(9, 1000), "more than 1000 bytes"),
    ):
        with pytest.raises(UserCodeLoadError, match=why):
            names_of(packed, bounds)


def test_what_is_unpacked_of_an_archive_is_part_of_its_key() -> None:
    """A cache outlives a change of Python, and the next one needs other modules of the same archive."""
    digest = "ab" * 32
    keys = {key_of_folder(digest, inside) for inside in ("", THIS, OTHER)}
    assert len(keys) == 3
    assert key_of_folder(digest, "") == digest
