"""Reads chunks of columns out of a checkpoint's RocksDB files, for an operator that holds them in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from headgate.common.errors import StorageError
from headgate.state.rocksdb.chunk_bytes import ChunkKey
from headgate.state.rocksdb.chunk_layout import COLUMN_CHUNKS, chunks_in
from headgate.state.stored.families import own_prefix
from headgate.state.stored.native_restore import NamedStates, readable, sources_of
from headgate.state.stored.opened_files import opened_files
from headgate.state.targets import Target


def native_chunks(
    states: Sequence[NamedStates], name: str, target: Target, groups: tuple[int, int], max_parallelism: int
) -> Iterator[tuple[ChunkKey, pa.RecordBatch]]:
    """Yield the chunks of state `name` in `groups` (first and last key group), subtask by earlier subtask.

    Raises:
        UsageError: the stored type does not fit `target`, before the first chunk of a subtask.
        StorageError: a file is missing or damaged, or holds the state in another form.
    """
    for source in sources_of(states, groups):
        with (
            tempfile.TemporaryDirectory(prefix=own_prefix()) as folder,
            opened_files(source, Path(folder) / "db") as database,
        ):
            for layout in readable(source, database, {name: target}, max_parallelism).values():
                if layout.format != COLUMN_CHUNKS:
                    raise StorageError(
                        f"state {name!r} of the checkpoint is in format {layout.format} of RocksDB's values; "
                        f"expected {COLUMN_CHUNKS}, columns; restore a canonical savepoint"
                    )
                yield from chunks_in(database.stores[name], groups)
