"""A record's fields by name, whatever kind of record it is: what sinks of columns begin with."""

from __future__ import annotations

import dataclasses
from typing import Any

from headgate.common.errors import UsageError


def fields_of(record: Any) -> dict[str, Any]:
    """Field names and values of a record.

    Raises:
        UsageError: it has no fields.

    Example:
        >>> fields_of(("ada", 3))
        {'_1': 'ada', '_2': 3}
    """
    kind = type(record)
    if isinstance(record, dict):
        return record
    if isinstance(record, tuple):
        names = getattr(kind, "_fields", None) or [f"_{i}" for i in range(1, len(record) + 1)]
        return dict(zip(names, record, strict=True))
    if dataclasses.is_dataclass(kind):
        return dataclasses.asdict(record)
    if hasattr(kind, "__struct_fields__"):
        return {name: getattr(record, name) for name in kind.__struct_fields__}
    if hasattr(kind, "as_dict"):
        fields: dict[str, Any] = record.as_dict()
        return fields
    raise UsageError(
        f"a record of type {kind.__name__} has no columns; map it to a dict, tuple, dataclass or row"
    )
