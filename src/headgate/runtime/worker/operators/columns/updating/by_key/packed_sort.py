"""Keys as integers, and rows sorted by several columns of integers: as many as fit are packed into one
integer with the index of the row, and sorted at once. Only rows that are equal in these are looked at again,
with the next columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

_BITS: Final = 63
_NARROW_BITS: Final = 31
"""Integers that differ by more bits are numbered, to be sorted with others: that takes twice as long."""


def sorted_by(columns: Sequence[Int64s]) -> tuple[Int64s, NDArray[np.bool_]]:
    """Return the indices of rows in ascending order of `columns`, of equal rows the lower one first, and for
    each of them whether its row is equal to the one before it in all columns.
    """
    found, same, used = _by_some(columns)
    while used < len(columns):
        tied = np.flatnonzero(with_first(same))
        if not len(tied):
            break
        rows = found[tied]
        runs = np.cumsum(~same, dtype=np.int64)[tied]
        left = [each[rows] for each in columns[used:]]
        order, same[tied], more = _by_some([runs, *left])
        found[tied] = rows[order]
        used += more - 1
    return found, same


def distinct(numbers: Int64s) -> Int64s:
    """Return the different numbers, ascending."""
    ordered = np.sort(numbers)  # np.unique has a hash table, which takes three times as long
    return ordered[~_repeats(ordered)]


def with_first(same: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which sorted rows are equal to a neighbour, given which are equal to the one before."""
    found = same.copy()
    found[:-1] |= same[1:]
    return found


def _by_some(columns: Sequence[Int64s]) -> tuple[Int64s, NDArray[np.bool_], int]:
    """Sort by so many columns as fit, two at least if there are two; return how many these are, too."""
    count = len(columns[0])
    packed, used, bits = np.zeros(count, np.int64), 0, max(count - 1, 0).bit_length()
    index_bits = bits
    for column in columns if count else ():
        least = int(column.min())
        width = (int(column.max()) - least).bit_length()
        if bits + width > _BITS:
            break
        packed = (packed << width) | (column - least)
        used, bits = used + 1, bits + width
    if not used or (used == 1 and len(columns) > 1):
        return _by_two(columns[:2])
    ordered = np.sort((packed << index_bits) | np.arange(count))
    return ordered & ((1 << index_bits) - 1), _repeats(ordered >> index_bits), used


def _by_two(columns: Sequence[Int64s]) -> tuple[Int64s, NDArray[np.bool_], int]:
    found = np.lexsort(columns[::-1])
    same = np.ones(len(found), np.bool_)
    for each in columns:
        same &= _repeats(each[found])
    return found, same, len(columns)


def _repeats(values: Int64s) -> NDArray[np.bool_]:
    """Return for each value whether it is the one before."""
    same = np.zeros(len(values), np.bool_)
    same[1:] = values[1:] == values[:-1]
    return same


def key_integers(keys: pa.Table) -> list[Int64s]:
    """Return a column of integers for each column, the same for equal values; none of these is null."""
    return [_integers_of(column.combine_chunks()) for column in keys.columns]


def narrow_integers(values: pa.Array) -> Int64s:
    """Return integers, the same for equal values, of which none is null, and near enough to each other that
    they fit into one with the numbers of groups and of rows of a batch.
    """
    found = _integers_of(values)
    if len(found) and (int(found.max()) - int(found.min())).bit_length() > _NARROW_BITS:
        found = _of_dictionary(values)
    return found


def _integers_of(values: pa.Array) -> Int64s:
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return as_integers(values)
    return _of_dictionary(values)


def _of_dictionary(values: pa.Array) -> Int64s:
    return as_integers(values.dictionary_encode().indices)


def as_integers(values: pa.Array) -> Int64s:
    """Return integers, booleans or times as integers; 0 in place of null."""
    kind = values.type
    if pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        values = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    if values.null_count:
        values = values.fill_null(0)
    found: Int64s = values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found
