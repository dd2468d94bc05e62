"""Rules by which a program's declared key type can match stored keys, and how types of keys are stored.

A dict finds a key that is equal to a stored one, so the rules follow Python's equality: ``1`` and ``True``
are one key, while ``1`` and ``"1"`` are two. Restore, running operator and ``check-upgrade`` all ask here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Iterable, Sequence
from operator import itemgetter
from types import EllipsisType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

from headgate.common.errors import StorageError
from headgate.common.hints import Hint
from headgate.common.plain_data import Plain

Shape: TypeAlias = "type | tuple[Shape, ...]"
"""A key's exact class; of a tuple, the shapes of its elements. The class `tuple` stands for any tuple."""

_FOUND_AS: Final[dict[type, frozenset[type]]] = {
    bool: frozenset({bool, int}),
    int: frozenset({bool, int}),
    float: frozenset({bool, int, float}),
    **{cls: frozenset({cls}) for cls in (str, bytes, dt.datetime, dt.date, UUID)},
}
"""A declared type -> the classes of keys that may be equal to one of its. A `datetime` equals no `date`."""

_CLASSES: Final[tuple[type, ...]] = (*_FOUND_AS, tuple)
_STORED_AS: Final = {cls.__name__: cls for cls in _CLASSES}

KEYS_READ: Final = 1_000_000
"""Most keys of each state of each subtask that are looked at where a snapshot does not hold their types."""

TUPLES_MAX: Final = 32
"""Different types of tuples that are distinguished; from then on all tuples count as of one type."""


class DeclaredKeys(NamedTuple):
    """The type of keys that a program declares for an operator; `teller` says in words what declares it."""

    hint: Hint
    teller: str  # who declares it: "function Count", "key function by_user", "field 'user' of Visit"


def shape_of(key: Hashable) -> Shape:
    """Return the shape of a key: its exact class, or for a tuple the tuple of its elements' shapes.

    Example:
        >>> shape_of((1, ("a", True)))
        (<class 'int'>, (<class 'str'>, <class 'bool'>))
    """
    return tuple(map(shape_of, key)) if key.__class__ is tuple else key.__class__


def checked_keys(keys: list[Hashable]) -> list[Hashable]:
    """Return `keys`, which were read from stored bytes; StorageError: one is a list or dict, or holds one."""
    try:
        hash(tuple(keys))
    except TypeError as error:
        raise StorageError(f"stored state has a key that cannot be one: {error}") from None
    return keys


def shapes_of(keys: Sequence[Hashable]) -> set[Shape]:
    """Return the shapes (:func:`shape_of`) of many keys; in fast C loops unless tuples differ in shape.

    Example:
        >>> sorted(map(shape_words, shapes_of([1, "a", True])))
        ['bool', 'int', 'str']
    """
    shapes: set[Shape] = set(map(type, keys))
    if tuple not in shapes:
        return shapes
    tuples: Any = keys
    if len(shapes) == 1 and len(set(map(len, tuples))) == 1:
        # Not by zip, which makes an iterator of each key.
        columns = [set(map(type, map(itemgetter(place), tuples))) for place in range(len(tuples[0]))]
        if columns and all(len(column) == 1 and tuple not in column for column in columns):
            return {tuple(cls for (cls,) in columns)}
    return set(map(shape_of, keys))


def all_of_shape(keys: Sequence[Hashable], shape: Shape) -> bool:
    """Return whether all keys have this shape; cheaper than :func:`shapes_of`, but False for nested tuples.

    Example:
        >>> all_of_shape([1, 2], int), all_of_shape([1, True], int), all_of_shape([(1, "a")], (int, str))
        (True, False, True)
    """
    count = len(keys)
    if not isinstance(shape, tuple):
        return list(map(type, keys)).count(shape) == count
    tuples: Any = keys
    if list(map(type, keys)).count(tuple) != count or list(map(len, tuples)).count(len(shape)) != count:
        return False
    return all(
        not isinstance(cls, tuple) and list(map(type, map(itemgetter(place), tuples))).count(cls) == count
        for place, cls in enumerate(shape)
    )


def fits(shape: Shape, declared: Hint) -> bool:
    """Return whether a key of this shape (class, or tuple of classes) may equal a key of the declared type.

    A type that says nothing fits all keys: `Any`, or a class that is no subclass of a type of keys.
    An `IntEnum` is judged as int, a `StrEnum` as str, a NamedTuple as the tuple of its fields.

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
    for wrapped in ("__supertype__", "__value__"):  # of NewType, and of a type alias
        if hasattr(declared, wrapped) and not isinstance(declared, type):
            return fits(shape, getattr(declared, wrapped))
    if declared in (None, type(None)):
        return shape is type(None)
    if origin is tuple:
        return _fits_tuple(shape, get_args(declared))
    return _fits_class(shape, declared) if isinstance(declared, type) else True


def _fits_tuple(shape: Shape, parts: Sequence[Hint | EllipsisType]) -> bool:
    if not isinstance(shape, tuple):
        return shape is tuple
    hints = [part for part in parts if part is not Ellipsis]
    if len(parts) == 2 and len(hints) == 1:
        return all(fits(one, hints[0]) for one in shape)
    return len(shape) == len(hints) and all(map(fits, shape, hints))


def _fits_class(shape: Shape, declared: type) -> bool:
    if issubclass(declared, tuple):
        fields = _fields_of(declared)
        return isinstance(shape, tuple) or shape is tuple if fields is None else _fits_tuple(shape, fields)
    for cls, found in _FOUND_AS.items():
        if issubclass(declared, cls):
            return shape in found
    return True


def _fields_of(declared: type) -> tuple[Hint, ...] | None:
    names = getattr(declared, "_fields", None)
    if not names:
        return None
    try:
        hints = get_type_hints(declared)
    except Exception:  # an annotation is arbitrary code of the user's
        hints = {}
    return tuple(hints.get(name, Any) for name in names)


class _NoKey:
    """A class that no key has: a declared type that accepts even it does not restrict keys at all."""


def says_nothing(declared: Hint) -> bool:
    """Return whether a declared type, such as `Any`, does not restrict the types of keys.

    Example:
        >>> says_nothing(Any), says_nothing(int), says_nothing(tuple[Any, int])
        (True, False, False)
    """
    return fits(_NoKey, declared)


def first_misfit(shapes: Iterable[Shape], declared: Hint) -> Shape | None:
    """Return the shape, first by its name, of keys that cannot be of the declared type; None if all can."""
    wrong = sorted((shape for shape in shapes if not fits(shape, declared)), key=shape_words)
    return wrong[0] if wrong else None


def may_find(shape: Shape, stored: Iterable[Shape]) -> bool:
    """Return whether a key of this shape (class, or tuple of classes) may equal a key of a stored shape.

    Example:
        >>> may_find(bool, {int}), may_find(str, {int}), may_find((str, bool), {(str, int)})
        (True, False, True)
    """
    return any(_alike(shape, one) or _alike(one, shape) for one in stored)


def _alike(shape: Shape, other: Shape) -> bool:
    if isinstance(shape, tuple) and isinstance(other, tuple):
        pairs = zip(shape, other, strict=False)
        return len(shape) == len(other) and all(_alike(a, b) or _alike(b, a) for a, b in pairs)
    return fits(shape, other) if isinstance(other, type) else False


def with_tuples_bounded(shapes: Iterable[Shape]) -> frozenset[Shape]:
    """Return `shapes`, where `tuple` replaces all shapes of tuples if they are over 32 or include `tuple`."""
    found = frozenset(shapes)
    tuples = [shape for shape in found if isinstance(shape, tuple)]
    if tuple in found or len(tuples) > TUPLES_MAX:
        return frozenset({tuple, *(shape for shape in found if not isinstance(shape, tuple))})
    return found


def stored_shapes(shapes: Iterable[Shape]) -> list[Plain]:
    """Return shapes of keys as plain values, for the metadata of a checkpoint; always in the same order.

    Example:
        >>> stored_shapes({(int, (str, bytes)), int})
        ['int', ['int', ['str', 'bytes']]]
    """
    ordered = sorted(with_tuples_bounded(shapes), key=shape_words)
    return [_stored(shape) for shape in ordered]


def _stored(shape: Shape) -> Plain:
    return list(map(_stored, shape)) if isinstance(shape, tuple) else shape.__name__


def shapes_of_stored(stored: Plain) -> frozenset[Shape] | None:
    """Return the shapes from what :func:`stored_shapes` returned; None for unknown types or no list.

    Example:
        >>> shapes_of_stored(["int", ["int"]]) == {int, (int,)}, shapes_of_stored(["other"])
        (True, None)
    """
    if not isinstance(stored, list):
        return None
    try:
        return frozenset(map(_shape, stored))
    except KeyError:
        return None


def _shape(stored: Plain) -> Shape:
    return tuple(map(_shape, stored)) if isinstance(stored, list) else _STORED_AS[str(stored)]


def shape_words(shape: Shape) -> str:
    """Return the name of a shape (a key's class, or a tuple of classes) in messages.

    Example:
        >>> shape_words((int, (str, bytes)))
        'tuple[int, tuple[str, bytes]]'
    """
    if isinstance(shape, tuple):
        return f"tuple[{', '.join(map(shape_words, shape)) or '()'}]"
    return shape.__name__


def hint_words(declared: Hint) -> str:
    """Return the name of a declared type in messages.

    Example:
        >>> hint_words(str), hint_words(tuple[int, str])
        ('str', 'tuple[int, str]')
    """
    plain = isinstance(declared, type) and get_origin(declared) is None
    return declared.__name__ if plain else str(declared).replace("typing.", "")
