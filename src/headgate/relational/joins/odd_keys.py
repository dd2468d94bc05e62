"""Keys that may be null or NaN, as values that can be hashed: these become 0, and bits tell."""

from __future__ import annotations

from functools import reduce
from typing import Final, NamedTuple

import pyarrow as pa

from headgate.common.errors import PlanError
from headgate.relational.expressions import Call, Case, Cast, Expression, Literal, Reference
from headgate.relational.python_types import can_be_key
from headgate.relational.resolved import Choice, Column, Constant, Typed
from headgate.relational.resolving import called, convert
from headgate.relational.schema import Schema
from headgate.relational.spark_types import text_of

_EMPTY: Final = {pa.string(): "", pa.binary(): b"", pa.bool_(): False}

KEY_PREFIX: Final = "key/"
"""What the names of columns begin with that stand for the columns by whose values rows are equal."""

_ODD: Final = "key/odd"
_BITS_MAX: Final = 62
"""Bits of one column of 64-bit integers."""


def as_key(value: Typed) -> Typed:
    """Return `value` with 0, or an empty text, in place of null and NaN, and 0.0 in place of -0.0."""
    kind = value.type
    zero = Constant(kind, False, pa.scalar(_EMPTY.get(kind, 0), kind))
    odd = [called("isnull", [value])] if value.nullable else []
    if is_float(value):
        odd += [called("isnan", [value]), called("=", [value, zero])]
    return Choice(kind, False, tuple((each, zero) for each in odd), value) if odd else value


def is_float(value: Typed) -> bool:
    return bool(pa.types.is_floating(value.type))


def bit_where(number: int, condition: Typed) -> Typed:
    """Return an integer that has the bit `number` where `condition` is true, and no other."""
    set_, unset = (Constant(pa.int64(), False, pa.scalar(each, pa.int64())) for each in (1 << number, 0))
    return Choice(pa.int64(), False, ((condition, set_),), unset)


class Keys(NamedTuple):
    """Columns that are equal exactly where those of a program are, null and null too: `columns` computes
    them, and `given` computes the program's from them, by name.
    """

    columns: list[tuple[str, Typed]]
    given: dict[str, Expression]


def keys_with_nulls(schema: Schema, places: list[int]) -> Keys:
    """Return keys for the columns of `schema` at `places`. Decimals are keys as texts.

    Raises:
        PlanError: a column is of a type whose values cannot be told from each other by hashes.
    """
    columns: list[tuple[str, Typed]] = []
    bits: list[Typed] = []
    given: dict[str, Expression] = {}
    for number, place in enumerate(places):
        field, name = schema.fields[place], f"{KEY_PREFIX}{number}"
        value: Typed = Column(field.type, field.nullable, place, field.name)
        shown: Expression = Reference(name)
        if pa.types.is_decimal(field.type):
            value, shown = convert(value, pa.string()), Cast(shown, text_of(field.type))
        elif not can_be_key(field.type):
            raise PlanError(
                f"{field.name} is {text_of(field.type)}, whose values are not compared; leave it out, or "
                "cast it to string"
            )
        columns.append((name, as_key(value)))
        odd: list[tuple[Expression, Expression]] = []
        if value.nullable:
            odd.append((_has(len(bits)), Literal(None)))
            bits.append(called("isnull", [value]))
        if is_float(value):
            odd.append((_has(len(bits)), Cast(Literal("NaN"), text_of(field.type))))
            bits.append(called("isnan", [value]))
        given[field.name] = Case(tuple(odd), shown) if odd else shown
    return Keys([*columns, *_odd_columns(bits)], given)


def _odd_columns(bits: list[Typed]) -> list[tuple[str, Typed]]:
    found: list[tuple[str, Typed]] = []
    for start in range(0, len(bits), _BITS_MAX):
        parts = [bit_where(number, each) for number, each in enumerate(bits[start : start + _BITS_MAX])]
        found.append(
            (f"{_ODD}{start // _BITS_MAX}", reduce(lambda one, other: called("|", [one, other]), parts))
        )
    return found


def _has(number: int) -> Expression:
    which, mask = Reference(f"{_ODD}{number // _BITS_MAX}"), Cast(Literal(1 << number % _BITS_MAX), "bigint")
    return Call("=", (Call("&", (which, mask)), mask))
