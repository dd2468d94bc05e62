"""The live handle of a map state whose entries lie apart in RocksDB."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Final

from headgate.api.declared.keyed_states import MK, MV
from headgate.state.rocksdb.live_map import LiveMap
from headgate.state.rocksdb.map_table import RocksMapTable
from headgate.state.subscripts import Subscripts


class RocksMapState(Subscripts[MK, MV]):
    """Map state; an empty map has no entry. What it gives and does is what `HeapMapState` does."""

    __slots__ = ("_live", "key", "table")

    immutable: Final = False

    def __init__(self, table: RocksMapTable) -> None:
        self.table = table
        self.key: Hashable = None
        self._live: LiveMap | None = None

    def bind(self, key: Hashable) -> None:
        """Make `key` the current key."""
        self.key, self._live = key, None

    load = bind

    def store(self) -> None:
        """Nothing to do: changes were made in the table."""

    def clear(self) -> None:
        """Forget what is stored for the current key."""
        self.table.clear(self._map())

    def get(self, key: MK, default: MV | None = None) -> MV | None:
        """The entry's value, or `default`."""
        value: MV | None = self.table.get_entry(self._map(), key, default)
        return value

    def put(self, key: MK, value: MV) -> None:
        """Set an entry."""
        self.table.put_entry(self._map(), key, value)

    def remove(self, key: MK) -> None:
        """Remove an entry; an absent one is no error."""
        self.table.remove_entry(self._map(), key)

    def __contains__(self, key: MK) -> bool:
        return self.table.has_entry(self._map(), key)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.table.keys_of(self._map()))

    def __len__(self) -> int:
        live = self._map()
        return live.count if live.small is None else len(live.small)

    def items(self) -> Iterable[tuple[MK, MV]]:
        """The entries at this moment, in order of insertion."""
        return self.table.items(self._map())

    def _map(self) -> LiveMap:
        if self._live is None:
            self._live = self.table.live(self.key)
        return self._live
