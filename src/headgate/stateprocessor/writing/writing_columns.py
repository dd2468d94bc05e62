"""Converts columns of a DataFrame to columns of a table of state, a batch at a time.

Whether a column's type fits is known before anything is computed. What only its values can show - a null
where None is no value, a name that is no member - is refused when they come. Only UUIDs given as text become
Python objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from headgate.common.errors import UsageError
from headgate.common.plain_data import (
    Description,
    mapping_in,
    mappings_in,
    named_mappings_in,
    text_in,
    texts_in,
)
from headgate.serde.arrow.arrow_types import arrow_type, codec_of
from headgate.serde.arrow.stored_values import ROWS
from headgate.serde.descriptions import optional_of

Fit = Callable[[pa.Array], pa.Array]
"""Converts an array of the DataFrame's type to the table's; UsageError for a value of another type."""
Maker = Callable[[Description, pa.DataType, str], Fit | None]
"""Makes a :data:`Fit` for a described type, a DataFrame's type and a column's name; None: no fit."""


def fit_of(stored: Description, given: pa.DataType, where: str) -> Fit:
    """Return a function that turns values of a column of type `given` into those of a described type.

    `where` names the column in messages. UsageError: types do not fit; from the function: a value does not.

    Example:
        >>> from headgate.serde.resolve import serializer_for
        >>> fit_of(serializer_for(int).describe(), pa.int32(), "count")(pa.array([1, 2], pa.int32())).type
        DataType(int64)
        >>> fit_of(serializer_for(int).describe(), pa.string(), "count")
        Traceback (most recent call last):
        headgate.common.errors.UsageError: column 'count' is of type string, which does not fit into the \
declared int; cast the column, or give convert=, a function that makes the state's value of the column's
    """
    optional = optional_of(stored) if stored["kind"] == "union" else None
    if optional is not None:
        return _fit_without_null(optional, given, where)
    inner = _fit_without_null(stored, given, where)

    def fit(array: pa.Array) -> pa.Array:
        if array.null_count:
            raise UsageError(f"column {where!r} holds null, and the declared type takes no None")
        return inner(array)

    return fit


def _fit_without_null(stored: Description, given: pa.DataType, where: str) -> Fit:
    kind = "record" if stored["kind"] in ROWS else text_in(stored, "kind")
    make = _MAKERS.get(kind)
    fit = None if codec_of(stored) is None or make is None else make(stored, given, where)
    if fit is None and given == arrow_type(stored) and kind not in _NEVER_AS_IS:
        # The column was written for a table of state.
        return lambda array: array
    if fit is None:
        raise UsageError(
            f"column {where!r} is of type {given}, which does not fit into the declared {_shown(stored)}; "
            "cast the column, or give convert=, a function that makes the state's value of the column's"
        )
    return fit


def _shown(stored: Description) -> str:
    name = stored.get("name")
    return str(name).rpartition(".")[2] if isinstance(name, str) else str(stored["kind"])


# -- single values


def _cast_to(target: pa.DataType, *allowed: Callable[[pa.DataType], bool]) -> Maker:
    def make(_: Description, given: pa.DataType, where: str) -> Fit | None:
        if not any(check(given) for check in allowed):
            return None
        return lambda array: _cast(array, target, where)

    return make


def _cast(array: pa.Array, target: pa.DataType, where: str) -> pa.Array:
    try:
        return array if array.type == target else array.cast(target)
    except pa.ArrowInvalid as error:
        raise UsageError(f"column {where!r} holds what {target} cannot: {error}") from None


def _is_int(given: pa.DataType) -> bool:
    return bool(pa.types.is_integer(given)) and given != pa.uint64()


def _is_exact_in_double(given: pa.DataType) -> bool:
    return bool(pa.types.is_floating(given)) or (_is_int(given) and given.bit_width <= 32)


def _is_text(given: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(given) or pa.types.is_large_string(given) or pa.types.is_string_view(given)
    )


def _is_bytes(given: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(given) or types.is_large_binary(given) or types.is_fixed_size_binary(given))


def _moment(_: Description, given: pa.DataType, where: str) -> Fit | None:
    # An instant is stored as the wall clock in UTC.
    if not pa.types.is_timestamp(given):
        return None
    offset = None if given.tz is None else 0

    def fit(array: pa.Array) -> pa.Array:
        rows = len(array)
        wall = _cast(array, pa.timestamp("us", given.tz), where).view(pa.timestamp("us"))
        parts = [
            wall,
            pa.array([False] * rows, pa.bool_()),
            pa.nulls(rows, pa.string()),
            pa.array([offset] * rows, pa.duration("us")),
        ]
        return pa.StructArray.from_arrays(
            parts, fields=list(_MOMENT), mask=array.is_null() if array.null_count else None
        )

    return fit


_MOMENT: Final[pa.DataType] = arrow_type({"kind": "datetime"})


def _uuid(_: Description, given: pa.DataType, where: str) -> Fit | None:
    if _is_bytes(given):
        return lambda array: _cast(_cast(array, pa.binary(), where), pa.binary(16), where)
    if not _is_text(given):
        return None

    def fit(array: pa.Array) -> pa.Array:
        try:
            found = [None if text is None else UUID(text).bytes for text in array.to_pylist()]
        except ValueError as error:
            raise UsageError(f"column {where!r} holds what is no UUID: {error}") from None
        return pa.array(found, pa.binary(16))

    return fit


def _decimal(_: Description, given: pa.DataType, _where: str) -> Fit | None:
    return (lambda array: array.cast(pa.string())) if pa.types.is_decimal(given) else None


def _enum(stored: Description, given: pa.DataType, where: str) -> Fit | None:
    if not _is_text(given):
        return None
    names = texts_in(stored, "members")

    def fit(array: pa.Array) -> pa.Array:
        text = _cast(array, pa.string(), where)
        strange = text.filter(pc.invert(pc.is_in(text, pa.array(names, pa.string())))).drop_null()
        if len(strange):
            raise UsageError(f"column {where!r} holds {strange[0].as_py()!r}; expected one of {names}")
        return text

    return fit


# -- parts


def _record(stored: Description, given: pa.DataType, where: str) -> Fit | None:
    if not pa.types.is_struct(given):
        return None
    fields = named_mappings_in(stored, "fields")
    there = [given.field(place).name for place in range(given.num_fields)]
    if set(there) != set(fields) or len(there) != len(fields):
        raise UsageError(
            f"column {where!r} has the fields {', '.join(there)}; the declared {_shown(stored)} has "
            f"{', '.join(fields)}"
        )
    return _struct(stored, fields, [there.index(name) for name in fields], given, where)


def _tuple(stored: Description, given: pa.DataType, where: str) -> Fit | None:
    of = mappings_in(stored, "of")
    if not pa.types.is_struct(given) or given.num_fields != len(of):
        return None
    fields = {given.field(place).name: part for place, part in enumerate(of)}
    return _struct(stored, fields, range(len(fields)), given, where)


def _struct(
    stored: Description,
    fields: Mapping[str, Description],
    places: Sequence[int],
    given: pa.DataType,
    where: str,
) -> Fit:
    fits = [
        fit_of(part, given.field(place).type, f"{where}.{name}")
        for place, (name, part) in zip(places, fields.items(), strict=True)
    ]
    type_: pa.DataType = arrow_type(stored)

    def fit(array: pa.Array) -> pa.Array:
        valid = array.is_valid() if array.null_count else None
        filled = array if valid is None else array.filter(valid)
        parts = [of_part(filled.field(place)) for place, of_part in zip(places, fits, strict=True)]
        made = pa.StructArray.from_arrays(parts, fields=list(type_))
        return made if valid is None else made.take(_places(valid))

    return fit


def _places(valid: pa.BooleanArray) -> pa.Array:
    counted = pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1)
    return pc.if_else(valid, counted, pa.scalar(None, pa.int64()))


def _list(stored: Description, given: pa.DataType, where: str) -> Fit | None:
    if not (pa.types.is_list(given) or pa.types.is_large_list(given)):
        return None
    element = fit_of(mapping_in(stored, "of"), given.value_type, f"{where}[]")
    type_ = arrow_type(stored)

    def fit(array: pa.Array) -> pa.Array:
        mask = array.is_null() if array.null_count else None
        return pa.ListArray.from_arrays(_offsets(array), element(array.flatten()), type=type_, mask=mask)

    return fit


def _map(stored: Description, given: pa.DataType, where: str) -> Fit | None:
    if not pa.types.is_map(given):
        return None
    key = fit_of(mapping_in(stored, "key"), given.key_type, f"{where}.key")
    value = fit_of(mapping_in(stored, "value"), given.item_type, f"{where}.value")
    type_ = arrow_type(stored)

    def fit(array: pa.Array) -> pa.Array:
        keys, values = parts_of_map(array)
        mask = array.is_null() if array.null_count else None
        return pa.MapArray.from_arrays(_offsets(array), key(keys), value(values), type=type_, mask=mask)

    return fit


def parts_of_map(array: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """Return all keys, and all values, of a map column's rows as two arrays; null rows have none."""
    flat = _as_pairs(array).flatten()
    return flat.field(0), flat.field(1)


def lengths_of(array: pa.Array) -> pa.Array:
    """Return how many elements or entries each row of a list or map column has; 0 for a null row."""
    lists = _as_pairs(array) if pa.types.is_map(array.type) else array
    return pc.list_value_length(lists).fill_null(0).cast(pa.int32())


def _as_pairs(array: pa.MapArray) -> pa.ListArray:
    kind = array.type
    return array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))


def _offsets(array: pa.Array) -> pa.Array:
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths_of(array))])


_NEVER_AS_IS: Final = frozenset({"record", "tuple", "list", "tuple_of", "dict", "literal"})
"""Kinds whose Arrow type does not show whether all values are of the declared type."""
_MAKERS: Final[Mapping[str, Maker]] = {
    "bool": _cast_to(pa.bool_(), pa.types.is_boolean),
    "int": _cast_to(pa.int64(), _is_int),
    "float": _cast_to(pa.float64(), _is_exact_in_double),
    "str": _cast_to(pa.string(), _is_text),
    "bytes": _cast_to(pa.binary(), _is_bytes),
    "date": _cast_to(pa.date32(), pa.types.is_date32),
    "timedelta": _cast_to(pa.duration("us"), pa.types.is_duration),
    "datetime": _moment,
    "uuid": _uuid,
    "decimal": _decimal,
    "enum": _enum,
    "record": _record,
    "tuple": _tuple,
    "list": _list,
    "tuple_of": _list,
    "dict": _map,
}
"""Makers of fits by the kind of description."""
