"""The page of metrics is drawn from the table."""

from __future__ import annotations

from headgate.metrics.metric_table import TABLE
from scripts.generate_metrics_docs import PAGE, render


def test_the_page_is_drawn_from_the_table() -> None:
    """`make docs` has been run."""
    page = PAGE.read_text(encoding="utf-8")
    assert render(page) == page
    assert [metric.name for metric in TABLE if f"| `{metric.name}`" not in page] == []
