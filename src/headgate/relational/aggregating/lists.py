"""Lists of values by group, as accumulators: made of rows, merged, and taken apart; never row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregating.groups import Groups
from headgate.relational.python_types import can_be_stored

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.relational.aggregating.groups import Int64s


def kept_list(kind: pa.DataType) -> pa.DataType:
    """Return the type of lists of values of type `kind`, none of which is null."""
    return pa.list_(pa.field("element", kind, nullable=False))


def can_be_listed(kind: pa.DataType) -> bool:
    """Return whether values of this type can be kept in lists: they can be stored, and are not nested."""
    return not pa.types.is_nested(kind) and can_be_stored(kind)


def listed(values: Sequence[pa.Array], there: NDArray[np.bool_]) -> list[pa.Array]:
    """Return each column as lists, one per row: with the row's value where it is `there`, empty elsewhere."""
    offsets = np.concatenate([[0], np.cumsum(there)])
    return [of_lengths(each.filter(pa.array(there)), offsets, kept_list(each.type)) for each in values]


def of_lengths(values: pa.Array, offsets: Int64s, kind: pa.DataType) -> pa.Array:
    """Return lists of type `kind`; the i-th has the values from offsets[i] to before offsets[i + 1]."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, type=kind)


def lengths(lists: pa.Array) -> Int64s:
    found: Int64s = pc.list_value_length(lists).to_numpy().astype(np.int64)
    return found


def owners(lists: pa.Array) -> Int64s:
    """Return for each value of all lists the index of its list."""
    return np.repeat(np.arange(len(lists)), lengths(lists))


def joined(groups: Groups, lists: pa.Array) -> pa.Array:
    """Return for each group one list: those of its rows, joined in order."""
    offsets = np.concatenate([[0], np.cumsum(groups.sums(lengths(lists)))])
    return of_lengths(lists.flatten(), offsets, lists.type)


def alike(values: pa.Array) -> pa.Array:
    """Return values in which equal ones have equal bits: -0.0 becomes 0.0, and every NaN the same one."""
    if not pa.types.is_floating(values.type):
        return values
    positive = pc.add(values, pa.scalar(0.0, values.type))
    return pc.if_else(pc.is_nan(positive), pa.scalar(float("nan"), values.type), positive)


def without_repeats(lists: Sequence[pa.Array], counts: pa.Array | None = None) -> list[pa.Array]:
    """Return parallel lists with each combination of their values once per list, at its first place.

    `counts` are parallel lists, too: counts of equal values are added, and come last in the result.
    """
    names = [f"v{place}" for place in range(len(lists))]
    owner = owners(lists[0])
    arrays = {"owner": pa.array(owner), "row": pa.array(np.arange(len(owner)))}
    arrays |= zip(names, (each.flatten() for each in lists), strict=True)
    asked = [("row", "min")]
    if counts is not None:
        arrays["count"] = counts.flatten()
        asked.append(("count", "sum"))
    found = pa.table(arrays).group_by(["owner", *names], use_threads=False).aggregate(asked)
    # Arrow gives the groups in any order.
    found = found.combine_chunks().take(pa.array(np.argsort(found.column("row_min").to_numpy())))
    each = np.bincount(found.column("owner").to_numpy(), minlength=len(lists[0]))
    offsets = np.concatenate([[0], np.cumsum(each)])
    if counts is not None:
        names.append("count_sum")
    kinds = [each.type for each in (*lists, *([] if counts is None else [counts]))]
    columns = [found.column(name).combine_chunks() for name in names]
    return [of_lengths(column, offsets, kind) for column, kind in zip(columns, kinds, strict=True)]
