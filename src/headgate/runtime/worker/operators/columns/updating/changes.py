"""Rows of a changelog, from the rows of a table before and after."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.changes import Change

if TYPE_CHECKING:
    from numpy.typing import NDArray


def changes_between(
    schema: pa.Schema,
    keys: Sequence[pa.Array],
    before: Sequence[pa.Array],
    after: Sequence[pa.Array],
    known: NDArray[np.bool_],
) -> pa.RecordBatch:
    """Return the changes that turn old rows into new ones: of each row that was there and is another now, the
    old values directly before the new ones; rows that stay as they are give none.

    `keys` and `after` have a row for each key, `before` one for each of which `known` is true; `schema` has
    their columns, and `CHANGE` last.
    """
    rows = len(known)
    place_before = np.cumsum(known) - 1
    differs = ~known
    old_rows = np.flatnonzero(known)
    if len(old_rows):
        differs[old_rows] = _different(before, [each.take(pa.array(old_rows)) for each in after])
    updated = differs & known
    counts = differs.astype(np.int64) + updated
    starts = np.cumsum(counts) - counts
    total = int(counts.sum())
    source = np.empty(total, np.int64)  # index into the rows after, or, beyond `rows`, into those before
    kinds = np.empty(total, np.int8)
    olds = starts[updated]
    source[olds], kinds[olds] = rows + place_before[updated], Change.UPDATE_BEFORE
    news = (starts + updated)[differs]
    source[news] = np.flatnonzero(differs)
    kinds[news] = np.where(known[differs], Change.UPDATE_AFTER, Change.INSERT)
    of_key = np.where(source >= rows, old_rows[np.maximum(source - rows, 0)] if len(old_rows) else 0, source)
    columns = [each.take(pa.array(of_key)) for each in keys]
    for old, new in zip(before, after, strict=True):
        columns.append(pa.concat_arrays([new, old]).take(pa.array(source)))
    return pa.RecordBatch.from_arrays([*columns, pa.array(kinds)], schema=schema)


def _different(before: Sequence[pa.Array], after: Sequence[pa.Array]) -> NDArray[np.bool_]:
    found = [_unlike(old, new) for old, new in zip(before, after, strict=True)]
    return reduce(np.logical_or, found)


def _unlike(old: pa.Array, new: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_nested(old.type):
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        return np.array([one != other for one, other in pairs], np.bool_)
    unlike: NDArray[np.bool_] = pc.fill_null(pc.not_equal(old, new), False).to_numpy(zero_copy_only=False)
    one_null = pc.xor(pc.is_null(old), pc.is_null(new)).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(old.type):
        both = pc.and_(pc.is_nan(old), pc.is_nan(new))
        unlike = unlike & ~pc.fill_null(both, False).to_numpy(zero_copy_only=False)
    return np.logical_or(unlike, one_null)
