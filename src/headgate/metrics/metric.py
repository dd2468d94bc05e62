"""What a metric is: name, meaning, unit, and how the values of several subtasks become one.

Workers and driver exchange whole numbers only: a metric of 3.2 seconds that counts in milliseconds
(`per_unit` 1000) is 3200.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Final, NamedTuple

from headgate.common.errors import InternalError

PREFIX: Final = "headgate_"
"""Every metric's name begins with it."""


class Kind(Enum):
    """How the values of a metric move, in Prometheus' words; a counter begins at 0 with each attempt."""

    COUNTER = "counter"  # only up, from 0 at the start of an attempt
    GAUGE = "gauge"  # up and down
    HISTOGRAM = "histogram"  # counts of values by size, which only go up


class Merge(Enum):
    """How the values of several subtasks become one: their sum, greatest or least; histograms are added."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


class Place(Enum):
    """The thing that a metric is measured of, whose name or number is a label of the metric."""

    SUBTASK = "subtask"
    SPLIT = "split"
    CHANNEL = "channel"
    SOURCE = "source"
    SINK = "sink"
    WORKER = "worker"
    CHECKPOINT = "checkpoint"
    JOB = "job"


OF_PARTS: Final = {Place.SPLIT: ("split",), Place.CHANNEL: ("receiver", "receiver_subtask")}
"""Labels, besides those of the subtask, of what a subtask has several of, whose values no table knows."""


class Label(NamedTuple):
    """A label that only some metrics have, with all its values: the metric has one series for each value."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, a row of the table. Workers report whole numbers, of which `per_unit` make one `unit`.
    `merge` combines subtasks' values; `unknown` is the number that means "not known" (None: always known).
    """

    name: str
    kind: Kind
    unit: str  # what is counted, or the base unit, which then ends the name (but for `_total`)
    help: str  # one sentence
    merge: Merge = Merge.SUM
    place: Place = Place.SUBTASK
    labels: tuple[Label, ...] = ()  # besides those that say which subtask, worker, checkpoint or job
    flink: tuple[str, ...] = ()  # Flink's names for it
    per_unit: int = 1  # how many of the exchanged whole numbers make one `unit`
    unknown: int | None = None  # the whole number that stands for "not known"; None: it is always known

    def at(self, *values: str) -> str:
        """Return the name of the series with these label values, in order; InternalError if there is none.

        Example:
            >>> side = Label("side", ("left", "right"))
            >>> Metric("headgate_rows", Kind.GAUGE, "rows", "Rows that are kept.", labels=(side,)).at("left")
            'headgate_rows{side="left"}'
        """
        pairs = list(zip(self.labels, values, strict=False))
        if len(values) != len(self.labels) or any(value not in label.values for label, value in pairs):
            raise InternalError(f"{self.name} has no series for the labels {values}; please report this")
        shown = ",".join(f'{label.name}="{value}"' for label, value in pairs)
        return f"{self.name}{{{shown}}}" if shown else self.name

    @property
    def series(self) -> tuple[str, ...]:
        """The names of all series of the metric: one, or one for each combination of the labels' values."""
        return tuple(self.at(*values) for values in product(*(label.values for label in self.labels)))

    @property
    def labelled(self) -> list[tuple[dict[str, str], str]]:
        """For each series its labels with their values, and its name."""
        names = [label.name for label in self.labels]
        found = product(*(label.values for label in self.labels))
        return [(dict(zip(names, values, strict=True)), self.at(*values)) for values in found]

    def merged(self, values: Iterable[int]) -> int:
        """Return the one value of several subtasks, without unknown ones; if none is known, `unknown` or 0.

        Example:
            >>> rows = Metric("headgate_rows", Kind.GAUGE, "rows", "Rows that are kept.", unknown=-1)
            >>> rows.merged([3, 4, -1]), rows.merged([-1])
            (7, -1)
        """
        known = [value for value in values if value != self.unknown]
        if not known:
            return self.unknown or 0
        if self.merge is Merge.SUM:
            return sum(known)
        return max(known) if self.merge is Merge.MAX else min(known)
