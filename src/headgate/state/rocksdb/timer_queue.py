"""Timers of one time domain in RocksDB: all of them on the local disk, the next ones in memory as well.

It is used like :class:`headgate.core.timers.TimerQueue` and fires the same timers. Those of one timestamp
come in the order of their key groups and keys, and not in that of their registration.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Iterator
from heapq import heapify, heappop, heappush, nsmallest
from itertools import islice
from math import ceil
from typing import Final

from headgate.common.decoders import UNDECODABLE
from headgate.common.errors import InternalError, StorageError
from headgate.common.keys.keygroups import key_group, shortened
from headgate.common.time import WATERMARK_MAX, WATERMARK_MIN
from headgate.core.timers import check_timestamp
from headgate.serde.codecs.dynamic import decode_tagged, encode_tagged
from headgate.state.backend import Entries
from headgate.state.rocksdb.database import ColumnStore
from headgate.state.rocksdb.key_bytes import one_form, whole_number
from headgate.state.rocksdb.value_layout import CHUNK_ENTRIES
from headgate.state.stored.entry_store import EntryStore

HEAD_ENTRIES: Final = 8_192
"""Timers that are read ahead; twice as many are kept at most."""

PENDING_ENTRIES: Final = 4_096
"""Changes that wait to be written with one call."""

BEYOND_ALL_TIMERS: Final = b"\xff" * 9
"""After every stored timer: no key group begins so."""

TIMERS: Final = 4
"""Number of the format of a column family of timers in checkpoints: see `stored_timer`."""

PASS_TIMERS: Final = 1_000_000
"""Timers that are held while they are brought into the order of key groups; about 100 bytes each."""

_BATCH: Final = 1_000

Entry = tuple[bytes, bytes]

_HEAD: Final = struct.Struct(">QH")
_ORIGIN: Final = 1 << 63
_STALE_MIN: Final = 64
_UNKNOWN: Final = object()


def stored_timer(timestamp: int, key: Hashable, max_parallelism: int) -> tuple[bytes, bytes]:
    """Return a timer's RocksDB entry: a key that sorts by timestamp, and a value that is empty for most.

    The entry's key: eight bytes in the order of timestamps, two of the key group, then the timer's key in one
    form for all equal keys (1 for True). Its value: `key` itself where that has another form, else empty.

    Example:
        >>> stored_timer(1000, True, 128)[0].hex()
        '80000000000003e8005601'
        >>> stored_timer(1000, True, 128)[0] == stored_timer(1000, 1.0, 128)[0]
        True
    """
    form = one_form(key)
    stored = _HEAD.pack(timestamp + _ORIGIN, key_group(key, max_parallelism)) + encode_tagged(form)
    return stored, b"" if form is key else encode_tagged(key)


def timer_of(stored: bytes, data: bytes) -> tuple[int, Hashable]:
    """Return the timestamp (ms) and the key of a timer, whose entry in RocksDB has the key `stored` and the
    value `data`, as :func:`stored_timer` made them. StorageError: they do not decode.
    """
    try:
        return time_of(stored), decode_tagged(data or stored[_HEAD.size :])
    except UNDECODABLE as error:
        raise StorageError(f"a timer stored in RocksDB does not decode ({error}); it is damaged") from None


def time_of(stored: bytes) -> int:
    return int.from_bytes(stored[:8], "big") - _ORIGIN


def group_of_timer(stored: bytes) -> int:
    return int.from_bytes(stored[8:10], "big")


class RocksTimerQueue:
    """The timers of one time domain of an operator subtask: all in RocksDB, those that fire next in memory
    too.

    A RocksKeyedBackend makes it; the operator calls it as it calls a TimerQueue, and sets `limit` to how far
    its time has come (ms): a timer added at or before that sets `interrupt`. In memory are all timers before
    the horizon, a place in their order. When these are used up, the next `head_entries` timers are read from
    there on; what has fired lies before it and is not read again. Up to `pending_entries` changes wait for
    one write.
    """

    __slots__ = (
        "_count",
        "_counted",
        "_head",
        "_head_entries",
        "_horizon",
        "_live",
        "_max_parallelism",
        "_pending",
        "_pending_entries",
        "_store",
        "interrupt",
        "limit",
    )

    def __init__(
        self,
        store: ColumnStore,
        max_parallelism: int,
        head_entries: int = HEAD_ENTRIES,
        pending_entries: int = PENDING_ENTRIES,
    ) -> None:
        self.limit, self.interrupt = WATERMARK_MIN, False
        self._store, self._max_parallelism = store, max_parallelism
        self._head_entries, self._pending_entries = head_entries, pending_entries
        # Invariants: `_live` has all timers whose bytes are less than `_horizon`; None: all that there are.
        # All of `_live` is in the heap `_head`, besides what was deleted. A pending put is of what the
        # column family has not, a pending deletion of what it has.
        self._live: dict[bytes, Hashable] = {}
        self._head: list[bytes] = []
        self._horizon: bytes | None = None
        self._pending: dict[bytes, bytes | None] = {}
        self._count, self._counted = 0, True  # the number of timers; an estimate until all are counted

    def attach(self, store: ColumnStore) -> None:
        """Use a restored column family, with its timers, in place of the empty one, before the first record.
        Until `len()` counts the timers, their number is RocksDB's estimate.
        """
        self._store, self._count, self._counted = store, store.about_entries, False
        self._read_anew()

    def _read_anew(self) -> None:
        self._live, self._head, self._horizon = {}, [], b""

    def __len__(self) -> int:
        if not self._counted:
            self._count, self._counted = sum(1 for _ in self.entries()), True
        return self._count

    def about(self) -> int:
        return max(0, self._count)

    def register(self, timestamp: int, key: Hashable) -> bool:
        check_timestamp(timestamp)
        stored, data = stored_timer(timestamp, key, self._max_parallelism)
        if self._horizon is None or stored < self._horizon:
            if stored in self._live:
                return False
            self._live[stored] = key
            heappush(self._head, stored)
        elif self._is_stored(stored):
            return False
        if stored in self._pending:
            del self._pending[stored]  # the deletion of what the column family has
        else:
            self._note(stored, data)
        self._count += 1
        if len(self._live) > 2 * self._head_entries:
            self._shrink()
        if timestamp <= self.limit:
            self.interrupt = True
        return True

    def delete(self, timestamp: int, key: Hashable) -> bool:
        time = whole_number(timestamp)  # as a dict would find it
        if time is None or not WATERMARK_MIN <= time <= WATERMARK_MAX:
            return False
        stored, _ = stored_timer(time, key, self._max_parallelism)
        if self._horizon is None or stored < self._horizon:
            if self._live.pop(stored, _UNKNOWN) is _UNKNOWN:
                return False
            if len(self._head) > 2 * len(self._live) + _STALE_MIN:
                self._use(self._live)
        elif not self._is_stored(stored):
            return False
        self._remove(stored)
        return True

    @property
    def next_time(self) -> int | None:
        first = self._first()
        return None if first is None else time_of(first)

    def has_due(self, up_to: int) -> bool:
        first = self._first()
        return first is not None and time_of(first) <= up_to

    def pop_due(self, up_to: int) -> Iterator[tuple[int, Hashable]]:
        behind = BEYOND_ALL_TIMERS if up_to >= WATERMARK_MAX else (up_to + 1 + _ORIGIN).to_bytes(8, "big")
        while (first := self._first()) is not None and first < behind:
            heappop(self._head)
            key = self._live.pop(first)
            self._remove(first)
            yield time_of(first), key

    def settle(self, budget: int) -> bool:
        # unlike in memory, a snapshot leaves no changes to merge
        return True

    def frozen(self) -> tuple[list[int], list[Hashable]]:
        timers = self.snapshot()
        return [timestamp for timestamp, _ in timers], [key for _, key in timers]

    def snapshot(self) -> list[tuple[int, Hashable]]:
        return [timer_of(stored, data) for stored, data in self.entries()]

    def restore(self, timers: Iterable[tuple[int, Hashable]]) -> None:
        """Add the timers of a snapshot, pairs of timestamp (ms) and key, at a restore. None of them may be in
        the queue yet, which is not checked: the number of timers would be wrong.
        """
        self.flush()
        for timestamp, key in timers:
            stored, data = stored_timer(timestamp, key, self._max_parallelism)
            self._note(stored, data)
            self._count += 1
        self._read_anew()

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        self.flush()
        yield from self._store.items(stop=BEYOND_ALL_TIMERS)

    def flush(self) -> None:
        if self._pending:
            self._store.write(self._pending.items())
            self._pending.clear()

    def _first(self) -> bytes | None:
        # deleted timers are still in the heap, and are skipped
        if not self._live and self._horizon is not None:
            self._refill(self._horizon)
        while self._head:
            if self._head[0] in self._live:
                return self._head[0]
            heappop(self._head)
        return None

    def _refill(self, horizon: bytes) -> None:
        self.flush()
        ahead = self._store.items(horizon, BEYOND_ALL_TIMERS, ahead=False)
        part = list(islice(ahead, self._head_entries))
        self._live = {stored: timer_of(stored, data)[1] for stored, data in part}
        self._head = [stored for stored, _ in part]  # in order, so it is a heap
        self._horizon = part[-1][0] + b"\0" if len(part) == self._head_entries else None

    def _shrink(self) -> None:
        kept = nsmallest(self._head_entries, self._live)
        self._horizon = kept[-1] + b"\0"
        self._use({stored: self._live[stored] for stored in kept})

    def _use(self, live: dict[bytes, Hashable]) -> None:
        self._live, self._head = live, list(live)
        heapify(self._head)

    def _is_stored(self, stored: bytes) -> bool:
        waiting = self._pending.get(stored, _UNKNOWN)
        if waiting is _UNKNOWN:
            return self._store.get(stored) is not None
        return waiting is not None

    def _remove(self, stored: bytes) -> None:
        if self._pending.get(stored) is not None:
            del self._pending[stored]  # it was never written
        else:
            self._note(stored, None)
        self._count -= 1

    def _note(self, stored: bytes, data: bytes | None) -> None:
        self._pending[stored] = data
        if len(self._pending) >= self._pending_entries:
            self.flush()


def timer_chunks(name: str, store: EntryStore, groups: tuple[int, int]) -> Iterator[Entries]:
    """Yield the timers of a column family as batches for a snapshot: ascending by key group, and within a
    group in firing order; each batch has up to 10,000 keys of one group, and as values their timestamps in
    ms. RocksDB has timers in order of time, so a large queue is read several times, each time for some of the
    groups. `groups`: first and last key group; a timer of another one is an InternalError that begins with
    `name`.
    """
    first, last = groups
    passes = max(1, ceil(store.about_entries / PASS_TIMERS))
    width = ceil((last - first + 1) / passes)
    for low in range(first, last + 1, width):
        high = min(low + width - 1, last)
        held: dict[int, list[Entry]] = {}
        for stored, data in store.items(stop=BEYOND_ALL_TIMERS):
            group = group_of_timer(stored)
            if low <= group <= high:
                held.setdefault(group, []).append((stored, data))
            elif not first <= group <= last:
                raise _strange(name, stored, data, groups)
        for group in sorted(held):
            yield from _chunks(group, held.pop(group))


def _chunks(group: int, entries: list[Entry]) -> Iterator[Entries]:
    for start in range(0, len(entries), CHUNK_ENTRIES):
        timers = [timer_of(*entry) for entry in entries[start : start + CHUNK_ENTRIES]]
        yield Entries(group, [key for _, key in timers], [timestamp for timestamp, _ in timers])


def timers_of(store: EntryStore, groups: tuple[int, int]) -> Iterator[Entry]:
    """Yield the RocksDB entries (key and value bytes) of the timers in `groups`, first and last key group, in
    firing order. A restore copies them into another subtask's database, or moves them into memory.
    """
    first, last = groups
    for stored, data in store.items(stop=BEYOND_ALL_TIMERS):
        if first <= group_of_timer(stored) <= last:
            yield stored, data


def keep_only(store: ColumnStore, groups: tuple[int, int]) -> None:
    """Delete all timers of key groups outside `groups` (first and last) from a restored column family. They
    are read and deleted in batches: the order is that of time, in which a key group is no range.
    """
    first, last = groups
    others = (
        (stored, None)
        for stored, _ in store.items(stop=BEYOND_ALL_TIMERS)
        if not first <= group_of_timer(stored) <= last
    )
    for batch in _batches(others):
        store.write(batch)


def _batches(entries: Iterable[tuple[bytes, bytes | None]]) -> Iterator[list[tuple[bytes, bytes | None]]]:
    batch: list[tuple[bytes, bytes | None]] = []
    for entry in entries:
        batch.append(entry)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _strange(name: str, stored: bytes, data: bytes, groups: tuple[int, int]) -> InternalError:
    key = shortened(timer_of(stored, data)[1])
    return InternalError(
        f"{name} hold one of key {key}, which is outside the key groups {groups[0]} to {groups[1]}; "
        "please report this"
    )
