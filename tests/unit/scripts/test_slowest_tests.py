"""The list of the slowest tests that `.ci/run` prints at its end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import slowest_tests

ROOT = Path(__file__).resolve().parents[3]


def test_the_slowest_of_all_runs_come_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In one list; what is absent or broken is left out."""
    for run, times in {"test": (0.25, 3), "long": (60, 1)}.items():
        cases = "".join(f'<testcase classname="c" name="{run}{time}" time="{time}"/>' for time in times)
        (tmp_path / f"{run}.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    (tmp_path / "broken.xml").write_text("<testsuites>")
    files = [str(tmp_path / f"{name}.xml") for name in ("test", "long", "broken", "absent")]
    assert slowest_tests.main(["--count", "3", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:3]] == [
        ["60.0", "s", "long", "c::long60"],
        ["3.0", "s", "test", "c::test3"],
        ["1.0", "s", "long", "c::long1"],
    ]
    assert lines[3:] == ["4 tests in 1.1 minutes of tests"]


def test_files_are_listed_as_the_order_of_tests_needs_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the sum of their tests, those in classes included; files that are soon done are left out."""
    names = {
        "tests.unit.test_a": 20,
        "tests.unit.test_a.TestIt": 10,
        "tests.jobs.test_b": 40,
        "tests.test_c": 24,
    }
    cases = "".join(f'<testcase classname="{name}" name="x" time="{time}"/>' for name, time in names.items())
    (tmp_path / "run.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert slowest_tests.main(["--files", str(tmp_path / "run.xml")]) == 0
    assert capsys.readouterr().out.splitlines() == ["40 tests/jobs/test_b.py", "30 tests/unit/test_a.py"]


def test_slow_files_are_there() -> None:
    """One that was moved takes its line with it."""
    lines = (ROOT / "tests" / "slow_files.txt").read_text().splitlines()
    files = [line.split()[1] for line in lines if line[0] != "#"]
    assert len(files) > 20
    assert [path for path in files if not (ROOT / path).is_file()] == []


def test_every_run_of_tests_is_in_the_list() -> None:
    """Each step of `.ci/run` that runs tests writes its results."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / ".ci" / "run").read_text())
    lines = [line for line in text.splitlines() if line.startswith("step ")]
    tests = [line for line in lines if re.search("long_tests|make check|make test", line)]
    assert len(tests) >= 4
    assert [line for line in tests if "--junitxml" not in line] == []
