"""One state of one earlier subtask, or all its timers, as record batches: the base, and what the log changed.

One key group is in memory at a time. What is not in tables of its own becomes rows by the same encoder that
writes the tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

import pyarrow as pa

from headgate.common.errors import StorageError
from headgate.common.ports import Disk
from headgate.offline.by_group import Blob, ByGroup, Found, native_families, open_table, table_portions
from headgate.state.canonical.layout import TIMER_SECTIONS
from headgate.state.changelog.sections import removed
from headgate.state.snapshots import KeyedStateHandle
from headgate.stateprocessor.reading_shape import Shape
from headgate.stateprocessor.reading_stamps import stamps_of

ROWS: Final = 65_536
"""About so many rows are in a batch."""

Changes = tuple[ByGroup, ByGroup]
"""Of one segment of the log: what went, and what was put."""


class StoredState:
    """One section of the base and of the log, key group by key group.

    Args:
        base: its entries.
        log: what changed since, oldest first.
        timers: whether a key may have several entries, told apart by their values.
    """

    def __init__(self, base: ByGroup, log: Sequence[Changes], timers: bool) -> None:
        self._base, self._log, self._timers = base, log, timers

    def take(self, group: int) -> tuple[list[Any], list[Any]]:
        """Keys and values of a key group; ask in ascending order."""
        keys, values = self._base.take(group)
        if not self._log:
            return keys, values
        held = {self._name(*entry): entry for entry in zip(keys, values, strict=True)}
        for went, put in self._log:
            for entry in zip(*went.take(group), strict=True):
                held.pop(self._name(*entry), None)
            for entry in zip(*put.take(group), strict=True):
                held[self._name(*entry)] = entry
        return [key for key, _ in held.values()], [value for _, value in held.values()]

    def _name(self, key: Any, value: Any) -> Any:
        return (key, value) if self._timers else key


def stored_states(
    disk: Disk, keyed: KeyedStateHandle, names: Sequence[str], groups: Sequence[int], stack: ExitStack
) -> dict[str, StoredState]:
    """States of a subtask by name, and kinds of timers by theirs.

    Args:
        disk: where the files are.
        keyed: refers to them.
        names: of sections; one that is not stored is empty.
        groups: the wanted key groups, ascending.
        stack: closes what is opened.

    Raises:
        StorageError: something is missing or damaged; names the file.
        UsageError: values cannot be read without the program; names the state.
    """
    bases = _bases(disk, keyed, names, groups, stack)
    segments = [Blob(disk, segment) for segment in keyed.log]
    found = {}
    for name in names:
        timers = name in TIMER_SECTIONS
        log = [
            (
                ByGroup(_section(blob, removed(name), groups, values=timers)),
                ByGroup(_section(blob, name, groups)),
            )
            for blob in segments
        ]
        found[name] = StoredState(ByGroup(bases.get(name, iter(()))), log, timers)
    return found


def _bases(
    disk: Disk, keyed: KeyedStateHandle, names: Sequence[str], groups: Sequence[int], stack: ExitStack
) -> dict[str, Iterator[Found]]:
    if keyed.tables is not None:
        tables = [table for table in keyed.tables if table.name in names]
        return {
            table.name: _named(disk.describe(table.file), table_portions(open_table(disk, table), groups))
            for table in tables
        }
    blob = Blob(disk, keyed.handle)
    native: dict[str, Iterator[Found]] = {}
    if keyed.native is not None:
        native = stack.enter_context(native_families(disk, keyed, names, groups))
    return {name: _section(blob, name, groups) for name in names} | native


def _section(blob: Blob, name: str, groups: Collection[int], values: bool = True) -> Iterator[Found]:
    section = blob.section(name)
    return iter(()) if section is None else blob.portions(section, groups, values)


def _named(where: str, portions: Iterator[Found]) -> Iterator[Found]:
    """An error says which file it is of."""
    try:
        yield from portions
    except StorageError as error:
        raise StorageError(f"{where}: {error}") from None


# -- as rows


def batches(
    disk: Disk, keyed: KeyedStateHandle, shape: Shape, groups: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """The rows of a subtask, in order of key groups.

    Args:
        disk: where the files are.
        keyed: refers to them.
        shape: what is read, and its columns.
        groups: the wanted key groups, ascending.

    Raises:
        StorageError: something is missing or damaged; names the file.
        UsageError: values cannot be read without the program; names the state.
    """
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
    names = _sections(keyed, shape)
    states = stored_states(disk, keyed, names, groups, stack)
    stamps = None if shape.stamps is None else states.pop(shape.stamps)
    for group in groups:
        keys, values = _entries(states, group)
        told = None if stamps is None else dict(zip(*stamps.take(group), strict=True))
        for piece in shape.rows.pieces(values, ROWS) if keys else ():
            batch = shape.rows.batch(group, keys[piece], values[piece])
            if told is not None:
                column = stamps_of(shape, keys[piece], values[piece], told)
                batch = pa.RecordBatch.from_arrays([*batch.columns, column], schema=shape.columns)
            yield batch


def _sections(keyed: KeyedStateHandle, shape: Shape) -> list[str]:
    if shape.timers and keyed.tables is None:
        return list(TIMER_SECTIONS)
    return [shape.name] if shape.stamps is None else [shape.name, shape.stamps]


def _entries(states: Mapping[str, StoredState], group: int) -> tuple[list[Any], list[Any]]:
    keys, values = list[Any](), list[Any]()
    for name, state in states.items():
        more_keys, more_values = state.take(group)
        domain = TIMER_SECTIONS.get(name)
        keys += more_keys
        values += more_values if domain is None else [(domain, timestamp) for timestamp in more_values]
    return keys, values
