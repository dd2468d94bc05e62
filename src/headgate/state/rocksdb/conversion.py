"""Native files of RocksDB as a canonical blob, which every backend restores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headgate.common.errors import InternalError
from headgate.state.backend import NativeState
from headgate.state.heap.restore import Target, readers_of
from headgate.state.rocksdb.canonical import CanonicalBlob, decoded
from headgate.state.rocksdb.database import Access, Database, remove_tree
from headgate.state.rocksdb.local_files import Spool
from headgate.state.rocksdb.memory import LIMIT_MIN, RocksMemory
from headgate.state.rocksdb.native_restore import Source, sources_of


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
    readers = readers_of(
        header,
        targets,
        max_parallelism,
        lambda section: section.name in database.stores and not database.stores[section.name].empty(),
    )
    groups = (header.first_group, header.last_group)
    blob = CanonicalBlob(folder, groups, max_parallelism)
    try:
        for name in source.details.formats:
            if name in readers:
                blob.add(name, targets[name], decoded(name, database.stores[name], readers[name], groups))
        blob.add_all_of(source.state, without=source.details.formats)
        return blob.finish()
    except BaseException:
        blob.close()
        raise
