"""Builds a subtask's RocksDB database, at a restore, out of the files that earlier subtasks stored.

All stored types of values, older ones too, are checked first, so a refusal leaves no database behind.

The files of the subtask with most of the wanted key groups are continued, if in this program's formats: its
other key groups are deleted as a range, unread. Other subtasks' wanted entries are copied in. Values of an
older type stay as they are, each with its type's number. All files are copied and verified before RocksDB
sees them, and no more than a batch of entries is in Python at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from headgate.common.errors import StorageError, UsageError
from headgate.common.files.durable import clock, rename
from headgate.common.files.stored_paths import inside
from headgate.state.backend import NativeState
from headgate.state.rocksdb.database import BEYOND_ALL_KEYS, Access, ColumnStore, Database, remove_tree
from headgate.state.rocksdb.key_bytes import groups_range
from headgate.state.rocksdb.map_layout import LAYOUTS, transferred
from headgate.state.rocksdb.migration import BATCH_BYTES, BATCH_ENTRIES, REPORT_EVERY_S
from headgate.state.rocksdb.native_files import Details, details_of
from headgate.state.rocksdb.rocksdb_memory import RocksMemory
from headgate.state.rocksdb.timer_queue import TIMERS, keep_only, timers_of
from headgate.state.rocksdb.value_layout import Stored, VersionedValues
from headgate.state.rocksdb.value_versions import StoredVersions, Versions
from headgate.state.stored.blob_format import Header, Section, read_header
from headgate.state.stored.entry_store import OpenedFiles
from headgate.state.stored.local_files import local_error
from headgate.state.stored.value_readers import Target, readers_of

_LOG: Final = logging.getLogger(__name__)


NamedStates = tuple[NativeState, Collection[str] | None]
"""RocksDB's files of one earlier subtask, and the names of the states wanted of them; None: all."""


@dataclass(frozen=True)
class Source:
    """RocksDB files that one earlier subtask stored: header of their blob, and their formats and types."""

    state: NativeState
    header: Header
    details: Details

    def wanted(self, groups: tuple[int, int]) -> int:
        return min(groups[1], self.header.last_group) - max(groups[0], self.header.first_group) + 1

    def fetch(self, directory: Path) -> None:
        # each file verified
        try:
            directory.mkdir(parents=True)
        except OSError as error:
            raise local_error("make", directory, error) from error
        for name in self.state.native.files:
            self.state.fetch(name, inside(directory, name, "a file of RocksDB's"))


def sources_of(states: Sequence[NamedStates], groups: tuple[int, int]) -> list[Source]:
    """Return the RocksDB files of those earlier subtasks that had any of `groups` (first and last key group).

    Most of these groups first. `states`: each one's files, and names of the wanted states (None: all), to
    which its header is reduced. StorageError: a blob's header or the description of the files is damaged.
    """
    found = []
    for state, names in states:
        header, details = read_header(state)[0], details_of(state.native)
        if names is not None:
            wanted = [section for section in header.sections if section.name in names]
            header = msgspec.structs.replace(header, sections=wanted)
        source = Source(state, header, details)
        if source.wanted(groups) > 0:
            found.append(source)
    return sorted(found, key=lambda source: -source.wanted(groups))


def readable(
    source: Source, stored: OpenedFiles, targets: Mapping[str, Target], max_parallelism: int
) -> dict[str, VersionedValues]:
    """Return state -> layout to read its non-empty column family in `stored`, the opened files of `source`.
    UsageError: a type does not fit `targets`, or a state with entries is not declared.
    """
    return _layouts_of(
        source,
        targets,
        max_parallelism,
        lambda section: section.name in stored.stores and not stored.stores[section.name].empty(),
    )


def fits_as_described(source: Source, targets: Mapping[str, Target], max_parallelism: int) -> bool:
    # If not, the restore depends on which states have entries.
    formats = source.details.formats
    try:
        _layouts_of(source, targets, max_parallelism, lambda section: section.name in formats)
    except (UsageError, StorageError):
        return False
    return True


def _layouts_of(
    source: Source,
    targets: Mapping[str, Target],
    max_parallelism: int,
    has_entries: Callable[[Section], bool],
) -> dict[str, VersionedValues]:
    found = readers_of(source.header, targets, max_parallelism, has_entries)
    schemas = {section.name: section.schema for section in source.header.sections}
    layouts: dict[str, VersionedValues] = {}
    for name, number in source.details.formats.items():
        if name in found and number != TIMERS:
            numbers = source.details.versions.get(name, StoredVersions())
            versions = Versions.restored(name, targets[name], schemas[name], numbers)
            layouts[name] = LAYOUTS[number](versions)
    return layouts


def readable_timers(source: Source, stored: OpenedFiles) -> list[str]:
    # kinds of timers, such as "timers:event"
    formats = source.details.formats.items()
    return [name for name, number in formats if number == TIMERS and name in stored.stores]


class Restored(NamedTuple):
    """A restore's result: an open `database`, which the caller closes; by name the `layouts` by which to read
    its column families that have entries; the source whose files it `continued` with, None if all was copied.
    """

    database: Database
    layouts: dict[str, VersionedValues]
    continued: Source | None


@dataclass
class NativeRestore:
    """Makes one subtask's RocksDB database of `sources`, at least one, in the order of :func:`sources_of`. A
    backend makes it, in its `restore`, and calls :meth:`build` once.
    """

    sources: Sequence[Source]
    targets: Mapping[str, Target]
    empty: Mapping[str, VersionedValues]  # how the states are kept where nothing is there yet
    groups: tuple[int, int]
    max_parallelism: int
    directory: Path  # of the backend; the database comes to be in its folder `db`
    memory: RocksMemory
    layouts: dict[str, VersionedValues] = field(
        default_factory=dict
    )  # of the column families that have entries

    def build(self) -> Restored:
        """Build the database in the folder `db` of `directory` and return it, open; delete what was fetched.
        UsageError, before that: a stored type does not fit; StorageError: files are damaged, or the disk
        fails.
        """
        try:
            self._judge()
            return self._built()
        finally:
            for number in range(len(self.sources)):
                remove_tree(self._folder(number))

    def _judge(self) -> None:
        # Types of states without entries do not count: files are fetched to see which have some.
        for source in self.sources:
            readers_of(source.header, self.targets, self.max_parallelism, lambda _: False)
        for number, source in enumerate(self.sources):
            if not fits_as_described(source, self.targets, self.max_parallelism):
                with self._opened(number) as stored:
                    readable(source, stored, self.targets, self.max_parallelism)

    def _built(self) -> Restored:
        first = self.sources[0]
        continued = first if self._goes_on(first) else None
        if continued is not None:
            self._continue_files()
        access = Access.NEW if continued is None else Access.CONTINUE
        database = Database(self.directory / "db", self.targets, self.memory, access)
        try:
            if continued is not None:
                self._fit(continued, database)
            for number, source in enumerate(self.sources):
                if source is not continued:
                    with self._opened(number) as stored:
                        self._copy(source, stored, database)
                    remove_tree(self._folder(number))
        except BaseException:
            database.close()
            raise
        return Restored(database, self.layouts, continued)

    def _continue_files(self) -> None:
        fetched, place = self._folder(0), self.directory / "db"
        if not fetched.exists():
            self.sources[0].fetch(place)
            return
        try:
            rename(fetched, place)
        except OSError as error:
            raise local_error("move", fetched, error) from error

    def _folder(self, number: int) -> Path:
        return self.directory / f"restored-{number}"

    def _goes_on(self, source: Source) -> bool:
        formats = source.details.formats.items()
        return all(name not in self.empty or number == self.empty[name].format for name, number in formats)

    def _fit(self, source: Source, database: Database) -> None:
        self.layouts = readable(source, database, self.targets, self.max_parallelism)
        low, high = groups_range(*self.groups)
        for name, number in source.details.formats.items():
            if name not in self.targets:
                database.drop(name)
                continue
            store, before = database.stores[name], source.header.first_group < self.groups[0]
            after = source.header.last_group > self.groups[1]
            if number == TIMERS:
                if before or after:
                    keep_only(store, self.groups)
                continue
            if before:
                store.delete_range(b"", low)
            if after:
                store.delete_range(high, BEYOND_ALL_KEYS)

    def _copy(self, source: Source, stored: Database, database: Database) -> None:
        for name, theirs in readable(source, stored, self.targets, self.max_parallelism).items():
            mine = self.layouts.setdefault(name, self.empty[name])
            entries = transferred(theirs, stored.stores[name], mine, self.groups)
            self._write(name, entries, stored.stores[name].about_entries, database.stores[name])
        for name in readable_timers(source, stored):
            timers = stored.stores[name]
            self._write(name, timers_of(timers, self.groups), timers.about_entries, database.stores[name])

    def _write(self, name: str, entries: Stored, about: int, target: ColumnStore) -> None:
        progress = Progress(name, about)
        batch: list[tuple[bytes, bytes | None]] = []
        size = 0
        for key, value in entries:
            batch.append((key, value))
            size += len(key) + len(value)
            if len(batch) == BATCH_ENTRIES or size > BATCH_BYTES:
                target.write(batch)
                progress.advance(len(batch))
                batch, size = [], 0
        if batch:
            target.write(batch)

    @contextmanager
    def _opened(self, number: int) -> Iterator[Database]:
        folder = self._folder(number)
        if not folder.exists():
            self.sources[number].fetch(folder)
        database = Database(folder, (), self.memory, Access.READ_ONLY)
        try:
            yield database
        finally:
            database.close()


class Progress:
    """Logs every 5 s how many of about `about` entries of one state a long restore has copied."""

    def __init__(self, name: str, about: int, now: Callable[[], float] = clock.monotonic) -> None:
        self._name, self._about, self._now = name, about, now
        self._count, self._next = 0, now() + REPORT_EVERY_S

    def advance(self, count: int) -> None:
        self._count += count
        if self._now() >= self._next:
            self._next = self._now() + REPORT_EVERY_S
            _LOG.info(
                "restoring %r: %d of about %d stored entries copied",
                self._name, self._count, max(self._about, self._count),
            )  # fmt: skip
