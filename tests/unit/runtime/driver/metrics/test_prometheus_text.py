"""The text for Prometheus, as its own parser reads it, and that of OpenMetrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families

from headgate.metrics.histograms import Histogram
from headgate.metrics.metric import Kind
from headgate.metrics.metric_table import RECORDS_IN, STEPS, TABLE
from headgate.metrics.of_jobs import LAST_SYNC, RECOVERY, RESTARTS
from headgate.runtime.driver.metrics.job_metrics import Family, Sample
from headgate.runtime.driver.metrics.prometheus_text import LABEL_MAX, text_of

Parser = Callable[[str], Iterable[Any]]
FORMATS: list[tuple[bool, Parser]] = [
    (False, parser.text_string_to_metric_families),
    (True, open_families),
]


def samples(families: Iterable[Family], *, open_metrics: bool = False, **labels: str) -> dict[str, Any]:
    """What the parser finds: series -> value."""
    parse = dict(FORMATS)[open_metrics]
    found = parse(text_of(families, labels, open_metrics=open_metrics))
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in found
        for sample in family.samples
    }


@pytest.mark.parametrize("open_metrics", [False, True])
def test_every_metric_of_the_table_can_be_read(open_metrics: bool) -> None:
    """With its kind, its meaning and each of its series."""
    full = Histogram()
    full.add(1_000)
    value = {kind: full if kind is Kind.HISTOGRAM else 3 for kind in Kind}
    families = [
        Family(metric, [Sample(labels, value[metric.kind]) for labels, _ in metric.labelled])
        for metric in TABLE
    ]
    parse = dict(FORMATS)[open_metrics]
    found = {
        each.name: each for each in parse(text_of(families, {"job_name": "j"}, open_metrics=open_metrics))
    }
    for metric in TABLE:
        read = found[metric.name.removesuffix("_total")]
        assert (read.type, read.documentation) == (metric.kind.value, metric.help)
        assert len({str(sample.labels) for sample in read.samples if "le" not in sample.labels}) == len(
            metric.series
        )
        assert all(sample.labels["job_name"] == "j" for sample in read.samples)


def test_values_are_in_the_unit_of_the_metric() -> None:
    """Workers report microseconds, Prometheus wants seconds."""
    found = samples([Family(LAST_SYNC, [Sample({}, 1_500)]), Family(RESTARTS, [Sample({}, 7)])])
    assert found == {f"{LAST_SYNC.name}[]": 0.0015, f"{RESTARTS.name}[]": 7}
    assert f"{RESTARTS.name}{{}} {2**53 + 1}\n" in text_of([Family(RESTARTS, [Sample({}, 2**53 + 1)])], {})


@given(st.lists(st.integers(0, 2**40), max_size=50))
def test_a_bucket_counts_the_values_up_to_its_end(values: list[int]) -> None:
    """Exactly: cells end where buckets end."""
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    found = list(
        parser.text_string_to_metric_families(text_of([Family(RECOVERY, [Sample({}, histogram)])], {}))
    )
    for sample in found[0].samples:
        if sample.name.endswith("_bucket"):
            end_ms = float(sample.labels["le"]) * 1000
            assert sample.value == sum(value <= end_ms + 1e-6 for value in values)
        elif sample.name.endswith("_count"):
            assert sample.value == len(values)
        else:
            assert sample.value * 1000 == pytest.approx(sum(values), rel=0.13, abs=1e-9)


@pytest.mark.parametrize("open_metrics", [False, True])
@given(label=st.text(max_size=30))
def test_any_text_may_be_a_label(label: str, open_metrics: bool) -> None:
    """Names come from users: quotes, line ends, control characters and halves of characters do no harm."""
    text = text_of([Family(RECORDS_IN, [Sample({"operator": label}, 1)])], {}, open_metrics=open_metrics)
    text.encode()
    parse = dict(FORMATS)[open_metrics]
    (family,) = parse(text)
    (sample,) = family.samples
    if label.isprintable():
        assert sample.labels["operator"] == label


def test_labels_of_a_megabyte_are_cut() -> None:
    """They would be repeated in each line."""
    text = text_of([Family(STEPS, [Sample({"operator": "x" * 2**20}, Histogram())])], {})
    assert len(text) < 40 * LABEL_MAX


def test_nothing_is_told_of_metrics_without_samples() -> None:
    """Not even that they are there."""
    assert text_of([Family(RESTARTS, [])], {}) == ""
    assert text_of([], {}, open_metrics=True) == "# EOF\n"
