"""An order of rows that their values alone decide, so that what is computed of them is always the same.

Answers may depend on the order of rows: rounded sums, first values, ties. Rows come back from a snapshot in
another order than they had in memory, and then what is taken back has to be what was sent.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def in_content_order(rows: pa.Table) -> pa.Table:
    """Return the rows ordered by all columns, from the first on; arrays, maps and structs are passed over."""
    columns = {
        field.name: _comparable(rows.column(field.name))
        for field in rows.schema
        if not pa.types.is_nested(field.type)
    }
    if rows.num_rows < 2 or not columns:
        return rows
    orders = [(name, "ascending") for name in columns]
    return rows.take(pc.sort_indices(pa.table(columns), sort_keys=orders))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    # By their bits: to Arrow 0.0 and -0.0 are equal, and the first of them would be any.
    if not pa.types.is_floating(column.type):
        return column
    values = column.combine_chunks()
    known = values.is_valid().to_numpy(zero_copy_only=False)
    doubles = values.cast(pa.float64()).fill_null(0.0).to_numpy()
    return pa.array(doubles.view(np.int64), mask=~known)
