"""Casts of numbers to texts and of texts to numbers, in Java's forms, without blanks around them."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headgate.relational.functions.kernels import any_true, first_rows, per_value
from headgate.relational.resolved import Values

BLANKS: Final = "".join(map(chr, range(33))) + "\x7f"
"""What a cast cuts off at both ends of a text."""
INTEGER_TEXT: Final = r"^[+-]?[0-9]+$"
NUMBER_TEXT: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
DOUBLE_TEXT: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
SPECIAL_TEXT: Final = r"(?i)^([+-]?inf(inity)?|nan)$"
_SHORT_TEXT: Final = r"^-?[0-9]{1,18}(\.[0-9]{1,18})?$"
_TEXT: Final = pa.string()
_DOUBLE: Final = pa.float64()


def trimmed(values: Values) -> Values:
    """Return texts without the blanks at both ends that casts ignore."""
    return pc.utf8_trim(values, characters=BLANKS)


# -- numbers as texts


def float_text(value: float) -> str:
    """Return a double as Java, and so Spark, writes it.

    Example:
        >>> [float_text(each) for each in (1.0, 1e7, 0.0001, float("inf"), -0.0)]
        ['1.0', '1.0E7', '1.0E-4', 'Infinity', '-0.0']
    """
    return _java_text(value, repr(value))


def float32_text(value: float) -> str:
    """Return a float, given as a double of the same value, as Java, and so Spark, writes it."""
    return _java_text(value, str(np.float32(value)))


def _java_text(value: float, shortest: str) -> str:
    """Write a number by its shortest text: plainly from 0.001 up to 10,000,000, else with an exponent."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    minus, text = "-" if sign else "", "".join(map(str, digits)).rstrip("0") or "0"
    if value == 0:
        return f"{minus}0.0"
    point = len(digits) + exponent  # the digits' place of the point
    if 1e-3 <= abs(value) < 1e7:
        text = "0" * max(1 - point, 0) + text + "0" * max(point - len(text), 0)
        point = max(point, 1)
        return f"{minus}{text[:point]}.{text[point:] or '0'}"
    if len(text) == 1 and abs(value) < 1e-300 and float(two := f"{abs(value):.1e}") == abs(value):
        text = two[0] + two[2]  # Java writes two digits at least, the nearest ones: 4.9E-324
    return f"{minus}{text[0]}.{text[1:] or '0'}E{point - 1}"


def number_texts(values: Values) -> Values:
    """Return numbers as texts, as Spark's casts write them."""
    if pa.types.is_floating(values.type):
        return _float_texts(values)
    found = pc.cast(values, _TEXT)
    if pa.types.is_decimal(values.type) and any_true(pc.match_substring(found, pattern="E")):
        return per_value(lambda value: f"{value:f}")(_TEXT, values)
    return found


def _float_texts(values: Values) -> Values:
    # Arrow's texts are taken where it writes the same digits without an exponent.
    if isinstance(values, pa.Scalar):
        return _float_texts(first_rows(values))[0]
    size = pc.abs(values)
    plain = pc.or_(pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)), pc.equal(size, 0.0))
    quick = pc.cast(values, _TEXT)
    quick = pc.if_else(
        pc.match_substring(quick, pattern="."), quick, pc.binary_join_element_wise(quick, ".0", "")
    )
    other = pc.invert(pc.fill_null(plain, True))
    if not any_true(other):
        return quick
    function = float_text if values.type == _DOUBLE else float32_text
    return pc.replace_with_mask(quick, other, per_value(function)(_TEXT, values.filter(other)))


# -- texts as numbers


def doubles_of(texts: Values, to: pa.DataType) -> Values:
    """Return texts of numbers as doubles or floats (`to`), also `inf`, `nan`, and a `d` or `f` at the end."""
    plain = pc.replace_substring_regex(texts, pattern=r"^\+", replacement="")
    return pc.cast(pc.replace_substring_regex(plain, pattern=r"([0-9.])[dDfF]$", replacement=r"\1"), to)


def decimals_of(texts: Values, scale: int) -> Values:
    """Return texts of numbers as decimals of 76 digits, rounded half up at `scale` digits after the point.

    What has more digits before the point than there is room for becomes the largest number of its sign.
    """
    if not any_true(pc.invert(pc.match_substring_regex(texts, pattern=_SHORT_TEXT))):
        exact = pc.cast(texts, pa.decimal256(76, 18))
        rounded = pc.round(exact, ndigits=scale, round_mode="half_towards_infinity") if scale < 18 else exact
        return pc.cast(rounded, pa.decimal256(76, scale))
    return per_value(lambda text: _rounded(text, scale))(pa.decimal256(76, scale), texts)


def _rounded(text: str, scale: int) -> Decimal:
    with localcontext(prec=76) as context:
        most = (Decimal(10) ** (76 - scale) - 1) * (-1 if text.startswith("-") else 1)
        try:
            value = Decimal(text)
            if value.adjusted() >= 76 - scale and value:
                return most
            return value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, context)
        except InvalidOperation:
            return most
