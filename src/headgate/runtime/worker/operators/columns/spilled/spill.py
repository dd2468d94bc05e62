"""Writes tables of windows to a store of chunks, merges chunks so that they stay few, and reads them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headgate.runtime.worker.operators.columns.spilled.chunk_columns import ChunkColumns
from headgate.state.rocksdb.chunk_bytes import ChunkKey

if TYPE_CHECKING:
    from headgate.state.rocksdb.chunk_store import ChunkStore

PORTION_ROWS: Final = 1 << 17  # key groups are read and merged together up to about so many rows
_MERGED_TOGETHER: Final = 8
"""So many chunks of one place become one, unless the oldest is larger than all others together."""

Merge = Callable[[pa.Table], pa.Table]
"""Merges the rows of equal keys, and of equal panes if the table has the column `PANE`."""


class Spill:
    """Writes tables of windows to a store of chunks (a chunk: rows of one key group at one place), and reads
    them. `merge` merges rows of equal keys and panes when a place has many chunks; None: rows stay apart.
    """

    def __init__(self, chunks: ChunkStore, columns: ChunkColumns, merge: Merge | None) -> None:
        self.chunks, self.columns, self._merge = chunks, columns, merge

    def write(self, table: pa.Table, place: int | None = None) -> None:
        """Store the rows of a table with the column `PANE` as chunks at `place`; None: each at its pane."""
        pieces = list(self.columns.pieces(table, place))
        self.chunks.add(pieces)
        if self._merge is not None:
            for piece in pieces:
                self._tidy(piece.group, piece.place, self._merge)

    def _tidy(self, group: int, place: int, merge: Merge) -> None:
        # Each row is merged a logarithmic number of times, and a window has few chunks however long it is.
        while True:
            sizes = self.chunks.sizes(group, place)[-_MERGED_TOGETHER:]
            if len(sizes) < _MERGED_TOGETHER or sizes[0] > sum(sizes[1:]):
                return
            at = ChunkKey(group, place, 0)
            read = self.chunks.read_newest(group, place, len(sizes))
            whole = merge(pa.concat_tables([self.columns.table(at, batch) for batch in read]))
            self.chunks.replace(group, place, len(sizes), [self.columns.piece(group, place, whole)])

    def portions(self, places: Sequence[int], memory: pa.Table | None) -> Iterator[pa.Table]:
        """Yield the rows stored at `places` and the rows in `memory`, in portions of whole key groups.
        Rows of a group come in the order of their writing, those in memory last; they are not merged.
        """
        rest = {} if memory is None else self.columns.by_group(self.columns.in_order(memory))
        found, rows = list[pa.Table](), 0
        for group in sorted({*rest, *self.chunks.groups_at(places)}):
            more = [self.tables(group, [place]) for place in places]
            tables = [table for each in more for table in each]
            tables += [rest[group]] if group in rest else []
            added = sum(map(len, tables))
            if found and rows + added > PORTION_ROWS:
                yield _together(found)
                found, rows = [], 0
            found += tables
            rows += added
        if found:
            yield _together(found)

    def tables(self, group: int, places: Sequence[int]) -> list[pa.Table]:
        """Return the chunks of a key group at `places` as tables with the column `PANE`, oldest first."""
        return [
            self.columns.table(ChunkKey(group, place, 0), batch)
            for place in places
            for batch in self.chunks.read(group, [place])
        ]


def _together(tables: list[pa.Table]) -> pa.Table:
    names = [name for name in tables[0].column_names if all(name in each.column_names for each in tables)]
    return pa.concat_tables([table.select(names) for table in tables])
