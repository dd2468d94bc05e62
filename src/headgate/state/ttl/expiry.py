"""When entries of one state are over."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

from headgate.api.declared.keyed_states import StateTtl
from headgate.common.time import WATERMARK_MIN


class Expiry:
    """The rules of one state, and the clock that it goes by.

    An entry without a stamp, or with one from before event time was known, counts as written at
    `origin`: the moment at which the restore was over, or the first watermark after it.

    Args:
        read_clock: gives ms; before event time is known the least time there is.

    Attributes:
        duration_ms: how long entries live.
        refresh: whether a read lets the time begin anew.
        show_expired: whether a read may give an entry that is over and still stored.
        now: the time in force, as the last :meth:`tick` read it; one for all uses with one key.
        limit: what was written then or before is over.
        origin: see above.
    """

    __slots__ = ("_read_clock", "duration_ms", "limit", "now", "origin", "refresh", "show_expired")

    def __init__(self, ttl: StateTtl, read_clock: Callable[[], int]) -> None:
        self._read_clock = read_clock
        self.duration_ms = ttl.duration_ms
        self.refresh = ttl.update == "on-read-and-write"
        self.show_expired = ttl.visibility == "return-expired-if-not-cleaned-up"
        self.begin()

    def begin(self) -> None:
        """Take this moment for the origin: how long a restore takes shortens no life."""
        self.origin = WATERMARK_MIN
        self.tick()

    def tick(self) -> int:
        """Read the clock; gives `now`. The first time that is known is the origin."""
        now = self.now = self._read_clock()
        self.limit = now - self.duration_ms
        if self.origin == WATERMARK_MIN:
            self.origin = now
        return now

    def since(self, stamp: int | None) -> int:
        """When an entry with this stamp counts as written."""
        return self.origin if stamp is None or stamp == WATERMARK_MIN else stamp

    def over(self, stamp: int | None) -> bool:
        """Whether an entry with this stamp is over."""
        return self.since(stamp) <= self.limit

    def renewed(self, stamp: int | None) -> int:
        """The stamp of an entry that is used now: clocks may go back, and that shortens no life.

        Event time does so where a subtask took over from one that was behind.
        """
        return self.now if stamp is None or stamp < self.now else stamp

    def at_cut(self) -> Expiry:
        """The rules with the clock standing still, for a snapshot that is written beside the loop."""
        self.tick()
        return copy(self)


@dataclass(slots=True)
class Counts:
    """What was found out about one state so far; see :class:`TtlStatistics`."""

    seen: int = 0
    expired_stored: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class TtlStatistics:
    """Entries of one state that are over, as far as somebody looked. Elements of lists and entries of
    maps count one by one.

    Attributes:
        seen: entries that the sweep has looked at.
        expired_stored: of them, those that were over and still stored when it came.
        removed: entries removed because they were over, by the sweep or by an access.
        snapshot_seen: entries with stamps in the last snapshot, as far as it is written whole.
        snapshot_expired: of them, those that were left out: over, and still stored at the cut.
        snapshot_expired_bytes: what these would have taken in the snapshot, without their keys.
    """

    seen: int
    expired_stored: int
    removed: int
    snapshot_seen: int
    snapshot_expired: int
    snapshot_expired_bytes: int
