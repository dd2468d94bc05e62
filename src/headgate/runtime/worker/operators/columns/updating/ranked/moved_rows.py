"""Which rows go and which come when keys' first rows are ranked anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.runtime.worker.operators.columns.updating.by_key.key_runs import Lists, ranges
from headgate.runtime.worker.operators.columns.updating.ranked.kept_ranks import Contest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headgate.records.batch import Int64s

    Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]


def crossing(contest: Contest) -> Masks:
    """Return which rows that were among the first are not any more, and which of the first ones are new."""
    new = contest.first.rows >= len(contest.old.values)
    goes = np.ones(len(contest.old.values), np.bool_)
    goes[contest.first.rows[~new]] = False
    return goes, new


def moving(contest: Contest, shown: Sequence[str]) -> Masks:
    """Return which rows that were among the first are at their places no more, and which of the first ones
    were not at theirs; rows that are equal in the columns `shown` are taken for one.
    """
    old, first = contest.old, contest.first
    starts = np.flatnonzero(first.places == 1)
    counts = np.diff(starts, append=len(first.rows))
    places = places_in(old)
    # Fewer rows are left of a key only if an earlier program kept more.
    left = np.flatnonzero(places <= np.repeat(counts, old.counts))
    instead = np.repeat(starts, old.counts)[left] + places[left] - 1
    now = first.rows[instead]
    stays = now == left
    maybe = np.flatnonzero(~stays & _alike(contest.codes, left, now))
    if len(maybe):
        stays[maybe] = _equal(contest.rows_at(left[maybe]), contest.rows_at(now[maybe]), shown)
    goes, comes = np.ones(len(places), np.bool_), np.ones(len(first.rows), np.bool_)
    goes[left[stays]] = False
    comes[instead[stays]] = False
    return goes, comes


def places_in(lists: Lists) -> Int64s:
    """Return the place of each integer in its list, from 1."""
    return ranges(np.ones_like(lists.counts), lists.counts)


def _alike(codes: Sequence[Int64s], some: Int64s, others: Int64s) -> NDArray[np.bool_]:
    found = np.ones(len(some), np.bool_)
    for each in codes:
        found &= each[some] == each[others]
    return found


def _equal(some: pa.Table, others: pa.Table, names: Sequence[str]) -> NDArray[np.bool_]:
    # As rows are where weights are summed up.
    found = np.ones(some.num_rows, np.bool_)
    for name in names:
        one, other = (_bits(table.column(name).combine_chunks()) for table in (some, others))
        if pa.types.is_nested(one.type):
            return np.zeros(some.num_rows, np.bool_)
        same = pc.fill_null(pc.equal(one, other), False).to_numpy(zero_copy_only=False)
        both_null = pc.and_(pc.is_null(one), pc.is_null(other)).to_numpy(zero_copy_only=False)
        found &= same | both_null
    return found


def _bits(values: pa.Array) -> pa.Array:
    sizes = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}
    return values.view(sizes[values.type]) if values.type in sizes else values
