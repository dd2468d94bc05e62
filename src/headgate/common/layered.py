"""A dict whose snapshot needs no copy: the snapshot keeps the dict, later changes go into a layer above.

`docs/machines/layered-table.md` has the table of states, and lists what each thread may do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from itertools import count, islice
from typing import Any, Final, Generic, TypeAlias, overload

from typing_extensions import TypeVar

K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
D = TypeVar("D")

MISSING: Final[Any] = object()
"""No entry, or one that was removed in a layer; not a value that a program can hold."""

LAYERS_MAX: Final = 8
"""Layers of changes above the base; one more and they are joined in the pause of a snapshot."""

_UNKNOWN: Final[Any] = object()

Layers: TypeAlias = tuple[Mapping[K, V], ...]
"""The base and what was changed above it, oldest first; where a value is MISSING, the key is not there."""


class LayeredTable(Generic[K, V]):
    """A dict that one thread changes while other threads write snapshots of it, taken without a copy.

    Without a snapshot it is a plain dict, and its users work on that dict. While a snapshot is pending
    they work on a view of layers, which costs several times as much per access; afterwards
    :meth:`settle` brings the layers back into the one dict, a slice at a time. `copy(value)` returns a
    copy that changes of `value` in place do not reach; it is called for a value that a snapshot has, when
    :meth:`own` is first asked for it. `entries` is the dict, or the view in its place (get, pop, item access,
    iteration); `on_change` is called with the new `entries` whenever another object takes their place.

    Example:
        >>> table = LayeredTable(list)
        >>> table.put("a", [1])
        >>> layers, ticket = table.freeze()
        >>> table.own("a").append(2)
        >>> layers, table.entries["a"], table.settled
        (({'a': [1]},), [1, 2], False)
        >>> table.thaw(ticket)
        >>> table.settle(100), table.entries
        (True, {'a': [1, 2]})
    """

    __slots__ = ("_base", "_copy", "_deltas", "_pending", "_tickets", "_view", "entries", "on_change")

    def __init__(self, copy: Callable[[V], V]) -> None:
        self.on_change: Callable[[MutableMapping[K, V]], None] | None = None
        self._base: dict[K, V] = {}
        self._deltas: list[dict[K, V]] = []  # oldest first; the last one is no snapshot's
        self._view: _View[K, V] | None = None
        self.entries: MutableMapping[K, V] = self._base
        self._copy = copy
        self._tickets = count()
        # Snapshots in progress; the threads that write them discard from it, and do nothing else here.
        self._pending: set[int] = set()

    @property
    def settled(self) -> bool:
        """Whether all layers are merged back after snapshots, so that `entries` is the plain dict."""
        return self._view is None

    def own(self, key: K) -> V:
        """Return the value of `key` to change in place, or MISSING if there is no entry.

        If a snapshot holds the value, this is a copy, which replaces it in the table. Ask before each change.
        """
        view = self._view
        found: V = self._base.get(key, MISSING) if view is None else view.own(key)
        return found

    def put(self, key: K, value: V) -> None:
        """Set the value of `key` to the object `value`, not a copy; no snapshot may hold this object."""
        self.entries[key] = value

    def remove(self, key: K) -> None:
        self.entries.pop(key, None)

    def freeze(self) -> tuple[Layers[K, V], int]:
        """Return the entries as they are now, as layers (oldest first), and a ticket for :meth:`thaw`.

        For a snapshot. Takes no time per entry, unless there are more than 8 layers of changes to join.
        """
        if not self._base and not self._deltas:
            return (), next(self._tickets)
        self._deltas = [delta for delta in self._deltas if delta]
        if len(self._deltas) > LAYERS_MAX:
            joined: dict[K, V] = {}
            for delta in self._deltas:  # left as they are: snapshots read them
                joined |= delta
            self._deltas = [joined]
        layers = (self._base, *self._deltas)
        self._deltas.append({})
        ticket = next(self._tickets)
        self._pending.add(ticket)
        self._show(_Shadow(self._base, self._deltas, self._copy, self._pending))
        return layers, ticket

    def thaw(self, ticket: int) -> None:
        """Release the entries of the snapshot of `ticket`; any thread may call this, and more than once."""
        self._pending.discard(ticket)

    def settle(self, budget: int) -> bool:
        """Merge at most `budget` changes from layers into the dict; return True once no layer is left.

        While a snapshot is pending (not thawed), it does nothing and returns False.
        """
        if self._view is None:
            return True
        if self._pending:
            return False
        if type(self._view) is not _Merging:
            self._show(_Merging(self._base, self._deltas))
        base = self._base
        for delta in self._deltas:
            for _ in range(min(budget, len(delta))):
                key, value = delta.popitem()
                if value is MISSING:
                    base.pop(key, None)
                else:
                    base[key] = value
                budget -= 1
            if delta:
                return False
        self._deltas = []
        self._show(None)
        return True

    def _show(self, view: _View[K, V] | None) -> None:
        entries = self._base if view is None else view
        self.entries, self._view = entries, view
        if self.on_change is not None:
            self.on_change(entries)


class _View(MutableMapping[K, V]):
    """Base of the dict-like views of a table in layers: the newest layer that has a key decides its value."""

    __slots__ = ("_base", "_deltas")

    def __init__(self, base: dict[K, V], deltas: list[dict[K, V]]) -> None:
        self._base, self._deltas = base, tuple(reversed(deltas))  # newest first

    @overload
    def get(self, key: K, default: None = None) -> V | None: ...
    @overload
    def get(self, key: K, default: V) -> V: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: V | D | None = None) -> V | D | None:
        for delta in self._deltas:
            value: V = delta.get(key, _UNKNOWN)
            if value is not _UNKNOWN:
                return default if value is MISSING else value
        return self._base.get(key, default)

    def own(self, key: K) -> V:
        found: V = self.get(key, MISSING)
        return found

    def __contains__(self, key: Any) -> bool:
        return self.get(key, MISSING) is not MISSING

    def __getitem__(self, key: K) -> V:
        value: V = self.get(key, MISSING)
        if value is MISSING:
            raise KeyError(key)
        return value

    def __delitem__(self, key: K) -> None:
        if self.pop(key, MISSING) is MISSING:
            raise KeyError(key)

    def __iter__(self) -> Iterator[K]:
        for keys, _ in slices_of((self._base, *reversed(self._deltas)), 1_000):
            yield from keys

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return any(True for _ in self)


class _Shadow(_View[K, V]):
    """The view from a snapshot until :meth:`LayeredTable.settle`: every change goes into the newest layer.

    An entry there also means that the value was made or copied since the snapshot was taken.
    """

    __slots__ = ("_copy", "_live", "_pending")

    def __init__(
        self, base: dict[K, V], deltas: list[dict[K, V]], copy: Callable[[V], V], pending: set[int]
    ) -> None:
        super().__init__(base, deltas)
        self._live, self._copy, self._pending = deltas[-1], copy, pending

    def own(self, key: K) -> V:
        live = self._live
        value: V = live.get(key, _UNKNOWN)
        if value is _UNKNOWN:
            value = self.get(key, MISSING)
            if value is not MISSING and self._pending:
                value = live[key] = self._copy(value)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        self._live[key] = value

    @overload
    def pop(self, key: K) -> V: ...
    @overload
    def pop(self, key: K, default: V) -> V: ...
    @overload
    def pop(self, key: K, default: D) -> V | D: ...
    def pop(self, key: K, default: V | D | None = None) -> V | D | None:
        value: V = self.get(key, MISSING)
        if value is MISSING:
            return default
        self._live[key] = MISSING
        return value


class _Merging(_View[K, V]):
    """The view while layers are merged back: changes go into the base and out of the layers."""

    __slots__ = ()

    def __setitem__(self, key: K, value: V) -> None:
        for delta in self._deltas:
            delta.pop(key, None)
        self._base[key] = value

    @overload
    def pop(self, key: K) -> V: ...
    @overload
    def pop(self, key: K, default: V) -> V: ...
    @overload
    def pop(self, key: K, default: D) -> V | D: ...
    def pop(self, key: K, default: V | D | None = None) -> V | D | None:
        value: V = self.get(key, MISSING)
        for delta in self._deltas:
            delta.pop(key, None)
        self._base.pop(key, None)
        return default if value is MISSING else value


def slices_of(layers: Layers[K, V], size: int) -> Iterator[tuple[list[K], list[V]]]:
    """Yield lists of keys and of their newest values in a snapshot's layers, at most `size` at a time.

    Example:
        >>> list(slices_of(({"a": 1, "b": 2, "c": 3}, {"b": MISSING, "d": 4}), 2))
        [(['a'], [1]), (['c'], [3]), (['d'], [4])]
    """
    for place, layer in enumerate(layers):
        newer = layers[place + 1 :]
        keys, values = iter(layer), iter(layer.values())
        while part := list(islice(keys, size)):
            held = list(islice(values, size))
            if len(layers) > 1:
                kept = [n for n, key in enumerate(part) if not any(key in other for other in newer)]
                kept = [n for n in kept if held[n] is not MISSING]
                part, held = [part[n] for n in kept], [held[n] for n in kept]
            if part:
                yield part, held
