"""The metrics of a job's subtasks over all attempts: counters go on, gauges are of the present attempt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headgate.graph.physical import PhysicalPlan
from headgate.metrics import metric_table as table
from headgate.metrics.histograms import Histogram
from headgate.metrics.metric import Kind
from headgate.metrics.of_parts import Part
from headgate.metrics.of_programs import Told
from headgate.runtime.protocol.messages import Counters

_COUNTED: Final = frozenset(
    series for metric in table.TABLE if metric.kind is Kind.COUNTER for series in metric.series
)


_UNKNOWN: Final = {
    series: metric.unknown for metric in table.TABLE if metric.unknown is not None for series in metric.series
}


class Task(NamedTuple):
    """A subtask as metrics name it: the uid of the first operator of its chain, and its number."""

    operator: str
    subtask: int


class OfProgram(NamedTuple):
    """A metric of a program's function: the uid of its operator, its name, and a value of `Kind`."""

    operator: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What a subtask has measured: `numbers` by series, without gauges of earlier attempts; histograms; what
    functions of the program have counted; and what is measured of its splits and channels.
    """

    task: Task
    numbers: dict[str, int]
    histograms: dict[str, Histogram]
    own: dict[OfProgram, float | Histogram]
    parts: Sequence[Part] = ()  # of the present attempt


class OverAttempts:
    """Adds up what the subtasks of each attempt report. Made and called in the job master's loop."""

    def __init__(self, plan: PhysicalPlan) -> None:
        self._plan = plan
        self._before: dict[Task, Measured] = {}  # counters of earlier attempts
        self._now: dict[Task, Counters] = {}

    def report(self, counters: Iterable[Counters]) -> None:
        """Take the newest totals of subtasks in the present attempt."""
        for each in counters:
            first = self._plan.vertices[each.vertex].chain[0]
            self._now[Task(first.known_as, each.subtask)] = each

    def begin(self, plan: PhysicalPlan | None = None) -> None:
        """Begin an attempt, from now on with another `plan`, if one is given."""
        self._before = {each.task: _only_counted(each) for each in self.measured()}
        self._now = {}
        self._plan = plan or self._plan

    def measured(self) -> Iterator[Measured]:
        """Yield what every subtask has measured, of all attempts."""
        for task in sorted({*self._before, *self._now}):
            yield _added(task, self._before.get(task), self._now.get(task))


def _added(task: Task, before: Measured | None, now: Counters | None) -> Measured:
    numbers = dict(before.numbers) if before is not None else {}
    found = before.histograms if before is not None else {}
    histograms = {series: Histogram(each.sparse()) for series, each in found.items()}
    if now is not None:
        for series, number in zip(table.NUMBERS, now.values, strict=True):
            earlier = numbers.get(series) if series in _COUNTED else None
            numbers[series] = _summed(series, earlier, number)
        for series, sparse in zip(table.HISTOGRAMS, now.histograms, strict=True):
            histograms.setdefault(series, Histogram()).merge(sparse)
    own = {} if before is None else before.own
    if now is None:
        return Measured(task, numbers, histograms, own)
    return Measured(task, numbers, histograms, _with_told(own, now.told), now.parts)


def _summed(series: str, earlier: int | None, now: int) -> int:
    unknown = _UNKNOWN.get(series)
    if earlier is None or earlier == unknown:
        return now
    return earlier if now == unknown else earlier + now


def _with_told(
    before: Mapping[OfProgram, float | Histogram], told: Iterable[Told]
) -> dict[OfProgram, float | Histogram]:
    found = dict(before)
    for operator, name, kind, value in told:
        metric = OfProgram(operator, name, kind)
        earlier = before.get(metric)
        if isinstance(value, list):
            merged = Histogram(earlier.sparse() if isinstance(earlier, Histogram) else ())
            merged.merge(value)
            found[metric] = merged
        elif isinstance(earlier, Histogram) or earlier is None or kind != Kind.COUNTER.value:
            found[metric] = value
        else:
            found[metric] = earlier + value
    return found


def _only_counted(each: Measured) -> Measured:
    numbers = {series: number for series, number in each.numbers.items() if series in _COUNTED}
    own = {metric: value for metric, value in each.own.items() if metric.kind != Kind.GAUGE.value}
    return Measured(each.task, numbers, each.histograms, own)
