"""Packages with compiled parts: what is found on a path, names of libraries, and where each package runs."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from headgate.common.settings.loader_options import NativeModules
from headgate.usercode.loading_errors import NativeModuleConflictError, UserCodeLoadError
from headgate.usercode.namespaces.finding import NativeModules as LoadedModules
from headgate.usercode.native.distributions import Installed, installed_in, soname
from headgate.usercode.native.policy import Place, plan


def package(name: str, version: str, contents: str, native: bool = True) -> Installed:
    """A distribution with one module of its name."""
    return Installed(
        name, version, contents, "/nowhere", (name,), (f"/nowhere/{name}/_c.so",) if native else ()
    )


def packages(*all_: Installed) -> dict[str, Installed]:
    """By name."""
    return {one.name: one for one in all_}


OURS = packages(
    package("numpy", "1.26.0", "n1"), package("pandas", "2.1", "p1"), package("yaml", "6.0", "y1"),
    package("pyarrow", "16", "a1"),
)  # fmt: skip
ALL_OWN = packages(
    package("numpy", "2.1", "n2"), package("pandas", "2.2", "p2"), package("pyarrow", "19", "a2"),
    package("yaml", "6.0", "y1"), package("lxml", "5", "l1"), package("attr", "24", "t", native=False),
)  # fmt: skip


def places(mode: NativeModules, brought: dict[str, Installed] = ALL_OWN) -> dict[str, Place]:
    """What a mode decides."""
    return {one.name: one.place for one in plan(brought, OURS, mode).placements}


def test_auto_takes_what_is_equal_keeps_what_is_harmless_and_sends_away_what_clashes() -> None:
    """By distribution; pure packages are none of its concern."""
    data_plane = dict.fromkeys(("numpy", "pandas", "pyarrow"), Place.PROCESS)
    assert places(NativeModules.AUTO) == {**data_plane, "yaml": Place.PARENT, "lxml": Place.LAYER}
    found = plan(ALL_OWN, OURS, NativeModules.AUTO)
    assert Place.PROCESS in {one.place for one in found.placements}
    assert found.identical == {"yaml"}


def test_other_modes() -> None:
    """What is equal is the framework's in each of them."""
    assert places(NativeModules.PROCESS)["lxml"] is Place.PROCESS
    assert set(places(NativeModules.IN_PROCESS).values()) == {Place.LAYER, Place.PARENT}
    assert places(NativeModules.PARENT)["numpy"] is Place.PARENT
    assert places(NativeModules.PARENT)["lxml"] is Place.LAYER
    with pytest.raises(UserCodeLoadError, match=r"lxml 5 with compiled parts.*=fail"):
        places(NativeModules.FAIL)


def test_parent_warns_of_versions_that_are_not_used() -> None:
    """With both of them."""
    warnings = plan(ALL_OWN, OURS, NativeModules.PARENT).warnings
    assert "numpy 2.1 of the job is not used: the framework's 1.26.0 is" in warnings
    assert len(warnings) == 3


def test_data_plane_packages_come_as_a_group() -> None:
    """A mixture would pass objects of one to the other."""
    with pytest.raises(UserCodeLoadError, match=r"brings numpy 2\.1 and not pandas, pyarrow"):
        places(NativeModules.AUTO, packages(package("numpy", "2.1", "n2")))


def test_names_of_libraries() -> None:
    """Read from the file itself; whatever is no library has none."""
    libraries = [path for path in Path("/").glob("lib/x86_64-linux-gnu/libc.so.6") if path.exists()]
    for library in libraries:
        assert soname(library) == "libc.so.6"
    assert soname(Path(__file__)) is None
    assert soname(Path("/nowhere")) is None


def test_distributions_of_this_environment() -> None:
    """Their modules and compiled files; the data plane has some, pure packages none."""
    found = installed_in([sysconfig.get_path("purelib")])
    assert "numpy" in found["numpy"].modules
    assert found["numpy"].is_native
    assert not found["rich"].is_native
    assert all(Path(file).exists() for file in found["pyarrow"].compiled)
    assert any("arrow" in name for name, _ in found["pyarrow"].libraries())


def with_library(folder: Path, name: str, contents: bytes | None) -> Installed:
    """A distribution with a shared library; without contents the file is not there."""
    file = folder / name / "libshared.so"
    if contents is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(contents)
    return Installed(name, "5", name, str(folder), (name,), (str(file),))


@pytest.mark.parametrize(
    ("theirs", "place"),
    [(b"one build", Place.LAYER), (b"new build", Place.PROCESS), (None, Place.PROCESS)],
)
def test_22_a_library_of_a_taken_name_must_be_the_same_file(
    theirs: bytes | None, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The linker hands out the framework's: harmless where both are equal; else the job needs a process."""
    monkeypatch.setattr("headgate.usercode.native.distributions.soname", lambda path: "libshared.so.1")
    ours = packages(
        with_library(tmp_path, "arrow", b"one build"), with_library(tmp_path, "copy", b"one build")
    )
    brought = packages(with_library(tmp_path, "lxml", theirs))
    (found,) = plan(brought, ours, NativeModules.AUTO).placements
    assert found.place is place
    if place is Place.PROCESS:
        assert "its library libshared.so.1" in found.reason
        assert "has the name of another one of the framework's arrow" in found.reason


def test_22_each_of_the_frameworks_files_of_a_name_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of them was loaded first is handed out."""
    monkeypatch.setattr("headgate.usercode.native.distributions.soname", lambda path: "libshared.so.1")
    ours = packages(with_library(tmp_path, "a", b"one"), with_library(tmp_path, "b", b"two"))
    for contents in (b"one", b"two"):
        brought = packages(with_library(tmp_path, "lxml", contents))
        assert Place.PROCESS in {one.place for one in plan(brought, ours, NativeModules.AUTO).placements}


def test_one_file_is_loaded_by_one_namespace(tmp_path: Path) -> None:
    """Under whatever name it is reached; the refusal names the three ways out."""
    file, loaded = tmp_path / "m.so", LoadedModules()
    file.touch()
    (tmp_path / "link.so").hardlink_to(file)
    loaded.claim(1, "job a", "m", str(file))
    loaded.claim(1, "job a", "m", str(file))
    with pytest.raises(NativeModuleConflictError) as refused:
        loaded.claim(2, "job b", "m", str(tmp_path / "link.so"))
    for way in ("native-modules=process", "dependency-layer", "parent-first-patterns.additional"):
        assert way in str(refused.value)
