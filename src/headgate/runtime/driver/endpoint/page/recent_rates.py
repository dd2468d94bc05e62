"""Computes what each subtask has done in the last seconds, from its heartbeats: rates and shares of its time.

The four kinds of a subtask's time add up to the time that has passed, so no clock is needed: two heartbeats
of a subtask say how long apart they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from headgate.common.plain_data import Json
from headgate.common.time import WATERMARK_MAX
from headgate.graph.physical import Vertex
from headgate.metrics import metric_table as table
from headgate.metrics.metric import Metric
from headgate.metrics.of_parts import Part
from headgate.runtime.protocol.messages import Counters

SAMPLES: Final = 6
SAMPLE_MS: Final = 900
"""Rates are those between the oldest and the newest of so many heartbeats, so far apart or more: of about
five seconds. Of heartbeats that come more often the newest takes the place of the one before.
"""

COUNTS: Final = 6
COUNT_MS: Final = 5_000
"""Records are also counted over so many heartbeats, so far apart: over half a minute."""

SILENT_AFTER_MS: Final = 10_000
"""The rates of a subtask that has been silent for longer are not known."""


def _at(metric: Metric, *labels: str) -> int:
    return table.NUMBERS.index(metric.at(*labels))


_IN, _OUT = _at(table.RECORDS_IN), _at(table.RECORDS_OUT)
_TIMES: Final = tuple(map(_at, (table.BUSY, table.BACKPRESSURED, table.IDLE, table.WAITING)))
_MARKS: Final = (_at(table.WATERMARK, "input"), _at(table.WATERMARK, "output"))
_BAD, _LATE = _at(table.BAD_RECORDS), _at(table.LATE_RECORDS)
_LONGEST: Final = _at(table.LONGEST_STEP)


class SubtaskRates(msgspec.Struct, frozen=True):
    """Records per second of a subtask, and the shares (0 to 1) of its time, in the last few seconds."""

    in_per_s: float
    out_per_s: float
    busy: float
    backpressured: float
    idle: float
    waiting: float


class VertexRates(msgspec.Struct, frozen=True):
    """The newest numbers of a vertex, taken over its subtasks; totals count from the attempt's begin.

    Shares of time are of 0 to 1, and None while nothing is known of them. `skew` is the records of the
    busiest subtask by the mean of all subtasks.
    """

    id: int
    subtasks: int  # how many have reported
    records_in: int
    records_out: int
    skipped: int
    late: int
    longest_step_ms: float
    in_per_s: float | None
    out_per_s: float | None
    busy: float | None  # of the busiest subtask
    busy_mean: float | None
    backpressured: float | None  # of the subtask that was so longest
    idle: float | None  # the mean
    skew: float | None
    watermark_ms: int | None  # the least of its subtasks: of its input, or of what a source emits


class RecentRates:
    """The last heartbeats of all subtasks of one attempt. `heard` takes new ones; the caller sees to it that
    one thread at a time uses it.
    """

    def __init__(self) -> None:
        self._heard: dict[tuple[int, int], deque[tuple[int, Counters]]] = {}
        self._counts: dict[tuple[int, int], deque[tuple[int, int]]] = {}

    def clear(self) -> None:
        self._heard.clear()
        self._counts.clear()

    def heard(self, counters: Iterable[Counters], now_ms: int) -> None:
        """Take the newest counters of subtasks; those that are the same objects as before are not news."""
        for entry in counters:
            task = entry.vertex, entry.subtask
            heard = self._heard.get(task)
            if heard is None:
                heard = self._heard[task] = deque(maxlen=SAMPLES)
            elif heard[-1][1] is entry:
                continue
            elif len(heard) > 1 and now_ms - heard[-2][0] < SAMPLE_MS:
                heard.pop()
            heard.append((now_ms, entry))
            counts = self._counts.setdefault(task, deque([(now_ms - COUNT_MS, 0)], COUNTS))
            if now_ms - counts[-1][0] >= COUNT_MS:
                counts.append((now_ms, entry.values[_IN]))

    def newest(self, task: tuple[int, int]) -> Counters | None:
        heard = self._heard.get(task)
        return heard[-1][1] if heard else None

    def records_of(self, task: tuple[int, int]) -> int:
        """Return how many records subtask (vertex, number) took in the last half minute of this attempt."""
        newest = self.newest(task)
        return 0 if newest is None else newest.values[_IN] - self._counts[task][0][1]

    def of_subtask(self, task: tuple[int, int], now_ms: int) -> SubtaskRates | None:
        """Return the rates of subtask (vertex, number); None while too little is known of it."""
        heard = self._heard.get(task)
        if not heard or now_ms - heard[-1][0] > SILENT_AFTER_MS:
            return None
        # Before the first heartbeat all counts were 0.
        after = heard[-1][1].values
        before = heard[0][1].values if len(heard) > 1 else [0] * len(after)
        times = [after[kind] - before[kind] for kind in _TIMES]
        passed_ms = sum(times)
        if passed_ms <= 0:
            return None
        records = [max(0, after[kind] - before[kind]) * 1000 / passed_ms for kind in (_IN, _OUT)]
        return SubtaskRates(*records, *(max(0, spent) / passed_ms for spent in times))

    def of_vertex(self, vertex: Vertex, now_ms: int) -> VertexRates:
        tasks = [(vertex.id, subtask) for subtask in range(vertex.parallelism)]
        values = [found.values for task in tasks if (found := self.newest(task)) is not None]
        rates = [each for task in tasks if (each := self.of_subtask(task, now_ms)) is not None]
        return VertexRates(
            id=vertex.id,
            subtasks=len(values),
            records_in=sum(each[_IN] for each in values),
            records_out=sum(each[_OUT] for each in values),
            skipped=sum(each[_BAD] for each in values),
            late=sum(each[_LATE] for each in values),
            longest_step_ms=max((each[_LONGEST] for each in values), default=0) / 1000,
            in_per_s=sum(each.in_per_s for each in rates) if rates else None,
            out_per_s=sum(each.out_per_s for each in rates) if rates else None,
            busy=max((each.busy for each in rates), default=None),
            busy_mean=_mean([each.busy for each in rates]),
            backpressured=max((each.backpressured for each in rates), default=None),
            idle=_mean([each.idle for each in rates]),
            skew=skew([each[_IN] for each in values]),
            watermark_ms=_watermark(values),
        )


def skew(records: Sequence[int]) -> float | None:
    """Return the largest number by the mean of all; None for fewer than two numbers, or nothing but zeros.

    Example:
        >>> skew([10, 10, 40]), skew([7, 7]), skew([5])
        (2.0, 1.0, None)
    """
    if len(records) < 2 or not any(records):
        return None
    return max(records) * len(records) / sum(records)


def shown_numbers(counters: Counters) -> dict[str, float | None]:
    """Return a subtask's numbers by the names of their series, in base units; None for what is not known."""
    found: dict[str, float | None] = {}
    for name, value in zip(table.NUMBERS, counters.values, strict=False):
        metric = _METRICS[name]
        found[name] = (
            None if value == metric.unknown else value / metric.per_unit if metric.per_unit > 1 else value
        )
    return found


def shown_part(part: Part) -> dict[str, Json]:
    """Return what is measured of a split or a channel: its kind, labels, and `numbers` by name of the metric,
    in base units.
    """
    values = {metric.name: value / metric.per_unit for metric, value in part.known()}
    numbers: dict[str, Json] = {
        name: int(value) if value.is_integer() else value for name, value in values.items()
    }
    return {"place": part.place, "labels": [*part.labels], "numbers": numbers}


_METRICS: Final = {name: metric for metric in table.TABLE for name in metric.series}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _watermark(values: Sequence[Sequence[int]]) -> int | None:
    unknown = table.WATERMARK.unknown
    for side in _MARKS:
        known = [each[side] for each in values if each[side] != unknown]
        if known:
            # A subtask whose input has ended has all of event time behind it, also where there is none.
            least = min(known)
            return None if least >= WATERMARK_MAX else least
    return None
