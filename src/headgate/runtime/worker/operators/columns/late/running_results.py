"""The accumulators of a window after each of several late rows: its own, merged with the rows so far."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from headgate.relational.aggregating.grouping import Grouping
from headgate.runtime.worker.operators.columns.late.rows_of_keys import ranges
from headgate.runtime.worker.operators.columns.session_grouping import key_numbers

if TYPE_CHECKING:
    from headgate.records.batch import Int64s

_FIRING: Final = "__firing"
_AT_ONCE: Final = 64
"""Rows of a key whose results are computed together: each adds all rows before it, so work grows with it."""


def portions(rows: pa.Table, keys: tuple[str, ...]) -> Iterator[Int64s]:
    """Yield the indices of rows, ascending, in portions with at most 64 rows per key, for :func:`running`."""
    if not len(rows):
        return
    portion = nth_of_key(rows, keys) // _AT_ONCE
    for number in range(int(portion.max()) + 1):
        yield np.flatnonzero(portion == number)


def nth_of_key(rows: pa.Table, keys: tuple[str, ...]) -> Int64s:
    """Return for each row how many rows before it have its key."""
    order, begins = _by_key(key_numbers(rows, keys))
    nth = np.empty(len(rows), dtype=np.int64)
    nth[order] = np.arange(len(rows)) - begins
    return nth


def running(grouping: Grouping, rows: pa.Table, before: pa.Table | None) -> pa.Table:
    """Return, for each of `rows`, the accumulators of its key after it: of `before`, and of rows up to it.
    `before` has one row at most for each key; None: it has none. `rows` are accumulators in order of arrival.
    """
    count, names = len(rows), [*grouping.keys, *(name for name, _ in grouping.fields)]
    both = rows.select(names)
    if before is not None:
        both = pa.concat_tables([both, before.select(names)])
    numbers = key_numbers(both, grouping.keys)
    order, begins = _by_key(numbers[:count])
    lengths = np.arange(count) - begins + 1
    members, firing = order[ranges(begins, lengths)], np.repeat(order, lengths)
    if before is not None:
        place = np.full(int(numbers.max()) + 1, -1)
        place[numbers[count:]] = np.arange(count, len(both))
        known = place[numbers[:count]]
        has = np.flatnonzero(known >= 0)
        # First of all, as aggregates such as `first` see rows in their order.
        members, firing = np.concatenate([known[has], members]), np.concatenate([has, firing])
    table = both.take(pa.array(members)).append_column(_FIRING, pa.array(firing))
    found = Grouping((_FIRING, *grouping.keys), grouping.columns).merged(table)
    in_order = np.argsort(found.column(_FIRING).to_numpy(), kind="stable")
    return found.take(pa.array(in_order)).drop_columns(_FIRING).combine_chunks()


def _by_key(numbers: Int64s) -> tuple[Int64s, Int64s]:
    # Row indices sorted by number, and for each of them the position where its number begins.
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    return order, np.repeat(starts, np.diff(starts, append=len(order)))
