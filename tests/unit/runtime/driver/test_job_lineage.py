"""Which events a job's lineage puts, and what becomes of those that are not taken."""

from __future__ import annotations

import pytest

from headgate.common.errors import OperatingError
from headgate.common.process.log_lines import LoggedJob
from headgate.common.process.system import SystemClock
from headgate.runtime.driver.lineage.job_lineage import JobLineage, LineageSettings

HERE = LineageSettings("http://127.0.0.1:9", None, None, "shop", "told", 1_000, {})


def lineage(settings: LineageSettings = HERE) -> JobLineage:
    """Of a job without a plan: its client is the test's."""
    return JobLineage(settings, None, LoggedJob("told"), SystemClock())  # type: ignore[arg-type]


def begun(told: JobLineage, *, goes_on: bool) -> list[str]:
    """The moments of the events that are put, of a lineage that sends nothing."""
    moments: list[str] = []
    told._queue.begin = lambda: None  # type: ignore[method-assign]
    told._queue.put = lambda event: moments.append(event.moment)  # type: ignore[method-assign]
    told.begin(lambda: goes_on)
    return moments


@pytest.mark.parametrize("state", ["cancelled", "failed", "finished"])
def test_a_run_that_the_next_driver_goes_on_with_has_not_ended(state: str) -> None:
    """Neither by a handover nor by a failure: the next driver tells the end, of the same run."""
    last = {"cancelled": "ABORT", "failed": "FAIL", "finished": "COMPLETE"}[state]
    for goes_on, expected in ((True, ["START"]), (False, ["START", last])):
        told = lineage()
        moments = begun(told, goes_on=goes_on)
        told.deploying(1, None)
        if state == "failed":
            told.failed(1, OperatingError("no disk"), None)
        told.ended(state)
        assert moments == expected
