"""Describes an operator's stored keyed state (names, types, keys) by the heads of its files.

The heads of blobs and segments have checksums of their own, so they may be trusted although the rest of a
file was not looked at. The footer of a Parquet table has none: a damaged one may be reported wrongly here,
whereas a restore verifies the complete table before it uses a byte of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow.compute as pc

from headgate.common.errors import UsageError
from headgate.common.keys.key_types import KEYS_READ, Shape, shapes_of
from headgate.common.plain_data import Description
from headgate.serde.verdicts import Compatibility, Incompatible
from headgate.state.backend import BlobReader, StoredFiles
from headgate.state.canonical.key_columns import KeyColumns
from headgate.state.canonical.reader import OpenTable
from headgate.state.canonical.table_layout import TIMER, TIMER_SECTIONS, TIMERS, section_names
from headgate.state.canonical.value_columns import TIME_DOMAIN
from headgate.state.snapshots import KeyedStateHandle, NativeFiles
from headgate.state.state_names import changed_name
from headgate.state.stored.blob import keys_and_values
from headgate.state.stored.blob_format import Section, read_chunks, read_header
from headgate.state.stored.entry_store import EntryStore, OpenedFiles
from headgate.state.stored.families import own_prefix
from headgate.state.stored.opened_files import opened_files
from headgate.state.stored.tables import head_of_table
from headgate.state.stored.value_readers import value_reader, value_verdict
from headgate.state.targets import Target

NATIVE_BYTES_READ: Final = 256 << 20
"""Native files of a subtask with more bytes of keyed state are not fetched to look at the keys in them."""

_PORTION: Final = 4_096
"""Keys that are read at once."""


Keys = Iterator[Sequence[Hashable]]
"""Batches of keys."""


class StoredSection(NamedTuple):
    """The description of one state of one subtask, or one kind of its timers, as it is stored."""

    name: str  # of timers "timers:event" or "timers:processing"
    schema: Description  # kind and description of the serializers
    entries: int | None  # number of keys, rows of a table, timers; None: not known without reading all


def sections_of(files: StoredFiles, keyed: KeyedStateHandle) -> list[StoredSection]:
    """Return a description of each state and kind of timers that one subtask stored, without reading entries.
    A state has one per blob and changelog segment that holds it. StorageError: a file's head is damaged.
    """
    if keyed.tables is not None:
        infos = [head_of_table(files, table).info for table in keyed.tables]
        return [
            StoredSection(name, info.schema, None if info.rows_are == TIMER else info.rows)
            for info in infos
            for name in section_names(info)
        ]
    base, _ = read_header(files.ranges(keyed.handle))
    native = set() if keyed.native is None else set(keyed.native.details.get("formats", ()))
    found = [
        StoredSection(s.name, s.schema, None if s.name in native else sum(chunk.count for chunk in s.chunks))
        for s in base.sections
    ]
    for segment in keyed.log:
        header, _ = read_header(files.ranges(segment))
        kept = [section for section in header.sections if changed_name(section.name) is None]
        # How many of the keys were there before is not known.
        found += [StoredSection(s.name, s.schema, None if s.chunks else 0) for s in kept]
    return found


def filled_natively(files: StoredFiles, keyed: KeyedStateHandle) -> frozenset[str]:
    """Return names of states and timers with entries in RocksDB's files, all fetched to find out."""
    if keyed.native is None:
        return frozenset()
    with _database(files, keyed, keyed.native) as database:
        return frozenset(name for name, store in database.stores.items() if not store.empty())


@contextmanager
def _database(files: StoredFiles, keyed: KeyedStateHandle, native: NativeFiles) -> Iterator[OpenedFiles]:
    from headgate.state.rocksdb.native_files import details_of
    from headgate.state.stored.native_restore import sources_of

    details_of(native)  # refuses what is no file of a database
    (source,) = sources_of([(files.native(keyed), None)], (keyed.first_group, keyed.last_group))
    with (
        tempfile.TemporaryDirectory(prefix=own_prefix()) as folder,
        opened_files(source, Path(folder) / "db") as database,
    ):
        yield database


def too_large(keyed: KeyedStateHandle) -> bool:
    """Return whether a subtask's state in RocksDB files is too large to fetch them only for their keys."""
    return keyed.native is not None and keyed.size > NATIVE_BYTES_READ


def key_shapes(files: StoredFiles, stored: Sequence[KeyedStateHandle]) -> frozenset[Shape]:
    """Return the types of the keys under which states are stored; the keys of timers do not count.

    Up to `KEYS_READ` keys of a section are read, and none in native files that are :func:`too_large`.
    """
    found: set[Shape] = set()
    for keyed in stored:
        for name, portions in stored_keys(files, keyed):
            left = 0 if name in TIMER_SECTIONS else KEYS_READ
            while left > 0 and (keys := next(portions, None)) is not None:
                found |= shapes_of(keys)
                left -= len(keys)
    return frozenset(found)


def stored_keys(
    files: StoredFiles, keyed: KeyedStateHandle
) -> Iterator[tuple[str, Iterator[Sequence[Hashable]]]]:
    """Yield (name, batches of its keys) of each state and kind of timers; a name may come repeatedly.

    Keys may come more than once, too, and keys that were removed later are among them. Those in native
    files are left out where these are :func:`too_large`.
    """
    if keyed.tables is not None:
        for table in keyed.tables:
            domains = TIMER_SECTIONS if table.name == TIMERS else {table.name: None}
            for name, domain in domains.items():
                yield name, _keys_of_table(head_of_table(files, table), domain)
        return
    for handle in (keyed.handle, *keyed.log):
        blob = files.ranges(handle)
        header, body = read_header(blob)
        for section in header.sections:
            if changed_name(section.name) is None:
                yield section.name, _keys_of_section(blob, body, section)
    if keyed.native is not None and not too_large(keyed):
        with _database(files, keyed, keyed.native) as database:
            for name, store in database.stores.items():
                yield name, _native_keys(store, name, keyed.native)


def _keys_of_table(table: OpenTable, domain: str | None) -> Keys:
    # of timers those of one time domain
    info, wanted = table.info, KeyColumns(table.info.key)
    columns = [field.name for field in wanted.fields] + ([] if domain is None else [TIME_DOMAIN])
    groups = range(info.first_group, info.last_group + 1)
    for batch in table.record_batches(groups, columns, range(table.row_groups)):
        if domain is not None:
            batch = batch.filter(pc.equal(batch.column(TIME_DOMAIN), domain))
        yield wanted.keys(dict(zip(batch.schema.names, batch.columns, strict=True)))


def _keys_of_section(blob: BlobReader, body: int, section: Section) -> Keys:
    for chunk in section.chunks:
        (part,) = read_chunks(blob, body, section, [chunk])
        yield keys_and_values(section, chunk, part)[0]


def _native_keys(store: EntryStore, name: str, native: NativeFiles) -> Keys:
    from headgate.state.rocksdb.chunk_layout import COLUMN_CHUNKS, chunk_keys
    from headgate.state.rocksdb.key_bytes import key_of, prefix_length
    from headgate.state.rocksdb.timer_queue import timer_of

    if native.details.get("formats", {}).get(name) == COLUMN_CHUNKS:
        yield from chunk_keys(store)
        return
    timers = name in TIMER_SECTIONS
    entries = iter(store.items())
    while portion := list(islice(entries, _PORTION)):
        if timers:
            yield [timer_of(raw, data)[1] for raw, data in portion]
        else:
            yield [key_of(raw[: prefix_length(raw)]) for raw, _ in portion]


# -- what becomes of it under the type that a program declares: the judge of a restore


def judge_state(
    name: str, schema: Description, target: Target, stored: Iterable[KeyedStateHandle]
) -> list[Compatibility]:
    """Return verdicts on whether a program with `target` can read a state that some subtasks stored. The
    first is on its stored type `schema`; one more is on each older type in RocksDB's files. That a type
    misfits is a verdict, too, no error. A serializer that a restore would reconfigure is reconfigured by
    this.
    """
    found = list(_judged(name, schema, target))
    for keyed in stored:
        if keyed.native is not None:
            found += _natively(name, schema, target, keyed.native)
    return found


def _judged(name: str, schema: Description, target: Target) -> Iterator[Compatibility]:
    try:
        value_reader(Section(name, schema, []), target)
        yield value_verdict(schema, target)
    except UsageError as error:
        yield Incompatible(str(error))


def _natively(name: str, schema: Description, target: Target, native: NativeFiles) -> Iterator[Compatibility]:
    from headgate.state.rocksdb.native_files import details_of
    from headgate.state.rocksdb.value_versions import Versions

    numbers = details_of(native).versions.get(name)
    if numbers is None or not numbers.older:
        return
    try:
        Versions.restored(name, target, schema, numbers)
        yield from [value_verdict(older.schema, target) for older in numbers.older]
    except UsageError as error:
        yield Incompatible(str(error))
