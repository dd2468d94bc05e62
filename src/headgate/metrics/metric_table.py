"""The table of metrics: name, meaning, unit, and how the values of several subtasks become one.
A metric is in the table if something measures it. Workers and driver exchange whole numbers only: a metric of
3.2 seconds that counts in milliseconds (`per_unit` 1000) is 3200.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Final, NamedTuple

from headgate.common.errors import InternalError
from headgate.common.time import WATERMARK_MIN

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
    WORKER = "worker"
    CHECKPOINT = "checkpoint"
    JOB = "job"


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
            >>> WATERMARK.at("input")
            'headgate_watermark_timestamp_seconds{side="input"}'
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

    def merged(self, values: Iterable[int]) -> int:
        """Return the one value of several subtasks, without unknown ones; if none is known, `unknown` or 0.

        Example:
            >>> RECORDS_IN.merged([3, 4]), LONGEST_STEP.merged([3, 4]), WATERMARK.merged([7, WATERMARK_MIN])
            (7, 4, 7)
        """
        known = [value for value in values if value != self.unknown]
        if not known:
            return self.unknown or 0
        if self.merge is Merge.SUM:
            return sum(known)
        return max(known) if self.merge is Merge.MAX else min(known)


_SIDE: Final = Label("side", ("input", "output"))
_DOMAIN: Final = Label("domain", ("event", "processing"))


def _spent(name: str, text: str, *flink: str) -> Metric:
    # The four kinds of a subtask's time add up to the time that passed.
    return Metric(f"{PREFIX}{name}_seconds_total", Kind.COUNTER, "seconds", text, flink=flink, per_unit=1000)


RECORDS_IN: Final = Metric(
    "headgate_records_in_total",
    Kind.COUNTER,
    "records",
    "Records that the subtask has processed, or as a source has read.",
    flink=("numRecordsIn",),
)
RECORDS_OUT: Final = Metric(
    "headgate_records_out_total",
    Kind.COUNTER,
    "records",
    "Records that the subtask has emitted, or as a sink has written; each counts once, whoever receives it.",
    flink=("numRecordsOut",),
)
BATCHES_OUT: Final = Metric(
    "headgate_batches_out_total",
    Kind.COUNTER,
    "batches",
    "Batches that the subtask has sent, one by one to each receiving subtask.",
    flink=("numBuffersOut",),
)
BAD_RECORDS: Final = Metric(
    "headgate_bad_records_skipped_total",
    Kind.COUNTER,
    "records",
    "Records that the source has left out, because they could not be decoded.",
)
LATE_RECORDS: Final = Metric(
    "headgate_late_records_dropped_total",
    Kind.COUNTER,
    "records",
    "Records that windows and joins by time have left out, because they came too late.",
    flink=("numLateRecordsDropped",),
)
BUSY: Final = _spent("busy", "Time in which the subtask has worked.", "busyTimeMsPerSecond")
BACKPRESSURED: Final = _spent(
    "backpressured",
    "Time in which the subtask had work and could not emit, because a receiver was slower.",
    "backPressuredTimeMsPerSecond",
)
IDLE: Final = _spent("idle", "Time in which the subtask had nothing to do.", "idleTimeMsPerSecond")
WAITING: Final = _spent(
    "waiting", "Time in which the subtask had work, and its worker's one loop did something else."
)
LONGEST_STEP: Final = Metric(
    "headgate_longest_step_seconds",
    Kind.GAUGE,
    "seconds",
    "The longest time for which the subtask has held up its worker's loop since the attempt began.",
    Merge.MAX,
    per_unit=1_000_000,
)
STEPS: Final = Metric(
    "headgate_step_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Times for which the subtask has held up its worker's loop, step by step.",
    flink=("mailboxLatencyMs",),
    per_unit=1_000_000,
)
WATERMARK: Final = Metric(
    "headgate_watermark_timestamp_seconds",
    Kind.GAUGE,
    "seconds",
    "Event time that the subtask has reached, as seconds since 1970: of its input, and of what it emits.",
    Merge.MIN,
    labels=(_SIDE,),
    flink=("currentInputWatermark", "currentOutputWatermark"),
    per_unit=1000,
    unknown=WATERMARK_MIN,
)
TIMERS_FIRED: Final = Metric(
    "headgate_timers_fired_total",
    Kind.COUNTER,
    "timers",
    "Timers that have fired, in event time and in processing time.",
    labels=(_DOMAIN,),
    flink=("numFiredTimers",),
)
TIMERS_PENDING: Final = Metric(
    "headgate_timers_pending",
    Kind.GAUGE,
    "timers",
    "Timers that are registered and have not fired; of more than 1,000 different times, or after a restore"
    " from RocksDB's files, an estimate.",
    labels=(_DOMAIN,),
)
RESIDENT_BYTES: Final = Metric(
    "headgate_worker_resident_bytes",
    Kind.GAUGE,
    "bytes",
    "Resident memory of the worker's process.",
    place=Place.WORKER,
    unknown=0,
)

TABLE: Final = (
    RECORDS_IN,
    RECORDS_OUT,
    BATCHES_OUT,
    BAD_RECORDS,
    LATE_RECORDS,
    BUSY,
    BACKPRESSURED,
    IDLE,
    WAITING,
    LONGEST_STEP,
    STEPS,
    WATERMARK,
    TIMERS_FIRED,
    TIMERS_PENDING,
    RESIDENT_BYTES,
)
"""All metrics, in the order in which people want to read them."""


def _series(*kinds: Kind) -> tuple[str, ...]:
    of_subtasks = (metric for metric in TABLE if metric.place is Place.SUBTASK and metric.kind in kinds)
    return tuple(name for metric in of_subtasks for name in metric.series)


NUMBERS: Final = _series(Kind.COUNTER, Kind.GAUGE)
"""Series of a subtask whose values are single numbers, in the order in which a heartbeat has them."""

HISTOGRAMS: Final = _series(Kind.HISTOGRAM)
"""Series of a subtask that are histograms, in the order in which a heartbeat has them."""
