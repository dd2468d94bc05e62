"""What points of metrics and lines of the log have as attributes."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.metrics import metric_table as table
from headgate.metrics.histograms import Histogram
from headgate.runtime.driver.metrics.job_metrics import Family, Sample
from headgate.runtime.driver.telemetry.otlp_client import OtlpClient


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the exporters get, in place of a collector."""
    found: list[Any] = []
    place = "opentelemetry.exporter.otlp.proto.http"
    for name in ("metric_exporter.OTLPMetricExporter", "_log_exporter.OTLPLogExporter"):
        monkeypatch.setattr(f"{place}.{name}.export", lambda _, data: found.append(data))
    monkeypatch.setattr(OtlpClient, "_check", lambda *_: None)
    return found


def client() -> OtlpClient:
    """For a collector that is never asked."""
    return OtlpClient("http://127.0.0.1:9", {}, "told", "told-1", 1.0, 5)


def test_each_point_says_of_which_job_it_is(sent: list[Any]) -> None:
    """By the labels that Prometheus gets, also of histograms; a dashboard asks for them."""
    families = [
        Family(table.RECORDS_IN, [Sample({"operator": "in", "subtask": "0"}, 7)]),
        Family(table.STEPS, [Sample({"operator": "in"}, Histogram())]),
    ]
    client().send_metrics(families, 9)
    (resource,) = sent[0].resource_metrics
    counted, steps = resource.scope_metrics[0].metrics
    shared = {"job_name": "told", "job_id": "told-1"}
    assert counted.data.data_points[0].attributes == {**shared, "operator": "in", "subtask": "0"}
    assert steps.data.data_points[0].attributes == {**shared, "operator": "in"}


def test_a_line_of_the_log_says_where_it_was_written(sent: list[Any]) -> None:
    """Attempt, operator, subtask, worker; what is not known is left out."""
    line = {"time_ms": 3, "level": "INFO", "message": "a line", "logger": "headgate.job", "attempt": 2}
    client().send_logs([{**line, "uid": "in", "subtask": 0, "worker": 1}, {**line, "uid": None}], 9)
    first, second = (each.log_record.attributes for each in sent[0])
    known = {"headgate.logger": "headgate.job", "headgate.attempt": 2}
    placed = {"headgate.operator": "in", "headgate.subtask": 0, "headgate.worker": 1}
    assert dict(first) == {**known, **placed}
    assert dict(second) == known
