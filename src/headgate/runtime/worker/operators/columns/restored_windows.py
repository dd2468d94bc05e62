"""Windows' accumulators out of a snapshot: stored maps, which have an entry for each pane, become tables."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pyarrow as pa

from headgate.runtime.worker.operators.columns.kept_windows import PANE, Restoring


class RestoredWindows:
    """Adds stored maps, from pane to a record for each key, to the windows that are kept.

    `keys` and `values` are the columns of keys and of records. `numbered`: a key may have several records in
    a pane, which are stored under the pane and a number.
    """

    def __init__(self, keys: pa.Schema, values: pa.Schema, numbered: bool = False) -> None:
        self._keys, self._values, self._numbered = keys, values, numbered

    def load(self, into: Restoring, keys: Sequence[Hashable], values: Sequence[Any]) -> None:
        """Add windows to `into`, as a table: `values` has the stored map of each of `keys`."""
        rows = [
            (key, place[0] if self._numbered else place, record)
            for key, panes in zip(keys, values, strict=True)
            for place, record in panes.items()
        ]
        if not rows:
            return
        of_keys, panes, records = zip(*rows, strict=True)
        columns = list(zip(*of_keys, strict=True)) if len(self._keys) > 1 else [of_keys]
        arrays = {PANE: pa.array(panes, pa.int64())}
        for column, field in zip(columns, self._keys, strict=True):
            arrays[field.name] = pa.array(column, field.type)
        for column, field in zip(zip(*records, strict=True), self._values, strict=True):
            arrays[field.name] = pa.array(column, field.type)
        into.add(pa.table(arrays))
