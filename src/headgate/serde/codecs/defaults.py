"""The defaults that a record class declares, read from the marks of each kind of class."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import msgspec

NO_DEFAULT: Final = object()


class Factory(NamedTuple):
    """A default that is made anew for each record."""

    make: Callable[[], Any]


Defaults = dict[str, Any]
"""Field name -> default value, or the factory of one."""


def defaults_of(kind: str, cls: type) -> Defaults:
    """Field name -> default value or :class:`Factory`, of those fields that have one."""
    return _READERS[kind](cls)


def _of_dataclass(cls: type) -> Defaults:
    found: Defaults = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = Factory(field.default_factory)
    return found


def _of_attrs(cls: Any) -> Defaults:
    found: Defaults = {}
    for attribute in cls.__attrs_attrs__:
        default: Any = getattr(attribute, "default", NO_DEFAULT)
        # By name: user code may come with its own copy of attrs.
        if default is NO_DEFAULT or type(default).__name__ == "_Nothing":
            continue
        if hasattr(default, "takes_self"):
            # One that takes the instance would see a record that is not complete.
            if not default.takes_self:
                found[attribute.name] = Factory(default.factory)
        else:
            found[attribute.name] = default
    return found


def _of_struct(cls: type[msgspec.Struct]) -> Defaults:
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    found: Defaults = {}
    for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
        mark = type(default).__name__
        if mark == "Factory":
            found[name] = Factory(default.factory)
        elif mark != "NoDefaultType":
            found[name] = default
    return found


_READERS: Final[dict[str, Callable[[Any], Defaults]]] = {
    "dataclass": _of_dataclass,
    "attrs": _of_attrs,
    "struct": _of_struct,
    "namedtuple": lambda cls: dict(cls._field_defaults),
}
