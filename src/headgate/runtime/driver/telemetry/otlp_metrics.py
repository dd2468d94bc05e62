"""Metrics of the table as OpenTelemetry's metrics: the names, units and values that Prometheus gets, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramPoints
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from headgate.metrics.histograms import CELLS, Histogram, middle_of
from headgate.metrics.metric import Kind
from headgate.metrics.metric import Metric as Row
from headgate.runtime.driver.metrics.job_metrics import Family, Sample
from headgate.runtime.driver.metrics.prometheus_text import LABEL_MAX, OCTAVES

_SINCE_BEGIN: Final = AggregationTemporality.CUMULATIVE


class MetricsOf:
    """Makes the metrics of one job, of which `resource` says which; they count since `began_ns`, and each
    point has the `labels`, too.
    """

    def __init__(
        self, resource: Resource, scope: InstrumentationScope, began_ns: int, labels: Mapping[str, str]
    ) -> None:
        self._resource, self._scope, self._began_ns, self._labels = resource, scope, began_ns, labels

    def data(self, families: Iterable[Family], now_ns: int) -> MetricsData:
        metrics = [self._metric(family, now_ns) for family in families if family.samples]
        of_scope = ScopeMetrics(self._scope, metrics, "")
        return MetricsData([ResourceMetrics(self._resource, [of_scope], "")])

    def _metric(self, family: Family, now_ns: int) -> Metric:
        row = family.metric
        data: Sum | Gauge | HistogramPoints
        if row.kind is Kind.HISTOGRAM:
            data = HistogramPoints(
                [self._buckets(row, each, now_ns) for each in family.samples], _SINCE_BEGIN
            )
        elif row.kind is Kind.COUNTER:
            data = Sum([self._point(row, each, now_ns) for each in family.samples], _SINCE_BEGIN, True)
        else:
            data = Gauge([self._point(row, each, now_ns) for each in family.samples])
        return Metric(row.name, row.help, row.unit, data)

    def _point(self, row: Row, sample: Sample, now_ns: int) -> NumberDataPoint:
        assert not isinstance(sample.value, Histogram)
        value = sample.value if row.per_unit == 1 else sample.value / row.per_unit
        return NumberDataPoint(self._attributes(sample), self._began_ns, now_ns, value)

    def _buckets(self, row: Row, sample: Sample, now_ns: int) -> HistogramDataPoint:
        # Cells of values below 2**k are those before 4 * (k + 1), as in Prometheus' text.
        assert isinstance(sample.value, Histogram)
        counts, total = sample.value.counts, sample.value.count
        below = [sum(counts[: 4 * (octave + 1)]) for octave in OCTAVES]
        parts = [many - few for few, many in zip([0, *below], [*below, total], strict=True)]
        seen = [middle_of(cell) / row.per_unit for cell in range(CELLS) if counts[cell]]
        return HistogramDataPoint(
            self._attributes(sample),
            self._began_ns,
            now_ns,
            total,
            sum(middle_of(cell) * counts[cell] for cell in range(CELLS)) / row.per_unit,
            parts,
            [((1 << octave) - 1) / row.per_unit for octave in OCTAVES],
            min(seen, default=0.0),
            max(seen, default=0.0),
        )

    def _attributes(self, sample: Sample) -> dict[str, str]:
        return {name: value[:LABEL_MAX] for name, value in {**self._labels, **sample.labels}.items()}
