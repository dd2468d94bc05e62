"""The page about the job's machine is drawn from its table, and names what exists."""

from __future__ import annotations

import re
from pathlib import Path

from headgate.core.job import effects
from headgate.core.job.table import ROWS, Row
from scripts.generate_job_docs import PAGE, render

HERE = Path(__file__).parent
SOURCE = Path(__file__).parents[4] / "src" / "headgate"


def test_the_page_is_drawn_from_the_table() -> None:
    """`make docs` has been run."""
    page = PAGE.read_text(encoding="utf-8")
    assert render(page) == page
    assert "quiescing --> restoring: all quiet" in page


def test_every_row_has_its_line_and_names_effects_that_exist() -> None:
    """The table has no row that the code does not know, and no unknown effect."""
    assert list(ROWS) == list(Row)
    assert {name for line in ROWS.values() for name in line.effects if not hasattr(effects, name)} == set()


def test_every_part_stands_in_the_page() -> None:
    """Each file of the machine is named, and each named one exists."""
    named = set(re.findall(r"`(core/job/\w+\.py)`", PAGE.read_text(encoding="utf-8")))
    assert named == {f"core/job/{path.name}" for path in (SOURCE / "core" / "job").glob("[a-z]*.py")}


def test_every_scenario_has_a_test() -> None:
    """From s01 to s29, in order."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted(HERE.glob("test_job_scenarios*.py")))
    found = re.findall(r"^def test_s(\d\d)_", text, re.MULTILINE)
    assert sorted(set(found)) == [f"{number:02}" for number in range(1, 30)]
