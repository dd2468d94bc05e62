"""Rows of keys of which some changed, computed anew from all that a key has: for whatever cannot be added to.

The greatest of some values cannot be told from the greatest so far once a value is taken back, nor can the
first ten rows. So all rows of a key are kept, and at a mark the answer of each key that changed is computed
twice: of the rows before, and of the rows after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.kept_windows import PANE
from headgate.runtime.worker.operators.columns.panes import with_pane
from headgate.runtime.worker.operators.columns.updating.by_key.appended_rows import Piece, taken
from headgate.runtime.worker.operators.columns.updating.by_key.key_numbers import KeyNumbers
from headgate.runtime.worker.operators.columns.updating.by_key.keyed_bags import KeyedBags, Part
from headgate.runtime.worker.operators.columns.updating.kept_for_good import SETTLED, SINCE, KeptForGood
from headgate.runtime.worker.operators.columns.updating.weights import (
    WEIGHT,
    changes_of,
    net_rows,
    netted,
    repeated,
    weighted,
)

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

Answer: TypeAlias = Callable[[pa.Table], pa.Table]
"""Gives the answer for rows of whole keys, with the keys' columns first."""


class RecomputedRows(KeptForGood):
    """All rows of each key of one subtask, in memory. `came` are the columns of changes that come, of
    which the first `keys` are the key and the last is `CHANGE`; `answer` is computed of all rows of a key.
    """

    def __init__(self, came: pa.Schema, keys: int, answer: Answer) -> None:
        super().__init__()
        self._came, self._answer = came, answer
        self._of_keys, self._of_rows = pa.schema(list(came)[:keys]), pa.schema(list(came)[keys:-1])
        self._keys = KeyNumbers(self._of_keys)
        self._bags = KeyedBags(self._of_rows.append(pa.field(WEIGHT, pa.int64())))
        self._waiting: list[pa.Table] = []
        self._log: list[pa.Table] = []

    @property
    def count(self) -> int:
        return self._bags.count

    def gather(self, rows: pa.Table) -> None:
        self._waiting.append(rows)

    def at_mark(self) -> tuple[pa.Table, pa.Table] | None:
        """Add what came since the last mark, and return the answers of the keys that changed, before and
        after; None: nothing came.
        """
        if not self._waiting:
            return None
        came, self._waiting = pa.concat_tables(self._waiting), []
        numbers = self._keys.of(came)
        changed = np.unique(numbers)
        before = self._answer(self._rows_of(changed))
        self._put(came, numbers)
        if self._logs:
            self._log.append(came)
        return before, self._answer(self._rows_of(changed))

    def _put(self, came: pa.Table, numbers: Int64s) -> None:
        self._bags.add(numbers, weighted(came))

    def _rows_of(self, numbers: Int64s) -> pa.Table:
        indices, places = self._bags.find(numbers)
        keys = self._keys.keys(numbers[indices])
        rows = self._bags.take(places)
        columns = [*keys.columns, *rows.columns]
        return repeated(net_rows(pa.table(columns, [*keys.column_names, *rows.column_names])))

    def restore(self, table: pa.Table) -> None:
        panes = table.column(PANE).to_numpy()
        rows = pa.Table.from_arrays(table.select(self._came.names).columns, schema=self._came)
        since = rows.filter(pa.array(panes == SINCE))
        if since.num_rows:
            self._waiting.append(since)
        settled = rows.filter(pa.array(panes == SETTLED))
        self._put(settled, self._keys.of(settled))

    def settled(self) -> Callable[[], Iterator[pa.Table]]:
        keys, parts = self._keys.view(), self._bags.view()
        return lambda: (with_pane(self._stored(keys, part), SETTLED) for part in parts)

    def since(self) -> list[pa.Table]:
        return [with_pane(each, SINCE) for each in self._waiting]

    def take_log(self) -> list[pa.Table]:
        log, self._log = self._log, []
        return [with_pane(pa.concat_tables(log), SETTLED)] if log else []

    def compacted(self, log: pa.Table) -> pa.Table:
        return netted(log)

    def _stored(self, keys: list[Piece], part: Part) -> pa.Table:
        of_rows = taken(keys, np.repeat(part.numbers, part.counts), self._of_keys)
        rows = part.table.take(pa.array(part.rows))
        whole = pa.table([*of_rows.columns, *rows.columns], [*of_rows.column_names, *rows.column_names])
        changes = changes_of(net_rows(whole)).select(self._came.names)
        return pa.Table.from_arrays(changes.columns, schema=self._came)
