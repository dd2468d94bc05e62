"""Aggregates over groups give what Spark gives, in whatever portions the rows come."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from function_columns import odd_table
from test_functions_on_spark import SETTINGS, equal, make_view, plain

from headgate.relational.aggregates import AGGREGATES, Aggregate, Grouping, resolve_aggregate
from headgate.relational.evaluation import evaluate
from headgate.relational.expressions import AggregateCall, Reference
from headgate.relational.rules import RowsFailed
from headgate.relational.schema import schema_of
from headgate.relational.spark_types import normal_type, text_of

pytestmark = [pytest.mark.ci, pytest.mark.spark, pytest.mark.timeout(600)]

KEY = "n2"
PORTION = 37
NUMBERS = ["t", "sm", "i", "n", "k", "f", "u", "e1", "dec", "dec2", "big"]
ORDERED = ["b", "t", "i", "l", "f", "d", "u", "s", "w", "bin", "dt", "ts", "tn", "dec", "dec2", "big"]
CASES = {
    "count": ["*", "i", "s", "d", "ai"],
    "sum": NUMBERS,
    # The mean of the largest decimals has too many digits in Spark, which says so, as here.
    "avg": [name for name in NUMBERS if name != "big"],
    "min": ORDERED,
    "max": ORDERED,
}


@pytest.fixture(scope="module")
def spark(open_spark: Callable[..., Any]) -> Iterator[Any]:
    """A session that has the odd table as the view `odd`."""
    session = open_spark("local[1]", SETTINGS)
    make_view(session)
    return session


def ours(function: str, column: str) -> tuple[Aggregate, dict[int, Any]]:
    """Headgate's result for each group of the odd table, whose rows come in portions."""
    return result(function, column, odd_table().filter(pc.is_valid(odd_table().column(KEY))))


def result(function: str, column: str, table: pa.Table) -> tuple[Aggregate, dict[int, Any]]:
    """The aggregate, and its result for each key of the table."""
    call = AggregateCall(function, () if column == "*" else (Reference(column),))
    made = resolve_aggregate(call, "x", schema_of(table.schema))
    grouping = Grouping((KEY,), tuple((each.name, each) for each in made.parts.accumulators))
    portions = [_accumulated(made, grouping, part) for part in table.to_batches(PORTION)]
    merged = grouping.merged(pa.concat_tables(portions)).combine_chunks()
    inputs = [merged.column(name).chunk(0) for name, _ in grouping.columns]
    found = made.parts.finish(made.result, *inputs)
    assert found.type == made.result
    return made, dict(zip(merged.column(KEY).to_pylist(), plain(found), strict=True))


def _accumulated(made: Aggregate, grouping: Grouping, rows: pa.RecordBatch) -> pa.Table:
    columns = {KEY: rows.column(KEY)}
    if made.argument is not None:
        values = evaluate(made.argument, rows)
        columns |= {name: each.prepared(values) for name, each in grouping.columns}
    return grouping.of_rows(pa.table(columns))


def theirs(spark: Any, function: str, column: str) -> tuple[str, dict[int, Any]]:
    """Spark's type, and its result for each group."""
    sql = f"SELECT {KEY}, {function}({column}) AS x FROM odd WHERE {KEY} IS NOT NULL GROUP BY {KEY}"
    table = spark.sql(sql).toArrow().combine_chunks()
    kind = normal_type(table.schema.field("x").type)
    values = plain(table.column("x").chunk(0).cast(kind))
    return text_of(kind), dict(zip(table.column(KEY).to_pylist(), values, strict=True))


def alike(function: str, one: Any, other: Any) -> bool:
    """Equal, but for the last digits of a sum of doubles, which depend on the order."""
    if function in ("sum", "avg") and isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-12) or equal(one, other, 0)
    return equal(one, other, 0) or one == other == 0.0


@pytest.mark.parametrize("function", CASES)
def test_aggregates_give_what_spark_gives(spark: Any, function: str) -> None:
    """Types of results, and all values."""
    wrong = []
    for column in CASES[function]:
        made, found = ours(function, column)
        kind, expected = theirs(spark, function, column)
        if text_of(made.result) != kind:
            wrong.append(f"{function}({column}): here {text_of(made.result)}, in Spark {kind}")
        differ = [key for key in expected if not alike(function, found[key], expected[key])]
        wrong += [
            f"{function}({column}): {key}: here {found[key]}, in Spark {expected[key]}" for key in differ
        ]
        assert found.keys() == expected.keys()
    assert wrong == []


def test_every_aggregate_is_compared() -> None:
    """One without a case would not be offered."""
    assert CASES.keys() == AGGREGATES.keys()


def test_a_column_without_order_has_no_extreme() -> None:
    """Arrow has no such kernel for durations; the plan is refused."""
    assert AGGREGATES["min"].judge((pa.duration("us"),)) is None


@pytest.mark.parametrize("function", ["sum", "avg"])
def test_decimals_that_are_too_large_fail_as_in_spark(spark: Any, function: str) -> None:
    """A sum that does not fit 38 digits is an error, not another number; so is a mean of too many digits."""
    largest = decimal.Decimal("9" * 28 + "." + "9" * 10)
    kind = pa.decimal128(38, 10)
    rows = pa.table({KEY: pa.array([1, 1], pa.int64()), "big": pa.array([largest, largest], kind)})
    with pytest.raises(RowsFailed) as failed:
        result(function, "big", rows)
    sql = f"SELECT {function}(CAST(x AS decimal(38, 10))) FROM VALUES ('{largest}'), ('{largest}') AS t(x)"
    with pytest.raises(Exception, match=failed.value.condition):
        spark.sql(sql).collect()
