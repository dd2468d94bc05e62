"""The examples of `docs/windows.md` are true, and its pictures are of what the examples' windows do."""

from __future__ import annotations

import doctest
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path

import pytest

import headgate as hg
from headgate.testing import MiniCluster

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "windows.md"


def test_the_examples_of_the_page_are_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand there, in order, with the mini cluster in place of Spark."""
    monkeypatch.setattr(hg, "Environment", partial(hg.Environment, executor=MiniCluster()))
    page = PAGE.read_text(encoding="utf-8")
    examples = doctest.DocTestParser().get_doctest(page, {}, PAGE.name, str(PAGE), 0)
    assert len(examples.examples) > 25
    told: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(examples, out=told.append)
    assert results.failed == 0, "".join(told)


@pytest.mark.parametrize("picture", ["windows-kinds.svg", "windows-lateness.svg"])
def test_pictures_are_well_formed_and_on_the_page(picture: str) -> None:
    """With a title for those who do not see them."""
    root = ET.fromstring((DOCS / picture).read_text(encoding="utf-8"))
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert f"![{title.text}]({picture})" in PAGE.read_text(encoding="utf-8")


def test_the_picture_of_kinds_says_how_many_records_are_in_each_window() -> None:
    """Its records are at 2, 6, 15, 23, 36 and 39 s."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    rows = [{"key": 1, "at": 1_000 * at} for at in (2, 6, 15, 23, 36, 39)]
    keyed = env.from_collection(rows).with_event_time("at").key_by("key")

    def counts(windows: hg.WindowAssigner) -> list[int]:
        found = keyed.window(windows).aggregate(n=hg.count()).collect()
        return [row["n"] for row in found]

    assert counts(hg.tumbling("20s")) == [3, 3]
    assert counts(hg.sliding("20s", "10s"))[1:] == [3, 2, 3, 2]
    assert counts(hg.cumulative("40s", "10s")) == [2, 3, 4, 6]
    assert counts(hg.session("10s")) == [4, 2]
    assert counts(hg.count_window(3)) == [3, 3]
