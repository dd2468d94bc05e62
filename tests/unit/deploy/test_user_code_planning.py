"""Where a job's packages run, decided on the driver; and the bounds on what jobs of one application share."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest

from headgate.common.errors import InternalError, UsageError
from headgate.common.settings.loader_options import DependencyLayer, NativeModules
from headgate.deploy.spark.user_code import planning
from headgate.deploy.spark.user_code.arriving import Arrived
from headgate.deploy.spark.user_code.beginning_code import OtherEnvironment, in_workers_of
from headgate.deploy.spark.user_code.orders import VARIABLE, Limits, UserCodeOptions
from headgate.deploy.spark.user_code.planning import check_supported, planned
from headgate.deploy.spark.user_code.running_jobs import UserCodeJobs
from headgate.usercode import program_code
from headgate.usercode.bundle.artifacts import Artifact
from headgate.usercode.loading_errors import DifferentUserCodeError, UserCodeLoadError
from headgate.usercode.native.distributions import Installed, installed_in
from headgate.usercode.settings import UserCodeSettings


def package(folder: Path, name: str, version: str, compiled: bool = True, needs: str = "") -> Path:
    """A distribution as an installer leaves it; its shared object is an empty file."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(f"VERSION = {version!r}\n")
    required = f"Requires-Dist: {needs}\nRequires-Dist: nothing ; extra == 'more'\n" if needs else ""
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}")
    files = [f"{name}/__init__.py", f"{info.name}/METADATA", "../../bin/tool"]
    if compiled:
        (folder / name / "_core.abi3.so").touch()
        files.append(f"{name}/_core.abi3.so")
    (info / "RECORD").write_text("".join(f"{file},sha256={version},1\n" for file in files))
    return folder


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Installed]:
    """It has numpy, and fastthing."""
    folder = package(tmp_path / "framework", "numpy", "2.4")
    found = installed_in([str(package(folder, "fastthing", "1.0"))])
    monkeypatch.setattr(planning, "framework_packages", lambda: found)
    return found


def located(*folders: Path) -> list[tuple[Artifact, Path]]:
    """As if they had been unpacked."""
    return [(Artifact(folder.name, folder.name.encode().hex().ljust(64, "0")), folder) for folder in folders]


@pytest.mark.usefixtures("framework")
def test_pure_packages_need_no_plan(tmp_path: Path) -> None:
    """Isolated namespaces keep them apart."""
    found = planned(located(package(tmp_path / "job", "attr", "24", compiled=False)), UserCodeOptions())
    assert found == planning.UserCodePlan()


@pytest.mark.usefixtures("framework")
def test_what_is_the_frameworks_own_is_used_and_checked(tmp_path: Path) -> None:
    """File by file, as its record says; a worker sees whether it has the same."""
    found = planned(located(package(tmp_path / "job", "numpy", "2.4")), UserCodeOptions())
    assert found.identical == {"numpy"}
    assert [(one.name, one.version) for one in found.framework] == [("numpy", "2.4")]
    assert (found.environment, found.layered) == (None, frozenset())


@pytest.mark.usefixtures("framework")
def test_harmless_compiled_packages_lie_in_a_layer_with_all_that_is_installed(tmp_path: Path) -> None:
    """The user's own program does not."""
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "main.py").touch()
    pure = package(tmp_path / "pure", "attr", "24", compiled=False)
    made = located(tmp_path / "program", package(tmp_path / "lxml", "lxml", "5"), pure)
    found = planned(made, UserCodeOptions())
    assert found.layered == {made[1][0].digest, made[2][0].digest}
    crowded = planned(made, UserCodeOptions(), crowded=True)
    assert crowded.layered == frozenset()
    assert crowded.environment is not None
    assert [one.name for one in crowded.environment.linked] == ["lxml"]


@pytest.mark.usefixtures("framework")
def test_a_second_copy_of_a_package_lies_in_the_layer_behind_the_first(tmp_path: Path) -> None:
    """Above the layer it would be found first by workers, and the driver would load the first."""
    first = package(package(tmp_path / "first", "lxml", "5"), "attr", "24", compiled=False)
    second = package(tmp_path / "second", "attr", "25", compiled=False)
    made = located(first, second)
    layered = planned(made, UserCodeOptions()).layered
    assert layered == {artifact.digest for artifact, _ in made}
    layer = Arrived(tuple(made), ()).paths(layered)
    assert layer == program_code._native(layer, UserCodeSettings.from_texts({}))[1]
    assert installed_in(layer)["attr"].version == "24"


@pytest.mark.usefixtures("framework")
def test_what_clashes_gets_workers_of_its_own_with_what_it_needs(tmp_path: Path) -> None:
    """Named by content: another program with the same packages has the same workers."""
    folder = package(tmp_path / "one", "numpy", "2.1", needs="dates>=1")
    package(package(folder, "dates", "1.1", compiled=False), "other", "1", compiled=False)
    first = planned(located(folder), UserCodeOptions()).environment
    assert first is not None
    assert [(one.name, one.entries, one.compiled) for one in first.linked] == [
        ("dates", ("dates", "dates-1.1.dist-info"), False),
        ("numpy", ("numpy", "numpy-2.1.dist-info"), True),
    ]
    shutil.copytree(folder, tmp_path / "two")
    second = planned(located(tmp_path / "two"), UserCodeOptions()).environment
    assert second is not None
    assert second.key == first.key


def test_versions_that_headgate_cannot_use_are_refused() -> None:
    """It would have to use them in the job's workers."""
    ours = ["numpy>=2", "pandas<3", 'pyarrow>=99; extra == "none"']
    check_supported({"numpy": "2.1.3", "pandas": "2.2", "pyarrow": "20"}, ours)
    with pytest.raises(UsageError, match=r"brings numpy 1\.26\.4, .* Headgate needs numpy>=2"):
        check_supported({"numpy": "1.26.4"}, ours)
    with pytest.raises(UsageError, match=r"brings pandas 3\.0, .* pandas<3"):
        check_supported({"pandas": "3.0"}, ours)


class FakeContext:
    """What shipping asks of Spark."""

    applicationId = "app-1"  # noqa: N815 - Spark's name

    def __init__(self, folder: Path) -> None:
        self._temp_dir = str(folder)
        self.environment = {"A": "1"}
        self.added: list[str] = []

    def addFile(self, path: str) -> None:  # noqa: N802 - Spark's name
        """As Spark's."""
        self.added.append(Path(path).name)


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UserCodeJobs:
    """Of an application that has none."""
    monkeypatch.setattr("headgate.deploy.spark.user_code.shipped_files._added", set())
    (tmp_path / "spark").mkdir()
    return UserCodeJobs(FakeContext(tmp_path / "spark"))  # type: ignore[arg-type]


@pytest.mark.usefixtures("framework")
def test_environments_and_layers_have_bounds(jobs: UserCodeJobs, tmp_path: Path) -> None:
    """Equal packages count once; a layer too many becomes an environment; too many of these are refused."""
    options = UserCodeOptions(environments=3, limits=Limits(layers=1))
    numpy = package(tmp_path / "numpy", "numpy", "2.1")
    lxml, yaml, cffi = (package(tmp_path / name, name, "1") for name in ("lxml", "yaml", "cffi"))
    assert jobs.begin("a", [numpy], options).environment == jobs.begin("b", [numpy], options).environment
    assert jobs.begin("c", [lxml], options).environment is None
    assert jobs.begin("d", [lxml], options).layer == jobs.begin("c", [lxml], options).layer != ""
    pure = package(tmp_path / "pure", "pure", "1", compiled=False)
    assert jobs.begin("d2", [lxml, pure], UserCodeOptions()).environment is not None, "no file twice"
    assert jobs.begin("e", [yaml], options).environment is not None
    with pytest.raises(UsageError, match=r"'f' needs .* cffi 1, .* 3 sets .*max-process-environments=3"):
        jobs.begin("f", [cffi], options)
    assert "f" not in dict(jobs.live().begun)
    with pytest.raises(UserCodeLoadError, match=r"lxml 1 with compiled parts.*=fail"):
        jobs.begin("g", [lxml], dataclasses.replace(options, native=NativeModules.FAIL))


def test_a_job_begins_and_ends(jobs: UserCodeJobs, tmp_path: Path) -> None:
    """Its restart is no beginning; what comes under its id behind its end is another job."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        (folder / "program.py").write_text(folder.name)
    jobs.begin("a", [one])
    first = jobs.live()
    jobs.begin("a", [one])
    assert jobs.live() == first
    with pytest.raises(DifferentUserCodeError, match="end it first"):
        jobs.begin("a", [two])
    jobs.end("a")
    assert jobs.live().over({"a": first.epoch_of("a")}, first.epoch) == ("a",)
    jobs.begin("a", [two])
    assert jobs.live().over({"a": first.epoch_of("a")}, first.epoch) == ("a",)


@pytest.mark.usefixtures("framework")
def test_variables_of_one_rdd_are_nobody_elses(jobs: UserCodeJobs, tmp_path: Path) -> None:
    """The context itself stays as it is; a function that was wrapped already is too late."""
    code = jobs.begin("a", [package(tmp_path / "numpy", "numpy", "2.1")])
    assert code.environment is not None
    context = FakeContext(tmp_path)

    class Rdd:
        ctx: Any = context
        _jrdd_val: Any = None

    rdd: Any = Rdd()
    assert in_workers_of(rdd, code) is rdd
    assert isinstance(rdd.ctx, OtherEnvironment)
    assert rdd.ctx.environment == {"A": "1", VARIABLE: code.environment.key}
    assert rdd.ctx.applicationId == "app-1"
    assert context.environment == {"A": "1"}
    rdd._jrdd_val = object()
    with pytest.raises(InternalError, match="wrapped before"):
        in_workers_of(rdd, code)


@pytest.mark.usefixtures("framework")
def test_the_option_says_what_lies_in_the_layer(tmp_path: Path) -> None:
    """`native`: all packages where one must stay; `always`: pure ones, too; `never`: none."""
    pure = located(package(tmp_path / "pure", "attr", "24", compiled=False))
    native = located(package(tmp_path / "native", "fastthing", "2.0"))
    own = located(tmp_path / "program")
    (tmp_path / "program").mkdir()

    def layered(layer: DependencyLayer, brought: list[tuple[Artifact, Path]]) -> frozenset[str]:
        return planned([*own, *brought], UserCodeOptions(layer=layer)).layered

    (of_pure,), (of_native,) = ([one.digest for one, _ in each] for each in (pure, native))
    assert layered(DependencyLayer.NATIVE, pure) == frozenset()
    assert layered(DependencyLayer.NATIVE, [*pure, *native]) == {of_pure, of_native}
    assert layered(DependencyLayer.ALWAYS, pure) == {of_pure}
    assert layered(DependencyLayer.NEVER, [*pure, *native]) == frozenset()
