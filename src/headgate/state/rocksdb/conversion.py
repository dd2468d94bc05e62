"""Native files of RocksDB as a canonical blob, which every backend restores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headgate.common.errors import InternalError
from headgate.state.backend import NativeState
from headgate.state.heap.restore import Target
from headgate.state.rocksdb.canonical import CanonicalBlob, chunks_of
from headgate.state.rocksdb.database import Access, Database, remove_tree
from headgate.state.rocksdb.local_files import Spool
from headgate.state.rocksdb.native_restore import Source, readable, readable_timers, sources_of
from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory
from headgate.state.rocksdb.timer_sections import timer_chunks
from headgate.state.targets import timers_target


def canonical_blob(
    state: NativeState, targets: Mapping[str, Target], max_parallelism: int, folder: Path
) -> Spool:
    """The state as a blob in the shape that the program declares.

    Args:
        state: with native files.
        targets: the declared states.
        max_parallelism: number of key groups of the operator.
        folder: on a local disk, for this call alone; removed.

    Raises:
        StorageError: a file is missing or damaged, or the local disk does not take it.
        UsageError: stored and declared state do not fit; the message names the state.
    """
    found = sources_of([state], (0, max_parallelism - 1))
    if not found:
        raise InternalError("there are no native files to convert; please report this")
    (source,) = found
    try:
        source.fetch(folder / "db")
        database = Database(folder / "db", (), RocksMemory(LIMIT_MIN), Access.READ_ONLY)
        try:
            return _converted(source, database, targets, max_parallelism, folder)
        finally:
            database.close()
    finally:
        remove_tree(folder)


def _converted(
    source: Source, database: Database, targets: Mapping[str, Target], max_parallelism: int, folder: Path
) -> Spool:
    header = source.header
    timers = dict.fromkeys(readable_timers(source, database), timers_target())
    layouts = readable(source, database, {**targets, **timers}, max_parallelism)
    groups = (header.first_group, header.last_group)
    blob = CanonicalBlob(folder, groups, max_parallelism)
    try:
        for name, layout in layouts.items():
            blob.add(name, targets[name], chunks_of(layout.rows(database.stores[name], groups)))
        for name, target in timers.items():
            blob.add(name, target, timer_chunks(name, database.stores[name], groups))
        blob.add_all_of(source.state, without=source.details.formats)
        return blob.finish()
    except BaseException:
        blob.close()
        raise
