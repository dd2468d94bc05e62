"""Class attributes that declare state: how they are registered, read from a class, refused when misused."""

from __future__ import annotations

import sys
from types import FrameType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NoReturn,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import typing_extensions

from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.common.refusals import calls
from headgate.common.refusals.texts import shortened
from headgate.common.refusals.users_frames import calling_line

if TYPE_CHECKING:
    from headgate.serde.serializer import TypeSerializer

    # For type checkers only: what is given at run time is checked with the program, in words of its own.
    GivenSerializer: TypeAlias = TypeSerializer[Any] | None

Serializers: TypeAlias = "tuple[TypeSerializer[Any] | None, ...]"
"""The serializers given in a declaration, one for each stored type; None: chosen by the type."""

_NOTES = "__headgate_declared_states__"
_MEMBERS = frozenset({"value", "add", "extend", "get", "update", "clear", "put", "remove", "items"})
"""Members of live state handles; using one on a declaration is refused."""


class Declaration:
    """Base class of class attributes that declare a state; a running function has the live handle there."""

    site: str = ""  # file and line, for errors

    def __getattr__(self, name: str) -> NoReturn:
        if name in _MEMBERS:
            raise self._not_live()
        raise AttributeError(f"{type(self).__name__} has no {name!r}", name=name, obj=self)

    def __setattr__(self, name: str, value: object) -> None:
        if name in _MEMBERS:
            raise self._not_live()
        object.__setattr__(self, name, value)

    def _refuse_use(self, *_key_and_value: object) -> NoReturn:
        raise self._not_live()

    __getitem__ = __setitem__ = __delitem__ = __contains__ = _refuse_use

    def _not_live(self) -> PlanError:
        return PlanError(
            f"the state declared at {self.site or 'an unknown place'} is used ({calling_line()}) before its "
            "function runs in a job, so what is set would be lost; give what it begins with as the default "
            "of value_state(), and use it in process() or on_timer(), operator state in open() as well"
        )

    def __set__(self, function: object, value: object) -> None:
        cls = type(function)
        name = next((n for c in cls.__mro__ for n, v in vars(c).items() if v is self), "state")
        if isinstance(value, Declaration):  # which is refused with the whole program
            vars(function)[name] = value
            return
        how = (
            f"write self.{name}.value = ..."
            if getattr(self, "kind", "") == "value"
            else f"change what it holds by the methods of self.{name}"
        )
        raise PlanError(
            f"{cls.__qualname__} assigns {shortened(repr(value), 80)} to its state {name!r} "
            f"({calling_line() or self.site}), so that it would no longer be stored; {how}, or give the "
            "attribute another name"
        )


D = TypeVar("D", bound=Declaration)


def noted(declaration: D) -> D:
    """Register a declaration with the class body that is being executed, and return it. A second declaration
    of the same name replaces the first in the class body without a trace, so each one is also kept in the
    namespace of the class that is just being made.
    """
    declaration.site = user_site()
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") == calls.__name__:
        frame = frame.f_back  # what tells wrong arguments stands in between
    if frame is None:
        return declaration
    if "__qualname__" in frame.f_locals and "__module__" in frame.f_locals:
        frame.f_locals.setdefault(_NOTES, []).append(declaration)
    return declaration


def declarations(cls: type) -> dict[str, Declaration]:
    """Return a class's declarations by name, inherited first; PlanError if a name is declared twice."""
    found: dict[str, Declaration] = {}
    for base in reversed(cls.__mro__):
        _refuse_repeated(base, found)
        found.update({k: v for k, v in vars(base).items() if isinstance(v, Declaration)})
    return found


def declared(cls: type, kind: type[D]) -> list[tuple[str, D, Hint | None]]:
    """Return the declarations of `cls` that are of type `kind`, inherited first: (name, declaration,
    annotation or None). PlanError: a name is declared twice, or the annotations cannot be resolved.
    """
    found = {name: each for name, each in declarations(cls).items() if isinstance(each, kind)}
    hints = hints_of(cls) if found else {}
    return [(name, each, hints.get(name)) for name, each in found.items()]


def types_of(
    what: str, declaration: Declaration, hint: Hint | None, handle: type, arity: int, maker: str
) -> tuple[Hint, ...]:
    """Return the type arguments of a state's annotation `hint`; ``Any`` for each of `arity` if it has none.
    PlanError if `hint` is not of class `handle`, the protocol of the live handle; it names the state, `what`,
    and the function that declares such states, `maker`.
    """
    if hint is not None and (get_origin(hint) or hint) is not handle:
        raise PlanError(
            f"{what} ({declaration.site}) is declared with hg.{maker}() but annotated {hint!r}; annotate it "
            f"as hg.{handle.__name__}[...]"
        )
    return get_args(hint) or (Any,) * arity


def _refuse_repeated(cls: type, inherited: dict[str, Declaration]) -> None:
    names = vars(cls)
    kept = [value for value in names.values() if isinstance(value, Declaration)]
    for declaration in names.get(_NOTES, ()):
        if not any(declaration is one for one in kept):
            raise PlanError(
                f"the state declared at {declaration.site} in {cls.__qualname__} is lost: the same name is "
                "assigned again further down; give every state a name of its own"
            )
    for name, declaration in inherited.items():
        if name in names:
            raise PlanError(
                f"state {name!r} ({declaration.site}) is declared again in {cls.__qualname__}, which "
                "inherits it; give the second one another name"
            )


def hints_of(cls: type) -> dict[str, Hint]:
    """Return a class's resolved annotations by name, without outer `Annotated`; PlanError if that fails."""
    try:
        hints = get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise PlanError(
            f"the annotations of {cls.__qualname__} name a type that cannot be found ({error}); "
            "import it at the top of the module, outside TYPE_CHECKING"
        ) from None
    except TypeError as error:
        raise PlanError(f"the annotations of {cls.__qualname__} cannot be read: {error}") from None
    return {name: hint.__origin__ if get_origin(hint) is Annotated else hint for name, hint in hints.items()}


def generic_arguments(cls: type, base: type) -> tuple[Hint, ...] | None:
    """Return the type arguments that `cls` or its bases give the base class `base`; None if there are none.

    Example:
        >>> generic_arguments(dict, list) is None
        True
    """
    for parent in vars(cls).get("__orig_bases__", cls.__bases__):
        origin = get_origin(parent) or parent
        if origin is base:
            return get_args(parent) or None
        if isinstance(origin, type) and issubclass(origin, base):
            found = generic_arguments(origin, base)
            if found is None:
                return None
            filled = dict(zip(getattr(origin, "__parameters__", ()), get_args(parent), strict=False))
            return tuple(_fill(hint, filled) for hint in found)
    return None


def _fill(hint: Hint, filled: dict[Hint, Hint]) -> Hint:
    if isinstance(hint, (TypeVar, typing_extensions.TypeVar)):
        return filled.get(hint, Any)
    open_ones = getattr(hint, "__parameters__", ())
    if not open_ones or isinstance(hint, type):
        return hint
    filled_in: Hint = hint[tuple(filled.get(one, Any) for one in open_ones)]
    return filled_in
