"""Windows' accumulators on their way to a snapshot and back: the stored form is that of a map state.

For each key the state `windows` has a map from a pane's beginning (ms) to a record of accumulators, so that
everything that works with keyed state works with windows: savepoints as tables, rescaling, `check-upgrade`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from headgate.common.keys.key_hashes import key_hash
from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns.kept_windows import PANE, WindowsView
from headgate.runtime.worker.operators.columns.panes import (
    groups_of_rows,
    hashes_of_rows,
)
from headgate.serde.codecs.type_codec import FormSerializer
from headgate.state.backend import Entries, EntryFilter, NewSection, NewWriter, StateFiles, StateWriter
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.blob import BlobWriter
from headgate.state.stored.blob_format import ColumnLayout
from headgate.state.stored.column_chunks import ColumnChunk, converts_of, layout_of, maps_of, python_columns
from headgate.state.stored.contract import written
from headgate.state.targets import Target

if TYPE_CHECKING:
    from numpy.typing import NDArray

WINDOWS: Final = "windows"
"""Name of the keyed state: for each key a map from pane to accumulators."""
AHEAD: Final = "ahead"
"""Name of the operator state: key groups that are further in event time than their subtask, and how far."""

FORGOTTEN: Final = "forgotten"
"""Name of the operator state of aggregations: first and last key group of a subtask, and the last ms up to
which their windows are forgotten.
"""

COLUMNS_FROM: Final = 4_096
"""Entries from which a blob holds columns; of fewer their schemas would take more room than they save."""
COLUMNS_FROM_BYTES: Final = 1 << 20
"""Bytes of fewer entries from which it does so, too: their lists are long."""


@dataclass(slots=True)
class PendingWindows:
    """The windows of a subtask as they were at the snapshot point, to be stored in the background.
    `grouping` merges what views have of one key and pane; None: a key may have several records in a pane,
    which are stored under the pane and a number.
    """

    views: Sequence[WindowsView]
    keys: tuple[str, ...]
    grouping: Grouping | None
    target: Target
    groups: tuple[int, int]
    max_parallelism: int
    name: str = WINDOWS
    keep: EntryFilter | None = field(default=None)

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        write = partial(files.write, uid)
        return self.store_with(lambda groups, max_parallelism: BlobWriter(groups, max_parallelism, write))

    def store_with(self, new_writer: NewWriter) -> KeyedStateHandle:
        try:
            return written(new_writer(self.groups, self.max_parallelism), self._write)
        finally:
            self.release()

    def release(self) -> None:
        for view in self.views:
            view.release()

    def _write(self, writer: StateWriter) -> None:
        section = NewSection(self.name, self.target.schema, self._serializer.encode_plain)
        table, groups = self._by_group()
        large = len(table) >= COLUMNS_FROM or table.nbytes >= COLUMNS_FROM_BYTES
        if isinstance(writer, BlobWriter) and large:
            writer.add_columns(section, self._layout(table), self._chunks(table, groups))
        else:
            writer.add(section, self._entries(table, groups))

    @property
    def _serializer(self) -> FormSerializer[Any]:
        serializer = self.target.serializer
        assert isinstance(serializer, FormSerializer)  # of a map of records, as the API declares it
        return serializer

    def of_key(self, key: Hashable) -> dict[Any, Any]:
        """Return the records of a key by pane, as a program's map state would have them; {}: it has none.
        For a live query. `key` is a value, or a tuple where the operator has several key columns.
        """
        wanted, keys = key_hash(key), self.keys
        views = [view.where(lambda table: hashes_of_rows(table, keys) == wanted) for view in self.views]
        for entries in replace(self, views=views).entries():
            for other, plain in zip(entries.keys, entries.values, strict=True):
                if other == key:
                    encoded = self._serializer.encode_plain([plain])
                    found: dict[Any, Any] = self._serializer.decode_many(encoded, 1)[0]
                    return found
        return {}

    def entries(self) -> Iterator[Entries]:
        """Yield keys with their maps, as plain values that msgspec can encode, ascending by key group."""
        return self._entries(*self._by_group())

    def _by_group(self) -> tuple[pa.Table, NDArray[np.int32]]:
        parts = [table for view in self.views for table in view.tables()]
        if not parts:
            return pa.table({}), np.zeros(0, dtype=np.int32)
        table = pa.concat_tables(parts)
        if self.grouping is not None and len(self.views) > 1:
            table = Grouping((PANE, *self.keys), self.grouping.columns).merged(table)
        pane, *others = table.column_names
        table = table.select([*others[: len(self.keys)], pane, *others[len(self.keys) :]])
        groups = groups_of_rows(table, self.keys, self.max_parallelism)
        order = np.argsort(groups.astype(np.uint16), kind="stable")
        return _taken(table, pa.array(order)), groups[order]

    def _entries(self, table: pa.Table, groups: NDArray[np.int32]) -> Iterator[Entries]:
        if len(table):
            layout = self._layout(table)
            converts = converts_of(table.schema, layout)
            for group, part in _split(table, groups):
                yield Entries(group, *maps_of(python_columns(part), layout, converts))

    def _layout(self, table: pa.Table) -> ColumnLayout:
        return layout_of(table.schema, len(self.keys), numbered=self.grouping is None)

    def _chunks(self, table: pa.Table, groups: NDArray[np.int32]) -> Iterator[ColumnChunk]:
        different = table.group_by(list(self.keys), use_threads=False).aggregate([])
        of_keys = groups_of_rows(different, self.keys, self.max_parallelism)
        counts = np.bincount(of_keys, minlength=self.max_parallelism)
        for group, part in _split(table, groups):
            (columns,) = part.combine_chunks().to_batches()
            yield ColumnChunk(group, int(counts[group]), columns)


def _taken(table: pa.Table, order: pa.Array) -> pa.Table:
    """Return the rows in this order; columns in the same memory are copied once."""
    done: dict[object, pa.ChunkedArray] = {}
    for column in table.columns:
        if (place := _memory_of(column)) not in done:
            done[place] = column.take(order)
    return pa.Table.from_arrays([done[_memory_of(each)] for each in table.columns], schema=table.schema)


def _memory_of(column: pa.ChunkedArray) -> object:
    chunks = [
        (each.offset, len(each), *(None if part is None else part.address for part in each.buffers()))
        for each in column.chunks
    ]
    return column.type, tuple(chunks)


def _split(table: pa.Table, groups: NDArray[np.int32]) -> Iterator[tuple[int, pa.Table]]:
    starts = np.flatnonzero(np.diff(groups, prepend=-1)).tolist()
    for start, stop in pairwise([*starts, len(groups)]):
        yield int(groups[start]), table.slice(start, stop - start)
