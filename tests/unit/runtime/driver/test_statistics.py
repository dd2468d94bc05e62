"""Totals of a job as listeners are told of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from counted_metrics import counted

from headgate.runtime.driver.statistics import JobStatistics
from headgate.runtime.job.listener import JobListener
from headgate.runtime.protocol.messages import Counters


class Shown(JobListener):
    """Remembers the sum that it was told last."""

    records_in = 0

    def progress(self, counters: Sequence[Counters]) -> None:
        self.records_in = sum(entry.records_in for entry in counters)


def test_totals_keep_those_of_workers_that_have_left() -> None:
    """At the end of a job workers go one by one, and the last to speak tells of itself only."""
    shown = Shown()
    statistics = JobStatistics(cast(Any, None), shown)
    statistics.progress([counted(0, 0, RECORDS_IN=300), counted(0, 1, RECORDS_IN=200)])
    statistics.progress([counted(0, 1, RECORDS_IN=290)])
    assert shown.records_in == 590
    statistics.deploying(2, 1)
    statistics.progress([counted(0, 1, RECORDS_IN=10)])
    assert shown.records_in == 10
