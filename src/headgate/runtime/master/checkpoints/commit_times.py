"""How long each sink takes to commit the output of a checkpoint, for the job's metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headgate.common.ports import Clock
from headgate.metrics.histograms import Histogram


class CommitTimes:
    """The times of commits by uid of the sink. The background thread measures, any thread may read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of_sinks: dict[str, Histogram] = {}

    @contextmanager
    def measured(self, uid: str) -> Iterator[None]:
        """Count the time of the `with` block as a commit of sink `uid`, unless the block raises."""
        began = self._clock.precise_ms()
        yield
        took_us = round((self._clock.precise_ms() - began) * 1000)
        self._of_sinks.setdefault(uid, Histogram()).add(max(0, took_us))

    def by_sink(self) -> dict[str, Histogram]:
        """Return copies of the times in microseconds, by uid of the sink; sinks without a commit are left
        out.
        """
        return {uid: Histogram(times.sparse()) for uid, times in sorted(self._of_sinks.copy().items())}
