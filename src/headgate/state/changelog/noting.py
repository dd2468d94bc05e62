"""What the program touches while it works on a backend's own tables and timers is noted on the way.

Of values that cannot be changed in place the new one is noted, so that drawing a segment costs nothing per
entry; of others, and of timers, the key alone, and they are looked up and copied when a segment is drawn.
What a restore fills in goes past this.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, MutableMapping
from typing import Any, Final, Protocol, TypeVar, cast

from headgate.api.declared.aggregate import ACC, IN, OUT
from headgate.api.declared.keyed_states import StateDescriptor, StateKind
from headgate.core.timers import TimerQueue
from headgate.serde.serializer import TypeSerializer
from headgate.state.backend import StateHandle, StateTable
from headgate.state.heap.backend import handle_of
from headgate.state.heap.handles import (
    ImmutableAggregatingState,
    ImmutableReducingState,
    ImmutableValueState,
)
from headgate.state.heap.live_tables import MISSING, HeapTable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Touched = set[Hashable] | dict[Hashable, Any]
"""Keys, or (timestamp, key); or key -> new value, which is the handle's default where the entry is gone."""
Changes = dict[str, Touched]
"""By state and kind of timers."""


class Noting(Protocol):
    """Whoever notes."""

    def take(self) -> Touched:
        """What was touched since the last call; never changed again."""
        ...


class NotedTable:
    """A state's table for handles that work in it; see `heap.tables.HeapTable`."""

    __slots__ = ("_changed", "_table")

    def __init__(self, table: StateTable) -> None:
        self._table = table
        self._changed: set[Hashable] = set()

    @property
    def entries(self) -> Any:
        """The table's own, only to be read."""
        return self._table.entries

    def own(self, key: Hashable) -> Any:
        """The value of `key` for changing in place, or MISSING."""
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
        """See :class:`Noting`."""
        taken, self._changed = self._changed, set()
        return taken


class NotedStore:
    """What handles whose values cannot be changed in place do besides. Their table is the backend's own.

    Attributes:
        changed: key -> new value, the default where the entry is removed. Generated loops, which write into
            the table themselves, write here too, and take the dict anew for each run.
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
        """See :class:`Noting`."""
        taken = self.changed
        self.begin()
        return taken

    def begin(self) -> None:
        """Note from now on."""
        self.changed = {}  # type: ignore[misc]  # a slot of the classes below


class NotedValueState(NotedStore, ImmutableValueState[V]):
    """See :class:`ImmutableValueState`."""

    __slots__ = ("changed",)


class NotedReducingState(NotedStore, ImmutableReducingState[V]):
    """See :class:`ImmutableReducingState`."""

    __slots__ = ("changed",)


class NotedAggregatingState(NotedStore, ImmutableAggregatingState[IN, ACC, OUT]):
    """See :class:`ImmutableAggregatingState`."""

    __slots__ = ("changed",)


_FOLDS: Final[dict[str, Callable[..., NotedStore]]] = {
    StateKind.REDUCING: NotedReducingState,
    StateKind.AGGREGATING: NotedAggregatingState,
}


def noted_handle(
    descriptor: StateDescriptor, serializer: TypeSerializer[V], table: StateTable
) -> tuple[StateHandle, Noting]:
    """The live handle of a declared state, and who notes what is done with it.

    `table`: of the backend; for this handle alone.
    """
    if not serializer.immutable or descriptor.kind in (StateKind.LIST, StateKind.MAP):
        noted = NotedTable(table)
        return handle_of(descriptor, serializer, cast(HeapTable, noted)), noted
    own = cast(HeapTable, table)
    if descriptor.kind in _FOLDS:
        handle: Any = _FOLDS[descriptor.kind](own, descriptor.function)
    else:
        handle = NotedValueState(own, descriptor.default())
    handle.begin()
    if isinstance(table, HeapTable):
        table.follow(handle)
    return handle, handle


class NotedTimerQueue(TimerQueue[K]):
    """A timer queue that notes timestamp and key of what was registered, deleted or fired."""

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
        """See :class:`Noting`."""
        taken, self._changed = self._changed, set()
        return taken


def take_all(noting: Mapping[str, Noting]) -> Changes:
    """What all of them have noted since the last call; without those that have nothing."""
    taken = {name: each.take() for name, each in noting.items()}
    return {name: changed for name, changed in taken.items() if changed}
