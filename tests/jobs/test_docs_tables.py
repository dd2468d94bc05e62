"""The examples of the pages on tables are true."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "most"), [("tables", 20), ("joins", 10), ("changelogs", 6), ("patterns", 12)]
)
def test_examples_of_the_page_are_true(page: str, most: int) -> None:
    """Each prints what the page says; there are more than `most` of them."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    path = PAGES / f"{page}.md"
    failed, tried = doctest.testfile(str(path), module_relative=False, optionflags=flags, encoding="utf-8")
    assert tried > most
    assert failed == 0
