"""Timers in RocksDB on their way into and out of checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil
from typing import Final

from headgate.common.errors import InternalError
from headgate.common.keys.keygroups import shortened
from headgate.state.backend import Entries
from headgate.state.rocksdb.database import ColumnStore
from headgate.state.rocksdb.timer_queue import BEYOND_ALL_TIMERS, group_of_timer, timer_of
from headgate.state.rocksdb.value_layout import CHUNK_ENTRIES

TIMERS: Final = 4
"""Format of a column family of timers: `timer_queue.stored_timer`."""

PASS_TIMERS: Final = 1_000_000
"""Timers that are held while they are brought into the order of key groups; about 100 bytes each."""

_BATCH: Final = 1_000

Entry = tuple[bytes, bytes]


def timer_chunks(name: str, store: ColumnStore, groups: tuple[int, int]) -> Iterator[Entries]:
    """Keys and timestamps, ascending by key group, each group in firing order.

    They lie in the order of time. So many are read several times, each time for some key groups.

    `groups`: first and last key group, of which all timers are.
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


def timers_of(store: ColumnStore, groups: tuple[int, int]) -> Iterator[Entry]:
    """The entries of some key groups, in order of time."""
    first, last = groups
    for stored, data in store.items(stop=BEYOND_ALL_TIMERS):
        if first <= group_of_timer(stored) <= last:
            yield stored, data


def keep_only(store: ColumnStore, groups: tuple[int, int]) -> None:
    """Delete the timers of other key groups; they are in no range of their own."""
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
