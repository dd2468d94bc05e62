"""The state of windows: partial aggregates per slice of event time (pane), in tables that never change.

Accumulators that come wait until they are many or are asked for, since small tables cost as much as large
ones. Then they become one table for each pane. Tables of a pane are merged when the newer ones have grown as
large as the older one, so each row is merged a logarithmic number of times, and a snapshot is only a list of
the tables that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.common.keys.keygroups_vectorised import groups_of_hashes, hashes_of_arrow, hashes_of_columns
from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns.kept_windows import PANE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WAITING_MAX: Final = 16_384
"""Rows that wait at most."""


class Panes:
    """Accumulators by pane (slice of event time, named by its start in ms), in memory.
    `grouping` says by which keys accumulators are grouped, and how they are merged.
    """

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._by_pane = Grouping((PANE, *grouping.keys), grouping.columns)
        self._layers: dict[int, list[pa.Table]] = {}
        self._waiting: list[pa.Table] = []

    def add(self, table: pa.Table) -> None:
        """Add accumulators with the column `PANE`, in any number of rows per key and pane."""
        if not table.num_rows:
            return
        if self._waiting and self._waiting[0].schema != table.schema:
            self._sort_in()  # restored ones may say that columns have nulls
        self._waiting.append(table)
        if sum(each.num_rows for each in self._waiting) >= _WAITING_MAX:
            self._sort_in()

    def _sort_in(self) -> None:
        if not self._waiting:
            return
        table = self._by_pane.merged(pa.concat_tables(self._waiting))
        self._waiting = []
        panes = table.column(PANE).to_numpy()
        if (panes != panes[0]).any():
            order = np.argsort(panes, kind="stable")
            table, panes = table.take(pa.array(order)), panes[order]
        starts = np.flatnonzero(np.diff(panes, prepend=panes[0] - 1)).tolist()
        for start, stop in pairwise([*starts, len(panes)]):
            self._put(int(panes[start]), table.slice(start, stop - start).drop_columns(PANE))

    def _put(self, pane: int, table: pa.Table) -> None:
        layers = self._layers.setdefault(pane, [])
        layers.append(table)
        while len(layers) > 1 and layers[-1].num_rows * 2 > layers[-2].num_rows:
            newer, older = layers.pop(), layers.pop()
            layers.append(self._grouping.merged(pa.concat_tables([older, newer])).combine_chunks())

    def starts(self) -> list[int]:
        self._sort_in()
        return sorted(self._layers)

    def tables_between(self, start: int, stop: int) -> list[pa.Table]:
        """Return the tables of panes that start in `start` to `stop` - 1; a key may be in several tables."""
        return [each for pane in self.starts() if start <= pane < stop for each in self._layers[pane]]

    def merged(self, start: int, stop: int) -> pa.Table | None:
        """Return the accumulators of all panes from `start` to before `stop`, a row for each key.
        The table's columns are of one chunk each. None: there are no accumulators.
        """
        tables = [self._settled(pane) for pane in self.starts() if start <= pane < stop]
        if not tables:
            return None
        whole = pa.concat_tables(tables)
        return whole if len(tables) == 1 else self._grouping.merged(whole).combine_chunks()

    def _settled(self, pane: int) -> pa.Table:
        layers = self._layers[pane]
        if len(layers) > 1:
            layers[:] = [self._grouping.merged(pa.concat_tables(layers)).combine_chunks()]
        return layers[0]

    def drop_before(self, time: int) -> None:
        self._sort_in()
        for pane in [pane for pane in self._layers if pane < time]:
            del self._layers[pane]

    def size(self) -> int:
        waiting = sum(int(table.nbytes) for table in self._waiting)
        return waiting + sum(int(table.nbytes) for layers in self._layers.values() for table in layers)

    def at_snapshot(self) -> PanesView:
        """Return a view of all tables as they are now, for a snapshot; later changes do not reach it."""
        self._sort_in()
        return PanesView(self._grouping, {pane: list(layers) for pane, layers in self._layers.items()})


class PanesView:
    """The panes as they were at a snapshot, for the thread that writes them."""

    def __init__(self, grouping: Grouping, layers: dict[int, list[pa.Table]]) -> None:
        self._grouping, self._layers = grouping, layers

    def tables(self) -> Iterator[pa.Table]:
        for pane, layers in sorted(self._layers.items()):
            whole = pa.concat_tables(layers)
            yield with_pane(whole if len(layers) == 1 else self._grouping.merged(whole), pane)

    def where(self, keep: Callable[[pa.Table], NDArray[np.bool_]]) -> PanesView:
        layers = {
            pane: [table.filter(pa.array(keep(table))) for table in tables]
            for pane, tables in self._layers.items()
        }
        return PanesView(self._grouping, layers)

    def release(self) -> None:
        self._layers = {}


def with_pane(table: pa.Table, pane: int) -> pa.Table:
    """Return a pane's accumulators with a first column `PANE`, which holds the pane's start `pane` (ms)."""
    return table.add_column(0, PANE, pa.repeat(pa.scalar(pane, pa.int64()), table.num_rows))


def groups_of_rows(table: pa.Table, keys: Sequence[str], max_parallelism: int) -> NDArray[np.int32]:
    """Return the key group of each row, by its key in the columns `keys`."""
    return groups_of_hashes(hashes_of_rows(table, keys), max_parallelism)


def hashes_of_rows(table: pa.Table, keys: Sequence[str]) -> NDArray[np.uint32]:
    """Return the hash of each row's key (columns `keys`), from which the key group follows."""
    hashes = [hashes_of_arrow(table.column(name)) for name in keys]
    return hashes[0] if len(hashes) == 1 else hashes_of_columns(hashes, table.num_rows)
