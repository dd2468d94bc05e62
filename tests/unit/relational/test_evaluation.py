"""What may fail is evaluated for the rows that ask for it, and a bad row is found."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.common.errors import PlanError
from headgate.relational.evaluation import evaluate, first_failing
from headgate.relational.expressions import Call, Case, Cast, Expression, Literal, Reference
from headgate.relational.resolving import resolve
from headgate.relational.rules import RowsFailed
from headgate.relational.schema import schema_of

A, B = Reference("a"), Reference("b")
QUOTIENT = Call("/", (A, B))
NOT_ZERO = Call("<>", (B, Literal(0)))
ROWS = [(6, 3), (5, 0), (None, 0), (4, None), (8, 2)]


def batch(rows: list[tuple[Any, Any]]) -> pa.RecordBatch:
    """Rows of two bigint columns."""
    columns = list(zip(*rows, strict=True)) or [(), ()]
    return pa.record_batch([pa.array(column, pa.int64()) for column in columns], names=["a", "b"])


def values(expression: Expression, rows: list[tuple[Any, Any]] = ROWS) -> list[Any]:
    """What an expression gives for rows."""
    data = batch(rows)
    found: list[Any] = evaluate(resolve(expression, schema_of(data.schema)), data).to_pylist()
    return found


def test_a_branch_is_evaluated_for_its_own_rows() -> None:
    """Also nested, and in the condition of a later branch."""
    assert values(Case(((NOT_ZERO, QUOTIENT),), Literal(-1.0))) == [2.0, -1.0, -1.0, -1.0, 4.0]
    big = Case(((Call("isnull", (B,)), Literal(0.0)), (Call("=", (B, Literal(0))), Literal(1.0))), QUOTIENT)
    assert values(big) == [2.0, 1.0, 1.0, 0.0, 4.0]
    later = Case(
        ((Call("=", (B, Literal(0))), Literal("zero")), (Call(">", (QUOTIENT, Literal(3))), Literal("big")))
    )
    assert values(later) == [None, "zero", "zero", None, "big"]


def test_the_second_operand_counts_where_the_first_does_not_decide() -> None:
    """`and`, `or` and `coalesce`, with null for unknown."""
    big = Call(">", (QUOTIENT, Literal(3)))
    assert values(Call("and", (NOT_ZERO, big))) == [False, False, False, None, True]
    assert values(Call("or", (Call("=", (B, Literal(0))), big))) == [False, True, True, None, True]
    first = Case(((Call("=", (B, Literal(0))), Literal(7.0)),))
    assert values(Call("coalesce", (first, QUOTIENT))) == [2.0, 7.0, 7.0, None, 4.0]


def test_a_row_that_fails_is_found() -> None:
    """By halving; and `try_` gives null for it alone."""
    data = batch(ROWS)
    found = resolve(QUOTIENT, schema_of(data.schema))
    with pytest.raises(RowsFailed, match="DIVIDE_BY_ZERO"):
        evaluate(found, data)
    assert first_failing(found, data) == 1
    assert values(Call("try_divide", (A, B))) == [2.0, None, None, None, 4.0]


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3)), min_size=1, max_size=40))
def test_checked_arithmetic_is_that_of_whole_numbers(rows: list[tuple[int, int]]) -> None:
    """A result that does not fit is null by `try_`, and the first such row is the one that is named."""
    exact = [a * b for a, b in rows]
    fits = [-(2**63) <= each < 2**63 for each in exact]
    assert values(Call("try_multiply", (A, B)), rows) == [
        e if f else None for e, f in zip(exact, fits, strict=True)
    ]
    if not all(fits):
        data = batch(rows)
        assert first_failing(resolve(Call("*", (A, B)), schema_of(data.schema)), data) == fits.index(False)


def test_not_a_number_is_equal_to_itself_and_the_largest() -> None:
    """As Spark compares doubles."""
    nan = Cast(Literal("NaN"), "double")
    data = pa.record_batch({"x": pa.array([1.0, float("nan"), None])})
    schema = schema_of(data.schema)

    def compared(sign: str) -> list[Any]:
        found: list[Any] = evaluate(resolve(Call(sign, (Reference("x"), nan)), schema), data).to_pylist()
        return found

    assert compared("=") == [False, True, None]
    assert compared("<") == [True, False, None]
    assert compared(">=") == [False, True, None]
    assert compared("<=>") == [False, True, False]


def test_decimals_have_the_precision_of_spark() -> None:
    """A sum has a digit more, a quotient is rounded half up at its last digit."""
    data = pa.record_batch({"p": pa.array([Decimal("1.00"), Decimal("2.00")], pa.decimal128(10, 2))})
    schema = schema_of(data.schema)
    both = resolve(Call("+", (Reference("p"), Reference("p"))), schema)
    assert both.type == pa.decimal128(11, 2)
    third = resolve(Call("/", (Reference("p"), Literal(Decimal(3)))), schema)
    assert [str(each) for each in evaluate(third, data).to_pylist()][1].startswith("0.6666")
    assert str(evaluate(third, data).to_pylist()[1])[-1] == "7"


def test_wrong_arguments_are_told_in_sparks_words() -> None:
    """Function, what it takes, what it got."""
    schema = schema_of(pa.schema({"a": pa.int64(), "list": pa.list_(pa.int64())}))
    with pytest.raises(PlanError, match=r"\+\(\) takes two numbers; got bigint, array<bigint>"):
        resolve(Call("+", (A, Reference("list"))), schema)
    with pytest.raises(PlanError, match="array<bigint> and cannot be cast to int"):
        resolve(Cast(Reference("list"), "int"), schema)
    with pytest.raises(PlanError, match="there is no column type 'inz'"):
        resolve(Cast(A, "inz"), schema)
