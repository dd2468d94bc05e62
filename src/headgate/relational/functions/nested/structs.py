"""Rules of structs made of values: `struct`, `named_struct`, and arrays zipped into arrays of structs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from headgate.common.errors import PlanError
from headgate.relational.functions.kernels import missing, with_arrays
from headgate.relational.functions.nested.ragged import NOTHING, list_array, lists_of, taken
from headgate.relational.resolved import Column, Member, Typed, Values
from headgate.relational.rules import Rule, Signature, Types, add, constant_of
from headgate.relational.spark_types import list_of

FAMILY: Final = "collections"


def _struct_of(names: Sequence[str], values: Sequence[Typed]) -> pa.DataType:
    return pa.struct(
        [pa.field(name, value.type, value.nullable) for name, value in zip(names, values, strict=True)]
    )


def _name(value: Typed, other: str) -> str:
    return value.name if isinstance(value, Column | Member) else other


def _any(given: Types) -> Signature | None:
    return Signature(given, pa.struct([]), nullable=False) if given else None


def _struct_type(found: Signature, arguments: Sequence[Typed]) -> Signature:
    names = [_name(value, f"col{place}") for place, value in enumerate(arguments, 1)]
    return found._replace(result=_struct_of(names, arguments))


def _struct(result: pa.DataType, *values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays(list(values), fields=list(result))


def _pairs(given: Types) -> Signature | None:
    return _any(given) if len(given) % 2 == 0 else None


def _named_type(found: Signature, arguments: Sequence[Typed]) -> Signature:
    names = [constant_of(arguments, place, "a field's name").as_py() for place in range(0, len(arguments), 2)]
    if not all(isinstance(name, str) for name in names):
        raise PlanError(f"names of fields must be texts; got {', '.join(map(str, names))}")
    return found._replace(result=_struct_of(names, arguments[1::2]))


def _named_struct(result: pa.DataType, *values: Values) -> Values:
    return with_arrays(_struct)(result, *values[1::2])


def _arrays(given: Types) -> Signature | None:
    return Signature(given, list_of(pa.struct([]))) if given and all(map(pa.types.is_list, given)) else None


def _zip_type(found: Signature, arguments: Sequence[Typed]) -> Signature:
    names = [_name(value, str(place)) for place, value in enumerate(arguments)]
    fields = [pa.field(name, value.type.value_type) for name, value in zip(names, arguments, strict=True)]
    return found._replace(result=list_of(pa.struct(fields)))


def _zip(result: pa.DataType, *values: pa.Array) -> pa.Array:
    absent = missing(*values)
    parts = [lists_of(value) for value in values]
    lengths = np.where(absent, 0, np.max([part.lengths for part in parts], axis=0))
    rows = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(rows)) - (np.cumsum(lengths) - lengths)[rows]
    columns = []
    for part in parts:
        inside = places < part.lengths[rows]
        columns.append(taken(part.elements, np.where(inside, part.starts[rows] + places, NOTHING)))
    elements = pa.StructArray.from_arrays(columns, fields=list(result.value_type))
    return list_array(elements, lengths, absent, result)


def _register() -> None:
    add(Rule("struct", FAMILY, _any, with_arrays(_struct), "values", refine=_struct_type))
    takes = "names, constants, and values in turn"
    add(Rule("named_struct", FAMILY, _pairs, _named_struct, takes, refine=_named_type))
    add(Rule("arrays_zip", FAMILY, _arrays, with_arrays(_zip), "arrays", refine=_zip_type))


_register()
