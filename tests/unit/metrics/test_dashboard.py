"""The dashboard and the alerts ask for what a job tells."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.metrics.metric import OF_PARTS, Kind, Metric, Place
from headgate.metrics.metric_table import TABLE
from headgate.metrics.of_jobs import LAST_STATE
from scripts.generate_dashboard import ALERTS, dashboard, files

OF_PLACE = {
    Place.SUBTASK: {"operator", "subtask"},
    Place.SOURCE: {"operator"},
    Place.SINK: {"operator"},
    Place.WORKER: {"worker"},
    **{place: {"operator", "subtask", *labels} for place, labels in OF_PARTS.items()},
}


def sampled(metric: Metric) -> list[str]:
    """Names of a metric's samples."""
    ends = ("_bucket", "_sum", "_count") if metric.kind is Kind.HISTOGRAM else ("",)
    return [f"{metric.name}{end}" for end in ends]


SAMPLES = {name: metric for metric in TABLE for name in sampled(metric)}


def expressions() -> Iterator[str]:
    """All that is asked of Prometheus."""
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", []))
    yield from (expression for expression, _, _ in ALERTS.values())


@pytest.mark.parametrize("expression", list(expressions()))
def test_what_is_asked_for_is_told(expression: str) -> None:
    """Names and labels are those of the table, which a running job tells all of."""
    found = re.findall(r"(headgate_\w+)(?:\{([^}]*)\})?", expression)
    assert found
    for name, conditions in found:
        metric = SAMPLES[name]
        labels = {label.name for label in metric.labels} | OF_PLACE.get(metric.place, set())
        labels |= OF_PLACE[Place.SUBTASK] if metric is LAST_STATE else set()
        asked = set(re.findall(r"(\w+)=", conditions)) | set(re.findall(r"by \((\w+)", expression))
        assert asked <= labels | {"job_name", "job_id", "le"}


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_files_are_written_anew(path: Path) -> None:
    """`make docs` has been run."""
    assert path.read_text(encoding="utf-8") == files()[path]


def test_the_dashboard_has_no_two_panels_in_one_place() -> None:
    """And none beyond the edge."""
    places = [panel["gridPos"] for panel in dashboard()["panels"]]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert json.dumps(dashboard())
