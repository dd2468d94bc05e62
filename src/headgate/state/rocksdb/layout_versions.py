"""The layouts by the numbers that checkpoints know them by, and the way from one to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headgate.state.stored.value_readers import Target
from headgate.state.rocksdb.database import ColumnStore
from headgate.state.rocksdb.key_bytes import groups_range
from headgate.state.rocksdb.map_layout import MAP_ENTRIES, MapEntries, has_entries_apart
from headgate.state.rocksdb.value_layout import (
    PLAIN_VALUES,
    VERSIONED_VALUES,
    Layout,
    PlainValues,
    Stored,
    VersionedValues,
)
from headgate.state.rocksdb.value_versions import Versions

LAYOUTS: Final[dict[int, Callable[[Versions], VersionedValues]]] = {
    PLAIN_VALUES: PlainValues,
    VERSIONED_VALUES: VersionedValues,
    MAP_ENTRIES: MapEntries,
}
"""Format -> what reads it; all formats that this Headgate reads."""


def layout_of(name: str, target: Target, *, map_entries: bool = True) -> VersionedValues:
    """How values of a declared state are kept from now on, where there are none yet."""
    apart = map_entries and has_entries_apart(target)
    return (MapEntries if apart else VersionedValues)(Versions(name, target))


def transferred(theirs: Layout, store: ColumnStore, mine: Layout, groups: tuple[int, int]) -> Stored:
    """The entries of some key groups of one column family, for another one that has none of these keys."""
    if (theirs.format == MAP_ENTRIES) != (mine.format == MAP_ENTRIES):
        for row in theirs.rows(store, groups):
            yield from mine.entries(row.stored, row.value)
        return
    numbers = mine.versions.renumbered(theirs.versions)
    for stored, data in store.items(*groups_range(*groups)):
        numbered = theirs.numbered(data)
        number = numbers.get(numbered[:1])
        if number is None:
            raise theirs.versions.unknown(numbered[:1])
        yield stored, number + numbered[1:]
