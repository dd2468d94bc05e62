"""The comparison of what users meet in two checkouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.compare_surface import collected, compare, explained, rows

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.ci  # it reads all tests, and imports everything public
@pytest.mark.timeout(240)
def test_lists_are_taken_of_a_checkout() -> None:
    """Commands, names with parameters, keys with defaults, pages and rows."""
    lists = collected(ROOT)
    assert {"headgate run", "headgate run --parallelism"} <= set(lists["commands and options"])
    names = set(lists["public names"])
    assert {"headgate.Environment(parallelism)", "headgate.DataStream.map", "headgate.spark.parquet"} <= names
    assert "headgate.DataStream.map(function (required))" in names
    assert "headgate.testing.suites.SinkSuite" in names
    assert "execution.step-target = 10ms" in lists["configuration"]
    assert "docs/index.md" in lists["pages"]
    assert {"A18", "sT1", "H5"} <= set(lists["rows of the semantics"])


def test_a_loss_is_printed_unless_it_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So is a parameter that an old call did without, and must have now."""
    old = {"names": ["a", "a(x)", "b", "c"]}
    new = {"names": ["a", "a(x)", "a(y (required))", "c", "d", "d(z (required))"]}
    assert not compare(old, new, {}, added=True)
    assert capsys.readouterr().out.splitlines() == [
        "names: 4 before, 6 now, 2 lost, 3 new",
        "  lost: b",
        "  lost: a(y (required))",
        "  new: a(y (required))",
        "  new: d",
        "  new: d(z (required))",
    ]
    reasons = tmp_path / "reasons.txt"
    reasons.write_text("# a remark\nb\tnobody used it\na(y (required))\tmade by us only\nc\n")
    assert compare(old, new, explained(reasons), added=False)
    assert "  explained: b (nobody used it)" in capsys.readouterr().out


def test_rows_are_found_in_docstrings_names_and_tables(tmp_path: Path) -> None:
    """And nowhere else."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "docs").mkdir()
    test = 'def test_a18_later():\n    """Rows B2 and sT1."""\n    B9 = "C1"\n'
    (tmp_path / "tests" / "test_x.py").write_text(test)
    (tmp_path / "docs" / "x.md").write_text("| H5 | text with Q1 |\n| H6, H7 | x |\n")
    assert sorted(set(rows(tmp_path))) == ["A18", "B2", "H5", "H6", "H7", "sT1"]
