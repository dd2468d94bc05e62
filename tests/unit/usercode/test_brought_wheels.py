"""Wheels that a job brings: for this interpreter, searched where they keep modules, kept as they were."""

from __future__ import annotations

import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.usercode.bundle import requirements
from headgate.usercode.bundle.artifacts import check_platform, check_wheel, inside_of, made_from, unpacked
from headgate.usercode.bundle.cache import ArtifactCache
from headgate.usercode.bundle.layouts import searched
from headgate.usercode.bundle.requirements import wheels_of
from headgate.usercode.loading_errors import UserCodeLoadError
from headgate.usercode.native.distributions import installed_in

THIS = f"cp3{sys.version_info.minor}"
NEXT, BEFORE = f"cp3{sys.version_info.minor + 1}", f"cp3{sys.version_info.minor - 1}"
AS_HERE = f"{THIS}{'t' if 't' in sys.abiflags else ''}"


@pytest.mark.parametrize(
    "tags",
    [
        "py3-none-any",
        "py2.py3-none-any",
        "py38-none-any",
        "py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64",
        "cp36-abi3-manylinux_2_17_x86_64",
        f"{THIS}-{AS_HERE}-linux_x86_64",
        f"{BEFORE}.{THIS}-{BEFORE}.{AS_HERE}-linux_x86_64",
        f"{THIS}-none-any",
    ],
)
def test_wheels_for_this_interpreter_are_taken(tags: str) -> None:
    """Of its version, of an older stable ABI, of any Python 3; with and without a build number."""
    check_wheel(f"x-1.0-{tags}.whl")
    check_wheel(f"x-1.0-7-{tags}.whl")


@pytest.mark.parametrize(
    "tags",
    [
        "py2-none-any",
        f"{NEXT}-{NEXT}-manylinux_2_17_x86_64",
        f"{BEFORE}-{BEFORE}-linux_x86_64",
        f"{NEXT}-abi3-linux_x86_64",
        f"{NEXT.replace('cp', 'py')}-none-any",
        "pp310-pypy310_pp73-linux_x86_64",
    ],
)
def test_wheels_for_other_interpreters_are_refused(tags: str, tmp_path: Path) -> None:
    """With the wheel, its tags and this Python in one sentence."""
    wheel = tmp_path / f"x-1.0-{tags}.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("x.py", "")
    python, abi, _ = tags.split("-")
    said = f"wheel '{wheel.name}' is for {python}-{abi}, and this is Python 3.{sys.version_info.minor}"
    for look in (inside_of, lambda path: made_from([path], tmp_path)):
        with pytest.raises(UserCodeLoadError) as error:
            look(wheel)
        assert said in str(error.value)


def test_what_is_not_named_as_a_wheel_is_not_judged() -> None:
    """Other archives, and the names under which wheels travel."""
    for name in ("a.whl", "headgate-user-abab.whl", "x-1.0-cp27-cp27m-any.zip"):
        check_wheel(name)
        check_platform(name)


@pytest.mark.parametrize(
    "system", ["win_amd64", "macosx_10_9_universal2.macosx_11_0_ppc", "manylinux_9_99_x86_64"]
)
def test_wheels_for_other_systems_are_refused_where_they_are_unpacked(system: str, tmp_path: Path) -> None:
    """A driver may run another system than its workers; the cache holds nothing of it."""
    wheel, cache = tmp_path / f"x-1.0-py3-none-{system}.whl", tmp_path / "cache"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("x.py", "")
    bundle, files = made_from([wheel], tmp_path)
    with pytest.raises(
        UserCodeLoadError, match=rf"is for {', '.join(system.split('.'))}, and this machine takes"
    ):
        unpacked(bundle, files, ArtifactCache(cache))
    assert not list(cache.iterdir())


def test_wheels_for_any_system_or_this_one_are_unpacked() -> None:
    """Those that were built on this machine, too."""
    this = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    check_platform("x-1.0-py3-none-any.whl")
    check_platform(f"x-1.0-{THIS}-{AS_HERE}-{this}.whl")


def test_parts_of_an_unpacked_wheel_are_searched(tmp_path: Path) -> None:
    """`purelib` and `platlib`, with what their `.pth` files name; other such folders are no wheel's."""
    for name in ("x-1.0.dist-info", "x-1.0.data/purelib/sub", "x-1.0.data/platlib", "x-1.0.data/scripts"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "y-1.0.data" / "purelib").mkdir(parents=True)
    (tmp_path / "x-1.0.data" / "purelib" / "x.pth").write_text("sub\n../../../out\n")
    assert searched(tmp_path) == (str(tmp_path),)
    (tmp_path / "x-1.0.dist-info" / "WHEEL").touch()
    found = [Path(entry).relative_to(tmp_path).as_posix() for entry in searched(tmp_path)]
    assert found == [".", "x-1.0.data/purelib", "x-1.0.data/platlib", "x-1.0.data/purelib/sub"]


def test_modules_and_libraries_of_a_wheel_by_its_record(tmp_path: Path) -> None:
    """Modules in parts of it are its own; data with `.so` somewhere in the name are not compiled."""
    info = tmp_path / "x-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: x\nVersion: 1.0\n")
    compiled = ["x-1.0.data/platlib/x/_fast.abi3.so", "x/libz-ab12.so.1.2.3", "x/libplain.so"]
    data = ["x/v0.7.1.some-named-index.parquet", "x/lib.so.txt", "x/x.sock", "x-1.0.data/data/etc/x.conf"]
    (info / "RECORD").write_text(
        "".join(f"{name},,\n" for name in (*compiled, *data, "x-1.0.data/purelib/y.py"))
    )
    found = installed_in([str(tmp_path)])["x"]
    assert [Path(path).relative_to(tmp_path).as_posix() for path in found.compiled] == compiled
    assert found.modules == ("x", "y")


Fetched = Callable[[], int]


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> Fetched:
    """How often wheels were fetched; an index without a network."""
    times = []

    def fetch(locked: Path, folder: Path) -> None:
        times.append(locked)
        (folder / "x-1.0-py3-none-any.whl").write_bytes(locked.read_bytes())

    monkeypatch.setattr(requirements, "_fetch", fetch)
    return lambda: len(times)


def test_wheels_are_fetched_once_for_each_kind_of_interpreter(
    tmp_path: Path, fetched: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same lock gives other wheels for another one."""
    (tmp_path / "locked.txt").write_text("x==1.0 --hash=sha256:00\n")
    here = [wheels_of(tmp_path / "locked.txt", tmp_path / "cache") for _ in range(2)]
    assert (here[0], fetched()) == (here[1], 1)
    monkeypatch.setattr(requirements, "abi_of_this", lambda: "cpython-399-x86_64")
    there = wheels_of(tmp_path / "locked.txt", tmp_path / "cache")
    assert (fetched(), there[0].parent != here[0][0].parent) == (2, True)
    assert not list((tmp_path / "cache").glob("fetching-*"))


def test_wheels_that_have_changed_are_fetched_again(tmp_path: Path, fetched: Fetched) -> None:
    """So are those that are gone; what somebody has put beside them is not taken."""
    (tmp_path / "locked.txt").write_text("x==1.0 --hash=sha256:00\n")

    def wheels() -> tuple[Path, ...]:
        return wheels_of(tmp_path / "locked.txt", tmp_path / "cache")

    (wheel,) = wheels()
    for times, damage in enumerate(
        (
            lambda: wheel.write_bytes(b"damaged"),
            wheel.unlink,
            lambda: wheel.with_name("evil-1.0-py3-none-any.whl").touch(),
        )
    ):
        damage()
        assert wheels() == (wheel,)
        assert (wheel.read_bytes(), fetched()) == ((tmp_path / "locked.txt").read_bytes(), times + 2)


def test_wheels_that_cannot_be_had_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt begins anew."""

    def fetch(locked: Path, folder: Path) -> None:
        (folder / "half.whl").touch()
        raise UserCodeLoadError("no index")

    monkeypatch.setattr(requirements, "_fetch", fetch)
    (tmp_path / "locked.txt").touch()
    with pytest.raises(UserCodeLoadError, match="no index"):
        wheels_of(tmp_path / "locked.txt", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
