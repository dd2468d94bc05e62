"""How the value of a key is stored in a column family: as one entry, today after its type's number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple, Self

from headgate.state.backend import Entries
from headgate.state.rocksdb.database import ColumnStore
from headgate.state.rocksdb.key_bytes import group_of, groups_range, key_of
from headgate.state.rocksdb.value_versions import Versions, decoded

Stored = Iterator[tuple[bytes, bytes]]
"""What is put into a column family."""

CHUNK_ENTRIES: Final = 10_000
"""A key group with more entries of one state takes several chunks."""

PLAIN_VALUES: Final = 1
VERSIONED_VALUES: Final = 2


class Row(NamedTuple):
    """What one state holds under one key, of the declared type."""

    stored: bytes  # the key's bytes; see `key_bytes.storage_key`
    value: Any
    weight: int = 1  # number of parts, to bound what is held at a time


def entries_of(rows: Iterable[Row]) -> Iterator[Entries]:
    """Yield the entries of rows that are in order of the keys' bytes."""
    for group, of_group in groupby(rows, lambda row: group_of(row.stored)):
        found, weight = Entries(group, [], []), 0
        for row in of_group:
            found.keys.append(key_of(row.stored))
            found.values.append(row.value)
            weight += row.weight
            if weight >= CHUNK_ENTRIES:
                yield found
                found, weight = Entries(group, [], []), 0
        if found.keys:
            yield found


class VersionedValues:
    """How a state's values are written to and read from its column family.

    Format 2, the one of today for what is no map: the number of the type, then the batch of one.
    """

    format = VERSIONED_VALUES
    """The number of this format in checkpoints, for ever."""

    def __init__(self, versions: Versions) -> None:
        self.versions = versions

    def rows(self, store: ColumnStore, groups: tuple[int, int]) -> Iterator[Row]:
        """Yield the keys of some key groups with their values, in order of the keys' bytes."""
        for stored, data in store.items(*groups_range(*groups)):
            yield Row(stored, decoded(self.versions, where(stored), self.numbered(data)))

    def entries(self, stored: bytes, value: Any) -> Stored:
        """Yield the keys and values to put for a key that had nothing."""
        yield stored, self.versions.encode((value,))[0]

    def numbered(self, data: bytes) -> bytes:
        """Return an entry, beginning with the number of its type."""
        return data

    def migrated(self, stored: bytes, data: bytes) -> bytes:
        """Return an entry of an older type as one of the declared type."""
        return self.versions.encode((decoded(self.versions, where(stored), data),))[0]

    def at_snapshot(self) -> Self:
        """Return the layout as it is now, for a snapshot."""
        return type(self)(self.versions.at_snapshot())


class PlainValues(VersionedValues):
    """Format 1, which is only read: the batch of one alone. All values are of the type with number 0."""

    format = PLAIN_VALUES

    def numbered(self, data: bytes) -> bytes:
        """See :class:`VersionedValues`."""
        return b"\0" + data


def where(stored: bytes) -> str:
    """Return the place of an entry, for messages; the key itself may be what is damaged."""
    return f"key group {group_of(stored)}"
