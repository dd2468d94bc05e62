"""What is left of many changes: of each key the row that is there at the end, or that there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headgate.common.errors import UsageError
from headgate.connectors.database.statements import DELETE, UPSERT
from headgate.relational.changes import CHANGE, Change

if TYPE_CHECKING:
    import pyarrow as pa

_WEIGHT: Final = "__weight"
_TOGETHER: Final = 1 << 16
"""Changes that wait before those that cancel each other are left out."""


class NetChanges:
    """Changes of one subtask since the last checkpoint; `keys` are the columns that tell rows apart."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self._keys = keys
        self._waiting: list[pa.Table] = []

    def add(self, records: list[Any] | pa.RecordBatch) -> None:
        """Add changes, which have `CHANGE` last. UsageError: they lack a key."""
        import numpy as np
        import pyarrow as pa

        rows = pa.table(records) if isinstance(records, pa.RecordBatch) else pa.Table.from_pylist(records)
        missing = [key for key in self._keys if key not in rows.column_names]
        if missing:
            raise UsageError(f"the rows have no column {missing[0]!r}; expected it, as it is of the key")
        adds = np.array([1 if change.adds else -1 for change in Change], np.int64)
        weights = pa.array(adds[rows.column(CHANGE).to_numpy()])
        self._waiting.append(rows.drop_columns(CHANGE).append_column(_WEIGHT, weights))
        if sum(each.num_rows for each in self._waiting) > _TOGETHER:
            self._waiting = [self._net()]

    def _net(self) -> pa.Table:
        import pyarrow as pa
        import pyarrow.compute as pc

        whole = pa.concat_tables(self._waiting)
        names = [name for name in whole.column_names if name != _WEIGHT]
        found = whole.group_by(names, use_threads=False).aggregate([(_WEIGHT, "sum")])
        found = found.rename_columns([*names, _WEIGHT])
        return found.filter(pc.not_equal(found.column(_WEIGHT), 0)).select(whole.column_names)

    def taken(self) -> tuple[list[str], list[tuple[int, tuple[Any, ...]]]]:
        """Return the names of the columns, and for each key that changed what to do, with the row; forget
        them. UsageError: two rows have one key, or a key is null.
        """
        if not self._waiting:
            return [], []
        rows, self._waiting = self._net().to_pylist(), []
        found: dict[tuple[Any, ...], tuple[int, tuple[Any, ...]]] = {}
        for row in sorted(rows, key=lambda row: row[_WEIGHT]):  # those that go first
            weight, key = row.pop(_WEIGHT), tuple(row[name] for name in self._keys)
            if None in key:
                raise UsageError(
                    f"a row has a null in its key: {row!r:.200}; filter such rows before the sink"
                )
            if weight > 1 or (weight > 0 and found.get(key, (DELETE,))[0] == UPSERT):
                raise UsageError(
                    f"two rows have the key {dict(zip(self._keys, key, strict=True))!r:.200}; name the "
                    "columns as key that tell rows apart, or drop_duplicates() first"
                )
            found[key] = UPSERT if weight > 0 else DELETE, tuple(row.values())
        return list(rows[0]) if rows else [], list(found.values())
