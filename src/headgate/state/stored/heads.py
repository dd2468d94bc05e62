"""What is stored of an operator's keyed state, told by the heads of its files: hardly anything is read.

The heads of blobs and segments have checksums of their own, so they may be trusted although the rest of a
file was not looked at. The footer of a Parquet table has none: a damaged one may be reported wrongly here,
whereas a restore verifies the whole table before it believes a byte of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow.compute as pc
import pyarrow.parquet as pq

from headgate.common.errors import StorageError
from headgate.common.keys.key_types import KEYS_READ, Shape, shapes_of
from headgate.common.plain_data import Description
from headgate.serde.arrow.arrow_columns import RAW
from headgate.state.backend import BlobReader, StoredFiles
from headgate.state.canonical.key_columns import KEY, KeyColumns
from headgate.state.canonical.reader import BlobFile
from headgate.state.canonical.table_layout import TIMER, TIMER_SECTIONS, TIMERS, TableInfo, table_info
from headgate.state.canonical.value_columns import TIME_DOMAIN
from headgate.state.changelog.sections import changed_name
from headgate.state.stored.blob_format import Section, read_chunks, read_header, split_chunk
from headgate.state.stored.blob_format import KEY_SERIALIZER
from headgate.state.snapshots import FileRange, KeyedStateHandle, NativeFiles
from headgate.state.stored.families import opened_database, own_prefix

if TYPE_CHECKING:
    from headgate.state.rocksdb.database import ColumnStore, Database

NATIVE_BYTES_READ: Final = 256 << 20
"""Up to so many bytes of a subtask's native files are fetched to look at the keys in them."""

_PORTION: Final = 4_096
"""Keys that are read at once."""


Keys = Iterator[Sequence[Hashable]]
"""Keys, some at a time."""


class StoredSection(NamedTuple):
    """One state of one subtask, or one kind of its timers.

    Attributes:
        name: of the state; "timers:event" or "timers:processing".
        schema: kind and description of the serializers.
        entries: how many are stored: keys, rows of a table, timers; None: not known without reading all.
    """

    name: str
    schema: Description
    entries: int | None


def sections_of(files: StoredFiles, keyed: KeyedStateHandle) -> list[StoredSection]:
    """Everything that one subtask stored; a state may be named several times."""
    if keyed.tables is not None:
        infos = [_info(files, table.range()) for table in keyed.tables]
        return [section for info in infos for section in _of_table(info)]
    base, _ = read_header(files.ranges(keyed.handle))
    native = set() if keyed.native is None else set(keyed.native.details.get("formats", ()))
    found = [
        StoredSection(section.name, section.schema, None if section.name in native else _entries(section))
        for section in base.sections
    ]
    for segment in keyed.log:
        header, _ = read_header(files.ranges(segment))
        kept = [section for section in header.sections if changed_name(section.name) is None]
        # How many keys were there before, nobody has counted.
        found += [StoredSection(s.name, s.schema, None if s.chunks else 0) for s in kept]
    return found


def filled_natively(files: StoredFiles, keyed: KeyedStateHandle) -> frozenset[str]:
    """The states and timers that have entries in the backend's own files; these are fetched for it."""
    if keyed.native is None:
        return frozenset()
    with _database(files, keyed, keyed.native) as database:
        return frozenset(name for name, store in database.stores.items() if not store.empty())


@contextmanager
def _database(files: StoredFiles, keyed: KeyedStateHandle, native: NativeFiles) -> Iterator[Database]:
    """The backend's own files, fetched and opened for reading."""
    from headgate.state.rocksdb.native_files import details_of
    from headgate.state.stored.native_restore import sources_of

    details_of(native)  # refuses what is no file of a database
    (source,) = sources_of([(files.native(keyed), None)], (keyed.first_group, keyed.last_group))
    with (
        tempfile.TemporaryDirectory(prefix=own_prefix()) as folder,
        opened_database(source, Path(folder) / "db") as database,
    ):
        yield database


def too_large(keyed: KeyedStateHandle) -> bool:
    """Whether the backend's own files are too large to be fetched only to look at their keys."""
    return keyed.native is not None and keyed.size > NATIVE_BYTES_READ


def key_shapes(files: StoredFiles, stored: Sequence[KeyedStateHandle]) -> frozenset[Shape]:
    """The shapes of all keys under which states are stored; the keys of timers do not count.

    Keys in native files are left out where these are :func:`too_large`.
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
    """Each state's keys, and those of the timers, in portions; a name may come more than once.

    Keys may come more than once, too, and keys that a log says are gone are among them. What is in native
    files is left out where these are :func:`too_large`.
    """
    if keyed.tables is not None:
        for table in keyed.tables:
            domains = TIMER_SECTIONS if table.name == TIMERS else {table.name: None}
            for name, domain in domains.items():
                yield name, _keys_of_table(files, table.range(), domain)
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
                yield name, _native_keys(store, name in TIMER_SECTIONS)


def _keys_of_table(files: StoredFiles, file: FileRange, domain: str | None) -> Keys:
    """The keys of a state's rows; of timers those of one time domain."""
    info = _info(files, file)
    parquet = pq.ParquetFile(BlobFile(files.ranges(file)))
    wanted = (KEY, KEY + RAW) if domain is None else (KEY, KEY + RAW, TIME_DOMAIN)
    columns = [name for name in parquet.schema_arrow.names if name in wanted]
    for batch in parquet.iter_batches(batch_size=_PORTION, columns=columns):
        if domain is not None:
            batch = batch.filter(pc.equal(batch.column(TIME_DOMAIN), domain))
        yield KeyColumns(info.key).keys(dict(zip(batch.schema.names, batch.columns, strict=True)))


def _keys_of_section(blob: BlobReader, body: int, section: Section) -> Keys:
    for chunk in section.chunks:
        (part,) = read_chunks(blob, body, section, [chunk])
        yield KEY_SERIALIZER.decode_many(split_chunk(part)[0], chunk.count)


def _native_keys(store: ColumnStore, timers: bool) -> Keys:
    from headgate.state.rocksdb.key_bytes import key_of, prefix_length
    from headgate.state.rocksdb.timer_queue import timer_of

    entries = iter(store.items())
    while portion := list(islice(entries, _PORTION)):
        if timers:
            yield [timer_of(raw, data)[1] for raw, data in portion]
        else:
            yield [key_of(raw[: prefix_length(raw)]) for raw, _ in portion]


def _entries(section: Section) -> int:
    return sum(chunk.count for chunk in section.chunks)


def _info(files: StoredFiles, file: FileRange) -> TableInfo:
    try:
        parquet = pq.ParquetFile(BlobFile(files.ranges(file)))
    except (OSError, ValueError) as error:  # what pyarrow raises are these, too
        raise StorageError(f"{files.where(file)} is no table of a state ({error})") from None
    return table_info(parquet.metadata.metadata)


def _of_table(info: TableInfo) -> Iterator[StoredSection]:
    if info.rows_are != TIMER:
        yield StoredSection(info.name, info.schema, info.rows)
        return
    for name in TIMER_SECTIONS:
        yield StoredSection(name, info.schema, None)
