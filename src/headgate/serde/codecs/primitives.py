"""Codecs (:class:`Form`) of single values: numbers, text, dates and times, UUIDs and enumerations."""

from __future__ import annotations

import datetime as dt
import enum
import operator
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.common.plain_data import text_in
from headgate.serde.codecs import temporal
from headgate.serde.codecs.dynamic import to_tagged
from headgate.serde.codecs.type_codec import Form, copier, describe

T = TypeVar("T")
V = TypeVar("V")


def exactly(cls: type[T], convert: Callable[[T], V]) -> Callable[[T], V]:
    """Return `convert`, made to raise TypeError for values of any class but `cls`, subclasses included."""

    def checked(value: T) -> V:
        if value.__class__ is not cls:
            raise TypeError(f"got {type(value).__qualname__}, expected {cls.__qualname__}")
        return convert(value)

    return checked


def _single(
    cls: type[T],
    wire: Hint,
    to_plain: Callable[[T], V] | None = None,
    from_plain: Callable[[V], T] | None = None,
) -> Form:
    name = cls.__name__
    to_plain = None if to_plain is None else exactly(cls, to_plain)
    return Form(name, describe(name.lower()), wire, to_plain, from_plain, frozenset({cls}))


ANY: Final = Form("Any", describe("any"), Any, to_tagged, immutable=False, copy=copier(False, False))

_NONE: Final = Form("None", describe("none"), None, classes=frozenset({type(None)}))
_NUMBER: Final = Form(
    "float", describe("float"), bool | int | float, classes=frozenset({float}), guests=frozenset({int, bool})
)

PRIMITIVES: Final[dict[Hint, Form]] = {
    None: _NONE,
    type(None): _NONE,
    bool: _single(bool, bool),
    int: Form("int", describe("int"), bool | int, classes=frozenset({int}), guests=frozenset({bool})),
    float: _NUMBER,
    str: _single(str, str),
    bytes: _single(bytes, bytes),
    dt.datetime: _single(dt.datetime, Any, temporal.datetime_to_plain, temporal.datetime_from_plain),
    dt.date: _single(dt.date, int, dt.date.toordinal, dt.date.fromordinal),
    dt.time: _single(dt.time, Any, temporal.time_to_plain, temporal.time_from_plain),
    dt.timedelta: _single(
        dt.timedelta, tuple[int, int, int], temporal.timedelta_to_plain, temporal.timedelta_from_plain
    ),
    Decimal: _single(Decimal, str, str, Decimal),
    UUID: _single(UUID, bytes, lambda value: value.bytes, lambda plain: UUID(bytes=plain)),
    Any: ANY,
}

BY_KIND: Final[dict[str, Form]] = {text_in(form.description, "kind"): form for form in PRIMITIVES.values()}


def enum_form(cls: type[enum.Enum], name: str) -> Form:
    """Return an enumeration's codec, which stores members by name, flags by value; UsageError if empty."""
    if issubclass(cls, enum.Flag):
        form = describe("flag", name=name, members={str(m.name): m.value for m in cls})
        return Form(name, form, int, exactly(cls, lambda value: value.value), cls, frozenset({cls}))
    if not len(cls):
        raise UsageError(f"enumeration {name} has no members, so no value of it can be stored")
    form = describe("enum", name=name, members=[member.name for member in cls])
    # Not cls.__getitem__: in an enumeration of texts or tuples that is the member's own.
    by_name = partial(operator.getitem, cls)
    return Form(name, form, str, exactly(cls, lambda value: value.name), by_name, frozenset({cls}))
