"""The page that traces the rules of managed state is complete, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "machines" / "managed-state.md").read_text(encoding="utf-8")
LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| [AGs]\w*\d", line)
]


def test_every_row_has_a_line() -> None:
    """Rows G1 to G25 in order, each with a place and tests or a difference."""
    rows = [cells for cells in LINES if cells[0].startswith("G")]
    assert [cells[0] for cells in rows] == [f"G{number}" for number in range(1, 26)]
    assert all(len(cells) == 4 and all(cells) for cells in rows)


def test_every_named_test_and_place_exists() -> None:
    """Names of test functions, test files and source files are real."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    suites = [path.read_text("utf-8") for path in (ROOT / "src/headgate/testing/suites").rglob("*.py")]
    functions = set(re.findall(r"^ *def (test_\w+)", "".join([*texts.values(), *suites]), re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named - functions == set()
    assert set(re.findall(r"`(test_\w+\.py)`", PAGE)) - set(texts) == set()
    assert len(named) > 40
    places = re.findall(r"`((?:api|common|runtime|serde|state)/[\w/]+(?:\.py|/))`?", PAGE)
    assert [place for place in places if not (ROOT / "src" / "headgate" / place).exists()] == []
