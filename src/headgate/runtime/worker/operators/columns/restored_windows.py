"""Windows' accumulators on their way back from a snapshot: out of maps, into tables."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pyarrow as pa

from headgate.relational.aggregates import Accumulator
from headgate.runtime.worker.operators.columns.kept_windows import PANE, Restoring


class RestoredWindows:
    """Adds stored maps, from pane to accumulators for each key, to panes."""

    def __init__(self, keys: pa.Schema, columns: Sequence[tuple[str, Accumulator]]) -> None:
        self._keys, self._columns = keys, columns

    def load(self, into: Restoring, keys: Sequence[Hashable], values: Sequence[Any]) -> None:
        """Add the windows of some keys to `into`."""
        rows = [
            (key, pane, record)
            for key, panes in zip(keys, values, strict=True)
            for pane, record in panes.items()
        ]
        if not rows:
            return
        of_keys, panes, records = zip(*rows, strict=True)
        several = len(self._keys) > 1
        columns = list(zip(*of_keys, strict=True)) if several else [of_keys]
        arrays = {PANE: pa.array(panes, pa.int64())}
        for column, each in zip(columns, self._keys, strict=True):
            arrays[each.name] = pa.array(column, each.type)
        for column, (name, accumulator) in zip(zip(*records, strict=True), self._columns, strict=True):
            arrays[name] = pa.array(column, accumulator.type)
        into.add(pa.table(arrays))
