"""OpenTelemetry's client for one job: what is sent of it, by which exporters, and in which form."""

from __future__ import annotations

import importlib.metadata
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from headgate.common.masking import Mask
from headgate.common.plain_data import Json
from headgate.runtime.driver.metrics.job_metrics import Family
from headgate.runtime.driver.telemetry.job_traces import Stretch
from headgate.runtime.driver.telemetry.otlp_metrics import MetricsOf

_SEVERITIES: Final = {
    "DEBUG": SeverityNumber.DEBUG,
    "INFO": SeverityNumber.INFO,
    "WARNING": SeverityNumber.WARN,
    "ERROR": SeverityNumber.ERROR,
    "CRITICAL": SeverityNumber.FATAL,
}


class OtlpClient:
    """Sends the telemetry of one job to a collector at `endpoint`; used by one thread.

    Args:
        endpoint: its URL, without the paths of the three signals.
        headers: that each request has.
        name: of the job, and `job` its id.
        timeout_s: how long one request may take, with all tries.
        began_ns: since when metrics count, in ns since 1970.
    """

    def __init__(
        self, endpoint: str, headers: Mapping[str, str], name: str, job: str, timeout_s: float, began_ns: int
    ) -> None:
        self._endpoint = endpoint
        version = importlib.metadata.version("headgate")
        resource = Resource.create(
            {
                "service.name": name,
                "service.instance.id": job,
                "service.version": version,
                "headgate.job.id": job,
                "host.name": socket.gethostname(),
                "process.pid": os.getpid(),
            }
        )
        self._resource, self._scope = resource, InstrumentationScope("headgate", version)
        labels = {"job_name": name, "job_id": job}  # as Prometheus gets them, and as a dashboard asks for
        self._of_metrics = MetricsOf(resource, self._scope, began_ns, labels)
        self._ids = RandomIdGenerator()
        base, sent = endpoint.rstrip("/"), dict(headers)
        self._metrics = OTLPMetricExporter(f"{base}/v1/metrics", headers=sent, timeout=timeout_s)
        self._spans = OTLPSpanExporter(f"{base}/v1/traces", headers=sent, timeout=timeout_s)
        self._logs = OTLPLogExporter(f"{base}/v1/logs", headers=sent, timeout=timeout_s)

    def send_metrics(self, families: Sequence[Family], now_ns: int) -> None:
        """Send metrics; OSError: the collector did not take them, as with the other two."""
        data = self._of_metrics.data(families, now_ns)
        self._check(self._metrics.export(data) is MetricExportResult.SUCCESS, "metrics")

    def send_traces(self, stretches: Sequence[Stretch], mask: Mask) -> None:
        spans = [span for each in stretches for span in self._trace(each, mask)]
        if spans:
            self._check(self._spans.export(spans) is SpanExportResult.SUCCESS, "traces")

    def send_logs(self, lines: Sequence[Mapping[str, Json]], observed_ns: int) -> None:
        """Send lines of the log by their fields, as `common.process.log_lines` makes them."""
        records = [self._record(line, observed_ns) for line in lines]
        if records:
            self._check(self._logs.export(records) is LogRecordExportResult.SUCCESS, "log lines")

    def close(self) -> None:
        """End the connections; nothing may be sent afterwards."""
        for exporter in (self._metrics, self._spans, self._logs):
            exporter.shutdown()

    def _check(self, taken: bool, what: str) -> None:
        if not taken:
            raise OSError(f"{self._endpoint} did not take {what}")

    def _trace(self, stretch: Stretch, mask: Mask) -> Iterator[ReadableSpan]:
        return self._span(stretch, self._ids.generate_trace_id(), None, mask)

    def _span(
        self, stretch: Stretch, trace: int, parent: SpanContext | None, mask: Mask
    ) -> Iterator[ReadableSpan]:
        context = SpanContext(trace, self._ids.generate_span_id(), False, TraceFlags(TraceFlags.SAMPLED))
        error = stretch.error
        yield ReadableSpan(
            stretch.name,
            context,
            parent,
            self._resource,
            {name: mask.text(v) if isinstance(v, str) else v for name, v in stretch.facts.items()},
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.OK) if error is None else Status(StatusCode.ERROR, mask.text(error)),
            start_time=round(stretch.begin_ms * 1e6),
            end_time=round(stretch.end_ms * 1e6),
            instrumentation_scope=self._scope,
        )
        for part in stretch.parts:
            yield from self._span(part, trace, context, mask)

    def _record(self, line: Mapping[str, Json], observed_ns: int) -> ReadableLogRecord:
        time_ms, level = line["time_ms"], str(line["level"])
        assert isinstance(time_ms, int)
        record = LogRecord(
            timestamp=time_ms * 1_000_000,
            observed_timestamp=observed_ns,
            severity_text=level,
            severity_number=_SEVERITIES.get(level, SeverityNumber.UNSPECIFIED),
            body=str(line["message"]),
            attributes=dict(_log_attributes(line)),
        )
        return ReadableLogRecord(record, self._resource, self._scope)


def _log_attributes(line: Mapping[str, Json]) -> Iterator[tuple[str, str | int | float | bool]]:
    for name, known in (
        ("logger", "headgate.logger"),
        ("uid", "headgate.operator"),
        ("subtask", "headgate.subtask"),
        ("worker", "headgate.worker"),
        ("attempt", "headgate.attempt"),
        ("checkpoint", "headgate.checkpoint.id"),
        ("exception", "exception.stacktrace"),
    ):
        value = line.get(name)
        if isinstance(value, str | int):
            yield known, value
    extra = line.get("extra")
    for name, value in (extra if isinstance(extra, dict) else {}).items():
        if isinstance(value, str | int | float | bool):
            yield f"headgate.extra.{name}", value
