"""Windows' accumulators on their way to a snapshot and back: the stored form is that of a map state.

For each key the state `windows` has a map from a pane's beginning (ms) to a record of accumulators, so that
everything that works with keyed state works with windows: savepoints as tables, rescaling, `check-upgrade`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headgate.common.keys.key_hashes import key_hash
from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns.kept_windows import PANE, WindowsView
from headgate.runtime.worker.operators.columns.panes import (
    groups_of_rows,
    hashes_of_rows,
    python_columns,
)
from headgate.state.backend import Entries, EntryFilter, NewSection, NewWriter, StateFiles, StateWriter
from headgate.state.snapshots import KeyedStateHandle
from headgate.state.stored.blob import BlobWriter
from headgate.state.stored.contract import written
from headgate.state.targets import Target

WINDOWS: Final = "windows"
"""Name of the keyed state: for each key a map from pane to accumulators."""
AHEAD: Final = "ahead"
"""Name of the operator state: key groups that are further in event time than their subtask, and how far."""


@dataclass(slots=True)
class PendingWindows:
    """The windows of a subtask as they were at the snapshot point, to be stored in the background.

    `grouping` merges what views have of one key and pane; None: a key may have several records in a pane,
    which are stored under the pane and a number.
    """

    views: Sequence[WindowsView]
    keys: tuple[str, ...]
    grouping: Grouping | None
    record: type
    target: Target
    groups: tuple[int, int]
    max_parallelism: int
    keep: EntryFilter | None = field(default=None)

    def store(self, uid: str, files: StateFiles) -> KeyedStateHandle:
        """Store the windows as a blob, then release the snapshot."""
        write = partial(files.write, uid)
        return self.store_with(lambda groups, max_parallelism: BlobWriter(groups, max_parallelism, write))

    def store_with(self, new_writer: NewWriter) -> KeyedStateHandle:
        """Store the windows with a writer of `new_writer`, then release the snapshot."""
        try:
            return written(new_writer(self.groups, self.max_parallelism), self._write)
        finally:
            self.release()

    def release(self) -> None:
        """Let the tables go; more than once does no harm."""
        for view in self.views:
            view.release()

    def _write(self, writer: StateWriter) -> None:
        section = NewSection(WINDOWS, self.target.schema, self.target.serializer.encode_many)
        writer.add(section, self.entries())

    def of_key(self, key: Hashable) -> dict[int, Any]:
        """Return the record of accumulators of each pane in which a key has rows."""
        wanted = key_hash(key)
        keys = self.keys
        views = [view.where(lambda table: hashes_of_rows(table, keys) == wanted) for view in self.views]
        found: dict[int, Any] = {}
        for entries in replace(self, views=views).entries():
            for other, panes in zip(entries.keys, entries.values, strict=True):
                if other == key:
                    found |= panes
        return found

    def entries(self) -> Iterator[Entries]:
        """Yield the map of each key, by key group."""
        keys = self.keys
        parts = [table for view in self.views for table in view.tables()]
        if not parts:
            return
        table = pa.concat_tables(parts).combine_chunks()
        if self.grouping is not None and len(self.views) > 1:
            table = Grouping((PANE, *keys), self.grouping.columns).merged(table).combine_chunks()
        groups = groups_of_rows(table, keys, self.max_parallelism)
        order = np.argsort(groups.astype(np.uint16), kind="stable")
        groups, table = groups[order], table.take(pa.array(order))
        starts = np.flatnonzero(np.diff(groups, prepend=-1)).tolist()
        for start, stop in pairwise([*starts, len(groups)]):
            yield Entries(int(groups[start]), *self._maps(table.slice(start, stop - start)))

    def _maps(self, table: pa.Table) -> tuple[list[Hashable], list[Any]]:
        panes, *columns = python_columns(table)
        count = len(self.keys)
        keys: Sequence[Any] = columns[0] if count == 1 else list(zip(*columns[:count], strict=True))
        found: dict[Hashable, dict[Any, Any]] = {}
        for key, pane, *values in zip(keys, panes, *columns[count:], strict=True):
            mine = found.setdefault(key, {})
            mine[pane if self.grouping is not None else (pane, len(mine))] = self.record(*values)
        return list(found), list(found.values())
