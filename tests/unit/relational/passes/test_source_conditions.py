"""Which conditions of a table its source may test."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import headgate.functions as F  # noqa: N812  # as PySpark's users write it
from headgate.api.tables.column import Column, expression_of
from headgate.relational.passes.fused_steps import pruned, steps_of
from headgate.relational.passes.source_conditions import conditions_for_source
from headgate.relational.relations import Filter, Project, Relation, Scan
from headgate.relational.resolving import resolve
from headgate.relational.schema import Field, Schema, schema_of
from headgate.relational.spark_types import TIMESTAMP

SCHEMA = schema_of(
    pa.schema(
        {
            "n": pa.int64(),
            "small": pa.int16(),
            "price": pa.decimal128(9, 2),
            "wide": pa.decimal128(38, 20),
            "text": pa.string(),
            "day": pa.date32(),
            "at": TIMESTAMP,
            "share": pa.float64(),
            "flag": pa.bool_(),
            "raw": pa.binary(),
            "items": pa.list_(pa.int64()),
        }
    )
)
FAILS = 10 / F.col("n") > 1


def filtered(child: Relation, condition: Column) -> Relation:
    return Filter(child.schema, child, resolve(expression_of(condition), child.schema))


def projected(child: Relation, **columns: Column) -> Relation:
    found = tuple(resolve(expression_of(each), child.schema) for each in columns.values())
    fields = tuple(Field(name, each.type, each.nullable) for name, each in zip(columns, found, strict=True))
    return Project(Schema(fields), child, found)


def pushed(plan: Relation) -> list[str]:
    """The conditions for the source, as text."""
    return list(map(str, conditions_for_source(pruned(steps_of(plan)[1]))))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (F.col("n") == 3, ["n = 3"]),
        (F.lit(3) <= F.col("n"), ["n >= 3"]),
        (F.lit(3) > F.col("n"), ["n < 3"]),
        (F.col("n") == Decimal("3.0"), ["n = 3"]),
        (F.col("n") == Decimal("3.5"), []),
        (F.col("n").between(1, 5), ["n >= 1", "n <= 5"]),
        (F.col("small") < 100_000, ["small < 100000"]),
        (F.col("small").cast("bigint") < 2**40, [f"small < {2**40}"]),
        (F.col("n").cast("smallint") < 7, []),
        (F.col("price") >= Decimal("1.5"), ["price >= 1.50"]),
        (F.col("price") >= 2, ["price >= 2.00"]),
        (F.col("price") > Decimal("1.23456"), ["price > 1.23456"]),
        (F.col("wide") > 10**18, []),
        (F.col("text") > "a", ["text > 'a'"]),
        (F.col("text").isin("a", "b"), ["text in ('a', 'b')"]),
        (F.col("text").isin("a", None), ["text in ('a')"]),
        (F.col("text").isin("a", F.upper("text")), []),
        (F.upper("text") == "A", []),
        (F.col("day") >= "2024-05-06", ["day >= 2024-05-06"]),
        (F.col("at") < "2024-05-06 07:08:09", ["at < 2024-05-06 07:08:09+00:00"]),
        (F.col("day") >= "no day", []),
        (F.col("day") > F.lit("2024-05-06").cast("timestamp"), []),
        (F.col("share") > 0.5, []),
        (F.col("share") == 1, []),
        (F.col("share").isNull(), []),
        (F.col("n") > 0.5, []),
        (F.col("flag"), ["flag = True"]),
        (~F.col("flag"), ["flag = False"]),
        (F.col("raw") == b"x", ["raw = b'x'"]),
        (F.col("n").isNull(), ["n is null"]),
        (F.col("n").isNotNull(), ["n is not null"]),
        (F.col("items").isNotNull(), []),
        (F.col("n") != 3, []),
        (F.col("n") == F.lit(None), []),
        (F.col("n") == F.col("small"), []),
        ((F.col("n") == 3) | (F.col("n") == 4), []),
        (F.col("n").eqNullSafe(3), []),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_what_a_source_can_test(condition: Any, expected: Sequence[str]) -> None:
    """A column beside a constant that has an exact value of the column's type; never floats."""
    assert pushed(filtered(Scan(SCHEMA, 0), condition)) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ((F.col("small") > 1) & FAILS, ["(small > 1 or null)"]),
        ((F.col("small") > 1) & (F.col("day") < "2024-05-06") & FAILS & F.col("flag"),
            ["(small > 1 or null)", "(day < 2024-05-06 or null)"]),
        (FAILS & (F.col("small") > 1), []),
        (F.col("small").isNotNull() & FAILS, ["small is not null"]),
        (F.col("small").isin(1, None) & FAILS, []),
        (F.col("small").isin(1, 2) & FAILS, ["(small in (1, 2) or null)"]),
        ((F.udf(len, "bigint")("text") > 1) & F.col("flag"), []),
    ],
    ids=lambda each: None,
)  # fmt: skip
def test_what_may_fail_hides_what_comes_after_it(condition: Any, expected: Sequence[str]) -> None:
    """A row of which a condition is null goes on to the next operand of `and`, which may fail for it."""
    assert pushed(filtered(Scan(SCHEMA, 0), condition)) == expected


def test_a_filter_after_one_that_may_fail_is_not_pushed() -> None:
    """Its rows are those at which the job fails."""
    first = filtered(Scan(SCHEMA, 0), F.col("small") > 1)
    assert pushed(filtered(filtered(first, FAILS), F.col("flag"))) == ["small > 1"]
    assert pushed(filtered(filtered(first, F.col("flag")), FAILS)) == ["small > 1", "flag = True"]


def test_filters_over_renamed_columns() -> None:
    """The source is asked for its own columns; computed ones are unknown to it."""
    renamed = projected(Scan(SCHEMA, 0), k=F.col("n"), double=F.col("small").cast("bigint") + 1)
    assert pushed(filtered(renamed, F.col("k") > 1)) == []  # n + 1 may overflow
    safe = projected(Scan(SCHEMA, 0), k=F.col("n"), n=F.upper("text"))
    plan = filtered(filtered(safe, (F.col("n") == "A") & (F.col("n") < "B")), F.col("k") > 1)
    assert pushed(plan) == ["n > 1"]


def test_no_condition_twice() -> None:
    """Nor one for a table without filters."""
    plan = filtered(filtered(Scan(SCHEMA, 0), F.col("n") > 1), F.col("n") > 1)
    assert pushed(plan) == ["n > 1"]
    assert pushed(Scan(SCHEMA, 0)) == []
