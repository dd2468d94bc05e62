"""One state of one earlier subtask, or all its timers, as record batches: the base, and what the log changed.

One key group is in memory at a time. What is not in tables of its own becomes rows by the same encoder that
writes the tables.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

import pyarrow as pa

from headgate.checkpoint.stored_files import DiskFiles
from headgate.common.ports import Disk
from headgate.state.canonical.table_layout import TIMER_SECTIONS
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.subtask_state import Merged, StoredState
from headgate.state.stored.values import TAKE_CANONICAL, PlainValues
from headgate.stateprocessor.reading.reading_shape import Shape
from headgate.stateprocessor.reading.reading_stamps import stamps_of

ROWS: Final = 65_536
"""About so many rows are in a batch."""


def batches(
    disk: Disk, keyed: KeyedStateHandle, shape: Shape, groups: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """The rows of a subtask for the wanted key groups, which ascend."""
    with ExitStack() as stack:
        waiting: list[pa.RecordBatch] = []
        for batch in _of_groups(disk, keyed, shape, groups, stack):
            waiting.append(batch)
            if sum(map(len, waiting)) >= ROWS:
                yield _joined(waiting)
                waiting = []
        if waiting:
            yield _joined(waiting)


def _joined(waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
    return waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)


def _of_groups(
    disk: Disk, keyed: KeyedStateHandle, shape: Shape, groups: Sequence[int], stack: ExitStack
) -> Iterator[pa.RecordBatch]:
    stored = stack.enter_context(StoredState(DiskFiles(disk), keyed))
    states = stored.by_group(PlainValues(TAKE_CANONICAL), _sections(shape), groups)
    stamps = None if shape.stamps is None else states.pop(shape.stamps)
    for group in groups:
        keys, values = _entries(states, group)
        dated = None if stamps is None else stamps.take(group)
        told = None if dated is None else dict(zip(dated.keys, dated.values, strict=True))
        for piece in shape.rows.pieces(values, ROWS) if keys else ():
            batch = shape.rows.batch(group, keys[piece], values[piece])
            if told is not None:
                column = stamps_of(shape, keys[piece], values[piece], told)
                batch = pa.RecordBatch.from_arrays([*batch.columns, column], schema=shape.columns)
            yield batch


def _sections(shape: Shape) -> list[str]:
    if shape.timers:
        return list(TIMER_SECTIONS)
    return [shape.name] if shape.stamps is None else [shape.name, shape.stamps]


def _entries(states: Mapping[str, Merged], group: int) -> tuple[list[Hashable], list[Any]]:
    keys, values = list[Hashable](), list[Any]()
    for name, state in states.items():
        found, domain = state.take(group), TIMER_SECTIONS.get(name)
        keys += found.keys
        values += found.values if domain is None else [(domain, timestamp) for timestamp in found.values]
    return keys, values
