"""Conversion of records to Arrow columns of a given schema; errors name column and value.

Nothing is rounded or guessed, whereas Arrow by itself turns 1.5 into 1, or a datetime into a date.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headgate.common.errors import UsageError
from headgate.connectors.dataframe.column_types import arrow_schema, check_types
from headgate.connectors.dataframe.connector import first_line
from headgate.connectors.fields import fields_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_SHOWN_CHARS: Final = 60

T = TypeVar("T")


def check_schema(schema: StructType | str | None, verb: str) -> None:
    """Raise UsageError, naming `verb`, for a schema that is not None, text or StructType; parse no text."""
    if schema is not None and not isinstance(schema, str) and type(schema).__name__ != "StructType":
        raise UsageError(
            f"{verb}() got a schema of type {type(schema).__name__}; expected a StructType or text "
            "such as 'author string, commits long'"
        )


def struct_of(schema: StructType | str, verb: str) -> StructType:
    """Return the program's schema as a StructType; UsageError, naming `verb`, if Spark cannot parse it."""
    from pyspark.sql.types import StructType

    if not isinstance(schema, str):
        return schema
    try:
        found = StructType.fromDDL(schema)
    except Exception as error:
        raise UsageError(f"the schema of {verb}() is wrong: {first_line(error)}") from error
    assert isinstance(found, StructType), "a list of columns is a struct"
    return found


def typed_rows(schema: StructType, verb: str) -> TypedRows:
    """Return a converter of records to batches of `schema`; UsageError, naming `verb`, for refused types."""
    check_types(schema, verb)
    shown = {field.name: field.dataType.simpleString() for field in schema}
    required = frozenset(field.name for field in schema if not field.nullable)
    return TypedRows(arrow_schema(schema), shown, required, verb)


class TypedRows:
    """Converts records to Arrow batches of one schema, in workers; errors name `verb`, the API method called.
    `shown` has the name and Spark type of each column, `required` the columns that may not be null.
    """

    def __init__(
        self, schema: pa.Schema, shown: Mapping[str, str], required: frozenset[str], verb: str
    ) -> None:
        self.schema, self._shown, self._required, self._verb = schema, dict(shown), required, verb

    def batch_of(self, records: list[T] | pa.RecordBatch) -> pa.RecordBatch:
        """Return records as one batch, missing fields null; UsageError: a value, null or column misfits."""
        import pyarrow as pa

        if isinstance(records, pa.RecordBatch):
            found = self._of_columns(records)
        else:
            found = self._of_rows([self._fields(record) for record in records])
        for name in self._required:
            if found.column(name).null_count:
                raise self._misfit(name, None, "which is declared not null")
        return found

    def _of_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        if batch.schema.equals(self.schema):
            return batch
        names = self.schema.names
        if sorted(batch.schema.names) != sorted(names):
            raise UsageError(
                f"a batch for {self._verb}() has the columns {', '.join(batch.schema.names)}; expected "
                f"{', '.join(names)}, as its schema says"
            )
        columns = [self._cast(batch.column(field.name), field) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _cast(self, column: pa.Array, field: pa.Field) -> pa.Array:
        import pyarrow as pa

        if column.type == field.type:
            return column
        times = pa.types.is_timestamp(column.type) and pa.types.is_timestamp(field.type)
        if times and (column.type.tz is None) != (field.type.tz is None):
            raise self._misfit(field.name, column.type, "of which one has a time zone and the other has none")
        try:
            return column.cast(field.type)
        except (pa.ArrowException, ValueError) as problem:
            for value in column:
                try:
                    value.cast(field.type)
                except (pa.ArrowException, ValueError):
                    raise self._misfit(field.name, value.as_py(), str(problem)) from problem
            raise self._misfit(field.name, column.type, str(problem)) from problem

    def _fields(self, record: Any) -> Mapping[str, Any]:
        names = self.schema.names
        if type(record) is tuple:
            if len(record) != len(names):
                raise UsageError(
                    f"a record for {self._verb}() is a tuple of {len(record)} values ({_short(record)}); "
                    f"expected {len(names)}: {', '.join(names)}"
                )
            return dict(zip(names, record, strict=True))
        fields = fields_of(record)
        unknown = next((name for name in fields if name not in self._shown), None)
        if unknown is not None:
            raise UsageError(
                f"a record for {self._verb}() has a field {unknown!r} that its schema has not; expected "
                f"{', '.join(names)}; add it to the schema, or map the records"
            )
        return fields

    def _of_rows(self, rows: list[Mapping[str, Any]]) -> pa.RecordBatch:
        import pyarrow as pa

        columns = [self._column([row.get(field.name) for row in rows], field) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, values: list[T], field: pa.Field) -> pa.Array:
        import pyarrow as pa

        try:
            check_values(values, field.type)
            return pa.array(values, field.type)
        except ValueMisfitError as problem:
            raise self._misfit(field.name, problem.value, problem.why) from None
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as problem:
            value = next((value for value in values if not _fits(value, field.type)), None)
            raise self._misfit(field.name, value, str(problem)) from problem

    def _misfit(self, name: str, value: T, why: str) -> UsageError:
        return UsageError(
            f"column {name!r} of {self._verb}() got {_short(value)}; expected {self._shown[name]} ({why}); "
            "convert the records, or change the schema"
        )


class ValueMisfitError(Exception):
    """`value`, perhaps inside a list, map or struct, does not fit its column's type, for the reason `why`."""

    def __init__(self, value: Any, why: str) -> None:
        super().__init__(why)
        self.value, self.why = value, why


def check_values(values: Sequence[T], kind: pa.DataType) -> None:
    """Raise ValueMisfitError if a value's Python type, or a time's zone, does not fit columns of this type.

    Example:
        >>> import pyarrow as pa
        >>> check_values([1, None], pa.float64())
        >>> check_values([[1], [2.5]], pa.list_(pa.int64()))
        Traceback (most recent call last):
            ...
        headgate.connectors.dataframe.arrow_rows.ValueMisfitError: a float is no int
    """
    import pyarrow as pa

    nested = pa.types.is_nested(kind)
    accepted, excluded, wanted = _nested_kinds(kind) if nested else _plain_kinds(kind)
    for found in set(map(type, values)) - {type(None)}:
        if not issubclass(found, accepted) or issubclass(found, excluded):
            wrong = next(value for value in values if type(value) is found)
            raise ValueMisfitError(wrong, f"a {found.__name__} is no {wanted}")
    present = [value for value in values if value is not None]
    if nested:
        _check_parts(present, kind)
    elif pa.types.is_timestamp(kind):
        _check_zones(present, kind.tz is not None)


def _plain_kinds(kind: pa.DataType) -> tuple[tuple[type, ...], tuple[type, ...], str]:
    from pyarrow import types as t

    table: list[tuple[Callable[[pa.DataType], bool], tuple[type, ...], tuple[type, ...], str]] = [
        (t.is_integer, (numbers.Integral,), (bool,), "int"),
        (t.is_floating, (numbers.Real,), (bool,), "float"),
        (t.is_decimal, (decimal.Decimal, numbers.Integral), (bool,), "Decimal"),
        (t.is_date, (datetime.date,), (datetime.datetime,), "date"),
        (t.is_timestamp, (datetime.datetime,), (), "datetime"),
        (t.is_duration, (datetime.timedelta,), (), "timedelta"),
        (t.is_string, (str,), (), "str"),
        (t.is_binary, (bytes, bytearray, memoryview), (), "bytes"),
        (t.is_boolean, (bool,), (), "bool"),
        (t.is_null, (type(None),), (), "None"),
    ]
    return next(found[1:] for found in table if found[0](kind))


def _nested_kinds(kind: pa.DataType) -> tuple[tuple[type, ...], tuple[type, ...], str]:
    from pyarrow import types as t

    if t.is_struct(kind):
        return (dict,), (), "dict"
    if t.is_map(kind):
        return (dict, list, tuple), (), "dict or list of pairs"
    return (list, tuple), (), "list"


def _check_parts(values: list[Any], kind: pa.DataType) -> None:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        names = {part.name for part in kind.fields}
        for value in values:
            if not names.issuperset(value):
                raise ValueMisfitError(value, f"it has a field that is none of {', '.join(sorted(names))}")
        for part in kind.fields:
            check_values([value.get(part.name) for value in values], part.type)
    elif pa.types.is_map(kind):
        pairs = [pair for value in values for pair in (value.items() if isinstance(value, dict) else value)]
        check_values([key for key, _ in pairs], kind.key_type)
        check_values([item for _, item in pairs], kind.item_type)
    else:
        check_values([part for value in values for part in value], kind.value_type)


def _check_zones(values: list[Any], zoned: bool) -> None:
    for value in values:
        if (value.utcoffset() is not None) != zoned:
            has, needs = ("no time zone", "one") if zoned else ("a time zone", "none")
            raise ValueMisfitError(value, f"the time has {has} and needs {needs}")


def _fits(value: T, kind: pa.DataType) -> bool:
    import pyarrow as pa

    try:
        pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def _short(value: T) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
