"""The border to Spark: a bounded DataFrame in and out, as a share of the rate of mapInArrow."""

from __future__ import annotations

from statistics import median
from typing import Any, Final

from bench.plan import Plan
from bench.sections.headgate_jobs import Say
from bench.sections.state import Row, child, failures
from bench.stats import middle

SHARE_WANTED: Final = 0.6


def measure(plan: Plan, say: Say) -> dict[str, Any]:
    """Rows in and out, in one session of its own."""
    done = child("spark_border", plan, say, plan.border_rows, plan.border_rounds, length_s=600)
    return {
        "rows": [row.plain() for row in border_rows(done.result, plan.smoke)],
        "parts": [done.facts()],
        "absent": {},
        "failed": failures([done]),
    }


def border_rows(told: dict[str, Any], smoke: bool) -> list[Row]:
    """The share, and where the time went in the median round."""
    share = middle(told.get("ratios", []))
    if share is None:
        return []
    shown = f"{share:.2f} ({min(told['ratios']):.2f} to {max(told['ratios']):.2f})"
    rows = [
        Row(
            f"DataFrame in and out, {told['rows']:,} rows, as a share of mapInArrow's rate",
            share,
            shown,
            f">= {SHARE_WANTED}",
            None if smoke else share >= SHARE_WANTED,
        )
    ]
    for way in ("identity", "border"):
        for part in told[way][0]:
            seconds = median(each[part] for each in told[way])
            name = "mapInArrow" if way == "identity" else "DataFrame in and out"
            rows.append(Row(f"{name}: {part}", seconds, f"{seconds:.2f} s"))
    return rows
