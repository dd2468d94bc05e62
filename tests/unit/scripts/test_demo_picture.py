"""The picture that the demo leaves: what happened is where it happened."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

FOLDER = Path(__file__).parents[3] / "examples"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def picture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module; it is beside the demo, as when that is run."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("demo_picture")
    del sys.modules["demo_picture"]


def of_class(shown: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    """The elements of a class."""
    return [each for each in shown.iter() if each.get("class") == name]


def test_a_killed_worker_and_each_checkpoint_are_shown(picture: Any) -> None:
    """The line goes back to the last checkpoint where the worker died, and on from there."""
    story = picture.Story(100, [(0, 0), (4, 50), (4, 40), (6, 40), (8, 100)], [1.0, 2.0, 3.0], 4.0, 6.0)
    shown = ElementTree.fromstring(picture.drawn(story))
    assert shown.tag == f"{SVG}svg"
    [line], [killed], [down] = (of_class(shown, name) for name in ("read", "killed", "down"))
    points = [tuple(map(float, point.split(","))) for point in str(line.get("points")).split()]
    assert len(points) == 5
    assert points[1][0] == points[2][0] == float(str(killed.get("x1")))
    assert points[1][1] < points[2][1] < points[0][1]  # y grows downwards
    assert float(str(down.get("x"))) + float(str(down.get("width"))) == pytest.approx(points[3][0], abs=0.2)
    assert len(of_class(shown, "checkpoint")) == 3
    assert "running again 2.0 s after kill -9" in str(shown.get("aria-label"))


def test_a_run_in_which_nobody_was_killed_has_no_red(picture: Any) -> None:
    """Nothing is shown that did not happen."""
    shown = ElementTree.fromstring(picture.drawn(picture.Story(100, [(0, 0)])))
    assert of_class(shown, "killed") == of_class(shown, "down") == []
    assert "kill" not in str(shown.get("aria-label"))
