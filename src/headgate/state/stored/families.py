"""Reads a subtask's state out of RocksDB's own files, fetched to the local disk, by column family."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.common.errors import UsageError
from headgate.state.backend import Entries, NativeState
from headgate.state.stored.blob import StoredBlob
from headgate.state.stored.contract import TIMER_CODEC, OpenSection, SectionCodec, ValueCodec, described
from headgate.state.stored.entry_store import EntryStore, OpenedFiles, check_readable
from headgate.state.stored.opened_files import opened_files
from headgate.state.targets import Target, timers_target

if TYPE_CHECKING:
    from headgate.state.rocksdb.value_layout import Row, VersionedValues
    from headgate.state.rocksdb.value_versions import StoredVersions
    from headgate.state.stored.native_restore import Source


class Families:
    """The `StoredForm` of RocksDB's own files: one subtask's column families, and the blob beside them.
    `max_parallelism`: number of key groups that it must have been stored with; None: any. `stack` deletes the
    local copies, which are fetched for the first sections. `size`: bytes of all of it, from which those of an
    entry are estimated. UsageError: package rocksdict is not installed.
    """

    def __init__(
        self, state: NativeState, max_parallelism: int | None, stack: ExitStack, size: int = 0
    ) -> None:
        check_readable()
        self._state, self._max_parallelism, self._stack, self._size = state, max_parallelism, stack, size
        self._blob = StoredBlob(state)
        self.header = self._blob.header
        self._groups = self.header.first_group, self.header.last_group
        self._database: OpenedFiles | None = None
        self._entry_bytes = 0.0

    def sections(self, values: ValueCodec, names: Collection[str] | None) -> list[OpenSection]:
        from headgate.state.rocksdb.timer_queue import timer_chunks
        from headgate.state.stored.native_restore import readable, readable_timers, sources_of

        (source,) = sources_of([(self._state, names)], self._groups)
        formats = {name for name in source.details.formats if names is None or name in names}
        _refuse_older(source.details.versions, formats, values)
        database = self._opened(source)
        targets = values.targets({s.name: s.schema for s in source.header.sections if s.name in formats})
        timers = [name for name in readable_timers(source, database) if name in formats]
        declared = {**targets, **dict.fromkeys(timers, timers_target())}
        layouts = readable(source, database, declared, self._max_parallelism or self.header.max_parallelism)
        found = []
        for name, layout in layouts.items():
            codec = values.codec(described(name, targets[name].schema))
            if codec is not None:
                rows = _rows_of(layout, database.stores[name], values.advice)
                entries = partial(self._entries, rows, targets[name], codec)
                found.append(OpenSection(name, False, codec, entries))
        for name in timers:
            chunks = partial(timer_chunks, name, database.stores[name], self._groups)
            found.append(OpenSection(name, False, TIMER_CODEC, partial(self._timers, chunks)))
        return [*found, *self._blob.sections(values, names, without=formats)]

    def _opened(self, source: Source) -> OpenedFiles:
        if self._database is None:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix=own_prefix()))
            self._database = self._stack.enter_context(opened_files(source, Path(folder) / "db"))
            entries = sum(store.about_entries for store in self._database.stores.values())
            self._entry_bytes = self._size / max(1, entries)
        return self._database

    def _entries(
        self,
        rows: Callable[[tuple[int, int]], Iterable[Row]],
        target: Target,
        codec: SectionCodec,
        groups: Collection[int],
    ) -> Iterator[Entries]:
        from headgate.state.rocksdb.value_layout import entries_of

        if not groups:
            return
        serializer, same = target.serializer, target.serializer is codec.target.serializer
        for found in entries_of(rows((min(groups), max(groups)))):
            if found.group in groups:
                values, count = found.values, len(found.values)
                passed = values if same else codec.read(serializer.encode_many(values), count)
                yield Entries(found.group, found.keys, passed, int(self._entry_bytes * count))

    def _timers(self, chunks: Callable[[], Iterable[Entries]], groups: Collection[int]) -> Iterator[Entries]:
        for found in chunks():
            if found.group in groups:
                yield found._replace(size=int(self._entry_bytes * len(found.keys)))


def _rows_of(
    layout: VersionedValues, store: EntryStore, advice: str
) -> Callable[[tuple[int, int]], Iterable[Row]]:
    from headgate.state.rocksdb.chunk_layout import ColumnChunks

    if advice and isinstance(layout, ColumnChunks):  # a restore merges what is stored in parts, others do not
        return partial(layout.whole_rows, store, advice)
    return partial(layout.rows, store)


def own_prefix() -> str:
    """Return the name prefix of this process's local folders; by it they are found after a kill."""
    return f"headgate-state-{platform.node()}-{os.getpid()}-"


def _refuse_older(versions: Mapping[str, StoredVersions], names: Collection[str], values: ValueCodec) -> None:
    older = [name for name, each in versions.items() if each.older and name in names]
    if older and not values.converts:
        raise UsageError(
            f"state {older[0]!r} holds values of older types, which were not rewritten yet; {values.advice}"
        )
