"""A subtask's database out of the native files of earlier subtasks.

One of them, the one with most of the key groups that are wanted, lends its files: they are continued,
and what is not wanted is deleted as a range, without reading it. The wanted entries of the others are
copied into it. What is stored in an older shape is rewritten on the way. Files are copied and verified
as a whole before RocksDB sees them, and no more than a batch of entries is in Python at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final

from headgate.common.errors import StorageError, UsageError
from headgate.serde.compatibility import AsIs, compare
from headgate.state.backend import NativeState
from headgate.state.heap.blob import Header, read_header
from headgate.state.heap.restore import Target, readers_of
from headgate.state.rocksdb.database import BEYOND_ALL_KEYS, Access, ColumnStore, Database, remove_tree
from headgate.state.rocksdb.keys import groups_range
from headgate.state.rocksdb.local_files import local_error
from headgate.state.rocksdb.memory import RocksMemory
from headgate.state.rocksdb.native_files import Details, details_of

BATCH_ENTRIES: Final = 1_000
BATCH_BYTES: Final = 4 << 20
REPORT_EVERY_S: Final = 5.0

Convert = Callable[[bytes], bytes]

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """The native state of one earlier subtask."""

    state: NativeState
    header: Header
    details: Details

    def wanted(self, groups: tuple[int, int]) -> int:
        """How many of the key groups it has."""
        return min(groups[1], self.header.last_group) - max(groups[0], self.header.first_group) + 1

    def fetch(self, directory: Path) -> None:
        """Copy all files, verified.

        Raises:
            StorageError: one is missing or damaged, or the local disk does not take it.
        """
        try:
            directory.mkdir(parents=True)
        except OSError as error:
            raise local_error("make", directory, error) from error
        for name in self.state.native.files:
            self.state.fetch(name, directory / name)


def sources_of(states: Sequence[NativeState], groups: tuple[int, int]) -> list[Source]:
    """Those that have key groups which are wanted, most first.

    Raises:
        StorageError: a blob is damaged, or files are not RocksDB's or of another format.
    """
    found = []
    for state in states:
        source = Source(state, read_header(state)[0], details_of(state.native))
        if source.wanted(groups) > 0:
            found.append(source)
    return sorted(found, key=lambda source: -source.wanted(groups))


class NativeRestore:
    """Makes the database of one subtask.

    Args:
        sources: as :func:`sources_of` gives them, at least one.
        targets: the declared states.
        groups: first and last key group of the subtask.
        max_parallelism: number of key groups of the operator.
        directory: of the backend; the database comes to be in its folder `db`.
        memory: what all RocksDB states of the worker share.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        targets: Mapping[str, Target],
        groups: tuple[int, int],
        max_parallelism: int,
        directory: Path,
        memory: RocksMemory,
    ) -> None:
        self._sources, self._targets, self._groups = sources, targets, groups
        self._max_parallelism, self._directory, self._memory = max_parallelism, directory, memory

    def build(self) -> Database:
        """The database; the caller closes it.

        Raises:
            StorageError: a file is missing or damaged, or the local disk does not take it.
            UsageError: stored and declared state do not fit; the message names the state.
        """
        first, *others = self._sources
        for source in self._sources:
            readers_of(source.header, self._targets, self._max_parallelism, lambda _: False)
        first.fetch(self._directory / "db")
        database = Database(self._directory / "db", self._targets, self._memory, Access.CONTINUE)
        try:
            self._fit(first, database)
            for number, source in enumerate(others):
                with self._opened(source, self._directory / f"restored-{number}") as stored:
                    self._copy(source, stored, database)
        except BaseException:
            database.close()
            raise
        return database

    def _fit(self, source: Source, database: Database) -> None:
        """Bring a continued database to the declared states and the wanted key groups."""
        converts = self._converts(source, database)
        low, high = groups_range(*self._groups)
        for name in source.details.formats:
            if name not in self._targets:
                database.drop(name)
                continue
            store = database.stores[name]
            if source.header.first_group < self._groups[0]:
                store.delete_range(b"", low)
            if source.header.last_group > self._groups[1]:
                store.delete_range(high, BEYOND_ALL_KEYS)
            if (convert := converts.get(name)) is not None:
                self._transfer(name, store, store, convert)

    def _copy(self, source: Source, stored: Database, database: Database) -> None:
        for name, convert in self._converts(source, stored).items():
            self._transfer(name, stored.stores[name], database.stores[name], convert)

    def _converts(self, source: Source, stored: Database) -> dict[str, Convert | None]:
        """State -> how its values are rewritten, None: not at all; once everything was found to fit."""
        readers = readers_of(
            source.header,
            self._targets,
            self._max_parallelism,
            lambda section: section.name in stored.stores and not stored.stores[section.name].empty(),
        )
        schemas = {section.name: section.schema for section in source.header.sections}
        converts: dict[str, Convert | None] = {}
        for name in source.details.formats:
            if name in readers:
                target = self._targets[name]
                same = isinstance(compare(schemas[name], target.schema), AsIs)
                converts[name] = None if same else _converting(readers[name], target)
        return converts

    def _transfer(self, name: str, source: ColumnStore, target: ColumnStore, convert: Convert | None) -> None:
        progress = Progress(name, "copied" if convert is None else "rewritten", source.about_entries)
        batch: list[tuple[bytes, bytes | None]] = []
        size = 0
        for key, value in source.items(*groups_range(*self._groups)):
            if convert is not None:
                value = _converted(name, value, convert)
            batch.append((key, value))
            size += len(key) + len(value)
            if len(batch) == BATCH_ENTRIES or size > BATCH_BYTES:
                target.write(batch)
                progress.advance(len(batch))
                batch, size = [], 0
        if batch:
            target.write(batch)

    @contextmanager
    def _opened(self, source: Source, directory: Path) -> Iterator[Database]:
        try:
            source.fetch(directory)
            database = Database(directory, (), self._memory, Access.READ_ONLY)
            try:
                yield database
            finally:
                database.close()
        finally:
            remove_tree(directory)


class Progress:
    """Says every few seconds how far a long restore is."""

    def __init__(self, name: str, done: str, about: int, now: Callable[[], float] = monotonic) -> None:
        self._name, self._done, self._about, self._now = name, done, about, now
        self._count, self._next = 0, now() + REPORT_EVERY_S

    def advance(self, count: int) -> None:
        """So many entries more."""
        self._count += count
        if self._now() >= self._next:
            self._next = self._now() + REPORT_EVERY_S
            _LOG.info(
                "restoring state %r: %d of about %d stored entries %s",
                self._name, self._count, max(self._about, self._count), self._done,
            )  # fmt: skip


def _converting(read: Callable[[Any, int], list[Any]], target: Target) -> Convert:
    encode = target.serializer.encode_many
    return lambda value: encode(read(value, 1))


def _converted(name: str, value: bytes, convert: Convert) -> bytes:
    try:
        return convert(value)
    except StorageError as error:
        raise StorageError(f"state {name!r} in the checkpoint's files of RocksDB: {error}") from None
    except UsageError as error:
        raise UsageError(f"state {name!r} of the checkpoint cannot be read: {error}") from None
