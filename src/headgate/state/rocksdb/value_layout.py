"""The layouts of a key's value in a RocksDB column family: as one entry, today after its type's number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple, Self

from headgate.state.backend import Entries
from headgate.state.rocksdb.key_bytes import group_of, groups_range, key_of
from headgate.state.rocksdb.value_versions import Versions, decoded
from headgate.state.stored.entry_store import EntryStore

Stored = Iterator[tuple[bytes, bytes]]
"""RocksDB entries, to be put into a column family: key and value."""

CHUNK_ENTRIES: Final = 10_000
"""A key group with more entries of one state takes several chunks."""

PLAIN_VALUES: Final = 1
VERSIONED_VALUES: Final = 2


class Row(NamedTuple):
    """One key's value in one state: `stored` are the key's bytes (`key_bytes.storage_key`), `value` is
    decoded to the declared type, `weight` is the number of its parts, by which callers bound what they hold
    at a time.
    """

    stored: bytes
    value: Any
    weight: int = 1


def entries_of(rows: Iterable[Row]) -> Iterator[Entries]:
    """Yield `rows`, in order of keys' bytes, as batches of one key group each and about 10,000 of weight."""
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
    """Converts a state's values to RocksDB entries of its column family, and back. Base class of all layouts.
    Format 2, of all states but maps in format 3: the value's type's number, a byte, then the encoded value.
    """

    format = VERSIONED_VALUES
    """The number of this format in checkpoints, for ever."""

    def __init__(self, versions: Versions) -> None:
        self.versions = versions

    def rows(self, store: EntryStore, groups: tuple[int, int]) -> Iterator[Row]:
        """Yield keys and values of `groups` (first, last), in order of keys' bytes; StorageError: damaged."""
        for stored, data in store.items(*groups_range(*groups)):
            yield Row(stored, decoded(self.versions, where(stored), self.numbered(data)))

    def entries(self, stored: bytes, value: Any) -> Stored:
        """Yield RocksDB entries of `value` (its type is not checked) for key `stored`, which has none yet."""
        yield stored, self.versions.encode((value,))[0]

    def numbered(self, data: bytes) -> bytes:
        # beginning with the number of its type
        return data

    def migrated(self, stored: bytes, data: bytes) -> bytes:
        """Return the RocksDB value for the declared type in place of `data`, which is of an older one and
        lies under the key `stored`. StorageError: damaged; UsageError: it does not convert.
        """
        return self.versions.encode((decoded(self.versions, where(stored), data),))[0]

    def at_snapshot(self) -> Self:
        return type(self)(self.versions.at_snapshot())


class PlainValues(VersionedValues):
    """Format 1, which is only read: the encoded value alone. All are of the type with number 0."""

    format = PLAIN_VALUES

    def numbered(self, data: bytes) -> bytes:
        return b"\0" + data


def where(stored: bytes) -> str:
    # its key group, as the key itself may be damaged
    return f"key group {group_of(stored)}"
