"""The page of functions is that of the registry."""

from __future__ import annotations

from scripts.generate_functions_docs import PAGE, render


def test_the_page_is_up_to_date() -> None:
    """`make docs` would change nothing."""
    text = PAGE.read_text(encoding="utf-8")
    assert render(text) == text, "run `make docs`"
