"""Computes what the process of each worker has done in the last seconds, from its heartbeats."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from headgate.runtime.driver.endpoint.page.recent_rates import SAMPLE_MS, SAMPLES
from headgate.runtime.protocol.messages import Heartbeat

_US: Final = 1000  # in a millisecond


class WorkerRates:
    """The last heartbeats of all workers; the caller sees to it that one thread at a time uses it."""

    def __init__(self) -> None:
        self._heard: dict[int, deque[Heartbeat]] = {}

    def clear(self) -> None:
        self._heard.clear()

    def heard(self, beats: Mapping[int, Heartbeat]) -> None:
        """Take the newest heartbeats by slot; those that are the same objects as before are not news."""
        for slot, beat in beats.items():
            heard = self._heard.setdefault(slot, deque(maxlen=SAMPLES))
            if heard and heard[-1] is beat:
                continue
            if len(heard) > 1 and beat.sent_ms - heard[-2].sent_ms < SAMPLE_MS:
                heard.pop()
            heard.append(beat)

    def of_worker(self, slot: int) -> tuple[float, float] | None:
        """Return the processors that a worker uses, and the share of its time that goes into collecting
        garbage; None while too little is known, or the system does not tell.
        """
        heard = self._heard.get(slot)
        if not heard:
            return None
        first, last = heard[0], heard[-1]
        passed_ms = last.sent_ms - first.sent_ms
        if passed_ms <= 0 or last.cpu_ms == 0:
            return None
        return (last.cpu_ms - first.cpu_ms) / passed_ms, (last.gc_us - first.gc_us) / _US / passed_ms
