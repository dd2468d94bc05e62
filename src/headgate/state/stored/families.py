"""RocksDB's own files: they are fetched to the local disk, opened for reading, and read by column family."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from headgate.common.errors import UsageError
from headgate.state.backend import NativeState
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.blob import StoredBlob
from headgate.state.stored.contract import (
    TIMER_CODEC,
    Found,
    OpenSection,
    SectionCodec,
    ValueCodec,
    described,
)
from headgate.state.targets import Target, timers_target

_Portions = Iterable[tuple[int, list[Any], list[Any]]]


class Families:
    """The column families of one subtask, and the blob beside them.

    Args:
        state: refers to the files.
        keyed: the handle.
        max_parallelism: number of key groups that it must have been stored with; None: any.
        folder: on the local disk, for this alone.
        stack: closes what is opened.
    """

    def __init__(
        self,
        state: NativeState,
        keyed: KeyedStateHandle,
        max_parallelism: int | None,
        folder: Path,
        stack: ExitStack,
    ) -> None:
        self._state, self._folder, self._stack = state, folder, stack
        self._groups, self._max_parallelism = (keyed.first_group, keyed.last_group), max_parallelism
        self._blob = StoredBlob(state)
        self._database: Any = None
        self._size, self._entry_bytes = keyed.size, 0.0

    def sections(self, values: ValueCodec, names: Collection[str] | None) -> list[OpenSection]:
        """See :class:`state.stored.contract.StoredForm`."""
        from headgate.state.rocksdb.native_restore import readable, readable_timers, sources_of
        from headgate.state.rocksdb.timer_sections import timer_chunks

        (source,) = sources_of([self._state], self._groups)
        wanted = [s for s in source.header.sections if names is None or s.name in names]
        formats = {
            name: number for name, number in source.details.formats.items() if names is None or name in names
        }
        _refuse_older(source.details.versions, formats, values)
        source = replace(
            source,
            header=msgspec.structs.replace(source.header, sections=wanted),
            details=msgspec.structs.replace(source.details, formats=formats),
        )
        database = self._opened(source)
        targets = values.targets(
            {section.name: section.schema for section in wanted if section.name in formats}
        )
        timers = readable_timers(source, database)
        declared = {**targets, **dict.fromkeys(timers, timers_target())}
        groups = self._max_parallelism or source.header.max_parallelism
        layouts = readable(source, database, declared, groups)
        found = []
        for name, layout in layouts.items():
            codec = values.codec(described(name, targets[name].schema))
            if codec is not None:
                rows = partial(layout.rows, database.stores[name])
                entries = partial(self._entries, rows, targets[name], codec)
                found.append(OpenSection(name, False, codec, entries))
        for name in timers:
            chunks = partial(timer_chunks, name, database.stores[name], self._groups)
            found.append(OpenSection(name, False, TIMER_CODEC, partial(self._timers, chunks)))
        return [*found, *self._blob.sections(values, names, without=formats)]

    def _opened(self, source: Any) -> Any:
        if self._database is None:
            self._database = self._stack.enter_context(opened_database(source, self._folder / "db"))
            entries = sum(store.about_entries for store in self._database.stores.values())
            self._entry_bytes = self._size / max(1, entries)
        return self._database

    def _entries(
        self,
        rows: Callable[[tuple[int, int]], Iterable[Any]],
        target: Target,
        codec: SectionCodec,
        groups: Collection[int],
    ) -> Iterator[Found]:
        from headgate.state.rocksdb.canonical import chunks_of

        if not groups:
            return
        serializer, same = target.serializer, target.serializer is codec.target.serializer
        for group, keys, values in chunks_of(rows((min(groups), max(groups)))):
            if group in groups:
                passed = values if same else codec.read(serializer.encode_many(values), len(values))
                yield Found(group, keys, passed, int(self._entry_bytes * len(keys)))

    def _timers(self, chunks: Callable[[], _Portions], groups: Collection[int]) -> Iterator[Found]:
        for group, keys, timestamps in chunks():
            if group in groups:
                yield Found(group, keys, timestamps, int(self._entry_bytes * len(keys)))


@contextmanager
def opened_database(source: Any, folder: Path) -> Iterator[Any]:
    """The files of a `state.rocksdb.native_restore.Source`, fetched, verified and opened for reading.

    Raises:
        StorageError: a file is missing or damaged, or the local disk does not take it.
    """
    from headgate.state.rocksdb.database import Access, Database
    from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory

    source.fetch(folder)
    database = Database(folder, (), RocksMemory(LIMIT_MIN), Access.READ_ONLY)
    try:
        yield database
    finally:
        database.close()


def _refuse_older(versions: Mapping[str, Any], names: Collection[str], values: ValueCodec) -> None:
    older = [name for name, each in versions.items() if each.older and name in names]
    if older and not values.converts:
        raise UsageError(
            f"state {older[0]!r} holds values of older types, which were not rewritten yet; {values.advice}"
        )
