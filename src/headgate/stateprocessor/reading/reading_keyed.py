"""Reads one state of one subtask of the job that took the snapshot, or all its timers, as record batches.

One key group's entries are in memory at a time, and the rows of a batch. What is not in tables of its own
becomes rows by the same encoder that writes the tables.

Last-access times of a state with a time to live are a state of their own, of the same shape as the values:
one for a value, a list for a list, a map from the same keys for a map. How long entries live only the program
declares; no snapshot has it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, TypeVar

import pyarrow as pa

from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.ports import Disk
from headgate.serde.arrow.stored_values import Beyond
from headgate.state.canonical.table_layout import BYTES, ELEMENT, ENTRY, TIMER_SECTIONS
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.subtask_state import Merged, open_state
from headgate.state.stored.values import TAKE_CANONICAL, PlainValues
from headgate.stateprocessor.reading.reading_shape import Shape

ROWS: Final = 65_536
"""The approximate number of rows in a batch."""

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class EntriesPiece:
    """Piece of a read: ascending key groups of one subtask's state, whose entries are decoded into rows.

    Its batches have about `ROWS` rows, and all columns of the `shape`, whichever are wanted.
    """

    keyed: KeyedStateHandle
    shape: Shape
    groups: tuple[int, ...]

    def batches(self, disk: Disk, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        for batch in _of_groups(disk, self.keyed, self.shape, self.groups):
            waiting.append(batch)
            if sum(map(len, waiting)) >= ROWS:
                yield _joined(waiting)
                waiting = []
        if waiting:
            yield _joined(waiting)


def _joined(waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
    return waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)


def _of_groups(
    disk: Disk, keyed: KeyedStateHandle, shape: Shape, groups: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    names = list(TIMER_SECTIONS) if shape.timers else [shape.name]
    with open_state(DiskFiles(disk), keyed) as stored:
        names += [] if shape.stamps is None else [shape.stamps]
        states = stored.by_group(PlainValues(TAKE_CANONICAL), names, groups)
        stamps = None if shape.stamps is None else states.pop(shape.stamps)
        for group in groups:
            keys, values = _entries(states, group)
            dated = None if stamps is None else stamps.take(group)
            written = None if dated is None else dict(zip(dated.keys, dated.values, strict=True))
            for piece in shape.rows.pieces(values, ROWS) if keys else ():
                batch = shape.rows.batch(group, keys[piece], values[piece])
                if written is not None:
                    column = _written_at(shape, keys[piece], values[piece], written)
                    batch = pa.RecordBatch.from_arrays([*batch.columns, column], schema=shape.columns)
                yield batch


def _entries(states: Mapping[str, Merged], group: int) -> tuple[list[Hashable], list[Any]]:
    keys, values = list[Hashable](), list[Any]()
    for name, state in states.items():
        found, domain = state.take(group), TIMER_SECTIONS.get(name)
        keys += found.keys
        values += found.values if domain is None else [(domain, timestamp) for timestamp in found.values]
    return keys, values


# -- when entries were written


def _written_at(
    shape: Shape, keys: Sequence[Hashable], values: Sequence[Any], written: Mapping[Hashable, V]
) -> pa.Array:
    # Null where there is no time, or none that is possible.
    stamps: list[int | None] = []
    for key, value in zip(keys, values, strict=True):
        stamps += _rows(shape.rows_are, value, _plain(written.get(key)))
    # These are milliseconds; one from before event time was known is far outside of what a time can be.
    known = [None if stamp is None or abs(stamp) >= 2**53 else stamp * 1000 for stamp in stamps]
    return pa.array(known, pa.int64()).cast(pa.timestamp("us", "UTC"))


def _rows(rows_are: str, value: Any, stamps: Any) -> list[int | None]:
    if rows_are == BYTES:
        return [stamps if type(stamps) is int else None]
    if rows_are == ELEMENT:
        length = max(1, len(_plain(value)))
        return [stamp for _, stamp in zip_longest(range(length), (stamps or [])[:length])]
    if rows_are == ENTRY:
        by_key = {_name(key): stamp for key, stamp in _pairs(stamps or {})}
        return [by_key.get(_name(key)) for key, _ in _pairs(_plain(value))] or [None]
    return [stamps]


def _plain(value: V | Beyond) -> V:
    return value.plain if isinstance(value, Beyond) else value


def _pairs(entries: dict[K, V] | Sequence[tuple[K, V]]) -> list[tuple[K, V]]:
    return list(entries.items()) if isinstance(entries, dict) else list(entries)


def _name(key: K) -> K | str:
    return key if type(key) in (str, int) else repr(key)
