"""Types of columns: Arrow's types with Spark's names and meaning, and what two of them have in common."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from headgate.common.errors import PlanError

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
"""A point in time, as Spark's `timestamp`: it is shown in the zone of the session."""
LOCAL_TIMESTAMP: Final = pa.timestamp("us")
"""Date and time without a zone, as Spark's `timestamp_ntz`."""
DURATION: Final = pa.duration("us")
WINDOW: Final = pa.struct([pa.field("start", TIMESTAMP, False), pa.field("end", TIMESTAMP, False)])
"""Type of the column `window`: a struct of `start`, and of `end`, which lies outside the window."""

NAMES: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": LOCAL_TIMESTAMP,
    "interval day to second": DURATION,
    "void": pa.null(),
}
"""Spark's names of the types without parameters."""

_OTHER_NAMES: Final = {
    "bool": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "str": "string",
    "bytes": "binary",
}
_TEXTS: Final = {kind: name for name, kind in NAMES.items()}
_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_DIGITS: Final = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}
_DECIMAL: Final = re.compile(r"decimal(?:\((\d+)(?:,\s*(-?\d+))?\))?")
_COLUMN: Final = re.compile(
    r"\s*(?:`((?:[^`]|``)+)`|([^\s:`<>(),]+))(?:\s*:\s*|\s+)(.+?)(\s+not\s+null)?\s*",
    re.IGNORECASE | re.DOTALL,
)
"""A column of a declaration: its name, quoted or not, its type, and whether it is never null."""
PRECISION_MAX: Final = 38


def text_of(kind: pa.DataType) -> str:
    """Return a column type in Spark's words.

    Example:
        >>> text_of(pa.list_(pa.struct({"at": TIMESTAMP, "price": pa.decimal128(10, 2)})))
        'array<struct<at:timestamp,price:decimal(10,2)>>'
    """
    if kind in _TEXTS:
        return _TEXTS[kind]
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{text_of(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{text_of(kind.key_type)},{text_of(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{text_of(field.type)}' for field in kind)}>"
    return str(kind)


def type_named(text: str) -> pa.DataType:
    """Return the column type that a name of Spark's stands for, such as "bigint" or "decimal(10,2)".

    Raises:
        PlanError: there is no such type.

    Example:
        >>> type_named("decimal(10, 2)"), type_named("long"), type_named("array<string>")
        (Decimal128Type(decimal128(10, 2)), DataType(int64), ListType(list<element: string>))
        >>> text_of(type_named("map<string, struct<at: timestamp, price: decimal(9,2)>>"))
        'map<string,struct<at:timestamp,price:decimal(9,2)>>'
    """
    given = text.strip()
    name = given.lower()
    name = _OTHER_NAMES.get(name, name)
    if name in NAMES:
        return NAMES[name]
    if found := _DECIMAL.fullmatch(name):
        precision, scale = int(found[1] or 10), int(found[2] or 0)
        if 1 <= precision <= PRECISION_MAX and 0 <= scale <= precision:
            return pa.decimal128(precision, scale)
    outer, _, inner = given.removesuffix(">").partition("<")
    if given.endswith(">") and (nested := _nested_named(outer.strip().lower(), inner)) is not None:
        return nested
    raise PlanError(
        f"there is no column type {text!r}; expected one of {', '.join(NAMES)}, decimal(p,s), array<type>, "
        "map<type,type>, struct<name:type,...>"
    )


def _nested_named(outer: str, inner: str) -> pa.DataType | None:
    parts = _parted(inner)
    if outer == "array" and len(parts) == 1:
        return list_of(type_named(inner))
    if outer == "map" and len(parts) == 2:
        return pa.map_(type_named(parts[0]), type_named(parts[1]))
    return pa.struct(_named_fields(parts, inner)) if outer == "struct" else None


def fields_named(text: str) -> pa.Schema:
    """Return the columns that a text such as "user string, price bigint not null" declares, as in PySpark.

    Raises:
        PlanError: a column has no type, or one that does not exist.

    Example:
        >>> fields_named("user string, prices array<bigint> NOT NULL").field("prices")
        pyarrow.Field<prices: list<element: int64> not null>
    """
    return pa.schema(_named_fields(_parted(text), text))


def _named_fields(parts: list[str], text: str) -> list[pa.Field]:
    fields = []
    for part in parts:
        found = _COLUMN.fullmatch(part)
        if found is None:
            raise PlanError(f"{part.strip()!r} in {text!r} is no column; expected a name and a type")
        name = found[1].replace("``", "`") if found[1] is not None else found[2]
        fields.append(pa.field(name, type_named(found[3]), nullable=found[4] is None))
    return fields


def _parted(text: str) -> list[str]:
    # At the commas that are in no brackets.
    parts, depth = [""], 0
    for each in text:
        depth += (each in "<(") - (each in ">)")
        if each == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += each
    return parts


def list_of(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def is_integer(kind: pa.DataType) -> bool:
    return kind in _INTEGERS


def is_numeric(kind: pa.DataType) -> bool:
    """Return whether a type is a number: an integer, a float or a decimal."""
    return kind in _INTEGERS or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def normal_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type to which columns of an Arrow type are converted for computing; None: there is none.

    Times become microseconds, dictionaries and large or view types their plain form, unsigned integers wider.
    """
    if pa.types.is_dictionary(kind):
        return normal_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return TIMESTAMP if kind.tz is not None else LOCAL_TIMESTAMP
    if pa.types.is_duration(kind):
        return DURATION
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= PRECISION_MAX else None
    return _normal_nested(kind) if pa.types.is_nested(kind) else _plain(kind)


def _plain(kind: pa.DataType) -> pa.DataType | None:
    if kind in _TEXTS:
        return kind
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
    return wider.get(kind, pa.float32() if kind == pa.float16() else None)


def _normal_nested(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_struct(kind):
        inner = [(field, normal_type(field.type)) for field in kind]
        if any(found is None for _, found in inner):
            return None
        return pa.struct([pa.field(field.name, found, field.nullable) for field, found in inner])
    if pa.types.is_map(kind):
        key, item = normal_type(kind.key_type), normal_type(kind.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    element = normal_type(kind.value_type)
    return None if element is None else list_of(element)


# -- what two types have in common


def as_decimal(kind: pa.DataType) -> pa.DataType:
    """Return the decimal type that holds every value of an integer or decimal type."""
    return kind if pa.types.is_decimal(kind) else pa.decimal128(_DIGITS[kind], 0)


def common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the type in which Spark computes with two types of numbers.

    Example:
        >>> [text_of(common_number(pa.int32(), kind)) for kind in (pa.decimal128(10, 2), pa.int64())]
        ['decimal(12,2)', 'bigint']
    """
    if left == right:
        return left
    if pa.types.is_floating(left) or pa.types.is_floating(right):
        # A float keeps too few digits of any other number, so that Spark takes a double.
        return pa.float64()
    if pa.types.is_decimal(left) or pa.types.is_decimal(right):
        return wider_decimal(as_decimal(left), as_decimal(right))
    return max(left, right, key=_INTEGERS.index)


def wider_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Return the decimal type that holds the values of both types, bounded as by :func:`bounded_decimal`."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return bounded_decimal(whole + scale, scale)


def bounded_decimal(precision: int, scale: int) -> pa.DataType:
    """Return a decimal type of at most 38 digits; to fit, digits after the point go first, down to six.

    Example:
        >>> text_of(bounded_decimal(45, 12))
        'decimal(38,6)'
    """
    if precision <= PRECISION_MAX:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(PRECISION_MAX, max(PRECISION_MAX - whole, min(scale, 6)))


def common_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Return the type to which Spark's ANSI mode converts values of both types; None: there is none.
    Text gives way to the other type; beside text integers become bigint, floats and decimals double.
    """
    if left == right or pa.types.is_null(right):
        return left
    if pa.types.is_null(left):
        return right
    if is_numeric(left) and is_numeric(right):
        return common_number(left, right)
    times = (pa.date32(), LOCAL_TIMESTAMP, TIMESTAMP)
    if left in times and right in times:
        return max(left, right, key=times.index)
    for text, other in ((left, right), (right, left)):
        if pa.types.is_string(text) and not pa.types.is_nested(other) and not pa.types.is_binary(other):
            # ANSI: text gives way to the other type; integers beside text become bigint, floats double.
            return pa.int64() if is_integer(other) else pa.float64() if is_numeric(other) else other
    return None
