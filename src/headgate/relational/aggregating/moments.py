"""Aggregates of the moments about the mean: variance, skewness, and kurtosis.

Accumulators are the count, the mean, and sums of powers of the distances from it. They are merged in two
passes: the mean first, then sums about it. So no digits are lost as with sums of squares, however far from 0
the values lie, and the result is the same but for the last digits in whatever portions rows come.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.aggregating.accumulators import AggregateRule, Fields, Joint, Parts
from headgate.relational.aggregating.groups import Groups, doubles, nullable
from headgate.relational.resolved import Values
from headgate.relational.rules import Types
from headgate.relational.spark_types import is_numeric

if TYPE_CHECKING:
    from headgate.relational.aggregating.groups import Doubles, Int64s

DOUBLE: Final = pa.float64()
_POWERS: Final = ("m2", "m3", "m4")


def distances(groups: Groups, weights: Doubles, means: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Return each group's mean, each member's distance from it, and how far the mean is from the true one.
    Members are accumulators of `weights` rows each, with these `means`; distances are from the mean as it is
    rounded. The first and the third result have a number for each group, the second for each member.
    """
    totals = np.maximum(groups.sums(weights), 1.0)
    numbers = groups.numbers
    # By shares, as the sum of large values might overflow; then once more, for the last digits.
    rough = groups.sums(means * (weights / totals[numbers]))
    rest = groups.sums(weights * (means - rough[numbers])) / totals
    mean = np.where(np.isfinite(rough), rough + rest, rough)
    away = means - mean[numbers]
    return mean, away, groups.sums(weights * away) / totals


def _of_rows(powers: int) -> Callable[..., Sequence[pa.Array]]:
    def of_rows(values: pa.Array) -> Sequence[pa.Array]:
        known, means = pc.cast(pc.is_valid(values), pa.int64()), doubles(values)
        # Not 0 where the value is infinite or NaN: the distance of such a value from itself is NaN.
        none = no_distance(means)
        return [known, pa.array(means), *([pa.array(none)] * (powers - 1))]

    return of_rows


def no_distance(values: Doubles) -> Doubles:
    """Return the distance of each value from itself: 0, but NaN for a value that is infinite or NaN."""
    with np.errstate(invalid="ignore"):
        found: Doubles = values - values
    return found


def _merge(groups: Groups, counts: pa.Array, *others: pa.Array) -> Sequence[pa.Array]:
    number: Int64s = counts.to_numpy()
    weights = number.astype(np.float64)
    means, *sums = map(doubles, others)
    with np.errstate(all="ignore"):
        mean, away, error = distances(groups, weights, means)
        merged = _moved(groups, weights, away, sums)
        total = groups.sums(weights)
        about = _about_the_mean(total, error, merged)
    return [pa.array(groups.sums(number)), pa.array(mean), *map(pa.array, about)]


def _moved(groups: Groups, weights: Doubles, away: Doubles, sums: list[Doubles]) -> list[Doubles]:
    # Members' sums are about their own means; these are about the group's.
    second, *more = sums
    square = away * away
    found = [groups.sums(second + weights * square)]
    if more:
        found.append(groups.sums(more[0] + 3 * away * second + weights * square * away))
    if len(more) > 1:
        found.append(
            groups.sums(more[1] + 4 * away * more[0] + 6 * square * second + weights * square * square)
        )
    return found


def _about_the_mean(total: Doubles, error: Doubles, sums: list[Doubles]) -> list[Doubles]:
    # The true mean is off the rounded one by `error`.
    second, *more = sums
    found = [np.maximum(second - total * error**2, 0.0)]
    if more:
        found.append(more[0] - 3 * error * second + 2 * total * error**3)
    if len(more) > 1:
        found.append(more[1] - 4 * error * more[0] + 6 * error**2 * second - 3 * total * error**4)
    return found


def _moments(powers: int) -> Joint:
    fields: Fields = (
        ("n", pa.int64()),
        ("mean", DOUBLE),
        *((name, DOUBLE) for name in _POWERS[: powers - 1]),
    )
    return Joint(fields, _of_rows(powers), _merge)


# -- results


def ratio(above: Doubles, below: Doubles, known: Doubles | None = None) -> pa.Array:
    """Return `above` / `below`; null where `below` is 0, and where `known`, if given, is not above 0."""
    with np.errstate(all="ignore"):
        there = below != 0
        if known is not None:
            there &= known > 0
        return nullable(above / np.where(there, below, 1.0), DOUBLE, there)


def _variance(sample: bool) -> Callable[..., Values]:
    def finish(_kind: pa.DataType, count: Values, _mean: Values, second: Values) -> Values:
        number = count.to_numpy().astype(np.float64)
        return ratio(second.to_numpy(), number - 1 if sample else number, number)

    return finish


def _deviation(sample: bool) -> Callable[..., Values]:
    variance = _variance(sample)
    return lambda *given: pc.sqrt(variance(*given))


def _skewness(_kind: pa.DataType, count: Values, _mean: Values, second: Values, third: Values) -> Values:
    number, two = count.to_numpy().astype(np.float64), second.to_numpy()
    with np.errstate(all="ignore"):
        return ratio(np.sqrt(number) * third.to_numpy(), np.sqrt(two**3), number)


def _kurtosis(_kind: pa.DataType, count: Values, _mean: Values, *sums: Values) -> Values:
    number = count.to_numpy().astype(np.float64)
    second, _, fourth = (each.to_numpy() for each in sums)
    with np.errstate(all="ignore"):
        return pc.subtract(ratio(number * fourth, second * second, number), 3.0)


def _rule(name: str, powers: int, finish: Callable[..., Values]) -> AggregateRule:
    def judge(given: Types) -> Parts | None:
        if len(given) != 1 or not is_numeric(given[0]):
            return None
        return Parts((DOUBLE,), (_moments(powers),), DOUBLE, True, finish)

    return AggregateRule(name, judge, "a number")


RULES: Final = (
    _rule("var_pop", 2, _variance(sample=False)),
    _rule("variance", 2, _variance(sample=True)),
    _rule("stddev_pop", 2, _deviation(sample=False)),
    _rule("stddev", 2, _deviation(sample=True)),
    _rule("skewness", 3, _skewness),
    _rule("kurtosis", 4, _kurtosis),
)
