"""Keyed state in Python dicts: fast, limited by memory, with a snapshot that does not stop to encode."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Final, Generic, TypeVar

from headgate.api.declared.keyed_states import StateDescriptor, StateKind
from headgate.common.errors import InternalError
from headgate.common.plain_data import Description
from headgate.core.timers import TimerQueue
from headgate.serde.serializer import TypeSerializer
from headgate.state.backend import Items, MigrationProgress, StateHandle, StateTable, Stored, StoredValue
from headgate.state.backend_wrapper import BoundHandles
from headgate.state.heap import handles
from headgate.state.heap.handles import MISSING, HeapTable
from headgate.state.heap.snapshot import PendingHeapSnapshot, StateView, TimersView
from headgate.state.stored.restoring import open_restore
from headgate.state.stored.value_readers import stored_value
from headgate.state.targets import Target, target_of, timers_target

V = TypeVar("V")
T = TypeVar("T", bound=StateTable)

EVENT_TIMERS: Final = "timers:event"
PROCESSING_TIMERS: Final = "timers:processing"
TIMER_KINDS: Final = (EVENT_TIMERS, PROCESSING_TIMERS)

SETTLED_PER_CALL: Final = 1_024
"""Changes that one call of `settle` merges back into each table: about half a millisecond."""


class OwnTables(BoundHandles, Generic[T]):
    """Base of the backends with a table per state, in dicts or RocksDB. Subclasses fill `_tables` and set the
    timer queues. InternalError: `groups` (first, last) are not within 0 and max parallelism.
    """

    def __init__(
        self, descriptors: Mapping[str, StateDescriptor], groups: tuple[int, int], max_parallelism: int
    ) -> None:
        if not 0 <= groups[0] <= groups[1] < max_parallelism:
            raise InternalError(
                f"key groups {groups[0]} to {groups[1]} are not within 0 to {max_parallelism - 1}"
            )
        self.max_parallelism, self.groups = max_parallelism, groups
        self._targets = {name: target_of(descriptor) for name, descriptor in descriptors.items()}
        self._targets |= dict.fromkeys(TIMER_KINDS, timers_target())
        self._tables: dict[str, T] = {}

    @property
    def tables(self) -> Mapping[str, T]:
        return self._tables

    @property
    def targets(self) -> Mapping[str, Target]:
        return self._targets

    @property
    def _timers(self) -> dict[str, TimerQueue[Hashable]]:
        return {EVENT_TIMERS: self.event_timers, PROCESSING_TIMERS: self.processing_timers}

    def peek(self, name: str, key: Hashable) -> StoredValue | None:
        return stored_value(name, self._targets[name], self._tables[name].entries.get(key, MISSING))

    def state_types(self) -> dict[str, Description]:
        return {name: self._targets[name].schema for name in self._tables}

    def _check_empty(self, tables_empty: bool) -> None:
        if not tables_empty or any(map(len, self._timers.values())):
            raise InternalError(
                "state is restored into a backend that already holds some; please report this"
            )


class HeapKeyedBackend(OwnTables[HeapTable]):
    """The keyed state and timers of one operator subtask, in Python dicts in memory.

    The pause of a snapshot does not depend on the state's size: tables and timers are taken as they are, and
    later changes lie in layers above them. `settled` is True once :meth:`settle` has merged all of these.
    """

    def __init__(
        self,
        descriptors: Mapping[str, StateDescriptor],
        first_group: int,
        last_group: int,
        max_parallelism: int,
    ) -> None:
        super().__init__(descriptors, (first_group, last_group), max_parallelism)
        self._tables = {name: HeapTable(self._targets[name].serializer.copy) for name in descriptors}
        self._use(
            {
                name: handle_of(descriptor, self._targets[name].serializer, self._tables[name])
                for name, descriptor in descriptors.items()
            }
        )
        for name, handle in self.handles.items():
            if handle.immutable:
                self._tables[name].follow(handle)
        self.event_timers, self.processing_timers = TimerQueue(), TimerQueue()
        self.settled = True

    def prefetch(self, keys: Iterable[Hashable]) -> None:
        """Do nothing: all state is in memory already."""

    def keys(self, name: str) -> list[Hashable]:
        return list(self._tables[name].entries)

    def scan(self, name: str) -> Items:
        # entries that are removed meanwhile are skipped
        table = self._tables[name]
        for key in self.keys(name):
            value = table.entries.get(key, MISSING)
            if value is not MISSING:
                yield key, value

    def snapshot_sync(self, checkpoint: int = 0, completed: int | None = 0) -> PendingHeapSnapshot:
        # complete, whatever the arguments say
        views: list[StateView | TimersView] = []
        for name, table in self._tables.items():
            layers, ticket = table.freeze()
            views.append(StateView(name, *self._targets[name], layers, partial(table.thaw, ticket)))
        for name, timers in self._timers.items():
            views.append(TimersView(name, *self._targets[name], timers.freeze()))
        self.settled = False
        return PendingHeapSnapshot(views, self.groups, self.max_parallelism)

    def settle(self) -> None:
        if not self.settled:
            tables = [table.settle(SETTLED_PER_CALL) for table in self._tables.values()]
            timers = [queue.settle(SETTLED_PER_CALL) for queue in self._timers.values()]
            self.settled = all(tables) and all(timers)

    def measured(self) -> Mapping[str, int]:
        return {}

    def migration_progress(self) -> list[MigrationProgress]:
        # a restore converts all values of older types at once
        return []

    def close(self) -> None:
        """Do nothing: all state is in memory, and is freed with the backend."""

    def restore(self, stored: Iterable[Stored]) -> None:
        self._check_empty(not any(table.entries for table in self._tables.values()))
        with open_restore(stored, self._targets, self.groups, self.max_parallelism) as restore:
            restore.fill(self._tables, self._timers)


def handle_of(descriptor: StateDescriptor, serializer: TypeSerializer[V], table: HeapTable) -> StateHandle:
    """Return the live handle of a declared state, which the user function has as its attribute, over `table`.

    `serializer`: that of the values under one key; whether they can change in place decides the kind of
    handle. A backend in memory calls :meth:`HeapTable.follow` for those of immutable values.
    """
    if descriptor.kind == StateKind.LIST:
        return handles.HeapListState(table)
    if descriptor.kind == StateKind.MAP:
        return handles.HeapMapState(table)
    immutable, function = serializer.immutable, descriptor.function
    if descriptor.kind == StateKind.REDUCING:
        return (handles.ImmutableReducingState if immutable else handles.MutableReducingState)(
            table, function
        )
    if descriptor.kind == StateKind.AGGREGATING:
        return (handles.ImmutableAggregatingState if immutable else handles.MutableAggregatingState)(
            table, function
        )
    if immutable:
        return handles.ImmutableValueState(table, descriptor.default())
    return handles.MutableValueState(table, descriptor.default)
