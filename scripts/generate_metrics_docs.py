"""Draws the table of docs/metrics.md from `headgate.metrics.metric_table`."""

from __future__ import annotations

from pathlib import Path

from headgate.metrics.metric import OF_PARTS
from headgate.metrics.metric_table import TABLE, Kind, Metric

PAGE = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"
BEGIN, END = "<!-- Drawn by `make docs` from src/headgate/metrics/metric_table.py: -->", "<!-- end -->"


def row(metric: Metric) -> str:
    """One line of the table."""
    labels = "".join(f"<br>{label.name}: {', '.join(label.values)}" for label in metric.labels)
    labels += "".join(f"<br>{label}" for label in OF_PARTS.get(metric.place, ()))
    together = "added" if metric.kind is Kind.HISTOGRAM else metric.merge.value
    kind = f"{metric.kind.value}, {metric.unit}"
    cells = (f"`{metric.name}`{labels}", kind, metric.place.value, together, ", ".join(metric.flink))
    return f"| {' | '.join(cells)} | {metric.help} |"


def table() -> str:
    """Every metric, in the order of the table."""
    head = ["| name | kind and unit | of each | together | Flink's name | meaning |", "| --- " * 6 + "|"]
    return "\n".join([*head, *map(row, TABLE)])


def render(page: str) -> str:
    """The page with the table drawn anew."""
    before, _, rest = page.partition(f"{BEGIN}\n")
    _, _, after = rest.partition(f"{END}\n")
    return f"{before}{BEGIN}\n{table()}\n{END}\n{after}"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
