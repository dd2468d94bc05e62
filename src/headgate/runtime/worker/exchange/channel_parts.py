"""Metrics of the channels that a subtask sends over: frames in flight and waiting, and credit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from headgate.metrics import of_parts as of
from headgate.metrics.metric import Place
from headgate.metrics.of_parts import Part
from headgate.runtime.worker.exchange.output import EdgeEnds, OutputChannel, OutputEdge, Outputs

CHANNELS_MAX: Final = 16
"""Of an exchange with more channels the metrics are of all together, with this as the receiving subtask:"""
ALL: Final = "all"


def channel_parts(outputs: Outputs) -> list[Part]:
    """Return the metrics of all channels of a subtask; for any thread."""
    parts: list[Part] = []
    same: Counter[str] = Counter()
    for edge in outputs.edges:
        name = _receiver(edge.ends)
        # Several exchanges to one receiver, as of a union of a stream with itself, are several series.
        parts += _of_edge(edge, f"{name} #{same[name]}" if same[name] else name)
        same[name] += 1
    return parts


def _receiver(ends: EdgeEnds) -> str:
    return ends.receiver if ends.tag is None else f"{ends.receiver} ({ends.tag})"


def _of_edge(edge: OutputEdge, receiver: str) -> list[Part]:
    if len(edge.channels) > CHANNELS_MAX:
        return [_part(receiver, ALL, edge.channels)]
    channels = zip(edge.receivers, edge.channels, strict=True)
    return [_part(receiver, str(subtask), [channel]) for subtask, channel in channels]


def _part(receiver: str, subtask: str, channels: Sequence[OutputChannel]) -> Part:
    in_flight = [channel.credit.in_flight() for channel in channels]
    values = {
        of.IN_FLIGHT_FRAMES: [frames for frames, _ in in_flight],
        of.IN_FLIGHT_BYTES: [size for _, size in in_flight],
        of.WAITING_FRAMES: [channel.waiting for channel in channels],
        of.CREDIT: [channel.credit.credit for channel in channels],
    }
    merged = [metric.merged(values[metric]) for metric in of.OF_CHANNELS]
    return Part(Place.CHANNEL.value, [receiver, subtask], [*merged])
