"""Parts chunks with rows of several key groups into chunks of one group each, when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.common.keys.keygroups_vectorised import groups_of_hashes, hashes_of_arrow, hashes_of_columns
from headgate.state.rocksdb.chunk_bytes import ChunkKey, chunk_bytes, keys_in, read_chunk, rows_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS_TOGETHER: Final = 1 << 17
"""Chunks of a file that follow each other become one, up to so many rows: each is parted into all groups."""


class _Chunk(NamedTuple):
    key: ChunkKey
    stored: memoryview
    rows: int

    @property
    def kind(self) -> int:
        return self.stored[0]


def by_groups(
    chunks: Iterable[tuple[ChunkKey, memoryview]], max_parallelism: int
) -> Iterator[tuple[bytes, Callable[[], bytes]]]:
    """Yield for each key group that has rows in chunks of a file the key of a chunk of its own, and what
    makes that chunk's bytes. Rows of a group stay in their order. StorageError: a chunk is damaged.
    """
    found = (_Chunk(key, stored, rows_in(stored)) for key, stored in chunks)
    for _, alike in groupby(found, key=lambda chunk: (chunk.key.place, chunk.kind)):
        together: list[_Chunk] = []
        rows = 0
        for chunk in alike:
            if together and rows + chunk.rows > _ROWS_TOGETHER:
                yield from _parted(together, max_parallelism)
                together, rows = [], 0
            together.append(chunk)
            rows += chunk.rows
        yield from _parted(together, max_parallelism)


def _parted(chunks: list[_Chunk], max_parallelism: int) -> Iterator[tuple[bytes, Callable[[], bytes]]]:
    table = pa.Table.from_batches([read_chunk(chunk.stored) for chunk in chunks])
    hashes = [hashes_of_arrow(column) for column in table.columns[: keys_in(table.schema)]]
    whole = hashes[0] if len(hashes) == 1 else hashes_of_columns(hashes, table.num_rows)
    groups = groups_of_hashes(whole, max_parallelism).astype(np.uint16)
    order = np.argsort(groups, kind="stable")
    groups = groups[order]
    starts = np.flatnonzero(np.diff(groups.astype(np.int32), prepend=-1)).tolist()
    first, schema = chunks[0], table.schema.serialize().to_pybytes()
    for start, stop in pairwise([*starts, len(order)]):
        part = ChunkKey(int(groups[start]), first.key.place, first.key.number)
        yield part.encoded(), partial(_of_rows, table, order[start:stop], first.kind, schema)


def _of_rows(table: pa.Table, rows: NDArray[np.int64], kind: int, schema: bytes) -> bytes:
    (batch,) = table.take(pa.array(rows)).combine_chunks().to_batches()
    return chunk_bytes(batch, kind, schema)
