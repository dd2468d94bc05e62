"""Rows of windows that are kept as they are until their window ends, such as those of a join."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.groups_ahead import RestoredByGroup
from headgate.runtime.worker.operators.columns.kept_windows import (
    PANE,
    Ended,
    WindowsView,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s


_SMALL: Final = 16_384
"""Tables of so many rows or more are left as they are."""


class KeptRows(RestoredByGroup):
    """Rows kept until the watermark, at first `mark`, passes the last ms of their window, their `PANE`.
    The rows are of a join, in tables by pane; `keys` are the columns from which a row's key group follows.
    """

    def __init__(self, keys: Sequence[str], mark: int, max_parallelism: int) -> None:
        super().__init__(keys, mark, max_parallelism)
        self._tables: dict[int, list[pa.Table]] = {}

    def add(self, rows: pa.Table, marks: Int64s) -> int:
        late = rows.column(PANE).to_numpy() <= self._ahead.marks_of(rows, marks)
        if late.any():
            self.put(rows.filter(pa.array(~late)))
            return int(late.sum())
        self.put(rows)
        return 0

    def put(self, table: pa.Table) -> None:
        if not len(table):
            return
        panes = table.column(PANE).to_numpy()
        if (panes[1:] < panes[:-1]).any():
            order = np.argsort(panes, kind="stable")
            table, panes = table.take(pa.array(order)), panes[order]
        starts = np.flatnonzero(np.diff(panes, prepend=panes[0] - 1))
        for start, stop in zip(starts, [*starts[1:], len(panes)], strict=True):
            part = table.slice(int(start), int(stop - start))
            _append(self._tables.setdefault(int(panes[start]), []), part)

    def reached(self, mark: int) -> list[Ended]:
        """Return the rows of all windows that the watermark `mark` ends, in one `Ended`, and forget them."""
        self._mark = mark
        self._ahead.reached(mark)
        panes = sorted(pane for pane in self._tables if pane <= mark)
        if not panes:
            return []
        whole = pa.concat_tables([table for pane in panes for table in self._tables.pop(pane)])
        last = whole.column(PANE).to_numpy()
        return [Ended(whole, last, last + 1)]

    def size(self) -> int:
        return sum(table.nbytes for tables in self._tables.values() for table in tables)

    def at_snapshot(self) -> list[WindowsView]:
        return [RowsView([table for tables in self._tables.values() for table in tables])]


def _append(tables: list[pa.Table], more: pa.Table) -> None:
    # A table of a single row takes kilobytes, so small tables are merged. Each row is copied a logarithmic
    # number of times at most.
    tables.append(more)
    while len(tables) > 1 and len(tables[-2]) < min(2 * len(tables[-1]), _SMALL):
        newer, older = tables.pop(), tables.pop()
        tables.append(pa.concat_tables([older, newer]).combine_chunks())


class RowsView:
    """The rows of a snapshot, for the thread that writes them."""

    def __init__(self, tables: list[pa.Table]) -> None:
        self._tables = tables

    def tables(self) -> Iterator[pa.Table]:
        yield from self._tables

    def where(self, keep: Callable[[pa.Table], NDArray[np.bool_]]) -> RowsView:
        return RowsView([table.filter(pa.array(keep(table))) for table in self._tables])

    def release(self) -> None:
        self._tables = []
