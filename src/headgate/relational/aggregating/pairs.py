"""Aggregates of two columns: covariance, correlation, and the line through the points.

Rows in which one of both is null are left out. Accumulators are merged as those of `moments`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregating.accumulators import AggregateRule, Joint, Parts, as_it_is
from headgate.relational.aggregating.groups import Groups, doubles, nullable
from headgate.relational.aggregating.moments import DOUBLE, distances, no_distance, ratio
from headgate.relational.aggregating.numbers import average
from headgate.relational.resolved import Values
from headgate.relational.rules import Types
from headgate.relational.spark_types import is_numeric

if TYPE_CHECKING:
    from headgate.relational.aggregating.groups import Doubles

_PAIRS: Final = (("n", pa.int64()), ("mean_1", DOUBLE), ("mean_2", DOUBLE), ("c12", DOUBLE))
_SQUARES: Final = (("m2_1", DOUBLE), ("m2_2", DOUBLE))


def _of_rows(one: pa.Array, other: pa.Array) -> Sequence[pa.Array]:
    both = pc.and_(pc.is_valid(one), pc.is_valid(other))
    first, second = (doubles(pc.if_else(both, each, None)) for each in (one, other))
    squares = [no_distance(first), no_distance(second)]
    product = squares[0] + squares[1]
    return [pc.cast(both, pa.int64()), *map(pa.array, (first, second, product, *squares))]


def _merge(groups: Groups, counts: pa.Array, *others: pa.Array) -> Sequence[pa.Array]:
    number = counts.to_numpy()
    weights = number.astype(np.float64)
    first, second, product, *squares = map(doubles, others)
    with np.errstate(all="ignore"):
        total = groups.sums(weights)
        mean_1, away_1, error_1 = distances(groups, weights, first)
        mean_2, away_2, error_2 = distances(groups, weights, second)
        sums = [groups.sums(product + weights * away_1 * away_2) - total * error_1 * error_2]
        for square, away, error in zip(squares, (away_1, away_2), (error_1, error_2), strict=False):
            sums.append(np.maximum(groups.sums(square + weights * away**2) - total * error**2, 0.0))
    return [pa.array(groups.sums(number)), *map(pa.array, (mean_1, mean_2, *sums))]


def _of_rows_without_squares(one: pa.Array, other: pa.Array) -> Sequence[pa.Array]:
    return _of_rows(one, other)[: len(_PAIRS)]


_JOINT: Final = Joint((*_PAIRS, *_SQUARES), _of_rows, _merge)
_WITHOUT_SQUARES: Final = Joint(_PAIRS, _of_rows_without_squares, _merge)

Finish = Callable[..., pa.Array]
"""Gives the result of the count, both means, the sum of products, and both sums of squares."""


def _covariance(sample: bool) -> Finish:
    return lambda number, _x, _y, product: ratio(product, number - 1 if sample else number, number)


def _correlation(number: Doubles, _x: Doubles, _y: Doubles, *sums: Doubles) -> pa.Array:
    product, first, second = sums
    # Spark's order of operations, which says when the divisor becomes 0.
    return ratio(product, np.sqrt(first * second), number - 1)


def _there(value: Doubles, number: Doubles) -> pa.Array:
    return nullable(value, DOUBLE, number > 0)


# The line is that of the first argument, y, over the second one, x.


def _slope(
    number: Doubles, _y: Doubles, _x: Doubles, product: Doubles, _: Doubles, of_x: Doubles
) -> pa.Array:
    return ratio(product, of_x, number)


def _intercept(
    number: Doubles, y: Doubles, x: Doubles, product: Doubles, _: Doubles, of_x: Doubles
) -> pa.Array:
    slope = ratio(product, of_x, number)
    return pc.subtract(pa.array(y), pc.multiply(slope, pa.array(x)))


def _determination(
    number: Doubles, _y: Doubles, _x: Doubles, product: Doubles, of_y: Doubles, of_x: Doubles
) -> pa.Array:
    has_line = (of_x != 0) & (number > 0)
    found = ratio(product * product, of_x * of_y, has_line.astype(np.float64))
    return pc.if_else(pa.array(has_line & (of_y == 0)), 1.0, found)


def _rule(name: str, finish: Finish, joint: Joint = _JOINT) -> AggregateRule:
    def finished(_kind: pa.DataType, count: Values, *others: Values) -> Values:
        with np.errstate(all="ignore"):
            return finish(count.to_numpy().astype(np.float64), *(each.to_numpy() for each in others))

    def judge(given: Types) -> Parts | None:
        if len(given) != 2 or not all(map(is_numeric, given)):
            return None
        return Parts((DOUBLE, DOUBLE), (joint,), DOUBLE, True, finished)

    return AggregateRule(name, judge, "two numbers")


def _count_of_pairs(given: Types) -> Parts | None:
    if len(given) != 2 or not all(map(is_numeric, given)):
        return None
    return Parts((DOUBLE, DOUBLE), (_WITHOUT_SQUARES,), pa.int64(), False, as_it_is)


def _mean_of_pairs(place: int) -> Callable[[Types], Parts | None]:
    def judge(given: Types) -> Parts | None:
        found = average(given[place : place + 1])
        if found is None or len(given) != 2 or not all(map(is_numeric, given)):
            return None
        takes = ("first", "second")[place]
        accumulators = tuple(each._replace(takes=takes) for each in found.accumulators)  # type: ignore[call-arg]
        arguments = tuple(found.arguments[0] if at == place else each for at, each in enumerate(given))
        return found._replace(arguments=arguments, accumulators=accumulators)

    return judge


RULES: Final = (
    _rule("covar_pop", _covariance(sample=False), _WITHOUT_SQUARES),
    _rule("covar_samp", _covariance(sample=True), _WITHOUT_SQUARES),
    _rule("corr", _correlation),
    AggregateRule("regr_count", _count_of_pairs, "two numbers"),
    AggregateRule("regr_avgx", _mean_of_pairs(1), "two numbers"),
    AggregateRule("regr_avgy", _mean_of_pairs(0), "two numbers"),
    _rule("regr_sxy", lambda number, _y, _x, product: _there(product, number), _WITHOUT_SQUARES),
    _rule("regr_sxx", lambda number, _y, _x, _, _y2, x2: _there(x2, number)),
    _rule("regr_syy", lambda number, _y, _x, _, y2, _x2: _there(y2, number)),
    _rule("regr_slope", _slope),
    _rule("regr_intercept", _intercept),
    _rule("regr_r2", _determination),
)
