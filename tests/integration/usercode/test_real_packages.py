"""Real packages in two and three versions in one process: what each gets, and what crosses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from headgate.usercode.explaining import Entry, answer, explain
from headgate.usercode.loading_errors import UserCodeLoadError
from headgate.usercode.native.policy import Place
from headgate.usercode.settings import UserCodeSettings

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

pytestmark = [pytest.mark.ci, pytest.mark.timeout(900)]


def run(name: str, environments: Path, folder: Path) -> dict[str, Any]:
    """What a program of checks prints."""
    arguments = [str(ROOT / "src"), str(folder), str(environments)]
    ended = subprocess.run(
        [sys.executable, "-B", str(HERE / name), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "unit" / "usercode")},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def findings(environments: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """Gives, for a program that is run once, check -> "ok" or what came instead."""

    @cache
    def found(name: str) -> dict[str, Any]:
        said = run(name, environments, tmp_path_factory.mktemp("program"))
        return said.get("checks", said)  # type: ignore[no-any-return]

    return found


@pytest.mark.parametrize(("name", "least"), [("real_program.py", 20), ("layer_program.py", 7)])
def test_every_check_holds(name: str, least: int, findings: Callable[[str], dict[str, Any]]) -> None:
    """Versions that conflict work side by side; jobs come and go over a layer of packages that stays."""
    found = findings(name)
    assert {check: said for check, said in found.items() if said != "ok"} == {}
    assert len(found) >= least


REAL, LAYER = "real_program.py", "layer_program.py"
SCENARIOS: dict[str, dict[str, tuple[str, ...]]] = {
    "1": {
        REAL: (
            *("attrs", "attrs lie where they should", "attrs of the framework"),
            "lazy version outside of the boundary",
        ),
    },
    "2": {
        REAL: (
            *("requests and urllib3", "requests of the framework", "six.moves"),
            "hooks of six stay in their namespaces",
        ),
    },
    "3": {REAL: ("pydantic",)},
    "4": {REAL: ("protobuf",)},
    "21": {
        LAYER: (
            *("every job works", "one numpy for all jobs", "jobs leave nothing", "numpy is the layer's"),
            *("a restart takes 50 ms at most", "memory is flat", "the same files a second time"),
        ),
    },
    "23": {
        REAL: (
            *("arrays of the jobs do not leave", "arrays of the framework leave"),
            *("arrow into the jobs", "arrow out of the jobs", "arrow tables leave"),
        ),
    },
}
"""Scenario -> program -> the checks of that program."""


def _cases() -> Iterator[Any]:
    for scenario, programs in SCENARIOS.items():
        for program, checks in programs.items():
            for check in checks:
                yield pytest.param(program, check, id=f"{scenario} {check}")


@pytest.mark.parametrize(("program", "check"), list(_cases()))
def test_real_scenario(program: str, check: str, findings: Callable[[str], dict[str, Any]]) -> None:
    """A check that the scenario of its id asks for holds with real packages."""
    assert findings(program)[check] == "ok"


def test_22_an_explanation_tells_where_real_packages_would_run(environments: Path) -> None:
    """The data plane in workers of its own, other compiled packages in the layer, the rest beside them."""
    names = ("numpy", "pydantic_core._pydantic_core", "attr", "json")
    found = explain(names, [Entry(environments / "b", "b")], UserCodeSettings())
    assert [one.copy.value for one in found.modules] == [
        "user",
        "dependency layer",
        "dependency layer",
        "framework",
    ]
    assert [[placed.place for placed in one.native] for one in found.modules] == [
        [Place.PROCESS],
        [Place.LAYER],
        [],
        [],
    ]
    assert all(str(one.file).startswith("b/") for one in found.modules[:3])


def test_an_explanation_with_locked_requirements(tmp_path: Path) -> None:
    """Wheels are fetched for it and are not left behind."""
    text = (ROOT / "requirements" / "usercode-b.txt").read_text()
    locked, program = tmp_path / "locked.txt", tmp_path / "job.py"
    locked.write_text(re.findall(r"^attrs==(?:.*\\\n)*.*$", text, re.MULTILINE)[0])
    program.touch()
    asked = {"program": str(program), "modules": ["attr"], "others": [], "requirements": str(locked)}
    try:
        (module,) = answer({**asked, "settings": {}})["modules"]
    except UserCodeLoadError as error:
        pytest.skip(f"the wheel cannot be had: {error}")
    assert module["copy"] == "user"
    assert module["file"].endswith("attrs-24.2.0-py3-none-any.whl/attr/__init__.py")
    assert not Path(module["file"]).parents[1].exists()
