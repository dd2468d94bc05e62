"""Opens the RocksDB store in which a columnar operator, such as a window's, keeps Arrow batches on disk."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from headgate.state.backends import ChangelogBackends, RocksBackends, StateBackends
from headgate.state.targets import Target

if TYPE_CHECKING:
    from headgate.state.rocksdb.chunk_store import ChunkStore


def keeps_log(backends: StateBackends | None) -> bool:
    """Return whether checkpoints of columnar state that is read in memory store what has changed only. On
    RocksDB it is what `execution.checkpointing.incremental` says. On the heap it needs package rocksdict,
    whose forms of keys and chunks it shares.
    """
    inner = backends.inner if isinstance(backends, ChangelogBackends) else backends
    if isinstance(inner, RocksBackends):
        return inner.incremental
    return importlib.util.find_spec("rocksdict") is not None


def chunk_store_of(
    backends: StateBackends | None, name: str, target: Target, groups: tuple[int, int], max_parallelism: int
) -> ChunkStore | None:
    """Return an empty RocksDB store for a columnar state `name` of one subtask; None: it stays in memory.

    None unless `backends` are of RocksDB; a changelog around them is ignored, as chunks never change.
    `groups`: first and last key group (inclusive). The database is made when it is first written to.
    """
    inner = backends.inner if isinstance(backends, ChangelogBackends) else backends
    if not isinstance(inner, RocksBackends):
        return None
    # Optional packages are loaded when they are used.
    from headgate.state.rocksdb.chunk_store import ChunkStore

    return ChunkStore(
        name,
        target,
        groups,
        max_parallelism,
        inner.new_directory,
        inner.shared_memory(),
        incremental=inner.incremental,
        held_bytes=inner.windows_bytes,
    )
