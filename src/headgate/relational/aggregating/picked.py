"""Aggregates that give one of a group's values: by the order in which they come, or by another column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregating.accumulators import AggregateRule, Joint, Parts, as_it_is
from headgate.relational.aggregating.groups import Groups, nullable, picked, present
from headgate.relational.aggregating.numbers import is_ordered
from headgate.relational.rules import Types
from headgate.relational.spark_types import is_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

Merge = Callable[..., Sequence[pa.Array]]


def _values_of_rows(*arguments: pa.Array) -> Sequence[pa.Array]:
    return arguments


def _one(name: str, kind: pa.DataType, merge: Merge) -> Parts:
    return Parts((kind,), (Joint(((name, kind),), _values_of_rows, merge),), kind, True, as_it_is)


def _by_place(name: str, at: Callable[[Groups, NDArray[np.bool_]], NDArray[np.int64]]) -> AggregateRule:
    def of_all(groups: Groups, values: pa.Array) -> Sequence[pa.Array]:
        return (picked(values, at(groups, np.ones(groups.rows, np.bool_))),)

    def of_known(groups: Groups, values: pa.Array) -> Sequence[pa.Array]:
        return (picked(values, at(groups, present(values))),)

    def judge(given: Types, ignore_nulls: bool = False) -> Parts | None:
        if len(given) != 1:
            return None
        # What is stored has another name, as it would be another value.
        stored = f"{name}_not_null" if ignore_nulls else name
        return _one(stored, given[0], of_known if ignore_nulls else of_all)

    return AggregateRule(name, judge, "a column, and whether nulls are left out", ordered=True)


# -- by another column


def ranks(values: pa.Array) -> NDArray[Any]:
    """Return integers in the order of `values`: equal for equal ones, NaN above all others.

    Nulls have any number.
    """
    if is_integer(values.type) or pa.types.is_temporal(values.type):
        width = pa.int32() if pa.types.is_date(values.type) else pa.int64()
        whole = values if is_integer(values.type) else values.cast(width)
        return np.asarray(pc.fill_null(whole, 0))
    return np.asarray(pc.rank(values, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)


def _by_order(name: str, best: np.ufunc) -> AggregateRule:
    def merge(groups: Groups, values: pa.Array, order: pa.Array) -> Sequence[pa.Array]:
        rank, known = ranks(order), present(order)
        limits = np.iinfo(rank.dtype)
        worst = limits.min if best is np.maximum else limits.max
        rank = np.where(known, rank, worst)
        found = groups.last(known & (rank == best.reduceat(rank, groups.starts)[groups.numbers]))
        return picked(values, found), picked(order, found)

    def judge(given: Types) -> Parts | None:
        if len(given) != 2 or not is_ordered(given[1]):
            return None
        fields = ((f"{name}_value", given[0]), (f"{name}_order", given[1]))
        return Parts(given, (Joint(fields, _ordered_values, merge),), given[0], True, as_it_is)

    return AggregateRule(name, judge, "a column, and one that has an order", ordered=True)


def _ordered_values(values: pa.Array, order: pa.Array) -> Sequence[pa.Array]:
    return pc.if_else(pc.is_valid(order), values, pa.scalar(None, values.type)), order


# -- bits


def _of_bits(name: str, function: np.ufunc, of_none: int) -> AggregateRule:
    def merge(groups: Groups, values: pa.Array) -> Sequence[pa.Array]:
        known = present(values)
        filled = np.asarray(pc.fill_null(values, of_none))
        found = function.reduceat(filled, groups.starts)
        return (nullable(found, values.type, np.logical_or.reduceat(known, groups.starts)),)

    def judge(given: Types) -> Parts | None:
        return _one(name, given[0], merge) if len(given) == 1 and is_integer(given[0]) else None

    return AggregateRule(name, judge, "a whole number")


RULES: Final = (
    _by_place("first", Groups.first),
    _by_place("last", Groups.last),
    _by_place("any_value", Groups.first),
    _by_order("max_by", np.maximum),
    _by_order("min_by", np.minimum),
    _of_bits("bit_and", np.bitwise_and, -1),
    _of_bits("bit_or", np.bitwise_or, 0),
    _of_bits("bit_xor", np.bitwise_xor, 0),
)
