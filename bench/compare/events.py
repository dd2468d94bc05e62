"""The events that all engines read: made once by Headgate's generator, kept in the cache in several layouts.

Every layout has the same events, which follow from the seed and the rate alone:

    parts      two Parquet files that cover the same time, for engines that read both at once
    sequence   Parquet files that follow each other, for engines that read in micro-batches
    json       as `parts`, in JSON lines, for engines that cannot read Parquet
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.cache import cache_folder
from headgate.nexmark import Dataset, FileFormat, NexmarkSettings, generate_files
from headgate.nexmark.files import PIECE_EVENTS
from headgate.nexmark.generator import GENERATOR_VERSION

PARTS: Final = "parts"
SEQUENCE: Final = "sequence"
JSON: Final = "json"
LAYOUTS: Final = (PARTS, SEQUENCE, JSON)

TABLES: Final = {"bid": "bids", "auction": "auctions", "person": "persons"}
"""Name in queries -> folder."""

PARALLELISM: Final = 2
APART_EVENTS: Final = 2_000_000
"""Events by which two readers of `parts` or `json` may be apart: forty pieces of the files."""
RATE_MOST: Final = 10_000
SECONDS_LEAST: Final = 100
"""Few events are spread over this much event time, so that windows end."""
BATCH_EVENTS: Final = 500_000
"""Events of a micro-batch, as near as the number of files allows."""


@dataclass(frozen=True, slots=True)
class EventSet:
    """The first `count` of the comparison's events.

    Attributes:
        count: of persons, auctions and bids together.
        rate: events per second of event time.
    """

    count: int
    rate: int

    @property
    def settings(self) -> NexmarkSettings:
        """What the events follow from."""
        return NexmarkSettings(rate=self.rate)

    @property
    def wait_s(self) -> float:
        """Event time by which two readers may be apart, in seconds."""
        return APART_EVENTS / self.rate

    def layout(self, name: str) -> Dataset:
        """The files of a layout, written at the first use."""
        folder = cache_folder() / f"nexmark-v{GENERATOR_VERSION}-{self.count}-at-{self.rate}-{name}"
        files = sequence_files(self.count) if name == SEQUENCE else PARALLELISM
        form = FileFormat.JSON if name == JSON else FileFormat.PARQUET
        return generate_files(
            folder, self.settings, self.count, file_format=form, files=files, interleaved=name != SEQUENCE
        )

    def first(self, count: int) -> EventSet:
        """The first events of these."""
        return EventSet(min(count, self.count), self.rate)


def event_set(count: int) -> EventSet:
    """The set of `count` events.

    Example:
        >>> event_set(10_000_000).rate, event_set(200_000).rate
        (10000, 2000)
    """
    return EventSet(count, max(1, min(RATE_MOST, count // SECONDS_LEAST)))


def sequence_files(count: int) -> int:
    """How many files the layout `sequence` has: two to a micro-batch, and at least four batches if possible.

    Example:
        >>> sequence_files(10_000_000), sequence_files(500_000), sequence_files(60_000)
        (40, 8, 2)
    """
    wanted = max(count * PARALLELISM // BATCH_EVENTS, 4 * PARALLELISM)
    return min(wanted, -(-count // PIECE_EVENTS))
