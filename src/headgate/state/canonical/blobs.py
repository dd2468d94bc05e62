"""The tables of one earlier subtask as one stored blob, which every backend restores.

The blob lies on the local disk; in memory is one row group at a time. Files are verified before anything in
them is decoded, and only row groups with a wanted key group are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.common.errors import StorageError
from headgate.common.files.durable import crc32
from headgate.state.backend import BlobReader
from headgate.state.canonical.reader import OpenTable, SubtaskTables, check_tables
from headgate.state.heap.heap_blob import Chunk, Header, Section, preamble_and_header
from headgate.state.heap.snapshot import KEY_SERIALIZER
from headgate.state.rocksdb.local_files import Spool


def blob_of_tables(
    subtask: SubtaskTables, groups: tuple[int, int], max_parallelism: int, folder: Path
) -> BlobReader:
    """The wanted key groups of a subtask's tables.

    Args:
        subtask: the tables, and which key groups they are of.
        groups: first and last key group (inclusive) that are wanted; others are left out.
        max_parallelism: number of key groups of the operator, where there is no table to tell it.
        folder: on a local disk, for the blob.

    Raises:
        StorageError: a file is damaged, no table of a state, or of another subtask; or the local disk does
            not take the blob.
    """
    spool = Spool(folder)
    try:
        tables: list[OpenTable] = []
        sections, offset = list[Section](), 0
        for stored in subtask.tables:
            with _named(stored.where):
                table = OpenTable(stored)
                check_tables(subtask, [table])
                mine = {name: list[Chunk]() for name in table.sections}
                for name, group, count, data in table.chunks(groups):
                    mine[name].append(Chunk(group, offset, len(data), count, crc32(data)))
                    spool.append([data])
                    offset += len(data)
            tables.append(table)
            sections += [Section(name, table.info.schema, chunks) for name, chunks in mine.items()]
        number = tables[0].info.max_parallelism if tables else max_parallelism
        keys = tables[0].info.key_schema if tables else KEY_SERIALIZER.describe()
        spool.finish(preamble_and_header(Header(number, *subtask.groups, keys, sections, offset)))
    except BaseException:
        spool.close()
        raise
    return spool


@contextmanager
def _named(where: str) -> Iterator[None]:
    """An error says which file it is of."""
    try:
        yield
    except StorageError as error:
        raise StorageError(f"{where}: {error}") from error
