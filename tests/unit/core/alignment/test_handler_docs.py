"""The page about the handlers is complete, and every test it names exists."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = (HERE.parents[3] / "docs" / "machines" / "barrier-handlers.md").read_text(encoding="utf-8")
ROWS = [
    f"{letter}{n}"
    for letter, last in (("B", 12), ("C", 11), ("D", 16), ("E", 14))
    for n in range(1, last + 1)
]


def test_every_row_is_placed_in_order() -> None:
    """Rows B1 to E14 each have a line with a place and a test or a difference."""
    lines = re.findall(r"^\| ([BCDE]\d+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert [row for row, _, _ in lines] == ROWS


def test_every_named_test_exists() -> None:
    """A name of a test function in the page is one of this folder's."""
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    texts = "".join(path.read_text(encoding="utf-8") for path in HERE.glob("test_*.py"))
    assert named - set(re.findall(r"^def (test_\w+)", texts, re.MULTILINE)) == set()
    assert len(named) > 40
