"""How a stream gets event time: timestamps, bounded out-of-orderness, idleness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.time import duration_ms


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """Where the timestamps of records come from, and how far the watermark stays behind the greatest of them.
    The watermark before a record is the greatest timestamp of the records before it on the same source
    subtask, minus `out_of_orderness_ms`, minus 1. It is exact for every record, whatever the size of batches
    or the speed of the job.

    Attributes:
        timestamp: column or field name with ms since 1970, or a function of the record.
        out_of_orderness_ms: how much earlier than its predecessors a record may be without being late.
        idleness_ms: after so long without records a source subtask holds back no others; None: never.
        max_drift_ms: by how much a source subtask may be ahead of the slowest of its group; None: no limit.
        drift_group: name of the sources of the job that are compared.
    """

    timestamp: str | Callable[[Any], int]
    out_of_orderness_ms: int = 0
    idleness_ms: int | None = None
    max_drift_ms: int | None = None
    drift_group: str = "default"

    @staticmethod
    def of(
        timestamp: str | Callable[[Any], int],
        out_of_orderness: str | int = 0,
        idleness: str | int | None = None,
        max_drift: str | int | None = None,
        drift_group: str = "default",
    ) -> WatermarkStrategy:
        """Return a strategy of a field or function that gives a record's ms since 1970. Durations are ms or
        ``"7d"``: by how much a record may be earlier than its predecessors, after how long without records a
        source subtask holds back no others, how far it may lead the slowest of its `drift_group` (None:
        never, no limit).

        Raises:
            PlanError: a duration is negative or not a duration.
        """
        try:
            bound = duration_ms(out_of_orderness, "out_of_orderness")
            idle = None if idleness is None else duration_ms(idleness, "idleness")
            drift = None if max_drift is None else duration_ms(max_drift, "max_drift")
        except ValueError as error:
            raise PlanError(str(error)) from None
        return WatermarkStrategy(timestamp, bound, idle, drift, drift_group)


def refuse_negative_times(strategy: WatermarkStrategy) -> None:
    """Raise PlanError if a strategy that the program made itself has a negative duration."""
    for what, value in (
        ("out_of_orderness_ms", strategy.out_of_orderness_ms),
        ("idleness_ms", strategy.idleness_ms or 0),
        ("max_drift_ms", strategy.max_drift_ms or 0),
    ):
        if value < 0:
            raise PlanError(f"{what} of a watermark strategy ({user_site()}) is {value}; expected 0 or more")
