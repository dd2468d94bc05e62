"""The suites as a package: its guide is true, and without pytest it says what is missing."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from headgate.common.errors import UsageError

DOCS = Path(__file__).parents[3] / "docs"


def blocks(page: str) -> list[tuple[str, str]]:
    """Title and text of each piece of Python on a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"```python ?([^\n]*)\n(.*?)```", text, re.DOTALL)


def module(folder: Path, name: str, text: str) -> ModuleType:
    """A new version of a module."""
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module(name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, from which modules are imported, and in which it is worked."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # versions follow each other within a second
    for name in ("readings", "test_celsius", "test_celsius_upgrade"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    return tmp_path


def test_the_guide_is_true(folder: Path) -> None:
    """The serializer of the other page passes its tests, in both versions, and the upgrade is as it says."""
    pages = blocks("custom-serializers.md") + blocks("serializer-versions.md")
    versions = [text for title, text in pages if title.startswith("readings.py")]
    first = versions[0]
    guide = dict(blocks("testing-serializers.md"))
    module(folder, "readings", first)
    exec(guide[""], {})
    assert (folder / "celsius-1.json").is_file()
    for version in versions:
        module(folder, "readings", version)
        suite = module(folder, "test_celsius", guide["test_celsius.py"]).TestCelsius()
        if version is first:
            suite.values = lambda: [0.0, -271.1, 21.5]
        suite.test_values_come_back()
        suite.test_the_rules_of_planning_are_kept()
        suite.test_the_snapshot_makes_a_serializer_that_reads()
    upgrade = module(folder, "test_celsius_upgrade", guide["test_celsius_upgrade.py"]).TestFromOneDecimal()
    upgrade.test_the_verdict_is_the_expected_one()
    upgrade.test_stored_values_are_read_or_refused()
    upgrade.test_ss7_a_restored_job_goes_on_or_does_not_start("hashmap", folder)


def test_without_pytest_the_suites_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of a failed import somewhere inside."""
    monkeypatch.setitem(sys.modules, "pytest", None)
    monkeypatch.delitem(sys.modules, "headgate.testing.suites")
    with pytest.raises(UsageError, match="the package pytest is missing; install it"):
        importlib.import_module("headgate.testing.suites")
