"""The pages about user code are complete, their options are those there are, and every named test exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from headgate.common.settings.loader_options import LOADER_OPTIONS

TESTS = Path(__file__).parents[2]
FOLDERS = (TESTS / "unit" / "usercode", TESTS / "integration" / "usercode", TESTS / "jobs")
PAGES = (TESTS.parent / "docs" / name for name in ("user-code.md", "user-code-tests.md"))
PAGE = "".join(page.read_text(encoding="utf-8") for page in PAGES)
SCENARIOS = ["sJ1", "sJ3", *(str(number) for number in range(1, 26))]
IDS_IN = {"test_scenario": "test_scenarios.py", "test_real_scenario": "test_real_packages.py"}


def texts() -> dict[str, str]:
    """Files with tests, by name."""
    return {path.name: path.read_text("utf-8") for folder in FOLDERS for path in folder.glob("test_*.py")}


def ids_of(file: str) -> set[str]:
    """The scenarios that a file's table has checks for."""
    for node in ast.walk(ast.parse(texts()[file])):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "SCENARIOS":
            assert isinstance(node.value, ast.Dict)
            return {str(ast.literal_eval(key)) for key in node.value.keys if key is not None}
    raise AssertionError(f"{file} has no table of scenarios")


def test_every_row_is_placed_in_order() -> None:
    """Rows H1 to H13 each have a line with a place, and a test or a difference."""
    lines = re.findall(r"^\| (H\d+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert [row for row, _, _ in lines] == [f"H{number}" for number in range(1, 14)]


def test_every_scenario_is_placed_in_order() -> None:
    """Both of the class loaders' and all twenty-five, each with a test."""
    lines = re.findall(r"^\| (sJ\d+|\d+) \| (.*`test_.+) \|$", PAGE, re.MULTILINE)
    assert [scenario for scenario, _ in lines] == SCENARIOS


def test_every_named_test_exists() -> None:
    """A name of a test function in the page is one of these folders'; so are files."""
    named = set(re.findall(r"`(test_\w+)(?:\[[^\]`]+\])?`", PAGE))
    there = set(re.findall(r"^def (test_\w+)", "".join(texts().values()), re.MULTILINE))
    assert named - there == set()
    assert len(named) >= 35
    assert set(re.findall(r"`(test_\w+\.py)`", PAGE)) - texts().keys() == set()


def test_every_named_check_exists() -> None:
    """A scenario in brackets has checks in its file; each scenario with checks is in the page."""
    for test, file in IDS_IN.items():
        assert set(re.findall(rf"`{test}\[(\S+) \.\.\.\]`", PAGE)) == ids_of(file)
    hostile = texts()["test_hostile_bundles.py"]
    for name in re.findall(r"`test_code_that_nobody_asked_for\[(.+?)\]`", PAGE):
        assert f'"{name}"' in hostile


def test_options_are_those_that_there_are() -> None:
    """With their defaults and sentences."""
    rows = re.findall(r"^\| `(classloader\.\S+)` \| `(.*?)` \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [
        (key, option.kind.format(option.default), option.description)
        for key, option in LOADER_OPTIONS.items()
    ]
