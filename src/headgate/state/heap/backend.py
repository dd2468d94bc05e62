"""Keyed state in Python dicts: fast, limited by memory, with a snapshot that does not stop to encode."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from headgate.api.declared.keyed_states import StateDescriptor, StateKind
from headgate.common.errors import InternalError
from headgate.common.plain_data import Description
from headgate.core.timers import TimerQueue
from headgate.serde.serializer import TypeSerializer
from headgate.state.backend import Items, MigrationProgress, StateHandle, Stored, StoredValue
from headgate.state.heap.handles import (
    HeapListState,
    HeapMapState,
    ImmutableAggregatingState,
    ImmutableReducingState,
    ImmutableValueState,
    MutableAggregatingState,
    MutableReducingState,
    MutableValueState,
)
from headgate.state.heap.live_tables import MISSING, HeapTable
from headgate.state.heap.snapshot import FrozenState, FrozenTimers, PendingHeapSnapshot
from headgate.state.peek import stored_value
from headgate.state.stored.restoring import Restore
from headgate.state.targets import Target, target_of, timers_target

V = TypeVar("V")

EVENT_TIMERS: Final = "timers:event"
PROCESSING_TIMERS: Final = "timers:processing"

SETTLED_PER_CALL: Final = 1_024
"""Changes that one call of `settle` brings back in each table: about half a millisecond."""


class HeapKeyedBackend:
    """Keyed state and timers of one operator subtask, in memory.

    The pause of a snapshot does not depend on how much there is: tables and timers are taken as
    they are, and later changes lie in layers above them until :meth:`settle` has brought them back.

    Attributes:
        settled: whether nothing of a snapshot is left to bring back.
    """

    def __init__(
        self,
        descriptors: Mapping[str, StateDescriptor],
        first_group: int,
        last_group: int,
        max_parallelism: int,
    ) -> None:
        if not 0 <= first_group <= last_group < max_parallelism:
            raise InternalError(
                f"key groups {first_group} to {last_group} are not within 0 to {max_parallelism - 1}"
            )
        self.max_parallelism = max_parallelism
        self.groups = (first_group, last_group)
        self._targets = {name: target_of(descriptor) for name, descriptor in descriptors.items()}
        self._tables = {name: HeapTable(target.serializer.copy) for name, target in self._targets.items()}
        self.handles: dict[str, StateHandle] = {
            name: handle_of(descriptor, self._targets[name].serializer, self._tables[name])
            for name, descriptor in descriptors.items()
        }
        self._handles = tuple(self.handles.values())
        for name, handle in self.handles.items():
            if handle.immutable:
                self._tables[name].follow(handle)
        self.event_timers: TimerQueue[Hashable] = TimerQueue()
        self.processing_timers: TimerQueue[Hashable] = TimerQueue()
        self.settled = True
        timer_target = timers_target()
        self._targets |= dict.fromkeys(self._timers, timer_target)

    @property
    def tables(self) -> Mapping[str, HeapTable]:
        """See :class:`~headgate.state.backend.TableBackend`."""
        return self._tables

    @property
    def targets(self) -> Mapping[str, Target]:
        """See :class:`~headgate.state.backend.TableBackend`."""
        return self._targets

    @property
    def _timers(self) -> dict[str, TimerQueue[Hashable]]:
        return {EVENT_TIMERS: self.event_timers, PROCESSING_TIMERS: self.processing_timers}

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key of every handle."""
        for handle in self._handles:
            handle.bind(key)

    def store(self) -> None:
        """Store what was changed for the current key."""
        for handle in self._handles:
            handle.store()

    def prefetch(self, keys: Iterable[Hashable]) -> None:
        """Nothing to do: everything is in memory."""

    def keys(self, name: str) -> list[Hashable]:
        """See :class:`~headgate.state.backend.KeyedBackend`."""
        return list(self._tables[name].entries)

    def scan(self, name: str) -> Items:
        """See :class:`~headgate.state.backend.KeyedBackend`."""
        table = self._tables[name]
        for key in self.keys(name):
            value = table.entries.get(key, MISSING)
            if value is not MISSING:
                yield key, value

    def peek(self, name: str, key: Hashable) -> StoredValue | None:
        """See :class:`~headgate.state.backend.KeyedBackend`."""
        return stored_value(name, self._targets[name], self._tables[name].entries.get(key, MISSING))

    def state_types(self) -> dict[str, Description]:
        """State name -> kind and description of its serializers, for the checkpoint's metadata."""
        return {name: self._targets[name].schema for name in self._tables}

    def snapshot_sync(self, checkpoint: int = 0, completed: int | None = 0) -> PendingHeapSnapshot:
        """Fix the state at this moment. Call it between records, with everything stored."""
        frozen: list[FrozenState | FrozenTimers] = []
        for name, table in self._tables.items():
            layers, ticket = table.freeze()
            frozen.append(FrozenState(name, *self._targets[name], layers, partial(table.thaw, ticket)))
        for name, timers in self._timers.items():
            frozen.append(FrozenTimers(name, *self._targets[name], timers.freeze()))
        self.settled = False
        return PendingHeapSnapshot(frozen, self.groups, self.max_parallelism)

    def settle(self) -> None:
        """See :class:`~headgate.state.backend.KeyedBackend`."""
        if not self.settled:
            tables = [table.settle(SETTLED_PER_CALL) for table in self._tables.values()]
            timers = [queue.settle(SETTLED_PER_CALL) for queue in self._timers.values()]
            self.settled = all(tables) and all(timers)

    def migration_progress(self) -> list[MigrationProgress]:
        """See :class:`~headgate.state.backend.KeyedBackend`; here a restore converts everything."""
        return []

    def close(self) -> None:
        """Nothing to do: everything is in memory."""

    def restore(self, stored: Iterable[Stored]) -> None:
        """Fill the empty backend with its own key groups out of what any number of subtasks stored."""
        if any(table.entries for table in self._tables.values()) or any(map(len, self._timers.values())):
            raise InternalError(
                "state is restored into a backend that already holds some; please report this"
            )
        with Restore(stored, self._targets, self.groups, self.max_parallelism) as restore:
            restore.fill(self._tables, self._timers)


def handle_of(descriptor: StateDescriptor, serializer: TypeSerializer[V], table: HeapTable) -> StateHandle:
    """The live handle of a declared state over its table; for every backend."""
    if descriptor.kind == StateKind.LIST:
        return HeapListState(table)
    if descriptor.kind == StateKind.MAP:
        return HeapMapState(table)
    immutable = serializer.immutable
    if descriptor.kind == StateKind.REDUCING:
        return (ImmutableReducingState if immutable else MutableReducingState)(table, descriptor.function)
    if descriptor.kind == StateKind.AGGREGATING:
        return (ImmutableAggregatingState if immutable else MutableAggregatingState)(
            table, descriptor.function
        )
    if immutable:
        return ImmutableValueState(table, descriptor.default())
    return MutableValueState(table, descriptor.default)
