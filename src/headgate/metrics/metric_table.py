"""The table of metrics, with those that each subtask measures. A metric is in it if something measures it."""

from __future__ import annotations

from typing import Final

from headgate.common.time import WATERMARK_MIN
from headgate.metrics.metric import PREFIX, Kind, Label, Merge, Metric, Place
from headgate.metrics.of_jobs import OF_CHECKPOINTS, OF_JOBS, OF_WORKERS
from headgate.metrics.of_parts import (
    OF_CHANNELS,
    OF_SINKS,
    OF_SOURCES,
    OF_SPLITS,
    PENDING_COMMITS,
    SPLITS,
)
from headgate.metrics.of_rocksdb import OF_ROCKSDB

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
FAILED_RECORDS: Final = Metric(
    "headgate_failed_records_total",
    Kind.COUNTER,
    "records",
    "Records and timers that the operator has left out, because its function failed on them.",
    labels=(Label("action", ("skip", "quarantine")),),
)
HELD_RECORDS: Final = Metric(
    "headgate_held_records",
    Kind.GAUGE,
    "records",
    "Records that the operator holds, because its function failed on one of their key, for the next release.",
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
TABLE: Final = (
    RECORDS_IN,
    RECORDS_OUT,
    BATCHES_OUT,
    BAD_RECORDS,
    LATE_RECORDS,
    FAILED_RECORDS,
    HELD_RECORDS,
    BUSY,
    BACKPRESSURED,
    IDLE,
    WAITING,
    LONGEST_STEP,
    STEPS,
    WATERMARK,
    TIMERS_FIRED,
    TIMERS_PENDING,
    SPLITS,
    *OF_SPLITS,
    *OF_SOURCES,
    PENDING_COMMITS,
    *OF_SINKS,
    *OF_CHANNELS,
    *OF_ROCKSDB,
    *OF_WORKERS,
    *OF_CHECKPOINTS,
    *OF_JOBS,
)
"""All metrics, in the order in which people want to read them."""


def _series(*kinds: Kind) -> tuple[str, ...]:
    of_subtasks = (metric for metric in TABLE if metric.place is Place.SUBTASK and metric.kind in kinds)
    return tuple(name for metric in of_subtasks for name in metric.series)


NUMBERS: Final = _series(Kind.COUNTER, Kind.GAUGE)
"""Series of a subtask whose values are single numbers, in the order in which a heartbeat has them."""

HISTOGRAMS: Final = _series(Kind.HISTOGRAM)
"""Series of a subtask that are histograms, in the order in which a heartbeat has them."""
