"""Spark's column types: which ones a dataflow carries unchanged, and how each is represented in Arrow.
Columns of other types are refused before the job starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from headgate.common.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

SUPPORTED: Final = frozenset(
    f"{name}Type"
    for name in (
        *("Boolean", "Byte", "Short", "Integer", "Long", "Float", "Double", "Decimal", "String", "Binary"),
        *("Date", "Timestamp", "TimestampNTZ", "DayTimeInterval", "Null"),
    )
)
"""Classes of `pyspark.sql.types` that a dataflow carries unchanged, also in arrays, maps and structs."""

_TO_TEXT: Final = "cast it to string"
_ADVICE: Final = {
    "CharType": "use string, because a length is checked by tables only",
    "VarcharType": "use string, because a length is checked by tables only",
    "TimeType": _TO_TEXT,
    "YearMonthIntervalType": _TO_TEXT,
    "CalendarIntervalType": _TO_TEXT,
    "VariantType": "cast it to string, or take what you need from it with variant_get()",
    "GeometryType": "take its bytes with st_asbinary()",
    "GeographyType": "take its bytes with st_asbinary()",
}


def check_types(schema: StructType, verb: str) -> None:
    """Raise UsageError, naming `verb`, for the first column or field that a dataflow would change or refuse.

    Example:
        >>> from pyspark.sql.types import ArrayType, StructType, YearMonthIntervalType
        >>> line = StructType().add("lines", "long").add("took", YearMonthIntervalType(1, 1))
        >>> check_types(StructType().add("at", "timestamp").add("commits", ArrayType(line)), "from_spark")
        Traceback (most recent call last):
            ...
        headgate.common.errors.UsageError: column 'commits[].took' of from_spark() has type interval month, \
which does not go through a dataflow unchanged; cast it to string
    """
    for path, what, advice in _misfits(schema, ""):
        raise UsageError(f"column {path!r} of {verb}() {what}; {advice}")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of these Spark columns: instants in UTC, and all but maps' keys may be null.

    Spark sends null structs whose parts are declared as never null; Arrow takes that for a contradiction.

    Example:
        >>> from pyspark.sql.types import StructType
        >>> arrow_schema(StructType().add("at", "timestamp", nullable=False).add("price", "decimal(9,2)"))
        at: timestamp[us, tz=UTC]
        price: decimal128(9, 2)
    """
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    exact = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([pa.field(field.name, _nullable(field.type)) for field in exact])


def _nullable(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _nullable(part.type)) for part in kind.fields])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _nullable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(
            pa.field(kind.key_field.name, _nullable(kind.key_type), nullable=False),
            pa.field(kind.item_field.name, _nullable(kind.item_type)),
        )
    return kind


def _misfits(kind: DataType, path: str) -> Iterator[tuple[str, str, str]]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, StructType):
        yield from _wrong_fields(kind, path)
        for field in kind.fields:
            yield from _misfits(field.dataType, f"{path}.{field.name}" if path else field.name)
    elif isinstance(kind, ArrayType):
        yield from _misfits(kind.elementType, f"{path}[]")
    elif isinstance(kind, MapType):
        yield from _misfits(kind.keyType, f"{path}.key")
        yield from _misfits(kind.valueType, f"{path}.value")
    elif type(kind).__name__ not in SUPPORTED:
        what = f"has type {_shown(kind)}, which does not go through a dataflow unchanged"
        yield path, what, _ADVICE.get(type(kind).__name__, "select its parts as columns of their own")


def _wrong_fields(kind: StructType, path: str) -> Iterator[tuple[str, str, str]]:
    if not kind.fields:
        yield path, "is a struct without fields, which no file can hold", "leave it out"
    seen: set[str] = set()
    for field in kind.fields:
        # As Spark itself compares names where it reads them, unless told otherwise.
        if field.name.casefold() in seen:
            yield f"{path}.{field.name}" if path else field.name, "is there twice", "rename one of the two"
        seen.add(field.name.casefold())


def _shown(kind: DataType) -> str:
    try:
        return str(kind.simpleString())
    except Exception:  # a type of the user's own may not have a name
        return type(kind).__name__
