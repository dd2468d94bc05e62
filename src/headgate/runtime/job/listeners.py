"""Several observers of one job in the place of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headgate.runtime.job.listener import JobListener


class Listeners(JobListener):
    """Passes every report on to several listeners, in their order."""

    def __init__(self, *listeners: JobListener) -> None:
        for report in vars(JobListener):
            if not report.startswith("_"):
                setattr(self, report, _to_each([getattr(each, report) for each in listeners]))


def _to_each(reports: Sequence[Callable[..., None]]) -> Callable[..., None]:
    def report(*facts: object) -> None:
        for each in reports:
            each(*facts)

    return report
