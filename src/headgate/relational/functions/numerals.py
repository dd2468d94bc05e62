"""Rules of numbers as text in other bases, and of `factorial`."""

from __future__ import annotations

import math
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import per_row, per_value
from headgate.relational.resolved import Values
from headgate.relational.rules import RowsFailed, Rule, Signature, Types, add, exactly
from headgate.relational.spark_types import is_numeric

FAMILY: Final = "mathematical"
_STRING: Final = pa.string()
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_UNSIGNED: Final = 2**64
_FACTORIALS: Final = pa.array([math.factorial(number) for number in range(21)], pa.int64())


def _factorial(_result: pa.DataType, value: Values) -> Values:
    inside = pc.and_(pc.greater_equal(value, 0), pc.less_equal(value, 20))
    place = pc.if_else(inside, value, pa.scalar(None, value.type))
    if isinstance(place, pa.Scalar):
        return _FACTORIALS[place.as_py()] if place.is_valid else pa.scalar(None, pa.int64())
    return _FACTORIALS.take(place)


def _bin(value: int) -> str:
    return f"{value % _UNSIGNED:b}"


def _hex_of_number(value: int) -> str:
    return f"{value % _UNSIGNED:X}"


def _hex_of_bytes(value: bytes) -> str:
    return value.hex().upper()


def _hexed(given: Types) -> Signature | None:
    if len(given) != 1:
        return None
    kind = given[0]
    if is_numeric(kind) or pa.types.is_null(kind):
        return Signature((pa.int64(),), _STRING)
    return (
        Signature((pa.binary(),), _STRING) if pa.types.is_string(kind) or pa.types.is_binary(kind) else None
    )


def _hex(result: pa.DataType, value: Values) -> Values:
    function = _hex_of_bytes if pa.types.is_binary(value.type) else _hex_of_number
    return per_value(function)(result, value)


def _unhex(text: str) -> bytes | None:
    try:
        # Python skips blanks, Spark does not.
        return (
            bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}") if text.isalnum() or not text else None
        )
    except ValueError:
        return None


def convert_base(text: str, base: int, to: int) -> str | None:
    """Return a whole number, a text in base `base`, as a text in base `to`; it ends before what is no digit.

    The number has 64 bits, which a negative `to` takes as signed. None: no such base, or no text.

    Raises:
        RowsFailed: the number needs more bits.

    Example:
        >>> convert_base("ff", 16, 2), convert_base("-1", 10, 16), convert_base("-1", 10, -16)
        ('11111111', 'FFFFFFFFFFFFFFFF', '-1')
    """
    text = text.strip(" ")
    if not (2 <= base <= 36 and 2 <= abs(to) <= 36) or not text:
        return None
    negative = text.startswith("-")
    value = 0
    for letter in text[negative:]:
        digit = _DIGITS.find(letter.upper() if letter.isascii() else "-")
        if not 0 <= digit < base:
            break
        value = value * base + digit
    if value >= _UNSIGNED:
        raise RowsFailed("ARITHMETIC_OVERFLOW", f"{text} needs more than 64 bits")
    if negative and to > 0:
        value = _UNSIGNED - 1 if value >= _UNSIGNED // 2 else -value % _UNSIGNED
    if to < 0 and value >= _UNSIGNED // 2:
        value, negative = _UNSIGNED - value, True
    return f"{'-' if negative and to < 0 else ''}{_in_base(value, abs(to))}"


def _in_base(value: int, base: int) -> str:
    digits: list[str] = []
    while value or not digits:
        value, digit = divmod(value, base)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


def _register() -> None:
    factorial = exactly((pa.int32(),), pa.int64(), nullable=True)
    add(Rule("factorial", FAMILY, factorial, _factorial, "a whole number"))
    add(Rule("bin", FAMILY, exactly((pa.int64(),), _STRING), per_value(_bin), "a whole number"))
    add(Rule("hex", FAMILY, _hexed, _hex, "a whole number, a text or bytes"))
    unhex = exactly((_STRING,), pa.binary(), nullable=True)
    add(Rule("unhex", FAMILY, unhex, per_value(_unhex), "a text of hexadecimal digits"))
    conv = exactly((_STRING, pa.int32(), pa.int32()), _STRING, nullable=True)
    add(
        Rule(
            "conv",
            FAMILY,
            conv,
            per_row(convert_base),
            "a number as text, its base and the wanted one",
            fails=True,
        )
    )


_register()
