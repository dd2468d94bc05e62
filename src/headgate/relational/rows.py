"""Rows of a record batch, or some of them, for which expressions are evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.relational.resolved import Values


class Rows:
    """The rows of a batch at `places` (None: all); a column is cut down to them when it is first read.

    Attributes:
        num_rows: how many rows.
        computed: values of `Shared` expressions for these rows, by slot; :meth:`known` looks further.
    """

    __slots__ = ("_columns", "_of", "_places", "computed", "num_rows")

    def __init__(self, of: pa.RecordBatch | Rows, places: pa.Array | None = None) -> None:
        self._of, self._places = of, places
        self.num_rows: int = of.num_rows if places is None else len(places)
        self._columns: dict[int, pa.Array] = {}
        self.computed: dict[int, Values] = {}

    def column(self, index: int) -> pa.Array:
        found = self._columns.get(index)
        if found is None:
            found = self._of.column(index)
            if self._places is not None:
                found = found.take(self._places)
            self._columns[index] = found
        return found

    def known(self, slot: int) -> Values | None:
        """Return the values of the `Shared` expression `slot` for these rows; None: not computed yet.
        They are taken from a larger set, of which these rows are a part, if they were computed for that.
        """
        found = self.computed.get(slot)
        if found is None and isinstance(self._of, Rows) and (whole := self._of.known(slot)) is not None:
            found = whole if isinstance(whole, pa.Scalar) else whole.take(self._places)
            self.computed[slot] = found
        return found

    def some(self, wanted: NDArray[np.bool_]) -> Rows:
        return Rows(self, pa.array(np.flatnonzero(wanted)))
