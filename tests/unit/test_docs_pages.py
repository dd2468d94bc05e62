"""The pages of the documentation: each is found from the index, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("proof/*.md")])
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def text_of(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def links_of(page: Path) -> list[str]:
    """Where its links lead, but for those to other sites."""
    return [link for link in LINK.findall(text_of(page)) if "://" not in link]


def anchors_of(page: Path) -> set[str]:
    """The names of its headings, as links give them."""
    found = re.findall(r"^#+ (.+)$", text_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file that is there, and to a heading in it."""
    wrong = []
    for link in links_of(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            wrong.append(link)
    assert wrong == []


def test_every_page_is_found_from_the_index() -> None:
    """And the index from the README."""
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links_of(DOCS / "index.md")}
    assert [page.name for page in DOCS.glob("*.md") if page not in linked and page.name != "index.md"] == []
    assert "docs/index.md" in links_of(ROOT / "README.md")


def test_every_page_leads_back_to_the_index() -> None:
    """But for those that a program writes."""
    pages = [page for page in DOCS.glob("*.md") if page.name not in ("index.md", "config.md", "types.md")]
    assert [page.name for page in pages if "index.md" not in links_of(page)] == []


def test_pages_that_the_readme_names_exist() -> None:
    """Between backticks."""
    named = set(re.findall(r"`(docs/[^`<>]+)`", (ROOT / "README.md").read_text()))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_glossary_has_each_word_once_in_order() -> None:
    """With one meaning."""
    words = re.findall(r"^\| \*\*(.+?)\*\* \| .+ \|$", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert len(words) > 50
    assert words == sorted(set(words))
