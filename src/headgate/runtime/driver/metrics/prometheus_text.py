"""Metrics as text that Prometheus reads: its own format, and OpenMetrics.

Both are written here, as that is 70 times faster than by the objects of Prometheus' client library; its
parser judges the text in the tests.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headgate.metrics.histograms import CELLS, Histogram, middle_of
from headgate.metrics.metric import Kind, Metric
from headgate.runtime.driver.metrics.job_metrics import Family

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
"""The types of content of the two formats."""

LABEL_MAX: Final = 1_000
"""Longer values of labels are cut after so many characters."""

OCTAVES: Final = range(4, 27)
"""Buckets end below these powers of two, in the whole numbers of the metric."""


def text_of(families: Iterable[Family], labels: Mapping[str, str], *, open_metrics: bool = False) -> str:
    """Return metrics as text; `labels` are added to those of each sample."""
    shared = [f'{name}="{escaped(value)}"' for name, value in labels.items()]
    lines = [line for family in families for line in _lines(family, shared, open_metrics)]
    return "\n".join([*lines, *(["# EOF"] if open_metrics else []), ""])


def escaped(value: str) -> str:
    r"""Return a label's value as it is written: no control characters, at most `LABEL_MAX` characters.

    Example:
        >>> escaped('a "quoted" \\ text\nof two lines\x00')
        'a \\"quoted\\" \\\\ text\\nof two lines\ufffd'
    """
    short = value if len(value) <= LABEL_MAX else f"{value[:LABEL_MAX]}..."
    plain = "".join("\ufffd" if _is_odd(each) else each for each in short)
    return plain.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _is_odd(character: str) -> bool:
    # Control characters but for line feeds, halves of characters, and what some readers take for line ends.
    return character != "\n" and unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")


def _lines(family: Family, shared: list[str], open_metrics: bool) -> Iterator[str]:
    metric, name = family.metric, family.metric.name
    if not family.samples:
        return
    title = name.removesuffix("_total") if open_metrics and metric.kind is Kind.COUNTER else name
    yield f"# HELP {title} {metric.help}"
    yield f"# TYPE {title} {metric.kind.value}"
    for sample in family.samples:
        own = [f'{label}="{escaped(value)}"' for label, value in sample.labels.items()]
        if isinstance(sample.value, Histogram):
            yield from _buckets(metric, [*shared, *own], sample.value)
        else:
            yield f"{name}{{{','.join([*shared, *own])}}} {_number(sample.value, metric)}"


def _number(value: float, metric: Metric) -> str:
    return str(value) if metric.per_unit == 1 else repr(value / metric.per_unit)


def _buckets(metric: Metric, labels: list[str], histogram: Histogram) -> Iterator[str]:
    # Cells of values below 2**k are those before 4 * (k + 1).
    counts, series = histogram.counts, ",".join(labels)
    for octave in OCTAVES:
        end = _number((1 << octave) - 1, metric)
        yield f'{metric.name}_bucket{{{series},le="{end}"}} {sum(counts[: 4 * (octave + 1)])}'
    total = sum(middle_of(cell) * counts[cell] for cell in range(CELLS) if counts[cell])
    yield f'{metric.name}_bucket{{{series},le="+Inf"}} {histogram.count}'
    yield f"{metric.name}_sum{{{series}}} {total / metric.per_unit!r}"
    yield f"{metric.name}_count{{{series}}} {histogram.count}"


def wants_open_metrics(accept: str) -> bool:
    """Return whether a request's header `Accept` names OpenMetrics' format.

    Example:
        >>> wants_open_metrics("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
        True
        >>> wants_open_metrics("text/plain, */*")
        False
    """
    return "application/openmetrics-text" in accept.lower()
