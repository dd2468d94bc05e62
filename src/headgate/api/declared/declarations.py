"""What all declarations of state in the body of a class have in common: place, name, annotation."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Annotated, NoReturn, TypeVar, get_origin, get_type_hints

from headgate.api.site import user_site
from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.common.refusals import calls
from headgate.common.refusals.texts import shortened
from headgate.common.refusals.users_frames import calling_line

_NOTES = "__headgate_declared_states__"


_MEMBERS = frozenset({"value", "add", "extend", "get", "update", "clear", "put", "remove", "items"})
"""What live states have, and declarations do not."""


class Declaration:
    """The class attribute that declares a state; the live handle lies beside it, in the instance's own dict.

    Attributes:
        site: file and line, for errors.
    """

    site: str = ""

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
        """Return the refusal of what nobody would keep, as of ``self.count.value = 1`` in ``__init__``."""
        return PlanError(
            f"the state declared at {self.site or 'an unknown place'} is used ({calling_line()}) before its "
            "function runs in a job, so what is set would be lost; give what it begins with as the default "
            "of value_state(), and use it in process() or on_timer(), operator state in open() as well"
        )

    def __set__(self, function: object, value: object) -> None:
        """Refuse to put something else in the place of a state: nothing would be stored.

        Raises:
            PlanError: it is no declaration either.
        """
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
    """The declaration, noted in the class body that calls whoever calls this.

    A second declaration of the same name replaces the first in the class body without a trace, so each
    one is also kept in the namespace of the class that is just being made.
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
    """All that a class declares, by name, in order of declaration; what it inherits comes first.

    Raises:
        PlanError: a name is declared twice.
    """
    found: dict[str, Declaration] = {}
    for base in reversed(cls.__mro__):
        _refuse_repeated(base, found)
        found.update({k: v for k, v in vars(base).items() if isinstance(v, Declaration)})
    return found


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
    """The annotations of a class, names in them looked up; marks inside them are kept, those around are not.

    Raises:
        PlanError: one names what cannot be found, or is no type.
    """
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
