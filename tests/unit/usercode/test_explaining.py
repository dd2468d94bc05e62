"""Explanations of which copy a module means: whose, from which file, by which rule, and where it runs."""

from __future__ import annotations

import hashlib
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headgate.common.errors import UsageError
from headgate.usercode.explaining import Entry, Explanation, answer, entries, explain
from headgate.usercode.loading_errors import UserCodeLoadError
from headgate.usercode.native.policy import Place
from headgate.usercode.resolution import Origin
from headgate.usercode.settings import UserCodeSettings


def package(folder: Path, name: str, native: bool = False, version: str = "1.0") -> Path:
    """An installed distribution with one package of its name."""
    files = {f"{name}/__init__.py": "raise RuntimeError('it was run')\n"}
    if native:
        files[f"{name}/_c.abi3.so"] = "no code\n"
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    hashes = {file: hashlib.sha256(text.encode()).hexdigest() for file, text in files.items()}
    (info / "RECORD").write_text("".join(f"{file},sha256={digest},\n" for file, digest in hashes.items()))
    return folder


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The folder of a program; importing anything in it fails."""
    folder = tmp_path / "job"
    folder.mkdir()
    for name in ("program", "helper", "json"):
        (folder / f"{name}.py").write_text("raise RuntimeError('it was run')\n")
    (folder / "rich").mkdir()
    (folder / "rich" / "__init__.py").write_text("raise RuntimeError('it was run')\n")
    return folder


def of(names: Sequence[str], *folders: Path, **texts: str) -> Explanation:
    """What is said of modules on a path."""
    settings = {
        f"classloader.{key.replace('__', '.').replace('_', '-')}": text for key, text in texts.items()
    }
    return explain(names, [Entry(one, str(one)) for one in folders], UserCodeSettings.from_texts(settings))


def test_packages_are_searched_last_where_one_has_compiled_parts(tmp_path: Path) -> None:
    """Without namespaces all is searched as it was brought."""
    brought = package(tmp_path / "packages", "fastx", native=True), tmp_path / "archive"
    brought[1].mkdir()
    for folder in brought:
        (folder / "helper.py").touch()
    path = [Entry(folder, str(folder)) for folder in brought]
    for alone in (False, True):
        (found,) = explain(["helper"], path, UserCodeSettings.from_texts({}), alone).modules
        assert found.file == str(brought[not alone] / "helper.py")


def test_whose_copy_which_file_and_why(job: Path) -> None:
    """By the table of namespaces; no module of the job's is executed."""
    found = {
        one.module: one for one in of(["helper", "rich", "rich.table", "json", "pytest", "no"], job).modules
    }
    assert {name: one.copy.value for name, one in found.items()} == {
        "helper": "user", "rich": "user", "rich.table": "user", "json": "framework", "pytest": "framework",
        "no": "user",
    }  # fmt: skip
    assert found["helper"].file == str(job / "helper.py")
    assert found["rich.table"].file is None  # only the framework's copy has it, and the package is the user's
    assert found["rich.table"].reason == "part of the user's package 'rich'"
    assert found["pytest"].file == pytest.__file__
    assert found["json"].reason == "standard library"
    assert found["no"].reason.startswith("found nowhere")


def test_settings_count(job: Path) -> None:
    """Order and patterns, and warnings of them."""
    (order,) = of(["rich"], job, resolve_order="parent-first").modules
    assert (order.copy, order.reason) == (Origin.PARENT, "parent-first: the framework's copy")
    (pattern,) = of(["rich"], job, parent_first_patterns__additional="rich.").modules
    assert (pattern.copy, pattern.reason) == (Origin.PARENT, "parent-first pattern 'rich.'")
    found = of(["headgate.api"], job, parent_first_patterns__default="rich.")
    assert found.modules[0].reason == "parent-first pattern 'headgate.'"
    assert "stay parent-first" in found.warnings[0]


def test_namespace_packages_name_their_folders(job: Path) -> None:
    """The user's portions."""
    (job / "spread").mkdir()
    (found,) = of(["spread"], job).modules
    assert (found.copy, found.file) == (Origin.CHILD, str(job / "spread"))


def test_packages_of_others_lie_in_the_layer_when_one_must_stay(job: Path, tmp_path: Path) -> None:
    """All that are installed, as what stays must not need what goes; `never` and `always` say otherwise."""
    dependencies = package(package(tmp_path / "installed", "nativelib", native=True), "purelib")
    names = ["nativelib", "purelib", "helper"]

    def copies(layer: str) -> list[str]:
        return [one.copy.value for one in of(names, job, dependencies, dependency_layer=layer).modules]

    layer = "dependency layer"
    assert copies("native") == [layer, layer, "user"]
    assert copies("never") == ["user", "user", "user"]
    pure = package(tmp_path / "pure", "purelib")
    assert [one.copy.value for one in of(["purelib"], job, pure).modules] == ["user"]
    assert [one.copy.value for one in of(["purelib"], job, pure, dependency_layer="always").modules] == [
        layer
    ]
    found = of(names, job, dependencies).modules
    assert [[one.place for one in module.native] for module in found] == [[Place.LAYER], [], []]
    assert found[0].file == str(dependencies / "nativelib" / "__init__.py")


def test_22_native_packages_that_clash_need_processes_of_their_own(job: Path, tmp_path: Path) -> None:
    """The data plane in another version; with `fail` such a job is refused, and so is the explanation."""
    group = tmp_path / "group"
    for name in ("numpy", "pandas", "pyarrow"):
        package(group, name, native=True, version="0.1")
    found = of(["numpy.linalg"], job, group).facts()
    (module,) = found["modules"]
    assert module["native"][0]["runs"] == "a process of its own"
    assert "its objects meet those of the framework's" in module["native"][0]["reason"]
    assert found["own_processes"]
    for order in ("child-first", "parent-first"):
        (module,) = of(["numpy"], job, group, resolve_order=order).modules
        assert (module.copy, module.file) == (Origin.CHILD, str(group / "numpy" / "__init__.py"))
        assert "the user's copy in the framework's place" in module.reason
    with pytest.raises(UserCodeLoadError, match="native-modules=fail"):
        of(["numpy"], job, group, native_modules="fail")


def test_22_an_identical_native_package_is_the_frameworks(job: Path, tmp_path: Path) -> None:
    """Then the job's copy is not looked at."""
    installed = Path(sysconfig.get_path("platlib"))
    (info,) = installed.glob("numpy-*.dist-info")
    copy = tmp_path / "copy"
    (copy / "numpy").mkdir(parents=True)
    (copy / info.name).symlink_to(info)
    found = of(["numpy"], job, copy)
    assert found.modules[0].copy is Origin.PARENT
    assert found.modules[0].reason == "the user's native package is the framework's own"
    assert found.modules[0].native[0].place is Place.PARENT


def test_archives_are_unpacked_and_shown_under_their_own_names(job: Path, tmp_path: Path) -> None:
    """A wheel's modules lie in the wheel, for people."""
    wheel, scratch = tmp_path / "purelib-1.0-py3-none-any.whl", tmp_path / "scratch"
    scratch.mkdir()
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("purelib/__init__.py", "raise RuntimeError('it was run')\n")
    path = list(entries(job / "program.py", [wheel], [], scratch))
    (found,) = explain(["purelib"], path, UserCodeSettings()).modules
    assert found.file == str(wheel / "purelib" / "__init__.py")


def test_whether_the_program_is_isolated_is_told(job: Path, tmp_path: Path) -> None:
    """As `headgate run` would decide it, and for that reason."""
    asked: dict[str, Any] = {"program": str(job / "program.py"), "modules": ["x"], "requirements": None}
    plain = {**asked, "others": [], "settings": {"headgate.user-code.apart": "auto"}}
    for name in ("plain", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "plain" / "program.py").touch()
    alone = {**plain, "program": str(tmp_path / "plain" / "program.py")}
    assert answer(alone)["isolated"] is None
    assert "is true" in answer({**alone, "settings": {"headgate.user-code.apart": "true"}})["isolated"]
    assert "brings packages" in answer({**alone, "others": [str(tmp_path / "other")]})["isolated"]
    with pytest.raises(UsageError, match="can only be loaded isolated"):
        answer({**alone, "others": ["/"], "settings": {"headgate.user-code.apart": "false"}})


def test_what_is_not_there_is_refused(job: Path, tmp_path: Path) -> None:
    """The program, what is brought beside it, and its requirements."""
    asked = {"program": str(job / "program.py"), "modules": ["x"], "others": [], "requirements": None}
    assert answer({**asked, "settings": {}})["modules"][0]["module"] == "x"
    for wrong, said in (
        ({"program": "nowhere.py"}, "no program 'nowhere.py'"),
        ({"others": ["nowhere"]}, "neither a folder nor an archive"),
        ({"requirements": "nowhere.txt"}, "is not there"),
        ({"settings": {"classloader.x": "1"}}, "none of user code's"),
    ):
        with pytest.raises(UsageError, match=said):
            answer({**asked, "settings": {}, **wrong})
