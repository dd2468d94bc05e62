"""Tracks which entries of a backend's tables and timers the program changes, for a changelog's next segment.

Of values that cannot be changed in place the new one is kept, so that a segment costs nothing per entry; of
others, and of timers, the key alone, and they are looked up and copied when a segment is taken. What a
restore fills in is not tracked.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping
from typing import Any, Final, Protocol, TypeVar, cast

from headgate.api.declared.aggregate import ACC, IN, OUT
from headgate.api.declared.keyed_states import StateDescriptor, StateKind
from headgate.core.timers import TimerQueue
from headgate.serde.serializer import TypeSerializer
from headgate.state.backend import StateHandle, StateTable
from headgate.state.heap import handles
from headgate.state.heap.backend import handle_of
from headgate.state.heap.handles import MISSING, HeapTable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Changed = set[Hashable] | dict[Hashable, Any]
"""Changed entries: keys of a state; (timestamp, key) of timers; key -> new value, default if removed."""
Changes = dict[str, Changed]
"""Changed entries by name of the state or kind of timers."""


class Tracker(Protocol):
    """Remembers which entries of one state, or timers of one kind, changed since the last snapshot.

    A live handle, a table or a timer queue of a ChangelogBackend; only the operator's thread uses it.
    """

    def take(self) -> Changed:
        """Return the entries changed since the last call, and begin anew; the caller owns the collection."""


class TrackedTable:
    """A state's table that remembers the keys changed through it, for handles that work in the table."""

    __slots__ = ("_changed", "_table")

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self._changed: set[Hashable] = set()

    @property
    def entries(self) -> Any:
        # only to be read: a change here would not be tracked
        return self._table.entries

    def own(self, key: Hashable) -> Any:
        value = self._table.own(key)
        if value is not MISSING:
            self._changed.add(key)
        return value

    def put(self, key: Hashable, value: Any) -> None:
        self._changed.add(key)
        self._table.put(key, value)

    def remove(self, key: Hashable) -> None:
        if self._table.entries.get(key, MISSING) is not MISSING:
            self._changed.add(key)
            self._table.remove(key)

    def take(self) -> set[Hashable]:
        taken, self._changed = self._changed, set()
        return taken


class TrackedStore:
    """Mixin of live handles whose values are immutable: it tracks changes; `table` is the backend's own.

    `changed` has the new value of each key, the default where the entry is removed. An operator's generated
    loop, which writes into the table itself, writes here too, and takes the dict anew for a run of records.
    """

    __slots__ = ()

    table: MutableMapping[Hashable, Any]
    key: Hashable
    value: Any
    default: Any
    changed: dict[Hashable, Any]

    def store(self) -> None:
        # unless the table has that very object
        if self.table.get(self.key, self.default) is not self.value:
            self.changed[self.key] = self.value
            super().store()  # type: ignore[misc]

    def take(self) -> dict[Hashable, Any]:
        taken = self.changed
        self.begin()
        return taken

    def begin(self) -> None:
        self.changed = {}  # type: ignore[misc]  # a slot of the classes below


class TrackedValueState(TrackedStore, handles.ImmutableValueState[V]):
    """The live handle of a value state, of values that cannot change in place, with tracked changes."""

    __slots__ = ("changed",)


class TrackedReducingState(TrackedStore, handles.ImmutableReducingState[V]):
    """The live handle of a reducing state, of values that cannot change in place, with tracked changes."""

    __slots__ = ("changed",)


class TrackedAggregatingState(TrackedStore, handles.ImmutableAggregatingState[IN, ACC, OUT]):
    """The live handle of an aggregating state, of immutable accumulators, with tracked changes."""

    __slots__ = ("changed",)


_FOLDS: Final[dict[str, Callable[..., TrackedStore]]] = {
    StateKind.REDUCING: TrackedReducingState,
    StateKind.AGGREGATING: TrackedAggregatingState,
}


def tracked_handle(
    descriptor: StateDescriptor, serializer: TypeSerializer[V], table: StateTable
) -> tuple[StateHandle, Tracker]:
    """Return the live handle of a declared state over `table`, the inner backend's, and the tracker of its
    changes.

    For immutable values, except lists and maps, the handle itself tracks: each changed key with its new
    value. For others the tracker is a table around the backend's one, which remembers only the keys.
    `serializer`: that of the values under one key.
    """
    if not serializer.immutable or descriptor.kind in (StateKind.LIST, StateKind.MAP):
        tracked = TrackedTable(table)
        return handle_of(descriptor, serializer, cast(HeapTable, tracked)), tracked
    own = cast(HeapTable, table)
    if descriptor.kind in _FOLDS:
        handle: Any = _FOLDS[descriptor.kind](own, descriptor.function)
    else:
        handle = TrackedValueState(own, descriptor.default())
    handle.begin()
    if isinstance(table, HeapTable):
        table.follow(handle)
    return handle, handle


class TrackedTimerQueue(TimerQueue[K]):
    """A timer queue that remembers (timestamp, key) of timers that were registered, deleted or fired."""

    __slots__ = ("_changed",)

    def __init__(self) -> None:
        super().__init__()
        self._changed: set[Hashable] = set()

    def register(self, timestamp: int, key: K) -> bool:
        added = super().register(timestamp, key)
        if added:
            self._changed.add((timestamp, key))
        return added

    def delete(self, timestamp: int, key: K) -> bool:
        removed = super().delete(timestamp, key)
        if removed:
            self._changed.add((timestamp, key))
        return removed

    def pop_due(self, up_to: int) -> Iterator[tuple[int, K]]:
        for timer in super().pop_due(up_to):
            self._changed.add(timer)
            yield timer

    def take(self) -> set[Hashable]:
        taken, self._changed = self._changed, set()
        return taken


def take_all(trackers: Mapping[str, Tracker]) -> Changes:
    """Return each tracker's changes since the last call, by state; states without changes are left out."""
    # states without changes are left out
    taken = {name: each.take() for name, each in trackers.items()}
    return {name: changed for name, changed in taken.items() if changed}
