"""Telemetry of real jobs, as a collector gets it: metrics, traces, log lines; and collectors that fail."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest
from fails_once import SECRET, Counting, failed
from mini_jobs import TINY
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from receiving import Receiver, receiver
from running_jobs import Valve, wait_until

import headgate as hg
from headgate.testing import PAUSE, MiniCluster, ProcessCluster, TestSource


def environment(folder: Path, number: int, collector: str, **more: Any) -> tuple[hg.Environment, Valve]:
    """A job of two subtasks, whose telemetry goes to a collector."""
    config = {
        **TINY, "heartbeat.interval": "20ms", "headgate.otlp.endpoint": collector,
        "headgate.otlp.interval": "100ms", "headgate.otlp.headers": f"x-key={SECRET}, x-tenant=a",
        "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "50ms", **more,
    }  # fmt: skip
    failed.clear()
    valve = Valve(number, 100, list(range(200)))
    env = hg.Environment(parallelism=2, executor=MiniCluster(), config=config)
    env.checkpoints(every="100ms", storage=str(folder / "checkpoints"))
    counted = env.from_source(valve, uid="in").key_by(lambda n: n % 8).process(Counting(), uid="count")
    counted.write_json(str(folder / "out"), uid="out")
    return env, valve


def plain(value: Any) -> Any:
    """The value of an attribute."""
    return getattr(value, value.WhichOneof("value"))


def named(attributes: Any) -> dict[str, Any]:
    """Attributes by name."""
    return {each.key: plain(each.value) for each in attributes}


def metrics_in(collector: Receiver) -> dict[str, Any]:
    """The newest metrics by name; all are of one resource."""
    found = ExportMetricsServiceRequest.FromString(collector.bodies("/v1/metrics")[-1])
    (of_resource,) = found.resource_metrics
    return {each.name: each for scope in of_resource.scope_metrics for each in scope.metrics}


def spans_in(collector: Receiver) -> list[Any]:
    """All spans so far."""
    found = [ExportTraceServiceRequest.FromString(body) for body in collector.bodies("/v1/traces")]
    return [
        span
        for each in found
        for resource in each.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def logs_in(collector: Receiver) -> list[Any]:
    """All lines of the log so far."""
    found = [ExportLogsServiceRequest.FromString(body) for body in collector.bodies("/v1/logs")]
    return [
        line
        for each in found
        for resource in each.resource_logs
        for scope in resource.scope_logs
        for line in scope.log_records
    ]


def test_a_collector_gets_all_of_a_job(tmp_path: Path) -> None:
    """The metrics of the table, a trace for each checkpoint and recovery, warnings; the last at the end."""
    with receiver() as collector:
        env, valve = environment(tmp_path, 9_990, collector.url)
        with env.execute_async("told") as handle:
            wait_until(lambda: handle.status().checkpoints_completed > 1, "checkpoints")
            wait_until(lambda: collector.bodies("/v1/metrics"), "metrics come")
            logging.getLogger("headgate.test").warning("of %s", SECRET, extra={"checkpoint": 3})
            valve.open_to()
            result = handle.result(timeout_s=60)
        of_all = collector.got
        assert {each.path for each in of_all} == {"/v1/metrics", "/v1/traces", "/v1/logs"}
        for each in of_all:
            assert (each.headers["x-key"], each.headers["x-tenant"]) == (SECRET, "a")
            assert SECRET.encode() not in each.body
        metrics, spans, lines = metrics_in(collector), spans_in(collector), logs_in(collector)
        resource = ExportMetricsServiceRequest.FromString(of_all[-1].body).resource_metrics[0].resource
    facts = named(resource.attributes)
    assert (facts["service.name"], facts["service.instance.id"]) == ("told", result.job_id)
    check_metrics(metrics, result)
    check_checkpoints(spans, result)
    check_recovery(spans)
    (line,) = [each for each in lines if plain(each.body) == "of ******"]
    assert (line.severity_text, line.severity_number) == ("WARNING", 13)
    assert named(line.attributes)["headgate.checkpoint.id"] == 3


def check_metrics(metrics: dict[str, Any], result: hg.JobResult) -> None:
    """Counters, gauges and histograms with their labels, as they were at the end."""
    records = metrics["headgate_records_in_total"].sum
    assert (records.is_monotonic, records.aggregation_temporality) == (True, 2)
    by_operator: dict[str, int] = {}
    for point in records.data_points:
        labels = named(point.attributes)
        assert (labels["job_name"], labels["job_id"]) == ("told", result.job_id)
        operator = labels["operator"]
        by_operator[operator] = by_operator.get(operator, 0) + point.as_int
        assert 0 < point.start_time_unix_nano < point.time_unix_nano
    assert by_operator["count"] >= 200
    states = {named(p.attributes)["state"]: p.as_int for p in metrics["headgate_job_state"].gauge.data_points}
    assert states["finished"] == 1
    (recovery,) = metrics["headgate_recovery_seconds"].histogram.data_points
    assert recovery.count == sum(recovery.bucket_counts) == 1
    assert len(recovery.bucket_counts) == len(recovery.explicit_bounds) + 1
    assert 0.05 <= recovery.sum < 60
    assert metrics["headgate_restarts_total"].sum.data_points[0].as_int == result.restarts == 1


def check_checkpoints(spans: list[Any], result: hg.JobResult) -> None:
    """One trace for each that completed; its parts lie within it, and the last subtask has its phases."""
    roots = [span for span in spans if span.name == "checkpoint"]
    complete = [span for span in roots if span.status.code == 1]
    assert len({named(span.attributes)["headgate.checkpoint.id"] for span in complete}) == len(complete)
    assert len({span.trace_id for span in roots}) == len(roots)
    assert len(complete) >= 2
    root = complete[-1]
    parts = [span for span in spans if span.trace_id == root.trace_id and span is not root]
    top = [span for span in parts if span.parent_span_id == root.span_id]
    assert {span.name for span in top} == {"acknowledge", "store", "commit"}
    assert {named(span.attributes).get("headgate.operator") for span in top} == {"in", "count", None}
    assert not any(span.parent_span_id for span in roots)
    phases = [span.name for span in parts if span not in top]
    assert phases == ["start delay", "alignment", "sync", "async"]
    for span in top:
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert span.end_time_unix_nano <= root.end_time_unix_nano


def logging_once(number: int) -> int:
    """Say something in the worker, with a secret in it."""
    if number == 7:
        logging.getLogger("of.a.program").warning("seven, and %s", SECRET)
    return number


def test_a_collector_gets_the_lines_of_workers(tmp_path: Path) -> None:
    """Which are processes of their own: what a function logs there, with its place, and masked."""
    with receiver() as collector:
        config = {
            "headgate.otlp.endpoint": collector.url,
            "headgate.otlp.interval": "100ms",
            "s3.access-key": "ada",
            "s3.secret-key": SECRET,
        }
        env = hg.Environment(parallelism=2, executor=ProcessCluster(), config=config)
        numbers = env.from_source(TestSource([*range(8), PAUSE(1_000)], list(range(8, 12))), uid="in")
        numbers.map(logging_once, uid="once").write_json(str(tmp_path / "out"), uid="out")
        env.execute("told")
        lines = [
            line for line in logs_in(collector) if named(line.attributes)["headgate.logger"] == "of.a.program"
        ]
    (line,) = lines
    facts = named(line.attributes)
    assert plain(line.body) == "seven, and ******"
    assert (facts["headgate.operator"], facts["headgate.attempt"]) == ("in", 1)  # the first of the chain
    assert facts["headgate.worker"] == facts["headgate.subtask"]


def check_recovery(spans: list[Any]) -> None:
    """With its cause, whose secret is masked, and its two parts."""
    (recovery,) = [span for span in spans if span.name == "recovery"]
    facts = named(recovery.attributes)
    assert facts["exception.type"] == "ValueError"
    assert "no 150, ******" in facts["exception.message"]
    parts = [span.name for span in spans if span.parent_span_id == recovery.span_id]
    assert parts == ["wait", "deploy"]


@pytest.mark.parametrize("kind", ["refuses", "stands still", "is not there", "answers 503"])
def test_a_collector_that_fails_holds_no_job_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """The job ends as ever, with one warning, and without the client's own ones."""
    with receiver() as collector:
        collector.status = {"refuses": 400, "answers 503": 503}.get(kind, 200)
        collector.sleep_s = 30 if kind == "stands still" else 0
        url = "http://127.0.0.1:9" if kind == "is not there" else collector.url
        env, valve = environment(tmp_path, 9_991, url)
        with env.execute_async("told") as handle:
            wait_until(lambda: handle.status().checkpoints_completed > 1, "checkpoints")
            said = "telemetry for"
            wait_until(lambda: said in caplog.text, "it is warned of")
            valve.open_to()
            began = time.monotonic()
            result = handle.result(timeout_s=60)
        assert time.monotonic() - began < 15
    assert sum(result.records_in.values()) >= 200
    outside = [each for each in caplog.records if each.name.startswith(("opentelemetry", "urllib3"))]
    assert [each.message for each in outside if each.levelno >= logging.WARNING] == []
    assert sum(said in each.message for each in caplog.records) == 1
    assert SECRET not in caplog.text.replace(f"no 150, {SECRET}", "")


def test_options_that_cannot_be_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything starts, in a sentence; so is a client that is not installed."""
    for config, text in (
        ({"headgate.otlp.endpoint": "collector:4318"}, "expected the URL of a collector"),
        ({"headgate.otlp.headers": "a=1, b"}, "has a part without a name or without '='"),
    ):
        env, _ = environment(tmp_path, 9_992, "http://127.0.0.1:9", **config)
        with pytest.raises(hg.ConfigError, match=text):
            env.execute("told")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    env, _ = environment(tmp_path, 9_993, "http://127.0.0.1:9")
    with pytest.raises(hg.ConfigError, match=r"pip install 'headgate\[otlp\]'"):
        env.execute("told")
