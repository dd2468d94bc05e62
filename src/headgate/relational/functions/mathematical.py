"""Rules of functions of doubles: roots, powers, logarithms, trigonometry; as Java's StrictMath gives them.

Libraries differ in the last digit of some of these functions; the comparison with Spark names them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import (
    Floats,
    Truth,
    Wholes,
    by_numpy,
    doubles,
    java_longs,
    missing,
    wholes,
    with_arrays,
)
from headgate.relational.functions.strict_log import strict_log, strict_log10
from headgate.relational.resolved import Values
from headgate.relational.rules import Kernel, Rule, Signature, Types, add, exactly
from headgate.relational.spark_types import DURATION, is_numeric

FAMILY: Final = "mathematical"
_DOUBLE: Final = pa.float64()
_ONE: Final = exactly((_DOUBLE,), _DOUBLE)
_TWO: Final = exactly((_DOUBLE, _DOUBLE), _DOUBLE)
_MAYBE: Final = exactly((_DOUBLE,), _DOUBLE, nullable=True)
_LOG_2: Final = 0.6931471805599453


def _arrow(function: Callable[[Values], Values]) -> Kernel:
    return lambda _result, value: function(value)


Long = npt.NDArray[np.longdouble]

# -- where Spark's formula is not the library's


def _in_more_digits(function: Callable[[Long], Long]) -> Callable[[Floats], Floats]:
    # With doubles, more than the last digit would be off.
    return lambda value: function(value.astype(np.longdouble)).astype(np.float64)


def _cbrt(value: Long) -> Long:
    found: Long = np.cbrt(value)
    return found


def _one_by(function: Callable[[Long], Long]) -> Callable[[Long], Long]:
    return lambda value: np.reciprocal(function(value))


def _atanh(value: Floats) -> Floats:
    return 0.5 * (np.log1p(value) - np.log1p(-value))


def _atan2(one: Floats, other: Floats) -> Floats:
    # Spark adds 0.0 so that -0.0 counts as 0.0.
    return np.arctan2(one + 0.0, other + 0.0)


def _power(base: Floats, exponent: Floats) -> Floats:
    # Java has no answer for these, where C says 1.
    unknown = (np.abs(base) == 1.0) & ~np.isfinite(exponent)
    return np.where(unknown, np.nan, np.power(base, exponent))


def _radians(value: Floats) -> Floats:
    return value * (math.pi / 180.0)


def _signum(_result: pa.DataType, value: Values) -> Values:
    # The sign of -0.0 is -0.0.
    return pc.if_else(pc.equal(value, 0.0), value, pc.sign(value))


def _logarithm(function: Callable[..., Floats], above: float = 0.0) -> Kernel:
    # Null where an argument is null or not above `above`; NaN of NaN.
    def kernel(result: pa.DataType, *values: pa.Array) -> pa.Array:
        absent, plain = missing(*values), [doubles(value) for value in values]
        for each in plain:
            absent |= each <= above
        with np.errstate(all="ignore"):
            return pa.array(function(*plain), result, mask=absent)

    return with_arrays(kernel)


def _log_of_base(base: Floats, value: Floats) -> Floats:
    return strict_log(value) / strict_log(base)


def _log2(value: Floats) -> Floats:
    return strict_log(value) / _LOG_2


# -- numbers of any type


def _any_number(given: Types) -> Signature | None:
    if len(given) != 1:
        return None
    kind = _DOUBLE if pa.types.is_null(given[0]) or pa.types.is_string(given[0]) else given[0]
    return Signature((kind,), kind) if is_numeric(kind) or kind == DURATION else None


def _bucket_of(value: Floats, least: Floats, most: Floats, buckets: Wholes) -> Wholes:
    upwards = least < most
    before = np.where(upwards, value < least, value > least)
    behind = np.where(upwards, value >= most, value <= most)
    start = np.where(upwards, value - least, least - value)
    width = np.where(upwards, most - least, least - most)
    inside = java_longs(buckets.astype(np.float64) * start / width) + 1
    return np.where(before, 0, np.where(behind, buckets + 1, inside))


def _bucket_is_unknown(value: Floats, least: Floats, most: Floats, buckets: Wholes) -> Truth:
    bad = (buckets <= 0) | (buckets == np.iinfo(np.int64).max) | np.isnan(value) | (least == most)
    return np.asarray(bad | ~np.isfinite(least) | ~np.isfinite(most))


def _width_bucket(result: pa.DataType, *values: pa.Array) -> pa.Array:
    value, least, most = map(doubles, values[:3])
    buckets = wholes(values[3])
    with np.errstate(all="ignore"):
        found = _bucket_of(value, least, most, buckets)
    return pa.array(found, result, mask=missing(*values) | _bucket_is_unknown(value, least, most, buckets))


def _constant(value: float) -> Kernel:
    return lambda result: pa.scalar(value, result)


def _register() -> None:
    number = "a number"
    arrow = {
        "sqrt": pc.sqrt, "exp": pc.exp, "expm1": pc.expm1, "sin": pc.sin, "cos": pc.cos, "tan": pc.tan,
        "asin": pc.asin, "acos": pc.acos, "atan": pc.atan, "sinh": pc.sinh, "cosh": pc.cosh, "tanh": pc.tanh,
        "asinh": pc.asinh, "acosh": pc.acosh,
    }  # fmt: skip
    for name, function in arrow.items():
        add(Rule(name, FAMILY, _ONE, _arrow(function), number))
    add(Rule("rint", FAMILY, _ONE, _arrow(lambda value: pc.round(value, 0, "half_to_even")), number))
    add(Rule("signum", FAMILY, _ONE, _signum, number))
    vectors: dict[str, Callable[[Floats], Floats]] = {
        "cbrt": _in_more_digits(_cbrt),
        "cot": _in_more_digits(_one_by(np.tan)),
        "sec": _in_more_digits(_one_by(np.cos)),
        "csc": _in_more_digits(_one_by(np.sin)),
        "atanh": _atanh,
        "degrees": np.degrees,
        "radians": _radians,
    }
    for name, vector in vectors.items():
        add(Rule(name, FAMILY, _ONE, by_numpy(vector), number))
    pairs: dict[str, Callable[..., Floats]] = {"atan2": _atan2, "hypot": np.hypot, "power": _power}
    for name, pair in pairs.items():
        add(Rule(name, FAMILY, _TWO, by_numpy(pair), "two numbers"))
    add(Rule("positive", FAMILY, _any_number, lambda _, value: value, number))
    add(Rule("e", FAMILY, exactly((), _DOUBLE), _constant(math.e), "nothing"))
    add(Rule("pi", FAMILY, exactly((), _DOUBLE), _constant(math.pi), "nothing"))
    buckets = exactly((_DOUBLE, _DOUBLE, _DOUBLE, pa.int64()), pa.int64(), nullable=True)
    takes = "a number, two bounds, and how many buckets"
    add(Rule("width_bucket", FAMILY, buckets, with_arrays(_width_bucket), takes))


def _register_logarithms() -> None:
    logarithms: dict[str, tuple[Callable[[Floats], Floats], float]] = {
        "ln": (strict_log, 0.0),
        "log10": (strict_log10, 0.0),
        "log2": (_log2, 0.0),
        "log1p": (np.log1p, -1.0),
    }
    for name, (logarithm, above) in logarithms.items():
        add(Rule(name, FAMILY, _MAYBE, _logarithm(logarithm, above), "a number"))
    add(Rule("log", FAMILY, _one_or_two, _log, "a number, or a base and a number"))


def _log(result: pa.DataType, *values: Values) -> Values:
    return (_logarithm(strict_log) if len(values) == 1 else _logarithm(_log_of_base))(result, *values)


def _one_or_two(given: Types) -> Signature | None:
    found = _ONE(given) or _TWO(given)
    return found and found._replace(nullable=True)


_register()
_register_logarithms()
