"""The section on bounded DataFrames: what is judged, and what is only shown."""

from __future__ import annotations

from typing import Any

import pytest

from bench.sections.spark_border import border_rows


def told(*ratios: float) -> dict[str, Any]:
    """What the program tells after as many rounds."""
    return {
        "rows": 1_000,
        "ratios": list(ratios),
        "identity": [{"whole": 2.0} for _ in ratios],
        "border": [{"whole": 3.0, "runs": 0.5 + place} for place, _ in enumerate(ratios)],
    }


@pytest.mark.parametrize(
    ("ratios", "smoke", "met"),
    [((0.5, 0.7, 0.61), False, True), ((0.59,), False, False), ((0.1,), True, None)],
)
def test_the_median_round_is_judged(ratios: tuple[float, ...], smoke: bool, met: bool | None) -> None:
    """A short run says nothing."""
    judged, *shown = border_rows(told(*ratios), smoke)
    assert (judged.measured, judged.met) == (sorted(ratios)[len(ratios) // 2], met)
    assert all((row.wanted, row.met) == ("", None) for row in shown)
    assert [row.what for row in shown] == [
        "mapInArrow: whole", "DataFrame in and out: whole", "DataFrame in and out: runs"
    ]  # fmt: skip


def test_a_run_that_told_nothing_has_no_rows() -> None:
    """It is reported as a failure instead."""
    assert border_rows({}, smoke=False) == []
