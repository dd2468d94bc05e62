"""Aggregates whose accumulators are merged each by itself, with Arrow's own hash aggregations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregating.accumulators import Accumulator, AggregateRule, Parts, as_it_is
from headgate.relational.casts import cast_values
from headgate.relational.resolved import Values
from headgate.relational.rules import Types
from headgate.relational.spark_types import bounded_decimal, is_integer, is_numeric

Judge = Callable[[Types], Parts | None]
_LONG, _DOUBLE = pa.int64(), pa.float64()


def _count(given: Types) -> Parts | None:
    if len(given) > 1:
        return None
    of_rows = "count" if given else "count_all"
    counted = Accumulator("count", _LONG, of_rows, "sum")
    return Parts(given, (counted,), _LONG, False, as_it_is)


def _count_if(given: Types) -> Parts | None:
    if given != (pa.bool_(),):
        return None
    return Parts(given, (Accumulator("count", _LONG, "count", "sum", "truths"),), _LONG, False, as_it_is)


def _of_truths(kernel: str) -> Judge:
    def judge(given: Types) -> Parts | None:
        if given != (pa.bool_(),):
            return None
        return Parts(given, (Accumulator(kernel, pa.bool_(), kernel, kernel),), pa.bool_(), True, as_it_is)

    return judge


def _product(given: Types) -> Parts | None:
    if len(given) != 1 or not is_numeric(given[0]):
        return None
    product = Accumulator("product", _DOUBLE, "product", "product")
    return Parts((_DOUBLE,), (product,), _DOUBLE, True, as_it_is)


# -- sums and means


def _sum(given: Types) -> Parts | None:
    if len(given) != 1 or not is_numeric(given[0]):
        return None
    kind = sum_type(given[0])
    inner = pa.decimal128(38, kind.scale) if pa.types.is_decimal(kind) else kind
    return Parts((inner,), (Accumulator("sum", inner, "sum", "sum"),), kind, True, fitting)


def sum_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that Spark gives to a sum of numbers of type `kind`."""
    if pa.types.is_decimal(kind):
        return bounded_decimal(min(38, kind.precision + 10), kind.scale)
    return _LONG if is_integer(kind) else _DOUBLE


def fitting(kind: pa.DataType, value: Values) -> Values:
    """Return a sum as type `kind`, that of its result; RowsFailed if it does not fit."""
    return value if value.type == kind else cast_values(value, kind, strict=True)


def _try_sum(given: Types) -> Parts | None:
    if len(given) != 1 or not is_numeric(given[0]):
        return None
    kind = sum_type(given[0])
    if pa.types.is_floating(kind):
        return _sum(given)
    return Parts(given, (_wide_sum(kind),), kind, True, _fitting_or_null)


def _wide_sum(kind: pa.DataType) -> Accumulator:
    # So wide that it overflows neither on the way nor at the end.
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    return Accumulator("sum", pa.decimal256(76, scale), "sum", "sum", "wide")


def _fitting_or_null(kind: pa.DataType, value: Values) -> Values:
    return cast_values(value, kind, strict=False)


def average(given: Types) -> Parts | None:
    """Return the parts of `avg` for arguments of the types `given`; None unless these are one number."""
    if len(given) != 1 or not is_numeric(given[0]):
        return None
    count = Accumulator("count", _LONG, "count", "sum")
    if pa.types.is_decimal(given[0]):
        inner = pa.decimal128(38, given[0].scale)
        total = Accumulator("sum", inner, "sum", "sum")
        return Parts((inner,), (total, count), _mean_type(given[0]), True, _decimal_mean)
    total = Accumulator("sum", _DOUBLE, "sum", "sum")
    return Parts((_DOUBLE,), (total, count), _DOUBLE, True, _mean)


def _mean_type(kind: pa.DataType) -> pa.DataType:
    return pa.decimal128(min(38, kind.precision + 4), min(38, kind.scale + 4))


def _mean(_kind: pa.DataType, total: Values, count: Values) -> Values:
    return pc.divide(total, pc.cast(_above_zero(count), _DOUBLE))


def _above_zero(count: Values) -> Values:
    return pc.if_else(pc.equal(count, 0), None, count)


def _decimal_mean(kind: pa.DataType, total: Values, count: Values) -> Values:
    return cast_values(_wide_mean(kind, total, count), kind, strict=True)


def _wide_mean(kind: pa.DataType, total: Values, count: Values) -> Values:
    scale = kind.scale + 1  # a digit more, by which the last one is rounded
    wide = pc.cast(total, pa.decimal256(total.type.precision + scale - total.type.scale, scale))
    counts = pc.cast(_above_zero(count), pa.decimal256(19, 0))
    return pc.round(pc.divide(wide, counts), ndigits=kind.scale, round_mode="half_towards_infinity")


def _try_avg(given: Types) -> Parts | None:
    if len(given) != 1 or not pa.types.is_decimal(given[0]):
        return average(given)
    total, count = _wide_sum(given[0]), Accumulator("count", _LONG, "count", "sum")
    inner = sum_type(given[0])

    def finish(kind: pa.DataType, total: Values, count: Values) -> Values:
        # A sum that does not fit has no mean, as in Spark, although the mean might fit.
        narrow = pc.cast(cast_values(total, inner, strict=False), pa.decimal128(38, inner.scale))
        return cast_values(_wide_mean(kind, narrow, count), kind, strict=False)

    return Parts(given, (total, count), _mean_type(given[0]), True, finish)


# -- extremes


def _extreme(name: str) -> Judge:
    def judge(given: Types) -> Parts | None:
        if len(given) != 1 or not is_ordered(given[0]):
            return None
        kind = given[0]
        if pa.types.is_floating(kind):
            # Arrow leaves NaN out, and Spark has it above all numbers.
            best = Accumulator(name, kind, name, name, "numbers")
            nans = Accumulator("nans", _LONG, "sum", "sum", "nans")
            finish = _most_with_nan if name == "max" else _least_with_nan
            return Parts(given, (best, nans), kind, True, finish)
        return Parts(given, (Accumulator(name, kind, name, name),), kind, True, as_it_is)

    return judge


def is_ordered(kind: pa.DataType) -> bool:
    """Return whether values of this type can be compared here, as numbers, texts and times can."""
    others = (pa.types.is_duration, pa.types.is_null, pa.types.is_nested)
    return not any(is_other(kind) for is_other in others)


def _most_with_nan(kind: pa.DataType, best: Values, nans: Values) -> Values:
    return pc.if_else(pc.greater(nans, 0), pa.scalar(float("nan"), kind), best)


def _least_with_nan(kind: pa.DataType, best: Values, nans: Values) -> Values:
    only = pc.and_(pc.is_null(best), pc.greater(nans, 0))
    return pc.if_else(only, pa.scalar(float("nan"), kind), best)


RULES: Final = (
    AggregateRule("count", _count, "a column, or * for all rows"),
    AggregateRule("count_if", _count_if, "a condition"),
    AggregateRule("bool_and", _of_truths("all"), "a condition"),
    AggregateRule("bool_or", _of_truths("any"), "a condition"),
    AggregateRule("sum", _sum, "a number"),
    AggregateRule("try_sum", _try_sum, "a number"),
    AggregateRule("product", _product, "a number"),
    AggregateRule("min", _extreme("min"), "a value that has an order"),
    AggregateRule("max", _extreme("max"), "a value that has an order"),
    AggregateRule("avg", average, "a number"),
    AggregateRule("try_avg", _try_avg, "a number"),
)
