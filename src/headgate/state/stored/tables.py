"""Reads the canonical tables of a savepoint: a Parquet file for each state of a subtask, one for timers."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from headgate.common.errors import StorageError
from headgate.serde.arrow.stored_values import close_batch
from headgate.state.backend import BlobReader, Entries, StoredFiles
from headgate.state.canonical import table_layout
from headgate.state.canonical.reader import OpenTable
from headgate.state.canonical.table_layout import TIMER_SECTIONS, TIMERS, TableInfo
from headgate.state.snapshots import KeyedStateHandle, StateTable
from headgate.state.stored.blob_format import KEY_SERIALIZER, BytesBlob, Header
from headgate.state.stored.contract import TIMER_CODEC, OpenSection, SectionCodec, ValueCodec, described

_MEMORY_MAX: Final = 128 << 20
"""A table up to so many bytes is read once, into memory; a larger one twice: to verify it, then in parts."""

_Entry = tuple[int, Hashable, Any]


class Tables:
    """The `StoredForm` of a subtask's canonical tables; `max_parallelism`: for its header if it has none."""

    def __init__(self, files: StoredFiles, keyed: KeyedStateHandle, max_parallelism: int | None) -> None:
        self._files, self._keyed, self._max_parallelism = files, keyed, max_parallelism

    @cached_property
    def header(self) -> Header:
        # The tables' metadata has no checksum, so all bytes are verified.
        tables = self._keyed.tables or ()
        for table in tables:
            self._files.verify(table.range())
        infos = [head_of_table(self._files, table).info for table in tables]
        keys = infos[0].key_schema if infos else KEY_SERIALIZER.describe()
        number = infos[0].max_parallelism if infos else self._max_parallelism or 0
        sections = [
            described(name, info.schema) for info in infos for name in table_layout.section_names(info)
        ]
        return Header(number, self._keyed.first_group, self._keyed.last_group, keys, sections, 0)

    def sections(self, values: ValueCodec, names: Collection[str] | None) -> list[OpenSection]:
        found = []
        for table in self._keyed.tables or ():
            mine = list(TIMER_SECTIONS) if table.name == TIMERS else [table.name]
            wanted = [name for name in mine if names is None or name in names]
            if not wanted:
                continue
            info = head_of_table(self._files, table).info
            for name in wanted:
                codec = TIMER_CODEC if name in TIMER_SECTIONS else values.codec(described(name, info.schema))
                if codec is not None:
                    found.append(OpenSection(name, False, codec, partial(self._entries, table, name, codec)))
        return found

    def _entries(
        self, table: StateTable, name: str, codec: SectionCodec, groups: Collection[int]
    ) -> Iterator[Entries]:
        if not groups:
            return
        opened = open_table(self._files, table)
        where = self._files.where(table.range())
        try:
            opened.check_groups(self._keyed.first_group, self._keyed.last_group)
            for rows in opened.entries((min(groups), max(groups))):
                entries = _of_section(name, zip(*rows, strict=True))
                for group, of_group in groupby(entries, itemgetter(0)):
                    if group in groups:
                        chosen = list(of_group)
                        keys = [key for _, key, _ in chosen]
                        values = [value for _, _, value in chosen]
                        yield Entries(group, keys, *_passed(opened.info, codec, values))
        except StorageError as error:
            raise StorageError(f"{where}: {error}") from None


def _of_section(name: str, entries: Iterator[_Entry]) -> Iterator[_Entry]:
    domain = TIMER_SECTIONS.get(name)
    if domain is None:
        return entries
    return ((group, key, timer[1]) for group, key, timer in entries if timer[0] == domain)


def _passed(info: TableInfo, codec: SectionCodec, values: list[Any]) -> tuple[list[Any], int]:
    if info.rows_are == table_layout.BYTES:
        size = sum(map(len, values))
        return (values if codec.plain else [codec.read(bytes(cell), 1)[0] for cell in values]), size
    if codec.plain:
        return values, len(values)
    encoded = close_batch(table_layout.stored_type(info.schema), values)
    return codec.read(encoded, len(values)), len(encoded)


def open_table(files: StoredFiles, table: StateTable) -> OpenTable:
    """Open a table to read its rows, after verifying all its bytes; StorageError: it is damaged."""
    file = table.range()
    small = file.length <= _MEMORY_MAX
    return _open(files, table, BytesBlob(files.read(file)) if small else files.verified(file))


def head_of_table(files: StoredFiles, table: StateTable) -> OpenTable:
    """Open a table, unverified, only for its description or a look at its keys; StorageError: it is none."""
    try:
        return _open(files, table, files.ranges(table.range()))
    except StorageError:
        files.verify(table.range())  # its error is clearer
        raise


def _open(files: StoredFiles, table: StateTable, data: BlobReader) -> OpenTable:
    where = files.where(table.range())
    try:
        return OpenTable(data)
    except StorageError as error:
        raise StorageError(f"{where}: {error}") from None
