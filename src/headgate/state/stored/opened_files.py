"""Fetches and opens one subtask's own files of a backend: RocksDB's, or a log of chunks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.state.stored.entry_store import OpenedFiles

if TYPE_CHECKING:
    from headgate.state.stored.native_restore import Source


@contextmanager
def opened_files(source: Source, folder: Path) -> Iterator[OpenedFiles]:
    """Fetch a source's own files, verified, into the new local `folder`, and open them for reading while the
    block lasts; the caller removes the folder. StorageError: damaged, or the disk fails.
    """
    from headgate.state.chunk_log.log_file import COLUMN_LOG
    from headgate.state.chunk_log.opened_log import OpenedLog
    from headgate.state.rocksdb.database import Access, Database
    from headgate.state.rocksdb.rocksdb_memory import LIMIT_MIN, RocksMemory

    source.fetch(folder)
    if source.state.native.backend == COLUMN_LOG:
        (name,) = source.details.formats
        yield OpenedLog(folder, name, source.header.max_parallelism)
        return
    database = Database(folder, (), RocksMemory(LIMIT_MIN), Access.READ_ONLY)
    try:
        yield database
    finally:
        database.close()
