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
    was: NDArray[np.bool_],
    stays: NDArray[np.bool_],
) -> pa.RecordBatch:
    """Return the changes that turn old rows into new ones: of each row that was there and is another now, the
    old values directly before the new ones; rows that stay as they are give none.

    `keys`, `before` and `after` have a row for each key. `was` says which keys had a row, `stays` which have
    one now; the values of others mean nothing. `schema` has the columns of all, and `CHANGE` last.
    """
    both = was & stays
    differs = was ^ stays
    if both.all():
        differs = _different(before, after)
    else:
        kept = ([each.filter(pa.array(both)) for each in side] for side in (before, after))
        differs[both] = _different(*kept)
    leaves, comes = differs & was, differs & stays
    counts = leaves.astype(np.int64) + comes
    starts = np.cumsum(counts) - counts
    rows = np.empty(int(counts.sum()), np.int64)
    kinds = np.empty(len(rows), np.int8)
    for number, (which, alone, paired) in enumerate(
        ((leaves, Change.DELETE, Change.UPDATE_BEFORE), (comes, Change.INSERT, Change.UPDATE_AFTER))
    ):
        at = starts[which] + (leaves[which] if number else 0)
        # The new values of a table lie behind the old ones.
        rows[at] = np.flatnonzero(which) + number * len(was)
        kinds[at] = np.where(both[which], paired, alone)
    of_keys = pa.array(rows % max(len(was), 1))
    columns = [each.take(of_keys) for each in keys]
    for old, new in zip(before, after, strict=True):
        columns.append(pa.concat_arrays([old, new]).take(pa.array(rows)))
    return pa.RecordBatch.from_arrays([*columns, pa.array(kinds)], schema=schema)


def _different(before: Sequence[pa.Array], after: Sequence[pa.Array]) -> NDArray[np.bool_]:
    found = [_unlike(old, new) for old, new in zip(before, after, strict=True)]
    none = np.zeros(len(before[0]) if before else 0, np.bool_)
    return reduce(np.logical_or, found, none)


def _unlike(old: pa.Array, new: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_nested(old.type):
        pairs = zip(old.to_pylist(), new.to_pylist(), strict=True)
        return np.array([one != other for one, other in pairs], np.bool_)
    unlike: NDArray[np.bool_] = pc.fill_null(pc.not_equal(old, new), False).to_numpy(zero_copy_only=False)
    if pa.types.is_integer(old.type) and not old.null_count and not new.null_count:
        return unlike
    one_null = pc.xor(pc.is_null(old), pc.is_null(new)).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(old.type):
        both = pc.and_(pc.is_nan(old), pc.is_nan(new))
        unlike = unlike & ~pc.fill_null(both, False).to_numpy(zero_copy_only=False)
    either: NDArray[np.bool_] = np.logical_or(unlike, one_null)
    return either
