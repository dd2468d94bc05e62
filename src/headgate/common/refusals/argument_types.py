"""Checks arguments against the annotations of their parameters, and words the error for people.

The check is lenient: it refuses what cannot be meant, such as a number for a path, and lets everything pass
of which the annotation says nothing definite. It looks at the elements of lists and tuples, but takes no
iterator apart.
"""

from __future__ import annotations

import builtins
import collections.abc
import numbers
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, ParamSpec, TypeVar, Union

from headgate.common.hints import Hint
from headgate.common.refusals.texts import shortened

if TYPE_CHECKING:
    from inspect import Parameter

P = ParamSpec("P")
R = TypeVar("R")

_VALUE_CHARS_MAX: Final = 80


class Kind(NamedTuple):
    """The values that a parameter accepts: `fits(value)` checks one, `words` name them all in an error.

    `plain`: Python's own kind of values. A wrong function or object of Headgate's is not plain: the called
    function may explain better what it expects.
    """

    fits: Callable[[object], bool]  # whether a value can be meant
    words: str  # what is expected
    plain: bool = False


class Wrong(NamedTuple):
    """Why an argument is refused, in words; `final`: the called function would have no better words."""

    text: str  # the end of a sentence about it
    final: bool  # whether the function need not be asked for a better sentence


class Parameters(NamedTuple):
    """The kinds of values that a function's parameters accept (None: any); `more` is that of `*args`."""

    by_place: tuple[Kind | None, ...]  # in order; None is anything
    more: Kind | None  # kind of what is given by place after these
    by_name: Mapping[str, Kind]
    names: tuple[str, ...]  # in order

    def wrong(self, given: Sequence[object], named: Mapping[str, object]) -> Wrong | None:
        """Return why the first unfit argument (of a plain kind, if one is) is refused; None: all fit."""
        found = None
        for name, kind, value in self._with_kinds(given, named):
            if not kind.fits(value):
                found = found or Wrong(_sentence(name, value, kind), kind.plain)
                if kind.plain:
                    return Wrong(_sentence(name, value, kind), True)
        return found

    def _with_kinds(
        self, given: Sequence[object], named: Mapping[str, object]
    ) -> Iterator[tuple[str, Kind, object]]:
        for number, value in enumerate(given):
            known = number < len(self.by_place)
            if (kind := self.by_place[number] if known else self.more) is not None:
                yield self.names[number] if known else "", kind, value
        for name, value in named.items():
            if (by_name := self.by_name.get(name)) is not None:
                yield name, by_name, value


def parameters_of(function: Callable[P, R]) -> Parameters:
    """Return which values the parameters of a function accept, read from its annotations.

    Example:
        >>> def read(path: str | os.PathLike[str], count: int | None = None): ...
        >>> parameters_of(read).wrong(["in"], {"count": "x"}).text
        "got 'x' of type str for 'count'; expected a whole number or None"
    """
    import inspect  # slow to load, and only wrong calls and first calls need it

    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # something built in without a signature
        return Parameters((), None, {}, ())
    names = _Names(function)
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = [p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    more = next((names.kind(p) for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    known = {p.name: kind for p in by_name if (kind := names.kind(p)) is not None}
    return Parameters(tuple(names.kind(p) for p in placed), more, known, tuple(p.name for p in placed))


def _sentence(name: str, value: object, kind: Kind) -> str:
    try:
        text = shortened(repr(value), _VALUE_CHARS_MAX)
    except Exception:  # the value is the program's
        text = "a value"
    of_type = "" if value is None else f" of type {type(value).__name__}"
    return f"got {text}{of_type}{f' for {name!r}' if name else ''}; expected {kind.words}"


class _Unknown:
    """Stand-in for a name in an annotation that only type checkers know."""

    def __class_getitem__(cls, item: object) -> type[_Unknown]:
        return cls


class _Names(dict[str, Any]):
    """Namespace in which the annotations of one function are evaluated."""

    def __init__(self, function: Callable[P, R]) -> None:
        super().__init__()
        inner = function
        while hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        self._scopes = [getattr(inner, "__globals__", {}), *map(vars, (builtins, collections.abc, typing))]

    def __missing__(self, name: str) -> Any:
        public = getattr(sys.modules.get("headgate"), "__dict__", {})
        for scope in (*self._scopes, public):
            if name in scope:
                return scope[name]
        return os.PathLike if name == "Path" else _Unknown

    def kind(self, parameter: Parameter) -> Kind | None:
        hint = parameter.annotation
        if hint is parameter.empty:
            return None
        if isinstance(hint, str):
            try:
                hint = eval(hint, {}, self)  # noqa: S307 - our own source
            except Exception:  # written for type checkers only
                return None
        kind = _kind(hint)
        if kind is not None and parameter.default is None and not kind.fits(None):
            return _one_of([kind, _NOTHING])
        return kind


def _kind(hint: Any) -> Kind | None:
    if hint is None or hint is type(None):
        return _NOTHING
    if isinstance(hint, TypeVar):
        bound = hint.__bound__
        return (
            None if bound is None else _kind(collections.abc.Callable if "Callable" in str(bound) else bound)
        )
    if isinstance(hint, typing.NewType):
        return _kind(hint.__supertype__)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [_kind(each) for each in arguments]
        known = [kind for kind in kinds if kind is not None]
        return _one_of(known) if len(known) == len(kinds) else None
    if origin is Literal:
        return Kind(lambda value: value in arguments, " or ".join(map(repr, arguments)))
    return _of_class(origin or hint, arguments)


def _of_class(cls: Any, arguments: tuple[Hint, ...]) -> Kind | None:
    if isinstance(cls, type) and issubclass(cls, os.PathLike):
        return _PATH
    if cls in _PLAIN:
        return _PLAIN[cls]
    if cls in (Mapping, dict, collections.abc.MutableMapping):
        return _mapping(_kind(arguments[0]) if arguments else None)
    if cls in _SERIES:
        return _series(cls, None if not arguments or cls is tuple else _kind(arguments[0]))
    ours = isinstance(cls, type) and cls.__module__.startswith("headgate")
    if not ours or cls is _Unknown or getattr(cls, "_is_protocol", False):
        return None
    article = "an" if cls.__name__[0] in "AEIOU" else "a"
    return Kind(lambda value: isinstance(value, cls), f"{article} {cls.__name__}")


def _one_of(kinds: list[Kind]) -> Kind:
    words = [kind.words for kind in kinds]
    text = " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    return Kind(
        lambda value: any(kind.fits(value) for kind in kinds), text, all(kind.plain for kind in kinds)
    )


def _mapping(keys: Kind | None) -> Kind:
    def fits(value: object) -> bool:
        if not (isinstance(value, Mapping) or hasattr(value, "keys")):
            return False
        return keys is None or not isinstance(value, dict) or all(map(keys.fits, value))

    return Kind(fits, "a dict" + (f" with {keys.words} as keys" if keys is not None else ""), plain=True)


def _series(cls: Any, elements: Kind | None) -> Kind:
    def fits(value: object) -> bool:
        if isinstance(value, (str, bytes)):
            return elements is None
        if isinstance(value, type) or not (hasattr(value, "__iter__") or hasattr(value, "__getitem__")):
            return False
        if elements is None or not isinstance(value, (list, tuple, set, frozenset)):
            return True
        return all(map(elements.fits, value))

    kind = _SERIES[cls]
    return Kind(
        fits, kind + (f" with {elements.words} as elements" if elements is not None else ""), plain=True
    )


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _is_whole(value: object) -> bool:
    return hasattr(value, "__index__") and not _is_bool(value) and not isinstance(value, type)


def _is_number(value: object) -> bool:
    real = isinstance(value, numbers.Real) or (hasattr(value, "__float__") and not isinstance(value, type))
    return real and not _is_bool(value)


_NOTHING: Final = Kind(lambda value: value is None, "None", plain=True)
_TEXT: Final = Kind(lambda value: isinstance(value, str), "text", plain=True)
_PATH: Final = Kind(lambda value: isinstance(value, os.PathLike), "a path", plain=True)
_FUNCTION: Final = Kind(callable, "a function")

_PLAIN: Final[Mapping[Any, Kind]] = {
    str: _TEXT,
    int: Kind(_is_whole, "a whole number", plain=True),
    float: Kind(_is_number, "a number", plain=True),
    bool: Kind(_is_bool, "True or False", plain=True),
    bytes: Kind(lambda value: isinstance(value, (bytes, bytearray, memoryview)), "bytes", plain=True),
    type: Kind(lambda value: isinstance(value, type), "a class"),
    collections.abc.Callable: _FUNCTION,
}
_SERIES: Final[Mapping[Any, str]] = {
    Iterable: "an iterable such as a list",
    Sequence: "a list",
    collections.abc.Collection: "a list",
    list: "a list",
    tuple: "a tuple",
    set: "a set",
    frozenset: "a set",
}
