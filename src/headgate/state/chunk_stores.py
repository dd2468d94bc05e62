"""Opens a store of chunks of columns where keyed state is in RocksDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.state.backends import ChangelogBackends, RocksBackends, StateBackends
from headgate.state.targets import Target

if TYPE_CHECKING:
    from headgate.state.rocksdb.chunk_store import ChunkStore


def chunk_store_of(
    backends: StateBackends | None, name: str, target: Target, groups: tuple[int, int], max_parallelism: int
) -> ChunkStore | None:
    """Return an empty store for the state `name` of one subtask, or None: it is held in memory.

    With a changelog as well: chunks never change, so a log of changes is of no use. `groups`: first and last
    key group of the subtask. The database is made when it is needed.
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
