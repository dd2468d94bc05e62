"""Keeps track of what the program changes while it works on a backend's own tables and timers.

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
"""Keys, or (timestamp, key); or key -> new value, which is the handle's default where the entry is gone."""
Changes = dict[str, Changed]
"""By state and kind of timers."""


class Tracker(Protocol):
    """Keeps what was changed in one state, or in one kind of timers."""

    def take(self) -> Changed:
        """Return the changes since the last call; the caller owns them."""


class TrackedTable:
    """A state's table for handles that work in it; see `heap.handles.HeapTable`."""

    __slots__ = ("_changed", "_table")

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self._changed: set[Hashable] = set()

    @property
    def entries(self) -> Any:
        """The entries of the table itself, only to be read."""
        return self._table.entries

    def own(self, key: Hashable) -> Any:
        """Return the value of `key` for changing in place, or MISSING."""
        value = self._table.own(key)
        if value is not MISSING:
            self._changed.add(key)
        return value

    def put(self, key: Hashable, value: Any) -> None:
        """Set the value of `key`."""
        self._changed.add(key)
        self._table.put(key, value)

    def remove(self, key: Hashable) -> None:
        """Remove the entry of `key`, if there is one."""
        if self._table.entries.get(key, MISSING) is not MISSING:
            self._changed.add(key)
            self._table.remove(key)

    def take(self) -> set[Hashable]:
        """See :class:`Tracker`."""
        taken, self._changed = self._changed, set()
        return taken


class TrackedStore:
    """What handles whose values cannot be changed in place do besides. Their table is the backend's own.

    `changed` has the new value of each key, the default where the entry is removed. Generated loops, which
    write into the table themselves, write here too, and take the dict anew for each run.
    """

    __slots__ = ()

    table: MutableMapping[Hashable, Any]
    key: Hashable
    value: Any
    default: Any
    changed: dict[Hashable, Any]

    def store(self) -> None:
        """Put `value` into the table, if it is another one."""
        if self.table.get(self.key, self.default) is not self.value:
            self.changed[self.key] = self.value
            super().store()  # type: ignore[misc]

    def take(self) -> dict[Hashable, Any]:
        """See :class:`Tracker`."""
        taken = self.changed
        self.begin()
        return taken

    def begin(self) -> None:
        """Track changes from now on."""
        self.changed = {}  # type: ignore[misc]  # a slot of the classes below


class TrackedValueState(TrackedStore, handles.ImmutableValueState[V]):
    """See :class:`ImmutableValueState`."""

    __slots__ = ("changed",)


class TrackedReducingState(TrackedStore, handles.ImmutableReducingState[V]):
    """See :class:`ImmutableReducingState`."""

    __slots__ = ("changed",)


class TrackedAggregatingState(TrackedStore, handles.ImmutableAggregatingState[IN, ACC, OUT]):
    """See :class:`ImmutableAggregatingState`."""

    __slots__ = ("changed",)


_FOLDS: Final[dict[str, Callable[..., TrackedStore]]] = {
    StateKind.REDUCING: TrackedReducingState,
    StateKind.AGGREGATING: TrackedAggregatingState,
}


def tracked_handle(
    descriptor: StateDescriptor, serializer: TypeSerializer[V], table: StateTable
) -> tuple[StateHandle, Tracker]:
    """Return the live handle of a declared state over the backend's table, and the tracker of its changes."""
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
    """A timer queue that keeps timestamp and key of what was registered, deleted or fired."""

    __slots__ = ("_changed",)

    def __init__(self) -> None:
        super().__init__()
        self._changed: set[Hashable] = set()

    def register(self, timestamp: int, key: K) -> bool:
        """See :class:`TimerQueue`."""
        added = super().register(timestamp, key)
        if added:
            self._changed.add((timestamp, key))
        return added

    def delete(self, timestamp: int, key: K) -> bool:
        """See :class:`TimerQueue`."""
        removed = super().delete(timestamp, key)
        if removed:
            self._changed.add((timestamp, key))
        return removed

    def pop_due(self, up_to: int) -> Iterator[tuple[int, K]]:
        """See :class:`TimerQueue`."""
        for timer in super().pop_due(up_to):
            self._changed.add(timer)
            yield timer

    def take(self) -> set[Hashable]:
        """See :class:`Tracker`."""
        taken, self._changed = self._changed, set()
        return taken


def take_all(trackers: Mapping[str, Tracker]) -> Changes:
    """Return the changes since the last call, without states that were not changed."""
    taken = {name: each.take() for name, each in trackers.items()}
    return {name: changed for name, changed in taken.items() if changed}
