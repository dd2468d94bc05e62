"""Decides when entries of a state with a time to live expire; the base class of such states' handles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from headgate.api.declared.keyed_states import StateTtl
from headgate.common.time import WATERMARK_MIN
from headgate.state.ttl.declared import ABSENT

V = TypeVar("V")


class Expiry:
    """The time-to-live rules and the clock of one state, which decide what is expired; times are in ms.

    An entry without a last-access time, or with one from before event time was known, counts as written at
    `origin`: the end of the restore, or the first watermark after it. `now` is the time in force, as the last
    :meth:`tick` read it, one for all uses with one key; what was written at `limit` or before is expired.
    Before event time is known, `read_clock` returns the least time that there is. `refresh`: whether a read
    lets the time begin anew. `show_expired`: whether a read may return an expired entry that is still stored.
    """

    __slots__ = ("_read_clock", "duration_ms", "limit", "now", "origin", "refresh", "show_expired")

    def __init__(self, ttl: StateTtl, read_clock: Callable[[], int]) -> None:
        self._read_clock = read_clock
        self.duration_ms = ttl.duration_ms
        self.refresh = ttl.update == "on-read-and-write"
        self.show_expired = ttl.visibility == "return-expired-if-not-cleaned-up"
        self.begin()

    def begin(self) -> None:
        """Set `origin` to now (in event time: once known), so that a long restore shortens no TTL."""
        self.origin = WATERMARK_MIN
        self.tick()

    def tick(self) -> int:
        now = self.now = self._read_clock()
        self.limit = now - self.duration_ms
        if self.origin == WATERMARK_MIN:
            self.origin = now
        return now

    def since(self, stamp: int | None) -> int:
        return self.origin if stamp is None or stamp == WATERMARK_MIN else stamp

    def over(self, stamp: int | None) -> bool:
        """Return whether an entry is expired, by the time that the last :meth:`tick` read. `stamp`: its
        last-access time in ms; None: unknown, so that it counts as written at `origin`.
        """
        return self.since(stamp) <= self.limit

    def renewed(self, stamp: int | None) -> int:
        # A clock may go back, as event time where a subtask took over from one with a lower watermark.
        return self.now if stamp is None or stamp < self.now else stamp

    def at_snapshot(self) -> Expiry:
        """Read the clock; return a copy whose `now` and `limit` stay at this time, for a pending snapshot."""
        self.tick()
        return copy(self)


@dataclass(slots=True)
class Counts:
    """One state's entries `seen` by the sweep, found `expired_stored` by it, `removed` by it or an access."""

    seen: int = 0
    expired_stored: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class TtlStatistics:
    """Counts of one state's entries seen and expired; elements of lists, entries of maps count one by one.
    The first three are of the sweep and of accesses so far, the others of the last snapshot.
    """

    seen: int  # entries that the sweep has looked at
    expired_stored: int  # entries that the sweep found expired and still stored, after a restore too
    removed: int  # expired entries that the sweep or an access has removed
    snapshot_seen: (
        int  # entries with a last-access time in the last snapshot, if that holds the complete state
    )
    snapshot_expired: int  # of them, those left out: expired, and still stored at the snapshot point
    snapshot_expired_bytes: int  # what these would have taken in the snapshot, without their keys


class TtlHandle(ABC):
    """Base of live handles with a time to live, each over two handles: of values and of last-access times.

    Changes go to both at once, so an operator's loop only has to bind the handle. Before it takes a key, the
    handle calls `sweep`, which looks for expired entries and may use both handles for keys of its own.
    """

    __slots__ = ("counts", "expiry", "stamps", "sweep", "values")

    immutable: Final = False

    def __init__(self, values: Any, stamps: Any, expiry: Expiry, counts: Counts) -> None:
        self.values, self.stamps = values, stamps
        self.expiry, self.counts = expiry, counts
        self.sweep: Callable[[], int | None] = expiry.tick

    def bind(self, key: Hashable) -> None:
        self.sweep()
        self.values.bind(key)
        self.stamps.bind(key)

    load = bind

    def store(self) -> None:  # noqa: B027 - of the protocol, and nothing to override
        """Do nothing: changes are made in the tables at once."""

    def clear(self) -> None:
        for handle in (self.values, self.stamps):
            handle.clear()
            handle.store()

    def peek(self, key: Hashable) -> Any:
        """Return what a read of `key` would return (the default if there is nothing to be seen), without
        renewing or removing an entry; for the test harness. `key` stays bound.
        """
        shown = self._shown_for(key, self.expiry.show_expired)
        return self._empty() if shown is ABSENT else self._result(shown)

    def holds(self, key: Hashable) -> bool:
        """Return whether a read of `key` would find an entry; renew or remove none; leaves `key` bound."""
        return self._shown_for(key, self.expiry.show_expired) is not ABSENT

    def living(self, key: Hashable) -> Any:
        """Return what is not expired of the value of `key`, or ABSENT; renew none; leaves `key` bound."""
        return self._shown_for(key, False)

    def tidy(self, key: Hashable) -> None:
        """Remove the expired entries of `key`, and set missing last-access times of others to `origin`. The
        sweep calls it; it counts what it removes. `key` stays bound.
        """
        self.values.bind(key)
        self.stamps.bind(key)
        over = self._tidy()
        self.counts.expired_stored += over
        self.counts.removed += over

    def _shown_for(self, key: Hashable, expired: bool) -> Any:
        self.expiry.tick()
        self.values.bind(key)
        self.stamps.bind(key)
        return self._shown(expired)

    def _result(self, shown: V) -> V:
        return shown

    @abstractmethod
    def judge(self, stamps: Any) -> tuple[int, bool, int]:
        """Judge the stored last-access times of one key, for the sweep, without reading its value. Return how
        many there are, whether :meth:`tidy` has to run for the key, and the oldest in ms.
        """

    @abstractmethod
    def _tidy(self) -> int:
        """Do what :meth:`tidy` does for the bound key, and return how many entries were expired."""

    @abstractmethod
    def _shown(self, expired: bool) -> Any:
        """Return the bound key's stored value, with its expired parts only if `expired`; ABSENT: nothing."""

    @abstractmethod
    def _empty(self) -> Any:
        """Return what the program reads under a key without entries."""
