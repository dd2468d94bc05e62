"""Metrics of subtasks, for tests in which only some of them matter."""

from __future__ import annotations

from headgate.metrics import metric_table as table
from headgate.runtime.protocol.messages import Counters


def counted(vertex: int = 0, subtask: int = 0, **metrics: int) -> Counters:
    """What a heartbeat says of a subtask: `RECORDS_IN=5` and the like, the rest is 0 or unknown."""
    given = {metric.at(): value for name, value in metrics.items() for metric in [getattr(table, name)]}
    unknown = {series: metric.unknown or 0 for metric in table.TABLE for series in metric.series}
    values = [given.get(series, unknown[series]) for series in table.NUMBERS]
    return Counters(vertex, subtask, values, [[] for _ in table.HISTOGRAMS])
