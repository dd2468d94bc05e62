"""Removes expired entries that no access meets: looks at a few keys per record, in endless passes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from typing import Any, Final

from headgate.common.time import WATERMARK_MIN
from headgate.state.backend import Items
from headgate.state.ttl.handle import TtlHandle

REST_SHARE: Final = 8
"""A pass begins no sooner than an eighth of the duration after the last one began, so that a state in which
some entry is always expired is not walked through without end.
"""


class Sweep:
    """The search of one state for expired entries: endless passes over the small last-access times.

    After a restore the first pass goes over the values and gives times to those that have none. From then on
    every value has one. Between two passes it rests: no entry expires before the oldest time that the last
    pass saw, or the beginning of that pass, plus the duration. One step looks at `per_record` keys.

    | state | `_entries` | at a record |
    | --- | --- | --- |
    | resting | None | nothing, unless the time to rest has passed or the clock was set back: begin a pass |
    | dating | values | the next keys get their times; at the end: begin a pass over the times |
    | sweeping | times | the next keys are judged, expired entries are removed; at the end: rest |
    """

    def __init__(
        self, handle: TtlHandle, stamps: Callable[[], Items], values: Callable[[], Items], per_record: int
    ) -> None:
        self._handle, self._expiry, self._counts = handle, handle.expiry, handle.counts
        self._stamps, self._values = stamps, values
        self._per_record = per_record
        self._entries: Items | None = None
        self._dating = False
        self._began = self._rest_until = self._oldest = WATERMARK_MIN

    def date_values(self) -> None:
        """Begin a pass that gives times to values without one; call it after a restore."""
        self._dating, self._entries = True, self._values()

    def step(self) -> None:
        """Remove expired entries of the next keys, unless resting; call it with no key bound, as it binds."""
        now = self._expiry.tick()
        if self._entries is None:
            if self._began <= now < self._rest_until:
                return
            self._begin(now)
        assert self._entries is not None
        looked = 0
        for key, held in islice(self._entries, self._per_record):
            looked += 1
            if self._dating:
                self._handle.tidy(key)
            else:
                self._look(key, held)
        if looked < self._per_record:
            self._end(now)

    def _begin(self, now: int) -> None:
        self._entries = self._stamps()
        self._began = self._oldest = now

    def _look(self, key: Hashable, held: Any) -> None:
        entries, untidy, oldest = self._handle.judge(held)
        self._counts.seen += entries
        if untidy:
            self._handle.tidy(key)
            oldest = self._expiry.limit + 1  # what is left of it may expire at any time
        self._oldest = min(self._oldest, oldest)

    def _end(self, now: int) -> None:
        if self._dating:
            self._dating = False
            self._begin(now)
            return
        self._entries = None
        duration = self._expiry.duration_ms
        self._rest_until = max(self._oldest + duration, self._began + duration // REST_SHARE)
