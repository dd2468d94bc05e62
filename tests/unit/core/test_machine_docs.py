"""The tables in the documentation are the tables in the code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from headgate.core.checkpoint.modes import MODES
from headgate.core.checkpoint.pending import MOVES

PAGE = Path(__file__).parents[3] / "docs" / "machines" / "checkpoint-coordinator.md"


@pytest.mark.parametrize(("heading", "moves"), [("mode", MODES), ("phase", MOVES)])
def test_documented_moves_are_the_moves(heading: str, moves: Mapping[tuple[Enum, Enum], Any]) -> None:
    """Every legal move is in the page, in the code's order, and no other."""
    page = PAGE.read_text(encoding="utf-8")
    table = re.search(rf"\| {heading} \| event \| next {heading} \|\n\| ---.*\n((?:\|.*\n)+)", page)
    assert table is not None
    expected = [f"| {a.value} | {event.value} | {b.value} |" for (a, event), b in moves.items()]
    assert table[1].splitlines() == expected
