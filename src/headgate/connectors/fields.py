"""Fields of records for sinks that write columns, and support for models of pydantic.
A model is recognised by its attributes, and pydantic is never imported: msgspec decodes the text of a file,
pydantic makes and validates the models.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
import weakref
from typing import Any, Final

from headgate.common.decoders import is_custom
from headgate.common.errors import UsageError

_LEAVES: Final = frozenset(
    {type(None), bool, int, float, str, bytes, decimal.Decimal, uuid.UUID}
    | {datetime.datetime, datetime.date, datetime.time, datetime.timedelta}
)
_names: Final[weakref.WeakKeyDictionary[type, tuple[str, ...]]] = weakref.WeakKeyDictionary()
"""Class of records -> names of its fields; weak, because the classes of a program go when it ends."""


def fields_of(record: Any) -> dict[str, Any]:
    """Return a record's fields by name, as `plain` values, perhaps itself; UsageError if it has no fields.

    Example:
        >>> fields_of(("ada", 3))
        {'_1': 'ada', '_2': 3}
    """
    kind = type(record)
    if isinstance(record, dict):
        return record if _LEAVES.issuperset(map(type, record.values())) else _plain_dict(record)
    names = _names.get(kind) or _names_of(kind)
    if names:
        return {name: plain(getattr(record, name)) for name in names}
    if isinstance(record, tuple):
        return {f"_{i}": plain(value) for i, value in enumerate(record, 1)}
    if hasattr(kind, "as_dict"):
        fields: dict[str, Any] = record.as_dict()
        return fields if _LEAVES.issuperset(map(type, fields.values())) else _plain_dict(fields)
    raise UsageError(
        f"a record of type {kind.__name__} has no columns; map it to a dict, tuple, dataclass or row"
    )


def plain(value: Any) -> Any:
    """Return a value as Arrow takes it, also inside containers: records as dicts, Enum members as values.

    Example:
        >>> class Color(enum.Enum):
        ...     RED = "red"
        >>> @dataclasses.dataclass
        ... class Dot:
        ...     color: Color
        >>> plain([Dot(Color.RED), None])
        [{'color': 'red'}, None]
    """
    kind = type(value)
    if kind in _LEAVES:
        return value
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, dict):
        return _plain_dict(value)
    names = _names.get(kind) or _names_of(kind)
    if names:
        return {name: plain(getattr(value, name)) for name in names}
    if kind in (list, tuple, set, frozenset) and not _LEAVES.issuperset(map(type, value)):
        parts = map(plain, value)
        return tuple(parts) if kind is tuple else list(parts)  # a map's pair must stay one
    return value


def _plain_dict(value: dict[Any, Any]) -> dict[Any, Any]:
    return {plain(key): plain(item) for key, item in value.items()}


def _names_of(kind: type) -> tuple[str, ...]:
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", ())
    elif dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
    elif hasattr(kind, "__attrs_attrs__"):
        names = [attribute.name for attribute in kind.__attrs_attrs__]
    else:
        names = getattr(kind, "__struct_fields__", None) or getattr(kind, "__pydantic_fields__", ())
    found = tuple(names)
    if found:
        _names[kind] = found
    return found


def is_model(kind: Any) -> bool:
    """Return whether a type is a model of pydantic 2."""
    return isinstance(kind, type) and isinstance(vars(kind).get("__pydantic_fields__"), dict)


def model_hook(kind: Any, value: Any) -> Any:
    """Make a pydantic model of class `kind` of decoded plain values, as `dec_hook` of msgspec's decoders.
    ValueError if the values do not fit the model; TypeError, by which msgspec refuses them, for other types.
    """
    if not is_model(kind):
        raise TypeError(f"{kind!r} is none of the types that records can have")
    return kind.model_validate(value)


def check_decodable(kind: Any) -> None:
    """Raise TypeError for a class that msgspec cannot decode and that is no pydantic model."""
    if not is_model(kind) and is_custom(kind):
        raise TypeError("it declares no fields")
