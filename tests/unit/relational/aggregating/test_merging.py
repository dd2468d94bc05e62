"""Aggregates by plain Python, with rows in any portions, and accumulators merged in any order."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.common.errors import PlanError
from headgate.relational.aggregates import AGGREGATES, Aggregate, resolve_aggregate
from headgate.relational.aggregating.grouping import Grouping, columns_of_parts, fields_of
from headgate.relational.evaluation import evaluate
from headgate.relational.rules import RowsFailed
from headgate.relational.schema import schema_of

Row = tuple[str, int | None, float | None, str | None, bool | None]
Rows = list[Row]
SCHEMA = pa.schema({"k": pa.string(), "n": pa.int64(), "x": pa.float64(), "s": pa.string(), "b": pa.bool_()})
NAN = float("nan")
ROW = st.tuples(
    st.sampled_from("abc"),
    st.one_of(st.none(), st.integers(-4, 4)),
    st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, -2.0, 7.25, 1e6])),
    st.one_of(st.none(), st.sampled_from(["u", "v", ""])),
    st.one_of(st.none(), st.booleans()),
)


def singles(made: Aggregate, rows: Rows) -> tuple[Grouping, pa.Table]:
    """What accumulators are made of, a row for each."""
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    batch = pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    grouping = Grouping(("k",), tuple(columns_of_parts("x", made.parts.accumulators)))
    arrays = {"k": batch.column("k")}
    values = [evaluate(argument, batch) for argument in made.arguments]
    for name, each in grouping.columns:
        names = [column for column, _ in fields_of(name, each)]
        arrays |= zip(names, each.prepared(*values), strict=False)
    return grouping, pa.table(arrays)


def results(column: Any, rows: Rows, sizes: list[int], merges: list[int]) -> dict[str, Any]:
    """The results by key: rows in portions of these sizes, of which neighbours are merged at each place."""
    made = resolve_aggregate(column.expression, "x", schema_of(SCHEMA))
    grouping, table = singles(made, rows)
    parts, start = [], 0
    for size in [*sizes, len(rows)]:
        if part := rows[start : start + size]:
            parts.append(grouping.of_rows(table.slice(start, len(part))))
            start += len(part)
    for place in merges:
        if len(parts) > 1:
            at = place % (len(parts) - 1)
            parts[at : at + 2] = [grouping.merged(pa.concat_tables(parts[at : at + 2]))]
    whole = grouping.merged(pa.concat_tables(parts)).combine_chunks()
    for name, kind in grouping.fields:
        assert whole.column(name).type == kind
    inputs = [whole.column(name).chunk(0) for name, _ in grouping.fields]
    found = made.parts.finish(made.result, *inputs)
    assert found.type == made.result
    return dict(zip(whole.column("k").to_pylist(), found.to_pylist(), strict=True))


def moment(values: list[float], power: int) -> float:
    """The sum of a power of the distances from the mean."""
    mean = statistics.fmean(values)
    return math.fsum((value - mean) ** power for value in values)


def skewness(values: list[float]) -> float | None:
    """As Spark has it; null where all values are the same."""
    two = moment(values, 2)
    return math.sqrt(len(values)) * moment(values, 3) / math.sqrt(two**3) if two else None


def kurtosis(values: list[float]) -> float | None:
    """As Spark has it; null where all values are the same."""
    two = moment(values, 2)
    return len(values) * moment(values, 4) / two**2 - 3 if two else None


def covariance(rows: Rows) -> float | None:
    """Of n and x."""
    pairs = [(n, x) for _, n, x, _, _ in rows if n is not None and x is not None]
    if not pairs:
        return None
    one, other = statistics.fmean(n for n, _ in pairs), statistics.fmean(x for _, x in pairs)
    return math.fsum((n - one) * (x - other) for n, x in pairs) / len(pairs)


def most(values: list[Any]) -> Any:
    """The most frequent value, of several the least."""
    often = Counter(values)
    return min(often, key=lambda value: (-often[value], value)) if often else None


def best(rows: Rows, pick: Callable[[list[int]], int]) -> Any:
    """The text of the last row with the greatest, or least, number."""
    known = [(n, s) for _, n, _, s, _ in rows if n is not None]
    return [s for n, s in known if n == pick([n for n, _ in known])][-1] if known else None


def some(values: list[Any], function: Callable[[list[Any]], Any]) -> Any:
    """What a function gives; null if there are no values."""
    return function(values) if values else None


def column_of(place: int) -> Callable[[Rows], list[Any]]:
    """The values of a column that are not null."""
    return lambda rows: [row[place] for row in rows if row[place] is not None]


N, X, S, B = (column_of(place) for place in range(1, 5))
SHARE = 0.3


def share(values: list[float]) -> float:
    """A percentile, between two values if need be."""
    ordered, place = sorted(values), (len(values) - 1) * SHARE
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low + (high - low) * (place - math.floor(place))


def bits(values: list[int], function: Callable[[int, int], int]) -> int:
    """Bits of all values."""
    found = values[0]
    for value in values[1:]:
        found = function(found, value)
    return found


ANY_ORDER: dict[str, tuple[Any, Callable[[Rows], Any]]] = {
    "count": (F.count("n"), lambda rows: len(N(rows))),
    "count_if": (F.count_if("b"), lambda rows: sum(B(rows))),
    "bool_and": (F.bool_and("b"), lambda rows: some(B(rows), all)),
    "bool_or": (F.bool_or("b"), lambda rows: some(B(rows), any)),
    "sum": (F.sum("n"), lambda rows: some(N(rows), sum)),
    "try_sum": (F.try_sum("n"), lambda rows: some(N(rows), sum)),
    "product": (F.product("n"), lambda rows: some(N(rows), math.prod)),
    "min": (F.min("x"), lambda rows: some(X(rows), min)),
    "max": (F.max("s"), lambda rows: some(S(rows), max)),
    "avg": (F.avg("x"), lambda rows: some(X(rows), statistics.fmean)),
    "try_avg": (F.try_avg("x"), lambda rows: some(X(rows), statistics.fmean)),
    "var_pop": (F.var_pop("x"), lambda rows: some(X(rows), lambda v: moment(v, 2) / len(v))),
    "variance": (F.variance("x"), lambda rows: some(X(rows)[1:] and X(rows), statistics.variance)),
    "stddev_pop": (F.stddev_pop("x"), lambda rows: some(X(rows), statistics.pstdev)),
    "stddev": (F.stddev("x"), lambda rows: some(X(rows)[1:] and X(rows), statistics.stdev)),
    "skewness": (F.skewness("n"), lambda rows: some(N(rows), skewness)),
    "kurtosis": (F.kurtosis("n"), lambda rows: some(N(rows), kurtosis)),
    "covar_pop": (F.covar_pop("n", "x"), covariance),
    "bit_and": (F.bit_and("n"), lambda rows: some(N(rows), lambda v: bits(v, int.__and__))),
    "bit_or": (F.bit_or("n"), lambda rows: some(N(rows), lambda v: bits(v, int.__or__))),
    "bit_xor": (F.bit_xor("n"), lambda rows: some(N(rows), lambda v: bits(v, int.__xor__))),
    "count_distinct": (
        F.count_distinct("x", "s"),
        lambda rows: len({(x, s) for _, _, x, s, _ in rows if x is not None and s is not None}),
    ),
    "sum_distinct": (F.sum_distinct("n"), lambda rows: some(N(rows), lambda v: sum(set(v)))),
    "mode": (F.mode("x"), lambda rows: most(X(rows))),
    "median": (F.median("n"), lambda rows: some(N(rows), statistics.median)),
    "percentile": (F.percentile("x", SHARE), lambda rows: some(X(rows), share)),
}  # fmt: skip
IN_ORDER: dict[str, tuple[Any, Callable[[Rows], Any]]] = {
    "first": (F.first("n"), lambda rows: rows[0][1]),
    "last": (F.last("s", True), lambda rows: some(S(rows), lambda v: v[-1])),
    "any_value": (F.any_value("x", True), lambda rows: some(X(rows), lambda v: v[0])),
    "max_by": (F.max_by("s", "n"), lambda rows: best(rows, max)),
    "min_by": (F.min_by("s", "n"), lambda rows: best(rows, min)),
    "collect_list": (F.collect_list("s"), S),
    "collect_set": (F.collect_set("x"), lambda rows: list(dict.fromkeys(X(rows)))),
    "listagg": (F.listagg("s", "-"), lambda rows: some(S(rows), "-".join)),
    "listagg_distinct": (F.listagg_distinct("s"), lambda rows: some(list(dict.fromkeys(S(rows))), "".join)),
}
DERIVED = {name for name in AGGREGATES if name.startswith("regr_")} | {"covar_samp", "corr"}
"""Other results of the accumulators of covar_pop; the comparison with Spark has them."""


def test_every_aggregate_has_a_case() -> None:
    """By plain Python, here."""
    assert ANY_ORDER.keys() | IN_ORDER.keys() | DERIVED == AGGREGATES.keys()
    ordered = {name for name, rule in AGGREGATES.items() if rule.ordered}
    assert ordered == IN_ORDER.keys()


def close(one: Any, other: Any) -> bool:
    """Equal, but for the last digits."""
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6)
    return bool(one == other)


PORTIONS = (st.lists(st.integers(1, 5), max_size=6), st.lists(st.integers(0, 20), max_size=5))


@pytest.mark.parametrize("examples", [30, pytest.param(500, marks=pytest.mark.proof)])
@pytest.mark.parametrize("name", [*ANY_ORDER, *IN_ORDER])
def test_any_portions_and_merges_give_the_result(name: str, examples: int) -> None:
    """Of those that do not depend on it, rows come in any order. `make proof` runs the full count, 500."""

    @settings(max_examples=examples)
    @given(
        rows=st.lists(ROW, min_size=1, max_size=16), sizes=PORTIONS[0], merges=PORTIONS[1], seed=st.randoms()
    )
    def holds(rows: Rows, sizes: list[int], merges: list[int], seed: Any) -> None:
        check_portions_and_merges(name, rows, sizes, merges, seed)

    holds()


def check_portions_and_merges(name: str, rows: Rows, sizes: list[int], merges: list[int], seed: Any) -> None:
    """Compare with the plain answer."""
    column, answer = (ANY_ORDER | IN_ORDER)[name]
    expected_of = defaultdict(list)
    for row in rows:
        expected_of[row[0]].append(row)
    expected = {key: answer(of_key) for key, of_key in expected_of.items()}
    if name in ANY_ORDER:
        seed.shuffle(rows)
    found = results(column, rows, sizes, merges)
    assert found.keys() == expected.keys()
    assert {key: (found[key], expected[key]) for key in found if not close(found[key], expected[key])} == {}


@pytest.mark.parametrize("name", [*ANY_ORDER, *IN_ORDER])
def test_there_may_be_no_rows(name: str) -> None:
    """Tables of accumulators may be empty, as after a filter."""
    made = resolve_aggregate((ANY_ORDER | IN_ORDER)[name][0].expression, "x", schema_of(SCHEMA))
    grouping, table = singles(made, [])
    found = grouping.of_rows(table)
    assert found.num_rows == grouping.merged(found).num_rows == 0
    assert [found.schema.field(column).type for column, _ in grouping.fields] == [
        kind for _, kind in grouping.fields
    ]


def numbers(values: list[float | None]) -> Rows:
    """Rows of one key."""
    return [("a", None, value, None, None) for value in values]


def test_no_digits_are_lost_far_from_0() -> None:
    """Sums of squares would give nothing but noise; here the means in between have no exact double either."""
    far = numbers([1e16, 1e16 + 2, 1e16 + 4, 1e16 + 6])
    for sizes in ([4], [1, 1, 1, 1], [2, 2], [3, 1]):
        assert results(F.var_pop("x"), far, sizes, [])["a"] == pytest.approx(5.0, rel=0.3)
    near = numbers([1e9 + 0.25 * (n % 4) for n in range(1000)])
    for sizes in ([1000], [7] * 143):
        assert results(F.var_pop("x"), near, sizes, [])["a"] == pytest.approx(0.078125, rel=1e-6)


def test_equal_values_have_no_skewness() -> None:
    """However they are merged: the mean of equal values is that value to the last digit."""
    same = numbers([0.1] * 57)
    for sizes in ([57], [1] * 57, [10, 20], [3] * 19):
        assert results(F.var_pop("x"), same, sizes, [0, 3, 1])["a"] == 0.0
        assert results(F.skewness("x"), same, sizes, [0, 3, 1])["a"] is None


@pytest.mark.parametrize("odd", [NAN, math.inf, -math.inf])
def test_what_is_no_number_spoils_moments_merged_or_not(odd: float) -> None:
    """A row by itself gives what a group of one gives."""
    assert math.isnan(results(F.var_pop("x"), numbers([odd]), [], [])["a"])
    assert math.isnan(results(F.var_pop("x"), numbers([1.0, odd, 2.0]), [1, 1, 1], [])["a"])
    assert results(F.var_pop("x"), numbers([None]), [], [])["a"] is None


def test_equal_values_are_counted_once() -> None:
    """There are two zeros and many kinds of NaN."""
    rows = numbers([0.0, -0.0, NAN, -NAN, None, 1.0])
    for sizes in ([6], [1] * 6):
        assert results(F.count_distinct("x"), rows, sizes, [])["a"] == 3
        assert len(results(F.collect_set("x"), rows, sizes, [])["a"]) == 3


def test_a_sum_of_distinct_values_may_be_too_large() -> None:
    """With Spark's condition."""
    rows: Rows = [("a", n, None, None, None) for n in (2**63 - 1, 2**63 - 1, 1)]
    with pytest.raises(RowsFailed) as failed:
        results(F.sum_distinct("n"), rows, [], [])
    assert failed.value.condition == "ARITHMETIC_OVERFLOW"


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (F.stddev("s"), r"stddev\(\) takes a number; got string"),
        (F.bit_and("x"), r"bit_and\(\) takes a whole number; got double"),
        (F.corr("x"), r"corr\(\) takes two numbers; got double"),
        (F.count_if("n"), r"count_if\(\) takes a condition; got bigint"),
        (F.percentile("x", 1.5), "1.5; expected shares from 0 to 1"),
        (F.percentile("x", []), "expected shares from 0 to 1"),
        (F.listagg("n"), r"listagg\(\) takes a text"),
    ],
)
def test_what_an_aggregate_does_not_take_is_refused(column: Any, message: str) -> None:
    """With what it takes."""
    with pytest.raises(PlanError, match=message):
        resolve_aggregate(column.expression, "x", schema_of(SCHEMA))


def test_settings_are_constants() -> None:
    """They may be written as PySpark takes them, with `lit`."""
    assert F.first_value("x", F.lit(True)).expression == F.first_value("x", True).expression
    assert F.listagg("s", F.lit("-")).expression == F.listagg("s", "-").expression
    with pytest.raises(PlanError, match="a setting of an aggregate is a constant"):
        F.first_value("x", F.col("b"))
    with pytest.raises(PlanError, match="expected a number from 0 to 1"):
        F.percentile("x", "a")  # type: ignore[arg-type]  # what a user may do
