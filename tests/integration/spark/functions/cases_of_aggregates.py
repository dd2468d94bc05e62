"""Calls of aggregates that are compared with Spark, over the columns of the odd table."""

from __future__ import annotations

from typing import Any

NUMBERS = ["t", "sm", "i", "n", "k", "f", "u", "e1", "dec", "dec2", "big"]
ORDERED = ["b", "t", "i", "l", "f", "d", "u", "s", "w", "bin", "dt", "ts", "tn", "dec", "dec2", "big"]
PAIRS = [("n", "k"), ("e1", "n"), ("u", "e1"), ("dec", "e1"), ("e1", "f"), ("n2", "n2"), ("l", "sm")]
BITS = ["t", "sm", "i", "l"]
TRUTHS = ["b", "b2"]
TEXTS: list[tuple[Any, ...]] = [("w",), ("s", ", "), ("w", "")]
SHARES: list[Any] = [0.0, 0.3, 1, [0.25, 0.5, 0.99], (1.0,)]


def _each(names: list[str]) -> list[tuple[Any, ...]]:
    return [(name,) for name in names]


CASES: dict[str, list[tuple[Any, ...]]] = {
    "count": [("*",), *_each(["i", "s", "d", "ai"])],
    "count_if": _each(TRUTHS),
    "bool_and": _each(TRUTHS),
    "bool_or": _each(TRUTHS),
    "sum": _each(NUMBERS),
    "try_sum": _each(NUMBERS),
    "product": _each(["n", "e1", "u", "f", "dec"]),
    # The mean of the largest decimals has too many digits in Spark, which says so, as here.
    "avg": _each([name for name in NUMBERS if name != "big"]),
    "try_avg": _each([*NUMBERS, "l"]),
    "min": _each(ORDERED),
    "max": _each(ORDERED),
    "var_pop": _each(NUMBERS),
    "variance": _each([*NUMBERS, "l"]),
    "stddev_pop": _each(NUMBERS),
    "stddev": _each([*NUMBERS, "l"]),
    "skewness": _each(NUMBERS),
    "kurtosis": _each(NUMBERS),
    **{
        name: list(PAIRS)
        for name in (
            "covar_pop", "covar_samp", "corr", "regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy",
            "regr_sxy", "regr_slope", "regr_intercept", "regr_r2",
        )
    },
    "first": [*_each(ORDERED), ("i", True), ("s", True), ("ai",), ("m", True), ("st", True)],
    "last": [*_each(ORDERED), ("i", True), ("s", True), ("ai",), ("m", True), ("st", True)],
    "any_value": [("i",), ("i", True)],
    "max_by": [("i", name) for name in ORDERED] + [("s", "n"), ("ai", "n")],
    "min_by": [("i", name) for name in ORDERED] + [("s", "n"), ("ai", "n")],
    "bit_and": _each(BITS),
    "bit_or": _each(BITS),
    "bit_xor": _each(BITS),
    "collect_list": _each(ORDERED),
    "collect_set": _each(ORDERED),
    "count_distinct": [*_each(ORDERED), ("n", "w"), ("f", "b", "dec")],
    "sum_distinct": _each(NUMBERS),
    "listagg": TEXTS,
    "listagg_distinct": TEXTS,
    "mode": [(name, True) for name in [*ORDERED, "n"]],
    "percentile": [
        *(("n", share) for share in SHARES),
        *((name, [0.1, 0.5]) for name in [*NUMBERS, "d", "l"]),
        ("e1", 0.4, 3), ("k", 0.7, lambda functions: functions.col("frequency")),
    ],
    "median": _each([*NUMBERS, "d"]),
}  # fmt: skip
"""Name -> arguments of each call, as both `pyspark.sql.functions` and `headgate.functions` take them."""

LOOSE = ("sum", "avg", "try_", "product", "var", "stddev", "skew", "kurt", "covar", "corr", "regr", "sum_")
"""How the names of aggregates begin whose last digits depend on the order of rows."""
