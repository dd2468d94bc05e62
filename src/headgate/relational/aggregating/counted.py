"""Aggregates that keep each of a group's values with how often it comes: mode, median and percentiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import PlanError
from headgate.relational.aggregating.accumulators import AggregateRule, Joint, Parts
from headgate.relational.aggregating.groups import Groups, nullable, picked, present
from headgate.relational.aggregating.lists import (
    alike,
    can_be_listed,
    joined,
    kept_list,
    lengths,
    listed,
    owners,
    without_repeats,
)
from headgate.relational.aggregating.numbers import is_ordered
from headgate.relational.aggregating.picked import ranks
from headgate.relational.resolved import Values
from headgate.relational.rules import RowsFailed, Types
from headgate.relational.spark_types import is_integer, is_numeric, list_of

if TYPE_CHECKING:
    from headgate.relational.aggregating.groups import Doubles, Int64s

_LONG, _DOUBLE = pa.int64(), pa.float64()


def _counted(kind: pa.DataType) -> Joint:
    return Joint((("values", kept_list(kind)), ("counts", kept_list(_LONG))), _counted_row, _added)


def _counted_row(values: pa.Array, times: pa.Array | None = None) -> Sequence[pa.Array]:
    if times is None:
        times = pa.repeat(pa.scalar(1, _LONG), len(values))
    often = np.asarray(pc.fill_null(times, 0))
    if (often < 0).any():
        why = f"a frequency is {int(often.min())}; expected none below 0"
        raise RowsFailed("INVALID_PARAMETER_VALUE.FREQUENCY", why)
    return listed([alike(values), times], present(values) & (often > 0))


def _added(groups: Groups, values: pa.Array, counts: pa.Array) -> Sequence[pa.Array]:
    return without_repeats([joined(groups, values)], joined(groups, counts))


# -- mode


def _mode(given: Types, _deterministic: bool = False) -> Parts | None:
    if len(given) != 1 or not (can_be_listed(given[0]) and is_ordered(given[0])):
        return None
    return Parts(given, (_counted(given[0]),), given[0], True, _most_frequent)


def _most_frequent(_kind: pa.DataType, values: Values, counts: Values) -> Values:
    flat, owner = values.flatten(), owners(values)
    # By list, the most frequent first, and of these the least.
    order = np.lexsort((ranks(flat), -counts.flatten().to_numpy(), owner))
    size = lengths(values)
    places = np.full(len(values), -1)
    places[size > 0] = order[(np.cumsum(size) - size)[size > 0]]
    return picked(flat, places)


# -- percentiles


def _percentile(given: Types, wanted: float | tuple[float, ...] = 0.5) -> Parts | None:
    if len(given) not in (1, 2) or not is_numeric(given[0]) or not all(map(is_integer, given[1:])):
        return None
    shares = wanted if isinstance(wanted, tuple) else (wanted,)
    if not shares or not all(0 <= each <= 1 for each in shares):
        raise PlanError(
            f"percentile() got {wanted!r}; expected shares from 0 to 1, such as 0.5 for the median"
        )
    kind = list_of(_DOUBLE) if isinstance(wanted, tuple) else _DOUBLE

    def finish(result: pa.DataType, values: Values, counts: Values) -> Values:
        ordered, until, totals = _ordered(values, counts)
        columns = [_between(ordered, until, totals, float(share)) for share in shares]
        known = totals > 0
        if result == _DOUBLE:
            return nullable(columns[0], _DOUBLE, known)
        ends = np.concatenate([[0], np.cumsum(np.where(known, len(shares), 0))]).astype(np.int32)
        flat = pa.array(np.stack(columns, axis=1)[known].ravel())
        return pa.ListArray.from_arrays(pa.array(ends), flat, type=result, mask=pa.array(~known))

    return Parts((_DOUBLE, *(_LONG for _ in given[1:])), (_counted(_DOUBLE),), kind, True, finish)


def _ordered(values: pa.Array, counts: pa.Array) -> tuple[Doubles, Int64s, Int64s]:
    # All values, ascending in each list; the running count of rows up to each; rows per list.
    flat, often, owner = values.flatten().to_numpy(), counts.flatten().to_numpy(), owners(values)
    order = np.lexsort((flat, owner))
    totals = np.bincount(owner, weights=often, minlength=len(values)).astype(np.int64)
    return flat[order], np.cumsum(often[order]), totals


def _between(ordered: Doubles, until: Int64s, totals: Int64s, share: float) -> Doubles:
    if not len(ordered):
        return np.zeros(len(totals))
    before = np.cumsum(totals) - totals
    place = np.maximum(totals - 1, 0) * share
    low, high = np.floor(place).astype(np.int64), np.ceil(place).astype(np.int64)
    last = len(ordered) - 1
    below, above = (
        ordered[np.minimum(np.searchsorted(until, before + at, side="right"), last)] for at in (low, high)
    )
    with np.errstate(invalid="ignore"):
        mixed = below + (above - below) * (place - low)
    same = (low == high) | (below == above) | (np.isnan(below) & np.isnan(above))
    return np.where(same, below, mixed)


RULES: Final = (
    AggregateRule("mode", _mode, "a value that has an order"),
    AggregateRule(
        "percentile", _percentile, "a number, a share from 0 to 1 or several, and how often it counts"
    ),
    AggregateRule("median", lambda given: _percentile(given) if len(given) == 1 else None, "a number"),
)
