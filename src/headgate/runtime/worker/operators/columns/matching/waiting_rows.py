"""Rows that wait until the watermark reaches their event time."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from headgate.runtime.worker.operators.columns.kept_windows import PANE

_SMALL: Final = 16_384
"""Tables of so many rows or more are not merged."""


class WaitingRows:
    """Rows with event times in the column `PANE`. Of rows at one time those that came earlier are first."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []  # each ordered by time; they stand in the order in which they came

    def add(self, table: pa.Table) -> None:
        """Add rows, in the order in which they came."""
        if not table.num_rows:
            return
        tables = self._tables
        tables.append(_ordered(table))
        while len(tables) > 1 and tables[-2].num_rows < min(2 * tables[-1].num_rows, _SMALL):
            newer, older = tables.pop(), tables.pop()
            tables.append(_ordered(pa.concat_tables([older, newer])))

    def due(self, mark: int) -> list[pa.Table]:
        """Remove the rows whose time is `mark` (ms) or earlier, and return them, earlier ones first where
        times are equal.
        """
        found, left = [], []
        for table in self._tables:
            count = int(np.searchsorted(table.column(PANE).to_numpy(), mark, "right"))
            if count:
                found.append(table.slice(0, count))
            if count < table.num_rows:
                left.append(table.slice(count))
        self._tables = left
        return found

    def tables(self) -> list[pa.Table]:
        """Return all rows; the tables never change."""
        return list(self._tables)


def _ordered(table: pa.Table) -> pa.Table:
    times = table.column(PANE).to_numpy()
    if (times[1:] < times[:-1]).any():
        table = table.take(pa.array(np.argsort(times, kind="stable")))
    return table.combine_chunks()
