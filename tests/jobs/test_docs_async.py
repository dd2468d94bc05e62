"""The examples of the page on asynchronous functions are true."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "async-io.md"


def test_examples_of_the_page_are_true() -> None:
    """Each prints what the page says."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags, encoding="utf-8")
    assert tried > 15
    assert failed == 0
