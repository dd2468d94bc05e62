"""Aggregates over groups give what Spark gives, in whatever portions the rows come."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cases_of_aggregates import CASES, LOOSE
from function_columns import odd_table
from test_functions_on_spark import SETTINGS, equal, make_view, plain

import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.tables.column import shown_name
from headgate.relational.aggregates import (
    AGGREGATE_ALIASES,
    AGGREGATES,
    Aggregate,
    parts_of,
    resolve_aggregate,
)
from headgate.relational.aggregating.grouping import Grouping, columns_of_parts, fields_of
from headgate.relational.evaluation import evaluate
from headgate.relational.expressions import AggregateCall
from headgate.relational.rules import RowsFailed
from headgate.relational.schema import schema_of
from headgate.relational.spark_types import normal_type, text_of

pytestmark = [pytest.mark.ci, pytest.mark.spark, pytest.mark.timeout(600)]

KEY = "g"
PORTIONS = (41, 10_000)


@cache
def grouped_table() -> pa.Table:
    """The odd table with a key: some large groups, groups of one row, and of two, nulls only among them."""
    rows = np.arange(odd_table().num_rows)
    key = np.where(rows < 120, rows % 4, np.where(rows < 180, 100 + rows, 1000 + rows // 2))
    frequency = pa.array((rows % 4).tolist(), pa.int64(), mask=rows % 7 == 0)
    table = odd_table().append_column(KEY, pa.array(key))
    return table.append_column("frequency", frequency)


@pytest.fixture(scope="module")
def spark(open_spark: Callable[..., Any]) -> Iterator[Any]:
    """A session that has the table as the view `odd`."""
    session = open_spark("local[1]", SETTINGS)
    make_view(session, grouped_table())
    return session


def call_of(functions: Any, function: str, arguments: tuple[Any, ...]) -> Any:
    """The same call of `headgate.functions`, or of PySpark's."""
    given = [each(functions) if callable(each) else each for each in arguments]
    return getattr(functions, function)(*given)


def result(column: Any, table: pa.Table, portion: int) -> tuple[Aggregate, dict[int, Any]]:
    """The aggregate, and its result for each key of the table, whose rows come in portions."""
    call = column.expression
    assert isinstance(call, AggregateCall)
    made = resolve_aggregate(call, "x", schema_of(table.schema))
    grouping = Grouping((KEY,), tuple(columns_of_parts("x", made.parts.accumulators)))
    portions = [_accumulated(made, grouping, part) for part in table.to_batches(portion)]
    merged = grouping.merged(pa.concat_tables(portions)).combine_chunks()
    inputs = [merged.column(name).chunk(0) for name, _ in grouping.fields]
    found = made.parts.finish(made.result, *inputs)
    assert found.type == made.result
    assert made.nullable or not found.null_count
    return made, dict(zip(merged.column(KEY).to_pylist(), plain(found), strict=True))


def _accumulated(made: Aggregate, grouping: Grouping, rows: pa.RecordBatch) -> pa.Table:
    columns = {KEY: rows.column(KEY)}
    values = [evaluate(argument, rows) for argument in made.arguments]
    for name, each in grouping.columns:
        names = [column for column, _ in fields_of(name, each)]
        columns |= zip(names, each.prepared(*values), strict=False)
    return grouping.of_rows(pa.table(columns))


def theirs(spark: Any, function: str, cases: list[tuple[Any, ...]]) -> list[tuple[str, str, dict[int, Any]]]:
    """Spark's names, types, and results for each group."""
    import pyspark.sql.functions as spark_functions

    calls = [call_of(spark_functions, function, case) for case in cases]
    frame = spark.table("odd").groupBy(KEY).agg(*calls)
    names = frame.columns[1:]
    table = frame.toDF(KEY, *(f"x{place}" for place in range(len(cases)))).toArrow().combine_chunks()
    keys, found = table.column(KEY).to_pylist(), []
    for name, column in zip(names, table.columns[1:], strict=True):
        kind = normal_type(column.type)
        found.append((name, text_of(kind), dict(zip(keys, plain(column.chunk(0).cast(kind)), strict=True))))
    return found


def alike(function: str, one: Any, other: Any) -> bool:
    """Equal, but for the last digits of what depends on the order, and for the sign of 0."""
    if isinstance(one, list) and isinstance(other, list):
        if function == "collect_set":
            one, other = sorted(one, key=str), sorted(other, key=str)
        return len(one) == len(other) and all(map(alike, [function] * len(one), one, other))
    if function.startswith(LOOSE) and isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or equal(one, other, 0)
    if function == "listagg_distinct" and one is not None and other is not None:
        return sorted(one) == sorted(other)
    return equal(one, other, 0) or one == other == 0.0


@pytest.mark.parametrize("function", CASES)
def test_aggregates_give_what_spark_gives(spark: Any, function: str) -> None:
    """Types and names of results, and all values, in any portions of rows."""
    wrong = []
    for case, (shown, kind, expected) in zip(
        CASES[function], theirs(spark, function, CASES[function]), strict=True
    ):
        column = call_of(F, function, case)
        if case != ("*",) and function != "mode" and shown_name(column) != shown:
            wrong.append(f"{case}: here it is called {shown_name(column)}, in Spark {shown}")
        for portion in PORTIONS:
            made, found = result(column, grouped_table(), portion)
            if text_of(made.result) != kind:
                wrong.append(f"{column}: here {text_of(made.result)}, in Spark {kind}")
            assert found.keys() == expected.keys()
            differ = [key for key in expected if not alike(function, found[key], expected[key])]
            wrong += [f"{column} of {key}: here {found[key]}, in Spark {expected[key]}" for key in differ]
    assert wrong == []


def test_every_aggregate_is_compared() -> None:
    """One without a case would not be offered."""
    assert CASES.keys() == AGGREGATES.keys()


@pytest.mark.parametrize(
    "other", sorted(AGGREGATE_ALIASES.keys() - {"any", "string_agg", "string_agg_distinct"})
)
def test_other_names_are_those_of_pyspark(spark: Any, other: str) -> None:
    """They have the same column name, and give what the function gives."""
    case = CASES[AGGREGATE_ALIASES[other]][0]
    ((shown, kind, expected),) = theirs(spark, other, [case])
    made, found = result(call_of(F, other, case), grouped_table(), 100)
    assert (text_of(made.result), shown_name(call_of(F, other, case))) == (kind, shown)
    assert found.keys() == expected.keys()
    assert all(alike(AGGREGATE_ALIASES[other], found[key], expected[key]) for key in expected)


def test_a_column_without_order_has_no_extreme() -> None:
    """Arrow has no such kernel for durations; the plan is refused."""
    for function in ("min", "mode"):
        assert AGGREGATES[function].judge((pa.duration("us"),)) is None
    assert AGGREGATES["max_by"].judge((pa.int32(), pa.duration("us"))) is None


LARGEST = decimal.Decimal("9" * 28 + "." + "9" * 10)
DECIMALS = pa.array([LARGEST, LARGEST - 1], pa.decimal128(38, 10))
LONGS = pa.array([2**63 - 1, 1], pa.int64())


@pytest.mark.parametrize("function", ["sum", "avg", "sum_distinct", "try_sum", "try_avg"])
@pytest.mark.parametrize("values", [DECIMALS, LONGS], ids=["decimal", "bigint"])
def test_what_is_too_large_fails_as_in_spark(spark: Any, function: str, values: pa.Array) -> None:
    """A sum that does not fit is an error, or null, not another number; so is a mean of too many digits."""
    import pyspark.sql.functions as spark_functions

    rows = pa.table({KEY: pa.array([1, 1], pa.int64()), "x": values})
    frame = spark.createDataFrame(rows).groupBy(KEY).agg(call_of(spark_functions, function, ("x",)))
    try:
        _, found = result(call_of(F, function, ("x",)), rows, 1)
    except RowsFailed as failed:
        with pytest.raises(Exception, match=failed.condition):
            frame.collect()
        return
    assert found == {1: frame.collect()[0][1]}
    assert function.startswith("try_") or function == "avg"


@pytest.mark.parametrize("function", ["avg", "try_avg"])
def test_a_mean_with_too_many_digits_fails_as_in_spark(spark: Any, function: str) -> None:
    """The sum fits, and the mean has four digits more after the point."""
    import pyspark.sql.functions as spark_functions

    rows = pa.table({KEY: pa.array([1], pa.int64()), "x": DECIMALS[:1]})
    frame = spark.createDataFrame(rows).groupBy(KEY).agg(call_of(spark_functions, function, ("x",)))
    if function == "try_avg":
        assert result(F.try_avg("x"), rows, 1)[1] == {1: None} == {1: frame.collect()[0][1]}
        return
    with pytest.raises(RowsFailed) as failed:
        result(F.avg("x"), rows, 1)
    with pytest.raises(Exception, match=failed.value.condition):
        frame.collect()


def test_a_sum_in_between_may_be_too_large() -> None:
    """The result of `try_sum` does not depend on the order; Spark's does."""
    rows = pa.table({KEY: pa.array([1, 1, 1], pa.int64()), "x": pa.array([2**63 - 1, 1, -1], pa.int64())})
    assert result(F.try_sum("x"), rows, 1)[1] == {1: 2**63 - 1}


def test_a_frequency_below_0_fails_as_in_spark(spark: Any) -> None:
    """With Spark's condition."""
    rows = pa.table({KEY: pa.array([1], pa.int64()), "x": pa.array([1.0]), "n": pa.array([-1], pa.int64())})
    with pytest.raises(RowsFailed, match="below 0"):
        result(F.percentile("x", 0.5, F.col("n")), rows, 1)
    with pytest.raises(Exception, match=r"(?i)negative|frequency"):
        spark.sql("SELECT percentile(x, 0.5, n) FROM VALUES (1.0D, -1L) AS t(x, n)").collect()


def test_parts_are_those_of_the_types_that_were_given() -> None:
    """The type of a result is that of the argument before it is converted."""
    made = resolve_aggregate(F.sum("dec").expression, "x", schema_of(odd_table().schema))  # type: ignore[arg-type]
    assert made.parts.result == made.result == pa.decimal128(20, 2)
    assert parts_of("sum", (pa.decimal128(38, 2),)).result != made.result
