"""Keeps the rates of a job's vertices for ten minutes, a row of numbers a second; charts begin with them."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from typing import Final

from headgate.common.plain_data import Json
from headgate.runtime.driver.endpoint.page.recent_rates import VertexRates

HISTORY_MAX: Final = 600
HISTORY_EVERY_MS: Final = 950
"""Heartbeats come each second; a little less, so that one which comes early still gives a sample."""

FIELDS: Final = ("in_per_s", "out_per_s", "busy", "backpressured", "watermark_ms")
"""The fields of :class:`VertexRates` that are kept, in the order of :func:`row_of`."""

_UNKNOWN: Final = float("nan")


class RateHistory:
    """The newest rows, with the moments (ms since 1970) at which they were taken; its owner sees to it that
    one thread at a time uses it.
    """

    def __init__(self) -> None:
        self._rows: deque[tuple[int, array[float]]] = deque(maxlen=HISTORY_MAX)
        self._taken_ms = -HISTORY_EVERY_MS

    def due(self, now_ms: int) -> bool:
        """Return whether it is time for a row, by the monotonic clock; if so, the caller adds one."""
        if now_ms - self._taken_ms < HISTORY_EVERY_MS:
            return False
        self._taken_ms = now_ms
        return True

    def add(self, moment_ms: int, vertices: Sequence[VertexRates]) -> None:
        if self._rows and len(self._rows[-1][1]) != len(vertices) * len(FIELDS):
            self._rows.clear()  # they are of a plan with other vertices
        self._rows.append((moment_ms, row_of(vertices)))

    def columns(self, vertices: Sequence[int]) -> dict[str, Json]:
        """Return `time_ms`, and of each vertex (ids) its numbers by field; None for what was not known."""
        rows = [row for _, row in self._rows]
        found: list[Json] = []
        for place, vertex in enumerate(vertices):
            first = place * len(FIELDS)
            numbers: dict[str, Json] = {
                field: [_known(row, first + at) for row in rows] for at, field in enumerate(FIELDS)
            }
            found.append({"id": vertex, **numbers})
        return {"time_ms": [moment for moment, _ in self._rows], "vertices": found}


def row_of(vertices: Sequence[VertexRates]) -> array[float]:
    """Return the kept fields of all vertices, one after the other; NaN stands for what is not known."""
    found = (getattr(vertex, field) for vertex in vertices for field in FIELDS)
    return array("d", (_UNKNOWN if value is None else value for value in found))


def _known(row: array[float], at: int) -> float | None:
    # Of a plan that was just replaced there may be more vertices than in the rows.
    value = row[at] if at < len(row) else _UNKNOWN
    return None if value != value else value  # NaN differs from itself
