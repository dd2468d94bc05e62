"""Enumerations of a script on their way to the workers: members with aliases and attributes of their own.

A member is made again from its value and its attributes. The program's `__new__` and `__init__` are not
called a second time: what they were called with is not kept in the member.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final, TypeVar

from headgate.serde.shipping.shipped_classes import Attributes, Reduction, State, Tools, Track

V = TypeVar("V")

Args = tuple[Any, ...]
"""Of the data type that a member derives from."""
MSGSPEC_CACHE: Final = "__msgspec_cache__"
"""Where msgspec notes on a class what it found out about it."""

# What the metaclass sets while it makes the class.
_OF_METACLASS: Final = frozenset({
    MSGSPEC_CACHE, "_member_names_", "_member_map_", "_member_type_", "_value2member_map_",
    "_unhashable_values_", "_unhashable_values_map_", "_hashable_values_",
})  # fmt: skip
_OF_MEMBER: Final = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_"})


class _Made:
    """A member before its attributes: its value, and the arguments of the data type that it derives from."""

    __slots__ = ("args", "value")

    def __init__(self, value: V, args: Args) -> None:
        self.value, self.args = value, args


def enum_reduction(cls: Any, above: type[type], tools: Tools) -> Reduction:
    """Reduce an enumeration for a pickler."""
    members = {
        name: (member._value_, _data_of(member, cls._member_type_))
        for name, member in cls.__members__.items()
    }
    boundary = getattr(cls, "_boundary_", None)
    named = (cls.__name__, cls.__qualname__, cls.__module__)
    attributes, slots = tools.class_state(cls)
    attributes = {
        name: value
        for name, value in attributes.items()
        if name not in _OF_METACLASS and name not in cls.__members__
    }
    attributes |= {"_new_member_": cls._new_member_, "_use_args_": cls._use_args_}
    own = {
        member._name_: {name: value for name, value in vars(member).items() if name not in _OF_MEMBER}
        for member in cls
    }
    state = ((attributes, slots), own, tools.set_class_state)
    kinds = (above, type(cls))
    arguments = (kinds, cls.__bases__, named, members, boundary, tools.tracker_of(cls), tools.track)
    return make_enum, arguments, state, None, None, set_enum


def make_enum(
    kinds: tuple[type[enum.EnumMeta], type[enum.EnumMeta]],
    bases: tuple[type, ...],
    named: tuple[str, str, str],
    members: dict[str, tuple[V, Args]],
    boundary: enum.FlagBoundary | None,
    tracker: str,
    track: Track,
) -> type:
    """Make an enumeration with its members; :func:`set_enum` gives it its methods.

    `kinds` are the imported metaclass that makes it, and its own; `named` are name, qualified name and
    module; `members` has the value of each name, aliases included, and the arguments of its data type.
    `track` notes the class under `tracker`, or returns the one that is noted already.
    """
    name, qualname, module = named
    above, metaclass = kinds
    body = above.__prepare__(name, bases)
    body["__new__"], body["__init__"] = _new_member, _no_init
    for member, (value, args) in members.items():
        body[member] = _Made(value, args)
    made = above.__new__(metaclass, name, bases, body, boundary=boundary)
    made.__module__, made.__qualname__ = module, qualname
    return track(tracker, made)


def set_enum(
    cls: type[enum.Enum],
    state: tuple[State, dict[str, Attributes], Callable[[type, State], type]],
) -> None:
    """Give a made enumeration its methods, and its members their attributes."""
    (attributes, slots), own, set_attributes = state
    for name, placeholder in (("__init__", _no_init), ("__new_member__", _new_member)):
        if vars(cls).get(name) is placeholder and name not in attributes:
            type.__delattr__(cls, name)
    set_attributes(cls, (attributes, slots))
    for name, values in own.items():
        vars(cls[name]).update(values)


def _data_of(member: enum.Enum, data_type: Any) -> Args:
    """The arguments with which the data type makes its part of a member."""
    if data_type.__new__ is object.__new__:
        return ()
    known = getattr(data_type, "__getnewargs__", None)
    if known is not None:
        return tuple(known(member))
    made_by, args, *_ = data_type.__reduce__(member)
    return tuple(args) if made_by is type(member) else (member.value,)


def _new_member(cls: Any, made: _Made) -> Any:
    member = cls._member_type_.__new__(cls, *made.args)
    member._value_ = made.value
    return member


def _no_init(_: enum.Enum, *args: V) -> None:
    """Stand in for an `__init__` that has run when the program defined the member."""
