"""Functions of numbers: what is delicate about rounding, logarithms and bases."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest
from one_call import column, kind, value

from headgate.common.errors import PlanError
from headgate.relational.expressions import Call, Literal, Reference
from headgate.relational.resolving import resolve
from headgate.relational.rules import RowsFailed
from headgate.relational.schema import schema_of


@pytest.mark.parametrize(
    ("number", "digits", "rounded"),
    [
        (2.675, 2, 2.68),
        (2.5, 0, 3.0),
        (-2.5, 0, -3.0),
        (-0.3, 0, 0.0),
        (1e300, 2, 1e300),
        (12345.0, -2, 12300.0),
    ],
)
def test_doubles_are_rounded_by_their_shortest_text(number: float, digits: int, rounded: float) -> None:
    """Half-way is away from zero, by decimal digits; and there is no -0.0."""
    found = value("round", number, digits)
    assert found == rounded
    assert math.copysign(1, found) == math.copysign(1, rounded)


def test_half_to_even() -> None:
    """The other rounding."""
    assert [value("bround", each, 0) for each in (0.5, 1.5, 2.5)] == [0.0, 2.0, 2.0]


def test_types_of_rounded_decimals() -> None:
    """There may be one digit more before the point, and there are fewer after it."""
    assert kind("round", pa.decimal128(10, 2), 1) == "decimal(10,1)"
    assert kind("round", pa.decimal128(10, 2), -3) == "decimal(9,0)"
    assert kind("ceil", pa.decimal128(10, 2)) == "decimal(9,0)"
    assert value("round", Decimal("99.95"), 1) == Decimal("100.0")


def test_digits_must_be_constant() -> None:
    """The type of the result depends on them."""
    batch = pa.record_batch({"d": pa.array([1.0]), "n": pa.array([1])})
    with pytest.raises(PlanError, match="number of digits must be a constant"):
        resolve(Call("round", (Reference("d"), Reference("n"))), schema_of(batch.schema))


def test_logarithms_are_null_where_there_is_none() -> None:
    """Of NaN it is NaN."""
    assert column("ln", pa.array([1.0, 0.0, -1.0, None])) == [0.0, None, None, None]
    assert math.isnan(value("ln", math.nan))
    assert value("log1p", -1.0) is None


def test_ceil_of_a_double_is_a_long() -> None:
    """NaN is 0, and what is too large an error."""
    assert column("ceil", pa.array([1.2, -1.2, math.nan, None])) == [2, -1, 0, None]
    with pytest.raises(RowsFailed, match="ARITHMETIC_OVERFLOW"):
        column("floor", pa.array([1e30]))


def test_bases() -> None:
    """Digits end at the first letter that is none; 64 bits without a sign."""
    assert value("conv", "ffxyz", 16, 10) == "255"
    assert value("conv", "-1", 10, 16) == "F" * 16
    assert value("conv", "10", 1, 10) is None
    with pytest.raises(RowsFailed, match="64 bits"):
        value("conv", "1" * 30, 10, 16)
    assert value("hex", -1) == "F" * 16
    assert value("unhex", "ABC") == b"\x0a\xbc"
    assert value("unhex", "1 2 ") is None


def test_buckets() -> None:
    """Before the first there is 0, behind the last one more; bounds may run backwards."""
    assert [value("width_bucket", each, 0.0, 10.0, 5) for each in (-1.0, 0.0, 9.9, 10.0)] == [0, 1, 5, 6]
    assert [value("width_bucket", each, 10.0, 0.0, 5) for each in (11.0, 10.0, 0.0)] == [0, 1, 6]
    assert value("width_bucket", 1.0, 2.0, 2.0, 5) is None


def test_a_whole_number_beside_a_decimal_has_its_own_digits() -> None:
    """An `int` would count as ten."""
    schema = schema_of(pa.schema([pa.field("d", pa.decimal128(10, 2))]))
    assert resolve(Call("*", (Reference("d"), Literal(100))), schema).type == pa.decimal128(14, 2)
    assert resolve(Call("+", (Literal(1), Reference("d"))), schema).type == pa.decimal128(11, 2)
