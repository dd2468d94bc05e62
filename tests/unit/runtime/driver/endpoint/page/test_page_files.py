"""The files of the page: all are served, none refers to one that is not, none has what its policy forbids."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headgate.runtime.driver.endpoint.page import page_files
from headgate.runtime.driver.endpoint.page.page_files import FILES

STATIC = Path(page_files.__file__).parent / "static"
OWN = sorted(path for path in STATIC.glob("*") if path.suffix in (".js", ".html", ".css"))


def test_every_file_is_served_and_no_other() -> None:
    """The list has what is there."""
    there = {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*") if path.is_file()}
    assert sorted(FILES.values()) == sorted(there)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_files_refer_to_files_that_are_served(path: Path) -> None:
    """Imports, scripts, styles and icons; nothing is loaded from elsewhere."""
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"""(?:from |src=|href=)"([^"# ]+)\"""", text)
    wanted = {f"/page/{each.removeprefix('./').removeprefix('page/')}" for each in found}
    assert wanted <= FILES.keys()
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_no_text_becomes_markup_or_script(path: Path) -> None:
    """Neither by the page's own code nor in its one document."""
    text = path.read_text(encoding="utf-8")
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|\sstyle=|\son\w+=\"|<style"
    )
    assert re.findall(forbidden, text) == []
    assert re.findall(r"<script(?![^>]*\ssrc=)", text) == []
    assert max(map(len, text.splitlines())) <= 160
