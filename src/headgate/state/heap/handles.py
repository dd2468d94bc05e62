"""The tables of the heap backend, and a live handle over them for each kind of state of a user function."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic

from headgate.api.declared.aggregate import ACC, IN, OUT
from headgate.api.declared.keyed_states import MK, MV, AggregateFunction, V
from headgate.common.layered import MISSING as MISSING
from headgate.common.layered import LayeredTable
from headgate.state.subscripts import Subscripts

_ATOMS: Final = frozenset({type(None), bool, int, float, str, bytes})


class HeapTable(LayeredTable):
    """The entries of one state in memory: a dict, and layers of later changes while a snapshot reads it.

    One is the table of each state of a HeapKeyedBackend. Only the operator's thread changes it.
    """

    __slots__ = ()

    def load(self, keys: Sequence[Hashable], values: Sequence[Any]) -> None:
        # only while no snapshot is pending
        self.entries.update(zip(keys, values, strict=True))

    def follow(self, handle: Any) -> None:
        """Keep `handle.table` at `entries`, now and whenever a snapshot or its end puts another object in
        their place.

        Only the handle given last is followed. Code generated for an operator reads `handle.table` once per
        run of records, in which `entries` is not replaced.
        """

        def use(entries: Any) -> None:
            handle.table = entries

        self.on_change = use
        use(self.entries)


class ImmutableValueState(Generic[V]):
    """The live handle, for one key at a time, of a value state whose values cannot be changed in place.

    `value` is a slot, no property: reading and writing it costs nothing. An operator's generated loop sets
    it before a record and puts it into the table after it, as :meth:`load` and :meth:`store` do. A key
    without an entry reads as `default`; storing this very object removes the entry.
    """

    __slots__ = ("default", "key", "table", "value")

    immutable: Final = True

    def __init__(self, table: HeapTable, default: V) -> None:
        self.table = table.entries
        self.default = self.value = default
        self.key: Hashable = None

    def load(self, key: Hashable) -> None:
        self.key = key
        self.value = self.table.get(key, self.default)

    bind = load

    def store(self) -> None:
        if self.value is self.default:
            self.table.pop(self.key, None)
        else:
            self.table[self.key] = self.value

    def clear(self) -> None:
        self.value = self.default


class _TableState:
    """Base class of the handles that read and change the current key's value in the table itself, at once."""

    __slots__ = ("key", "table")

    immutable: Final = False

    def __init__(self, table: HeapTable) -> None:
        self.table = table
        self.key: Hashable = None

    def bind(self, key: Hashable) -> None:
        self.key = key

    load = bind

    def store(self) -> None:
        """Do nothing: changes are made in the table at once."""

    def clear(self) -> None:
        self.table.remove(self.key)


class MutableValueState(_TableState, Generic[V]):
    """The live handle, for one key at a time, of a value state whose values may be changed in place.

    A default that can be changed in place is stored when it is first read, as the program may
    change the object that it got.
    """

    __slots__ = ("make_default",)

    def __init__(self, table: HeapTable, make_default: Callable[[], V]) -> None:
        super().__init__(table)
        self.make_default = make_default

    @property
    def value(self) -> V:
        value: V = self.table.own(self.key)
        if value is MISSING:
            value = self.make_default()
            if type(value) not in _ATOMS:
                self.table.put(self.key, value)
        return value

    @value.setter
    def value(self, value: V) -> None:
        self.table.put(self.key, value)


class ImmutableReducingState(ImmutableValueState[V]):
    """The live handle, for one key at a time, of a reducing state whose values cannot be changed in place.

    To the generated loop over an operator's records it is a value state whose default is MISSING, no entry.
    """

    __slots__ = ("reduce",)

    def __init__(self, table: HeapTable, reduce: Callable[[V, V], V]) -> None:
        super().__init__(table, MISSING)
        self.reduce = reduce

    def add(self, value: V) -> None:
        reduced = value if self.value is MISSING else self.reduce(self.value, value)
        if reduced is None:
            raise _nothing_to_keep(self.reduce)
        self.value = reduced

    def get(self) -> V | None:
        return None if self.value is MISSING else self.value


class ImmutableAggregatingState(ImmutableValueState[ACC], Generic[IN, ACC, OUT]):
    """The live handle, for one key at a time, of an aggregating state with immutable accumulators.

    To the generated loop over an operator's records it is a value state whose default is MISSING, no entry.
    """

    __slots__ = ("function",)

    def __init__(self, table: HeapTable, function: AggregateFunction[IN, ACC, OUT]) -> None:
        super().__init__(table, MISSING)
        self.function = function

    def add(self, value: IN) -> None:
        accumulator = self.function.create_accumulator() if self.value is MISSING else self.value
        accumulator = self.function.add(value, accumulator)
        if accumulator is None:
            raise _nothing_to_keep(self.function.add)
        self.value = accumulator

    def get(self) -> OUT | None:
        return None if self.value is MISSING else self.function.get_result(self.value)


class MutableReducingState(_TableState, Generic[V]):
    """The live handle, for one key at a time, of a reducing state whose values may be changed in place."""

    __slots__ = ("reduce",)

    def __init__(self, table: HeapTable, reduce: Callable[[V, V], V]) -> None:
        super().__init__(table)
        self.reduce = reduce

    def add(self, value: V) -> None:
        before = self.table.own(self.key)
        reduced = value if before is MISSING else self.reduce(before, value)
        if reduced is None:
            raise _nothing_to_keep(self.reduce)
        self.table.put(self.key, reduced)

    def get(self) -> V | None:
        # Owned even for reading: the program may change what it gets.
        value = self.table.own(self.key)
        return None if value is MISSING else value


class MutableAggregatingState(_TableState, Generic[IN, ACC, OUT]):
    """The live handle, for one key at a time, of an aggregating state with mutable accumulators."""

    __slots__ = ("function",)

    def __init__(self, table: HeapTable, function: AggregateFunction[IN, ACC, OUT]) -> None:
        super().__init__(table)
        self.function = function

    def add(self, value: IN) -> None:
        accumulator = self.table.own(self.key)
        if accumulator is MISSING:
            accumulator = self.function.create_accumulator()
        accumulator = self.function.add(value, accumulator)
        if accumulator is None:
            raise _nothing_to_keep(self.function.add)
        self.table.put(self.key, accumulator)

    def get(self) -> OUT | None:
        # Owned even for reading: the result may be a part of the accumulator.
        accumulator = self.table.own(self.key)
        return None if accumulator is MISSING else self.function.get_result(accumulator)


def _nothing_to_keep(function: Callable[..., V]) -> TypeError:
    # No error of ours by class, so that it is reported with the operator and the record, as the user's.
    name = getattr(function, "__qualname__", None) or repr(function)
    return TypeError(
        f"add() came to None by way of {name}, and None would read as an empty state; return the reduced "
        "value or the accumulator, also where it was changed in place"
    )


class HeapListState(_TableState, Generic[V]):
    """The live handle of a list state, for the list of one key at a time, over a heap or RocksDB table.

    An empty list has no entry in the table. Elements that are handed out may be changed in place, so each
    read counts as a change of the key's list.
    """

    __slots__ = ()

    def add(self, value: V) -> None:
        elements = self.table.own(self.key)
        if elements is MISSING:
            self.table.put(self.key, [value])
        else:
            elements.append(value)

    def extend(self, values: Iterable[V]) -> None:
        added = list(values)
        elements = self.table.own(self.key)
        if elements is not MISSING:
            elements += added
        elif added:
            self.table.put(self.key, added)

    def get(self) -> list[V]:
        return list(self._elements())

    def update(self, values: Iterable[V]) -> None:
        elements = list(values)
        if elements:
            self.table.put(self.key, elements)
        else:
            self.clear()

    def _elements(self) -> list[V]:
        # Owned even for reading: an element that is returned may be changed in place.
        elements: list[V] = self.table.own(self.key)
        return [] if elements is MISSING else elements


class HeapMapState(Subscripts[MK, MV], _TableState):
    """The live handle of a map state, for the map of one key at a time, over a table that keeps maps as
    dicts.

    An empty map has no entry in the table. Values that are handed out may be changed in place, so `get`,
    `items` and iteration count as changes of the key's map; `in` and `len` do not.
    """

    __slots__ = ()

    def get(self, key: MK, default: MV | None = None) -> MV | None:
        entries = self.table.own(self.key)  # as `_entries`, without its call
        return default if entries is MISSING else entries.get(key, default)

    def put(self, key: MK, value: MV) -> None:
        entries = self.table.own(self.key)
        if entries is MISSING:
            self.table.put(self.key, {key: value})
        else:
            entries[key] = value

    def remove(self, key: MK) -> None:
        entries = self.table.own(self.key)
        if entries is not MISSING:
            entries.pop(key, None)
            if not entries:
                self.clear()

    def __contains__(self, key: MK) -> bool:
        return key in self.table.entries.get(self.key, ())

    def __iter__(self) -> Iterator[MK]:
        return iter(list(self._entries()))

    def __len__(self) -> int:
        return len(self.table.entries.get(self.key, ()))

    def items(self) -> Iterable[tuple[MK, MV]]:
        return list(self._entries().items())

    def of_keys(self, keys: Sequence[Hashable]) -> list[Mapping[MK, MV]]:
        """Return the map of each of `keys`, to be read. Values may be changed in place, as those of `get`."""
        return [{} if entries is MISSING else entries for entries in map(self.table.own, keys)]

    def remove_of_keys(self, keys: Sequence[Hashable], gone: Sequence[Sequence[MK]]) -> None:
        """Remove from the map of each of `keys` the entries that `gone` names at its place; all are there."""
        table = self.table
        for key, names in zip(keys, gone, strict=True):
            if len(names) == len(table.entries.get(key, ())):
                table.remove(key)
            elif names:
                entries = table.own(key)
                for name in names:
                    del entries[name]

    def _entries(self) -> dict[MK, MV]:
        # Owned even for reading: a value that is returned may be changed in place.
        entries: dict[MK, MV] = self.table.own(self.key)
        return {} if entries is MISSING else entries
