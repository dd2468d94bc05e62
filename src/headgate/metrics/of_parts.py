"""Metrics of what subtasks are made of: splits of sources, sinks, channels between subtasks, databases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from headgate.metrics.metric import Kind, Merge, Metric, Place


class Part(NamedTuple):
    """What is measured of one part of a subtask, a split or a channel; no names of metrics travel with it."""

    place: str  # a value of `Place` that `OF_PARTS` has
    labels: list[str]  # values of the labels of `OF_PARTS`
    values: list[int | None]  # in the order of `PARTS`; None: not known

    def known(self) -> Iterator[tuple[Metric, int]]:
        """Yield the metrics of which a value is known, with it."""
        for metric, value in zip(PARTS[self.place], self.values, strict=True):
            if value is not None:
                yield metric, value


SPLITS: Final = Metric(
    "headgate_source_splits_total",
    Kind.COUNTER,
    "splits",
    "Splits that the reader has been given to read; those that it was restored with are left out.",
)
PENDING_RECORDS: Final = Metric(
    "headgate_source_pending_records",
    Kind.GAUGE,
    "records",
    "Records of the split that the reader has not read yet, if the source knows the split's end.",
    place=Place.SPLIT,
    flink=("pendingRecords",),
)
PENDING_BYTES: Final = Metric(
    "headgate_source_pending_bytes",
    Kind.GAUGE,
    "bytes",
    "Bytes of the split that the reader has not read yet, if the source knows the split's end.",
    place=Place.SPLIT,
    flink=("pendingBytes",),
)
BEHIND: Final = Metric(
    "headgate_source_behind_seconds",
    Kind.GAUGE,
    "seconds",
    "How much older the reader's position in the split is than the split's end, if the source knows it.",
    Merge.MAX,
    Place.SPLIT,
    flink=("currentFetchEventTimeLag",),
    per_unit=1000,
)
UNASSIGNED_RECORDS: Final = Metric(
    "headgate_source_unassigned_records",
    Kind.GAUGE,
    "records",
    "Records of all splits that no reader has been given yet, if the source knows them.",
    place=Place.SOURCE,
)
UNASSIGNED_BYTES: Final = Metric(
    "headgate_source_unassigned_bytes",
    Kind.GAUGE,
    "bytes",
    "Bytes of all splits that no reader has been given yet, if the source knows them.",
    place=Place.SOURCE,
)
OF_SPLITS: Final = (PENDING_RECORDS, PENDING_BYTES, BEHIND)
OF_SOURCES: Final = (UNASSIGNED_RECORDS, UNASSIGNED_BYTES)

PENDING_COMMITS: Final = Metric(
    "headgate_sink_pending_commits",
    Kind.GAUGE,
    "commits",
    "Transactions, files and the like that the sink has prepared and that are not known to be committed.",
)
COMMIT: Final = Metric(
    "headgate_sink_commit_seconds",
    Kind.HISTOGRAM,
    "seconds",
    "Times that the sink took to commit the output of a checkpoint.",
    place=Place.SINK,
    flink=("currentSendTime",),
    per_unit=1_000_000,
)
OF_SINKS: Final = (COMMIT,)


def _of_channel(name: str, unit: str, text: str, merge: Merge = Merge.SUM, *flink: str) -> Metric:
    return Metric(f"headgate_channel_{name}", Kind.GAUGE, unit, text, merge, Place.CHANNEL, flink=flink)


IN_FLIGHT_FRAMES: Final = _of_channel(
    "in_flight_frames", "frames", "Frames of records that were sent and that the receiver has not processed."
)
IN_FLIGHT_BYTES: Final = _of_channel(
    "in_flight_bytes", "bytes", "Bytes of these frames, as they were before they were encoded."
)
WAITING_FRAMES: Final = _of_channel(
    "waiting_frames", "frames", "Frames and events that wait until the receiver has processed earlier ones."
)
CREDIT: Final = _of_channel(
    "credit_frames", "frames", "Frames that may be sent before the receiver has processed any.", Merge.MIN
)
OF_CHANNELS: Final = (IN_FLIGHT_FRAMES, IN_FLIGHT_BYTES, WAITING_FRAMES, CREDIT)

PARTS: Final = {Place.SPLIT.value: OF_SPLITS, Place.CHANNEL.value: OF_CHANNELS}
"""The metrics of each kind of part, in the order in which a heartbeat has their values."""
