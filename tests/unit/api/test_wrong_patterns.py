"""Patterns of tables that cannot be matched are refused in one sentence, before anything runs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import headgate as hg
import headgate.functions as F  # noqa: N812  # as PySpark's users write it
import headgate.patterns as P  # noqa: N812
from headgate.testing import MiniCluster

SCHEMA = pa.schema(
    {"at": pa.int64(), "user": pa.string(), "price": pa.int64(), "tags": pa.map_(pa.string(), pa.int64())}
)
PRICE, OF_A = F.col("price"), F.col("A.price")


@pytest.fixture
def ticks() -> hg.Table:
    """A table with event time."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    rows = [{"at": at, "user": "u", "price": at, "tags": {}} for at in range(3)]
    return env.from_collection(rows).to_table(SCHEMA).with_watermark("at")


def match(table: hg.Table, **wrong: Any) -> hg.Table:
    """Match a pattern that is right but for `wrong`."""
    right = {"by": "user", "pattern": "A B+", "define": {"B": PRICE > OF_A}, "measures": {"n": F.count("*")}}
    return table.match(**{**right, **wrong})  # type: ignore[arg-type]


def test_the_rest_of_each_wrong_call_is_right(ticks: hg.Table) -> None:
    """So what is refused below is refused for what it says."""
    assert match(ticks).columns == ["user", "n"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "lacks the name of a variable at its end"),
        ("A (B", "lacks a closing parenthesis at its end"),
        ("A B)", r"lacks the end before '\)'"),
        ("A | ", "lacks the name of a variable at its end"),
        ("+ A B", r"lacks the name of a variable before '\+ A B'"),
        ("A , B", "has a sign that means nothing before ', B'"),
        ("A B{}", r"\{\} in the pattern 'A B\{\}' has no number"),
        ("A B{3,2}", "repeats at most 2 times, and at least 3"),
        ("A? B*", "can match without any row"),
        ("A (B?)+", r"repeats what can match without any row"),
        ("A B{1001}", "spells out 1,002 rows; 1,000 are allowed"),
        (None, "expected text|got None"),
    ],
)
def test_what_is_no_pattern_is_refused(ticks: hg.Table, pattern: Any, message: str) -> None:
    """With the place in the pattern, and the line of the call."""
    with pytest.raises(hg.PlanError, match=message) as caught:
        match(ticks, pattern=pattern)
    assert "test_wrong_patterns.py" in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        # names
        ({"define": {"C": PRICE > 1}}, "defines 'C', which is not in the pattern; it has A, B"),
        (
            {"define": {"B": F.col("C.price") < PRICE}},
            "C is neither a variable of the pattern, which has A, B, nor",
        ),
        ({"define": {"B": F.col("prise") > 1}}, "'prise'; did you mean 'price'"),
        ({"define": {"B": F.col("A.prise") < PRICE}}, "'prise'; did you mean 'price'"),
        (
            {"define": {"B": F.sum(F.sum("A.price")) > 1}},
            r"sum\(A.price\) looks at several rows, and stands where",
        ),
        ({"measures": {"x": P.last(F.max("A.price"))}}, r"max\(A.price\) looks at several rows"),
        ({"measures": {"x": F.last("C.price")}}, "C.price is of no row of a match: C is neither"),
        ({"measures": {"x": F.count("C.*")}}, "C is neither a variable"),
        ({"pattern": "A price", "define": {}}, "'price' is a variable and a column"),
        ({"by": "usr"}, "'usr'; did you mean 'user'"),
        ({"by": []}, "got no columns in by"),
        ({"by": "tags"}, "tags is map<.*>, by which rows cannot be grouped"),
        ({"measures": {}}, "got no measures"),
        ({"measures": {"user": F.count("*")}}, "'user' is a key and a measure"),
        ({"order_by": "prise"}, "'prise'"),
        # values
        ({"define": {"B": PRICE + 1}}, "the condition of B is bigint, not boolean"),
        ({"define": {"B": "price > 1"}}, "got 'price > 1' for 'B'; expected an expression"),
        ({"measures": {"x": "price"}}, "got 'price' for 'x'; expected an expression"),
        (
            {"define": {"B": F.sum(F.col("A.price") + F.col("B.price")) < OF_A}},
            "columns of several variables",
        ),
        ({"within": "0s"}, "expected a duration above 0"),
        ({"within": "soon"}, "within is 'soon'; expected a number and a unit"),
        ({"within": [5]}, "within"),
        ({"skip": "past first row"}, "got skip='past first row'; expected 'past last row'"),
        ({"skip": "to last C"}, "the pattern has no variable 'C'"),
    ],
)
def test_what_does_not_fit_is_refused(ticks: hg.Table, wrong: dict[str, Any], message: str) -> None:
    """With what was got, and the line of the call."""
    with pytest.raises(hg.PlanError, match=message) as caught:
        match(ticks, **wrong)
    assert "test_wrong_patterns.py" in str(caught.value)


def test_functions_of_the_program_go_into_columns_before(ticks: hg.Table) -> None:
    """They are computed once for each row, not for each way to match it."""

    @F.udf(returnType="boolean")
    def dear(price: int) -> bool:
        return price > 1

    with pytest.raises(hg.PlanError, match=r"B calls dear\(\), .*with_columns\(\) before"):
        match(ticks, define={"B": dear("price")})
    assert match(ticks.with_column("dear", dear("price")), define={"B": F.col("dear")}).columns == [
        "user",
        "n",
    ]


def test_a_table_needs_event_time_and_rows_that_stay() -> None:
    """Rows are matched in event time, and a match cannot be taken back."""
    env = hg.Environment(parallelism=1, executor=MiniCluster())
    plain = env.from_collection([{"at": 1, "user": "u", "price": 1, "tags": {}}]).to_table(SCHEMA)
    with pytest.raises(hg.PlanError, match=r"which the table has none of; call with_watermark\(\)"):
        match(plain)
    counted = plain.with_watermark("at").group_by("user").agg(F.max("price").alias("price"), uid="counted")
    with pytest.raises(hg.PlanError, match=r"match\(\)"):
        match(counted)


@pytest.mark.parametrize("offset", [-1, "1", 1.5, True, None])
def test_an_offset_is_a_number_of_rows(offset: Any) -> None:
    """In both directions."""
    for navigate in (P.first, P.last):
        with pytest.raises(hg.PlanError, match=r"\(\) .*got offset=.*; expected a number of rows"):
            navigate("A.price", offset)
