"""What of the program goes to executors on other machines, and what stays."""

from __future__ import annotations

import importlib.util
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from headgate.common.errors import UsageError
from headgate.deploy.spark import shipped_code
from headgate.deploy.spark.shipped_code import collect, fingerprint, installed_roots


def write(folder: Path, *names: str) -> None:
    """Files that say their own name."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"name = {name!r}\n")


def loaded(*files: Path) -> dict[str, ModuleType]:
    """Modules, or packages by their `__init__.py`, as imports make them; `main.py` is the program."""
    found = {}
    for file in files:
        name = (
            "__main__"
            if file.name == "main.py"
            else file.parent.name
            if "__init__" in file.name
            else file.stem
        )
        folders = [str(file.parent)] if "__init__" in file.name else None
        spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
        assert spec is not None
        found[name] = importlib.util.module_from_spec(spec)
    return found


def own(files: dict[str, Path]) -> list[str]:
    """Names of what is not Headgate itself."""
    return sorted(name for name in files if not name.startswith("headgate/"))


def test_headgate_goes_along_with_what_is_beside_the_program(tmp_path: Path) -> None:
    """Modules and packages beside the script, also those not imported yet; no data, no caches."""
    kit = ["kit/__init__.py", "kit/deep/words.py", "kit/words.txt"]
    write(tmp_path, "main.py", "beside.py", *kit, "parts/late.py", "parts/late.csv")
    write(tmp_path, "kit/__pycache__/words.pyc", "kit/.git/x.py", "data/big.csv", "notes.txt")
    files = collect(loaded(tmp_path / "main.py"), installed_roots())
    assert own(files) == ["beside.py", *kit, "main.py", "parts/late.py"]
    assert {"headgate/__init__.py", "headgate/deploy/spark/worker_main.py", "headgate/py.typed"} <= set(files)


def test_imported_modules_go_along_from_wherever_they_are(tmp_path: Path) -> None:
    """A folder of PYTHONPATH, or an editable installation: the module alone, a package as a whole."""
    write(tmp_path, "path/single.py", "path/other.py", "project/src/kit/__init__.py", "project/src/kit/a.py")
    modules = loaded(tmp_path / "path" / "single.py", tmp_path / "project" / "src" / "kit" / "__init__.py")
    assert own(collect(modules, installed_roots())) == ["kit/__init__.py", "kit/a.py", "single.py"]


def test_what_executors_bring_along_stays(tmp_path: Path) -> None:
    """The standard library, site-packages wherever they are, and folders that Spark distributes already."""
    write(tmp_path, "lib/site-packages/third.py", "spark/from_py_files.py")
    modules = loaded(tmp_path / "lib" / "site-packages" / "third.py", tmp_path / "spark" / "from_py_files.py")
    standard = {name: sys.modules[name] for name in ("json", "pytest", "sys", "msgspec")}
    assert own(collect({**modules, **standard}, installed_roots([tmp_path / "spark"]))) == []


def test_too_much_beside_the_program_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names the largest file and the other ways."""
    write(tmp_path, "main.py", "kit/__init__.py")
    (tmp_path / "kit" / "model.bin").write_bytes(bytes(20_000_000))
    monkeypatch.setattr(shipped_code, "SIZE_MAX", 15_000_000)
    with pytest.raises(
        UsageError, match=r"model\.bin' most, .*--py-files .*headgate\.spark\.ship-code=false"
    ):
        collect(loaded(tmp_path / "main.py"), installed_roots())


def test_the_archive_is_named_after_its_contents(tmp_path: Path) -> None:
    """The same files give the same name, another text another: Spark keeps the first of one name."""
    write(tmp_path, "a.py", "b.py")
    files = {"a.py": tmp_path / "a.py", "b.py": tmp_path / "b.py"}
    before = fingerprint(files)
    assert fingerprint(dict(reversed(files.items()))) == before
    (tmp_path / "b.py").write_text("name = 'c.py'\n")
    assert fingerprint(files) != before
    with zipfile.ZipFile(shipped_code._pack(files, tmp_path / "code.zip")) as archive:
        assert archive.namelist() == ["a.py", "b.py"]
        assert archive.read("b.py") == b"name = 'c.py'\n"
