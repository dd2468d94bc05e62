"""Sorts the entries of one operator by other key groups, or new keys, through a file on the local disk.

As they come, entries are put into buckets: a bucket is a range of the new key groups that fits into memory,
and keeps the order in which they came, so that a changelog's entries of a key follow earlier ones. They are
written by the megabyte; only their places in the file, for each bucket and state, are kept in memory. How
large entries become outside of compressed files is known only once they are read. A bucket that turns out too
large is read several times, each time for some of its key groups.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from headgate.common.errors import UsageError
from headgate.common.keys.keygroups import key_group_range, key_groups_of_keys, shortened
from headgate.state.backend import Entries
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.stored.blob_format import KEY_SERIALIZER
from headgate.state.stored.contract import Chunk, SectionCodec
from headgate.state.stored.local_files import Spool
from headgate.state.stored.subtask_state import Part, merged
from headgate.state.stored.values import spilled, unspilled

_TOO_LARGE: Final = 2
"""A bucket of more than so many times `BUCKET_BYTES` is read in several passes."""

BUCKET_BYTES: Final = 8 << 20
"""Stored bytes that are in memory at a time; as objects they take several times as much."""

CHUNK_ENTRIES: Final = 10_000

V = TypeVar("V")

Rekey = Callable[[Hashable], Hashable]


_HEAD: Final = struct.Struct("<?IIII")
"""Before each batch of entries in a bucket: the fields of :class:`_Frame`, as lengths."""


class _Frame(NamedTuple):
    """A batch of one state's entries as the scratch file holds them, encoded.

    `old` are the keys before they were changed, and empty where they were not.
    """

    removed: bool
    entries: int
    keys: memoryview
    old: memoryview
    values: memoryview


_Groups = tuple[int, int]


class Sorter:
    """Takes all keyed entries of one operator, and gives each new subtask its entries in order of key groups.
    Commands that change a snapshot's parallelism or keys use it, `add` first, then what reads. `folder`:
    local, for a scratch file; `parallelism`: of the new subtasks; `size`: about how many stored bytes all
    entries have; `rekey`: returns a stored key's new one; None: keys stay. Disk errors are StorageErrors.
    """

    def __init__(
        self, folder: Path, max_parallelism: int, parallelism: int, size: int, rekey: Rekey | None = None
    ) -> None:
        self._file, self._max_parallelism, self._rekey = Spool(folder), max_parallelism, rekey
        self.ranges = [key_group_range(max_parallelism, parallelism, index) for index in range(parallelism)]
        self._of_subtask: list[list[int]] = []
        self._groups_of: list[_Groups] = []
        self._bucket_of = np.empty(max_parallelism, np.int32)
        wanted = max(1, ceil(size / BUCKET_BYTES / parallelism))
        for first, last in self.ranges:
            self._divide(first, last, min(wanted, last - first + 1))
        self._waiting: dict[tuple[int, str], list[bytes]] = {}
        self._waiting_bytes = 0
        self._runs: dict[tuple[int, str], array[int]] = {}
        self.codecs: dict[str, SectionCodec] = {}

    def _divide(self, first: int, last: int, count: int) -> None:
        start = len(self._groups_of)
        for bucket, groups in enumerate(_divided((first, last), count), start):
            self._bucket_of[groups[0] : groups[1] + 1] = bucket
            self._groups_of.append(groups)
        self._of_subtask.append(list(range(start, start + count)))

    def add(self, chunk: Chunk) -> None:
        # later ones of a key replace earlier ones, or are removals
        if chunk.codec is not None:
            self.codecs.setdefault(chunk.state, chunk.codec)
        new = chunk.keys if self._rekey is None else [self._rekey(key) for key in chunk.keys]
        buckets = self._bucket_of[key_groups_of_keys(new, self._max_parallelism)]
        order = np.argsort(buckets, kind="stable")
        starts = np.flatnonzero(np.diff(buckets[order], prepend=-1)).tolist()
        places = order.tolist()
        for start, stop in pairwise([*starts, len(places)]):
            self._put(int(buckets[places[start]]), chunk, new, places[start:stop])

    def _put(self, bucket: int, chunk: Chunk, new: Sequence[Hashable], places: list[int]) -> None:
        values, old = b"", b""
        if chunk.codec is not None:
            values = spilled(chunk.codec, [chunk.values[place] for place in places])
        if self._rekey is not None:
            old = KEY_SERIALIZER.encode_many([chunk.keys[place] for place in places])
        keys = KEY_SERIALIZER.encode_many([new[place] for place in places])
        head = _HEAD.pack(chunk.removed, len(places), len(keys), len(old), len(values))
        self._waiting.setdefault((bucket, chunk.state), []).extend((head, keys, old, values))
        self._waiting_bytes += len(head) + len(keys) + len(old) + len(values)
        if self._waiting_bytes >= BUCKET_BYTES:
            self._write()

    def _write(self) -> None:
        for place, parts in self._waiting.items():
            begin = self._file.size
            self._file.write(b"".join(parts))
            self._runs.setdefault(place, array("q")).extend((begin, self._file.size - begin))
        self._waiting, self._waiting_bytes = {}, 0

    def chunks(self, subtask: int, state: str) -> Iterator[Entries]:
        """Yield the merged entries of a state or kind of timers for the new `subtask` (index from 0),
        ascending by key group, its timers by time in each. Call it after all adds; KeyError: `state` was
        never added.
        """
        codec = self.codecs[state]
        self._write()
        timers = state in TIMER_SECTIONS

        def values_of(frame: _Frame) -> list[Any]:
            # Of keys that went nothing was kept; of timers that went the timestamps were.
            return unspilled(codec, frame.values, frame.entries) if len(frame.values) else []

        for bucket in self._of_subtask[subtask]:
            for groups in self._slices(bucket, [state]):
                keys, values = merged(self._parts(bucket, state, groups, values_of), timers)
                if timers:
                    keys, values = _in_time(keys, values)
                if keys:
                    yield from self._by_group(keys, values, 1 if codec.single else CHUNK_ENTRIES)

    def check_apart(self) -> None:
        """After all adds, raise a UsageError if `rekey` made one key of two: their state would be mixed."""
        if self._rekey is None:
            return
        self._write()
        states = list(dict.fromkeys(state for _, state in self._runs))
        for bucket in range(len(self._groups_of)):
            for groups in self._slices(bucket, states):
                before: dict[Hashable, Hashable] = {}
                for state in states:
                    for part in self._parts(bucket, state, groups, _old_keys):
                        _demand_apart(part, before)

    def close(self) -> None:
        self._file.close()

    def _slices(self, bucket: int, states: Sequence[str]) -> list[_Groups]:
        # several if the bucket is large
        first, last = self._groups_of[bucket]
        size = sum(sum(self._runs.get((bucket, state), array("q"))[1::2]) for state in states)
        wanted = 1 if size <= _TOO_LARGE * BUCKET_BYTES else ceil(size / BUCKET_BYTES)
        return _divided((first, last), min(wanted, last - first + 1))

    def _parts(
        self, bucket: int, state: str, groups: _Groups, others_of: Callable[[_Frame], list[V]]
    ) -> Iterator[Part]:
        whole = groups == self._groups_of[bucket]
        for frame in self._frames(bucket, state):
            keys = KEY_SERIALIZER.decode_many(frame.keys, frame.entries)
            if whole:
                yield Part(frame.removed, keys, others_of(frame))
                continue
            found = key_groups_of_keys(keys, self._max_parallelism)
            wanted = np.flatnonzero((found >= groups[0]) & (found <= groups[1])).tolist()
            if wanted:
                others = others_of(frame)
                mine = [others[place] for place in wanted] if others else []
                yield Part(frame.removed, [keys[place] for place in wanted], mine)

    def _frames(self, bucket: int, state: str) -> Iterator[_Frame]:
        places = iter(self._runs.get((bucket, state), ()))
        for offset, length in zip(places, places, strict=True):
            run, at = memoryview(self._file.read(offset, length)), 0
            while at < length:
                removed, entries, *lengths = _HEAD.unpack_from(run, at)
                ends = [at + _HEAD.size + sum(lengths[:count]) for count in range(4)]
                yield _Frame(removed, entries, *(run[begin:end] for begin, end in pairwise(ends)))
                at = ends[-1]

    def _by_group(self, keys: list[Hashable], values: list[V], limit: int) -> Iterator[Entries]:
        groups = key_groups_of_keys(keys, self._max_parallelism)
        order = np.argsort(groups, kind="stable")
        ordered, places = groups[order], order.tolist()
        borders = [*np.flatnonzero(np.diff(ordered, prepend=-1)).tolist(), len(places)]
        for start, stop in pairwise(borders):
            for begin in range(start, stop, limit):
                mine = places[begin : min(begin + limit, stop)]
                chosen = [keys[place] for place in mine], [values[place] for place in mine]
                yield Entries(int(ordered[start]), *chosen)


def _divided(groups: _Groups, count: int) -> list[_Groups]:
    first, width = groups[0], groups[1] - groups[0] + 1
    edges = [first + width * place // count for place in range(count + 1)]
    return [(begin, end - 1) for begin, end in pairwise(edges)]


def _old_keys(frame: _Frame) -> list[Hashable]:
    return KEY_SERIALIZER.decode_many(frame.old, frame.entries)


def _in_time(keys: list[Hashable], timestamps: list[int]) -> tuple[list[Hashable], list[int]]:
    order = sorted(range(len(keys)), key=timestamps.__getitem__)
    return [keys[place] for place in order], [timestamps[place] for place in order]


def _demand_apart(part: Part, before: dict[Hashable, Hashable]) -> None:
    for new, old in zip(part.keys, part.values, strict=True):
        if before.setdefault(new, old) != old:
            raise UsageError(
                f"the keys {shortened(before[new])} and {shortened(old)} would both become "
                f"{shortened(new)}, and their state cannot be merged; give them different new keys"
            )
