"""Entries of one operator brought into the order of other key groups, through a file on the local disk.

As they come, entries are put into buckets: a bucket is a range of the new key groups that fits into memory.
Within a bucket they stay in the order in which they came, so that what a log says of a key follows what was
there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from headgate.common.errors import UsageError
from headgate.common.keygroups import key_group_range, key_groups_of_keys, shortened
from headgate.offline.entries import Portion
from headgate.offline.forms import Form, spilled, unspilled
from headgate.state.canonical.layout import TIMER_SECTIONS
from headgate.state.heap.snapshot import KEY_SERIALIZER
from headgate.state.rocksdb.local_files import Spool

BUCKET_BYTES: Final = 8 << 20
"""Stored bytes that are in memory at a time; as objects they take several times as much."""

CHUNK_ENTRIES: Final = 10_000

Rekey = Callable[[Any], Any]


class _Frame(NamedTuple):
    """Some entries of one state in the file."""

    state: str
    removed: bool
    entries: int
    offset: int
    lengths: tuple[int, int, int]


class Chunk(NamedTuple):
    """Some entries of one key group, ready to be written."""

    group: int
    keys: list[Any]
    values: list[Any]


class Sorter:
    """The entries of one operator, for each new subtask in the order of key groups.

    Args:
        folder: on the local disk.
        max_parallelism: the new number of key groups.
        parallelism: number of subtasks.
        size: stored bytes of all entries, about.
        rekey: gives a stored key's new one; None: keys stay.
    """

    def __init__(
        self, folder: Path, max_parallelism: int, parallelism: int, size: int, rekey: Rekey | None = None
    ) -> None:
        self._file, self._max_parallelism, self._rekey = Spool(folder), max_parallelism, rekey
        self.ranges = [key_group_range(max_parallelism, parallelism, index) for index in range(parallelism)]
        self._of_subtask: list[list[int]] = []
        self._bucket_of = np.empty(max_parallelism, np.int32)
        wanted = max(1, ceil(size / BUCKET_BYTES / parallelism))
        for first, last in self.ranges:
            self._divide(first, last, min(wanted, last - first + 1))
        self._frames: list[list[_Frame]] = [[] for buckets in self._of_subtask for _ in buckets]
        self.forms: dict[str, Form] = {}

    def _divide(self, first: int, last: int, count: int) -> None:
        start = sum(map(len, self._of_subtask))
        groups = np.arange(last - first + 1)
        self._bucket_of[first : last + 1] = start + groups * count // len(groups)
        self._of_subtask.append(list(range(start, start + count)))

    def add(self, portion: Portion) -> None:
        """Put entries into their buckets.

        Raises:
            UsageError: a new key is none.
            StorageError: the local disk does not take them.
        """
        if portion.form is not None:
            self.forms.setdefault(portion.state, portion.form)
        new = portion.keys if self._rekey is None else [self._rekey(key) for key in portion.keys]
        buckets = self._bucket_of[key_groups_of_keys(new, self._max_parallelism)]
        order = np.argsort(buckets, kind="stable")
        starts = np.flatnonzero(np.diff(buckets[order], prepend=-1)).tolist()
        places = order.tolist()
        for start, stop in pairwise([*starts, len(places)]):
            self._put(int(buckets[places[start]]), portion, new, places[start:stop])

    def _put(self, bucket: int, portion: Portion, new: Sequence[Any], places: list[int]) -> None:
        values, old = b"", b""
        if portion.form is not None:
            values = spilled(portion.form, [portion.values[place] for place in places])
        if self._rekey is not None:
            old = KEY_SERIALIZER.encode_many([portion.keys[place] for place in places])
        keys = KEY_SERIALIZER.encode_many([new[place] for place in places])
        lengths = len(keys), len(old), len(values)
        frame = _Frame(portion.state, portion.removed, len(places), self._file.size, lengths)
        self._file.append([keys, old, values])
        self._frames[bucket].append(frame)

    def chunks(self, subtask: int, state: str) -> Iterator[Chunk]:
        """The entries of one state for one new subtask, by key group, ascending.

        Raises:
            StorageError: the local disk does not give them.
        """
        form = self.forms[state]
        for bucket in self._of_subtask[subtask]:
            frames = [frame for frame in self._frames[bucket] if frame.state == state]
            if state in TIMER_SECTIONS:
                keys, values = self._timers(frames, form)
            else:
                keys, values = self._entries(frames, form)
            if keys:
                yield from self._by_group(keys, values, 1 if form.single else CHUNK_ENTRIES)

    def check_apart(self) -> None:
        """Refuse that two keys have become one: their state would be mixed, or half of it lost.

        Raises:
            UsageError: names both keys.
        """
        if self._rekey is None:
            return
        for frames in self._frames:
            before: dict[Any, Any] = {}
            for frame in frames:
                for new, old in zip(self._keys(frame), self._old_keys(frame), strict=True):
                    if before.setdefault(new, old) != old:
                        raise UsageError(
                            f"the keys {shortened(before[new])} and {shortened(old)} would both become "
                            f"{shortened(new)}, and their state cannot be merged; give them different new "
                            "keys"
                        )

    def close(self) -> None:
        """Give the disk its space back."""
        self._file.close()

    def _keys(self, frame: _Frame) -> list[Any]:
        return KEY_SERIALIZER.decode_many(self._file.read(frame.offset, frame.lengths[0]), frame.entries)

    def _old_keys(self, frame: _Frame) -> list[Any]:
        keys, old, _ = frame.lengths
        return KEY_SERIALIZER.decode_many(self._file.read(frame.offset + keys, old), frame.entries)

    def _values(self, frame: _Frame, form: Form) -> list[Any]:
        keys, old, values = frame.lengths
        return unspilled(form, self._file.read(frame.offset + keys + old, values), frame.entries)

    def _entries(self, frames: list[_Frame], form: Form) -> tuple[list[Any], list[Any]]:
        held: dict[Any, Any] = {}
        for frame in frames:
            keys = self._keys(frame)
            if frame.removed:
                for key in keys:
                    held.pop(key, None)
            else:
                held.update(zip(keys, self._values(frame, form), strict=True))
        return list(held), list(held.values())

    def _timers(self, frames: list[_Frame], form: Form) -> tuple[list[Any], list[Any]]:
        held: dict[tuple[int, Any], None] = {}
        for frame in frames:
            timers = zip(self._values(frame, form), self._keys(frame), strict=True)
            for timer in timers:
                if frame.removed:
                    held.pop(timer, None)
                else:
                    held[timer] = None
        in_order = sorted(held, key=lambda timer: timer[0])
        return [key for _, key in in_order], [timestamp for timestamp, _ in in_order]

    def _by_group(self, keys: list[Any], values: list[Any], limit: int) -> Iterator[Chunk]:
        groups = key_groups_of_keys(keys, self._max_parallelism)
        order = np.argsort(groups, kind="stable")
        ordered, places = groups[order], order.tolist()
        borders = [*np.flatnonzero(np.diff(ordered, prepend=-1)).tolist(), len(places)]
        for start, stop in pairwise(borders):
            for begin in range(start, stop, limit):
                mine = places[begin : min(begin + limit, stop)]
                chosen = [keys[place] for place in mine], [values[place] for place in mine]
                yield Chunk(int(ordered[start]), *chosen)
