"""Keeps sources near each other in event time: who is ahead of the slowest one by more than a limit waits.

Each worker reports, per group of sources, the least event time of its subtasks that still read. The job
master answers with the least of all other workers, and a subtask compares itself with that and with its
neighbours in the same worker. Event times only rise, so an old report makes a subtask wait longer than
needed, and never lets it run too far.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def least_of(reports: Iterable[Mapping[str, int] | None]) -> dict[str, int] | None:
    """Return group -> least event time (ms) of several reports; None if one of them is not known yet (None).

    Example:
        >>> least_of([{"orders": 5, "rates": 9}, {"orders": 3}, {}])
        {'orders': 3, 'rates': 9}
        >>> least_of([{"orders": 5}, None]) is None
        True
    """
    least: dict[str, int] = {}
    for report in reports:
        if report is None:
            return None
        for group, event_time in report.items():
            least[group] = min(event_time, least.get(group, event_time))
    return least
