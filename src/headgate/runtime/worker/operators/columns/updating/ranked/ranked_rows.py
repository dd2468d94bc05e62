"""The first rows of each key in some order: what is kept, what waits for a mark, and what a mark changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from headgate.relational.relations import Rank
from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.updating.by_key.packed_sort import key_integers
from headgate.runtime.worker.operators.columns.updating.kept_for_good import KeptForGood, newest
from headgate.runtime.worker.operators.columns.updating.ranked.kept_ranks import Contest, KeptRanks
from headgate.runtime.worker.operators.columns.updating.ranked.moved_rows import crossing, moving, places_in
from headgate.runtime.worker.operators.columns.updating.ranked.repeated_columns import Once
from headgate.runtime.worker.operators.columns.updating.ranked.row_order import First, RowOrder

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

_WAITING_MAX: Final = 1 << 17
"""Rows that wait before those beyond the first of their key are dropped."""


class Reranked(NamedTuple):
    """What a mark changes: rows of which the first `going` go and the others come, with their places."""

    rows: pa.Table
    places: Int64s
    going: int


class RankedRows(KeptForGood):
    """The first rows of each key as `plan` says, in memory. Rows that come have the columns `once.schema`."""

    def __init__(self, plan: Rank, once: Once) -> None:
        super().__init__()
        self._once, self._key_names = once, plan.key_names
        self._shown = [name for name in plan.schema.names if name in once.schema.names]
        self._by = RowOrder(once.schema, once.order(plan.order))
        self._n, self._placed = plan.n, plan.rank is not None
        self._kept = KeptRanks(once.schema, plan.keys, self._by, plan.n)
        self._waiting: list[pa.Table] = []
        self._restored: list[pa.Table] = []
        self._log: list[Int64s] = []

    @property
    def count(self) -> int:
        self._settle_restored()
        return self._kept.count

    def gather(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        if len(self._waiting) > 1 and sum(each.num_rows for each in self._waiting) >= _WAITING_MAX:
            self._waiting = [self._first_that_wait()[0]]

    def _first_that_wait(self) -> tuple[pa.Table, First]:
        rows = pa.concat_tables(self._waiting).combine_chunks()
        keys = key_integers(rows.select(self._key_names))
        first = self._by.first(keys, self._by.codes(rows), self._n, lambda which: rows.take(pa.array(which)))
        return rows.take(pa.array(first.rows)), first

    def at_mark(self) -> Reranked | None:
        """Rank what came since the last mark, and return what changes; None: nothing came."""
        self._settle_restored()
        if not self._waiting:
            return None
        came, self._waiting = pa.concat_tables(self._waiting), []
        contest = self._kept.contest(came)
        if self._logs:
            self._log.append(contest.keys)
        new = np.flatnonzero(contest.first.rows >= len(contest.old.values))
        entered = _taken(contest.came, contest.first.rows[new] - len(contest.old.values))
        changes = self._changes(contest, new, entered)
        self._kept.settle(contest, new, entered)
        return changes

    def _changes(self, contest: Contest, new: Int64s, entered: pa.Table) -> Reranked:
        old, first = contest.old, contest.first
        goes, comes = moving(contest, self._shown) if self._placed else crossing(contest)
        coming = first.rows[comes]
        if not goes.any() and len(coming) == len(new):
            return Reranked(entered, first.places[comes], 0)
        # Rows that were there, of which one may go, come at another place, or both; then those that are new.
        read = goes.copy()
        read[coming[coming < len(goes)]] = True
        touched = np.flatnonzero(read)
        at = np.zeros(len(goes) + contest.came.num_rows, np.int64)
        at[touched] = np.arange(len(touched))
        at[first.rows[new]] = np.arange(len(touched), len(touched) + len(new))
        owners = np.repeat(contest.keys, old.counts)
        both = pa.concat_tables([self._kept.rows(owners[touched], old.values[touched]), entered])
        rows = both.take(pa.array(np.concatenate([at[: len(goes)][goes], at[coming]])))
        places = np.concatenate([places_in(old)[goes], first.places[comes]])
        return Reranked(rows, places, int(goes.sum()))

    def restore(self, table: pa.Table) -> None:
        panes = table.column(PANE).to_numpy()
        narrow = table.select([PANE, *self._once.schema.names])
        self._restored.append(narrow.filter(pa.array(panes > 0)))
        since = narrow.filter(pa.array(panes < 0))
        if since.num_rows:
            order = np.argsort(-since.column(PANE).to_numpy(), kind="stable")
            rows = since.drop_columns(PANE).take(pa.array(order))
            self._waiting.append(pa.Table.from_arrays(rows.columns, schema=self._once.schema))

    def _settle_restored(self) -> None:
        # All rows of a key are needed at once, and later ones replace those that were stored earlier.
        tables, self._restored = self._restored, []
        if tables:
            rows = newest(pa.concat_tables(tables), [*self._key_names, PANE])
            columns = rows.drop_columns(PANE).columns
            self._kept.restore(
                pa.Table.from_arrays(columns, schema=self._once.schema), rows.column(PANE).to_numpy()
            )

    def settled(self) -> Callable[[], Iterator[pa.Table]]:
        self._settle_restored()
        tables = self._kept.view()
        return lambda: (self._stored(rows, places) for rows, places in tables())

    def since(self) -> list[pa.Table]:
        if not self._waiting:
            return []
        rows, first = self._first_that_wait()
        return [self._stored(rows, -first.places)]

    def take_log(self) -> list[pa.Table]:
        log, self._log = self._log, []
        return [self._stored(*self._kept.of_keys(np.unique(np.concatenate(log))))] if log else []

    def compacted(self, log: pa.Table) -> pa.Table:
        return newest(log, [*self._key_names, PANE])

    def _stored(self, rows: pa.Table, places: Int64s) -> pa.Table:
        # A row's place is its pane, below 0 for rows that came since the last mark.
        return self._once.widened(rows).add_column(0, PANE, pa.array(places))


def _taken(rows: pa.Table, indices: Int64s) -> pa.Table:
    # They are kept and sent, each of which would make one chunk of them.
    everything = len(indices) == rows.num_rows and bool((np.diff(indices, prepend=-1) == 1).all())
    return rows.combine_chunks() if everything else rows.take(pa.array(indices))
