"""Reads a field of a record, whatever the record is: a dict, a row, a dataclass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from headgate.records.row import Row

Getter: TypeAlias = Callable[[Any], Any]


def getter_of(what: str | Callable[[Any], Any]) -> Getter:
    """Return a function that reads field `what` of a record (or KeyError, AttributeError); a function as is.

    Example:
        >>> getter_of("price")({"price": 5}), getter_of(len)("abc")
        (5, 3)
    """
    if callable(what):
        return what
    name = what

    def get(record: Any) -> Any:
        if isinstance(record, Mapping | Row):
            try:
                return record[name]
            except KeyError:
                has = ", ".join(map(str, record.keys()))
                raise KeyError(f"no field {name!r}; the record has {has}") from None
        return getattr(record, name)

    return get
