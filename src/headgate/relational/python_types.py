"""Which Python type the values of a column have when they are stored or become records."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from types import GenericAlias
from typing import Optional

import pyarrow as pa

from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.relational.spark_types import is_integer, text_of


def hint_of(kind: pa.DataType) -> Hint:
    """Return the annotation of a column's values, which is Optional, as one may be null; PlanError: none.

    Example:
        >>> hint_of(pa.int64())
        typing.Optional[int]
        >>> hint_of(pa.list_(pa.string()))
        typing.Optional[list[typing.Optional[str]]]
    """
    inner: Hint = _list_hint(kind) if pa.types.is_list(kind) else plain_type(kind)
    found: Hint = Optional[inner]  # type: ignore[assignment]  # noqa: UP045  # known at run time
    return found


def _list_hint(kind: pa.DataType) -> Hint:
    element = kind.value_field
    inner = hint_of(element.type) if element.nullable else plain_type(element.type)
    found: Hint = GenericAlias(list, (inner,))
    return found


def can_be_stored(kind: pa.DataType) -> bool:
    """Return whether a column's values can be kept in state: :func:`hint_of` has a Python type for them."""
    try:
        hint_of(kind)
    except PlanError:
        return False
    return True


def can_be_key(kind: pa.DataType) -> bool:
    """Return whether rows can be grouped by columns of this type: there is a stable hash of its values."""
    kinds = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_string,
        pa.types.is_binary,
        pa.types.is_date,
        pa.types.is_timestamp,
    )
    return any(is_kind(kind) for is_kind in kinds)


def plain_type(kind: pa.DataType) -> type:
    """Return the class of a column's values that are not null; PlanError if there is none, as for maps."""
    if is_integer(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_decimal(kind):
        return Decimal
    if pa.types.is_timestamp(kind):
        return dt.datetime
    found = {pa.bool_(): bool, pa.string(): str, pa.binary(): bytes, pa.date32(): dt.date}.get(kind)
    if found is None:
        raise PlanError(f"values of type {text_of(kind)} cannot be kept in the state of an aggregation yet")
    return found
