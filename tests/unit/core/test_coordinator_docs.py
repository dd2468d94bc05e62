"""The page that traces the rules of the coordinator is complete, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "machines" / "checkpoint-coordinator.md").read_text(encoding="utf-8")
LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| (F|sC|sR)\d", line)
]
SCENARIOS = [f"sC{n}" for n in (1, 2, 3, 5, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 21)]


def test_every_row_has_a_line() -> None:
    """Rows F1 to F38 in order, each with a place and tests or a difference."""
    rows = [cells for cells in LINES if cells[0].startswith("F")]
    assert [cells[0] for cells in rows] == [f"F{number}" for number in range(1, 39)]
    assert all(len(cells) == 4 and all(cells) for cells in rows)


def test_every_scenario_has_tests_under_its_id() -> None:
    """Each scenario names tests, and they carry its id."""
    named = {cells[0]: re.findall(r"`(test_\w+)`", cells[1]) for cells in LINES if cells[0][0] == "s"}
    assert list(named) == [*SCENARIOS, "sR1", "sR5"]
    for scenario, tests in named.items():
        assert tests
        assert all(test.startswith(f"test_{scenario.lower()}_") for test in tests)


def test_every_named_test_and_place_exists() -> None:
    """Names of test functions, test files and source files are real."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    functions = set(re.findall(r"^ *def (test_\w+)", "".join(texts.values()), re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named - functions == set()
    assert set(re.findall(r"`(test_\w+\.py)`", PAGE)) - set(texts) == set()
    assert len(named) > 40
    places = re.findall(r"`((?:checkpoint|core|runtime)/[\w/]+(?:\.py|/))`", PAGE)
    assert [place for place in places if not (ROOT / "src" / "headgate" / place).exists()] == []
    parts = {path.relative_to(ROOT / "src/headgate").as_posix() for path in _parts()}
    assert parts - set(places) == set()


def _parts() -> list[Path]:
    """The coordinator's files; those that describe what happened, or what others see, are not parts."""
    folder = ROOT / "src" / "headgate" / "core" / "checkpoint"
    others = {"__init__.py", "effects.py", "questions.py", "history.py", "slowest.py"}
    return [path for path in folder.glob("*.py") if path.name not in others]
