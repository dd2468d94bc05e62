"""Which stored keys a program can find, by the type of keys that a keyed function is annotated with.

A dict finds a key that is equal to a stored one, so the rules follow Python's equality: ``1`` and ``True``
are one key, while ``1`` and ``"1"`` are two. Restore, running operator and ``check-upgrade`` all ask here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin
from uuid import UUID

from headgate.state.canonical.keys import Shape, shape_of

_FOUND_AS: Final[tuple[tuple[type, frozenset[type]], ...]] = (
    (bool, frozenset({bool, int})),
    (int, frozenset({bool, int})),
    (float, frozenset({bool, int, float})),
    (str, frozenset({str})),
    (bytes, frozenset({bytes})),
    (dt.datetime, frozenset({dt.datetime})),
    (dt.date, frozenset({dt.date})),
    (UUID, frozenset({UUID})),
)
"""A declared type -> the classes of keys that may be equal to one of its. A `datetime` equals no `date`."""

KEYS_READ: Final = 1_000_000
"""Keys of each state of each subtask that are looked at before a restore; the same number by all who look."""


def declared_key_type(function: object) -> Any:
    """The type of keys that a keyed function is annotated with; None where it says none.

    Example:
        >>> import headgate as hg
        >>> class Count(hg.KeyedProcessFunction[str, int, int]):
        ...     def process(self, record, ctx):
        ...         yield 1
        >>> declared_key_type(Count())
        <class 'str'>
    """
    for cls in type(function).__mro__:
        for base in getattr(cls, "__orig_bases__", ()):
            arguments = getattr(base, "__args__", ())
            if arguments and hasattr(base.__origin__, "on_timer"):
                return arguments[0]
    return None


def fits(shape: Shape, declared: Any) -> bool:
    """Whether a key of this shape may be equal to a key of the declared type.

    A type that says nothing fits all keys: `Any`, or a class that is no subclass of a type of keys.
    An `IntEnum` is judged as int and a `StrEnum` as str.

    Example:
        >>> fits(int, str), fits(bool, int), fits((int, str), tuple[int, int]), fits(int, int | str)
        (False, True, False, True)
    """
    origin = get_origin(declared)
    if origin is Annotated:
        return fits(shape, get_args(declared)[0])
    if origin in (Union, UnionType):
        return any(fits(shape, one) for one in get_args(declared))
    if origin is Literal:
        return any(fits(shape, type(value)) for value in get_args(declared))
    if hasattr(declared, "__supertype__"):
        return fits(shape, declared.__supertype__)
    if declared is type(None):
        return shape is declared
    if origin is tuple:
        return _fits_tuple(shape, get_args(declared))
    return _fits_class(shape, declared) if isinstance(declared, type) else True


def _fits_tuple(shape: Shape, parts: tuple[Any, ...]) -> bool:
    if not isinstance(shape, tuple):
        return False
    if len(parts) == 2 and parts[1] is Ellipsis:
        return all(fits(one, parts[0]) for one in shape)
    return len(shape) == len(parts) and all(map(fits, shape, parts))


def _fits_class(shape: Shape, declared: type) -> bool:
    if issubclass(declared, tuple):
        return isinstance(shape, tuple)
    for cls, found in _FOUND_AS:
        if issubclass(declared, cls):
            return shape in found
    return True


def misfit(keys: Iterable[Any], declared: Any) -> Shape | None:
    """The shape of a key that no key of the declared type equals; None where there is none.

    It takes one pass over the keys without a call of Python code for each, unless they are tuples.

    Example:
        >>> misfit([1, 2, "a"], int)
        <class 'str'>
    """
    if declared is None:
        return None
    keys = keys if isinstance(keys, (list, set)) else list(keys)
    shapes: set[Shape] = set(map(type, keys))
    if tuple in shapes:
        shapes = _flat_shapes(keys) if shapes == {tuple} else set(map(shape_of, keys))
    return first_misfit(shapes, declared)


def _flat_shapes(keys: Iterable[Any]) -> set[Shape]:
    """The shapes of tuples; in columns, where all are alike and none is inside another."""
    keys = list(keys)
    if len(set(map(len, keys))) == 1 and keys[0]:
        flat: set[Shape] = set(zip(*(map(type, column) for column in zip(*keys, strict=True)), strict=True))
        if not any(tuple in one for one in flat if isinstance(one, tuple)):
            return flat
    return set(map(shape_of, keys))


def first_misfit(shapes: Iterable[Shape], declared: Any) -> Shape | None:
    """One of the shapes that does not fit; always the same one."""
    wrong = sorted((shape for shape in shapes if not fits(shape, declared)), key=shape_words)
    return wrong[0] if wrong else None


def shape_words(shape: Shape) -> str:
    """What messages call it.

    Example:
        >>> shape_words((int, (str, bytes)))
        'tuple[int, tuple[str, bytes]]'
    """
    if isinstance(shape, tuple):
        return f"tuple[{', '.join(map(shape_words, shape))}]"
    return shape.__name__


def hint_words(declared: Any) -> str:
    """What messages call a declared type.

    Example:
        >>> hint_words(str), hint_words(tuple[int, str])
        ('str', 'tuple[int, str]')
    """
    plain = isinstance(declared, type) and get_origin(declared) is None
    return declared.__name__ if plain else str(declared).replace("typing.", "")
