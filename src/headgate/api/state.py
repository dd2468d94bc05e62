"""How a program declares keyed state, and what its handles can do.

State is declared as a typed class attribute of a function, so a program's state is known before a
record is processed. What is stored is the handle's business at run time; nothing here stores.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, get_args, get_origin, get_type_hints

from headgate.api.site import user_site
from headgate.common.errors import PlanError

V = TypeVar("V")
MK = TypeVar("MK")
MV = TypeVar("MV")


class ValueState(Protocol[V]):
    """One value per key.

    A key that was never set reads as the declared default; setting the default, or :meth:`clear`,
    removes the entry.
    """

    value: V

    def clear(self) -> None:
        """Forget the value of the current key."""
        ...


class ListState(Protocol[V]):
    """A list per key, in order of appending."""

    def add(self, value: V) -> None:
        """Append one element."""
        ...

    def extend(self, values: Iterable[V]) -> None:
        """Append several elements."""
        ...

    def get(self) -> list[V]:
        """A copy of the elements; empty when there are none."""
        ...

    def update(self, values: Iterable[V]) -> None:
        """Replace the whole list."""
        ...

    def clear(self) -> None:
        """Forget the list of the current key."""
        ...


class MapState(Protocol[MK, MV]):
    """A map per key."""

    def get(self, key: MK, default: MV | None = None) -> MV | None:
        """The entry's value, or `default`."""
        ...

    def put(self, key: MK, value: MV) -> None:
        """Set an entry."""
        ...

    def remove(self, key: MK) -> None:
        """Remove an entry; an absent one is no error."""
        ...

    def __contains__(self, key: object) -> bool: ...
    def __iter__(self) -> Iterator[MK]: ...
    def __len__(self) -> int: ...
    def items(self) -> Iterable[tuple[MK, MV]]:
        """The entries at this moment, in order of insertion."""
        ...

    def clear(self) -> None:
        """Forget the map of the current key."""
        ...


class StateKind:
    """The closed set of kinds of keyed state."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"


@dataclass(frozen=True, slots=True)
class StateDescriptor:
    """A declared state, resolved: what the plan and the backend know of it.

    Attributes:
        name: the attribute's name; identifies the state within its operator.
        kind: one of :class:`StateKind`.
        types: the type arguments of the annotation (one for value and list, two for map);
            ``Any`` where the annotation gives none.
        default: gives the value for keys without an entry (value state only).
    """

    name: str
    kind: str
    types: tuple[Any, ...]
    default: Callable[[], Any]


class StateDeclaration(Generic[V]):
    """The class attribute that declares a state; replaced by a live handle on the instance."""

    def __init__(
        self, kind: str, default: Any = None, default_factory: Callable[[], Any] | None = None
    ) -> None:
        self.kind, self.site = kind, ""
        self._default, self._factory = default, default_factory

    def default(self) -> Any:
        """The value for a key without an entry; a fresh copy where it could be changed in place."""
        if self._factory is not None:
            return self._factory()
        return copy.deepcopy(self._default)


def value_state(default: Any = None, *, default_factory: Callable[[], Any] | None = None) -> Any:
    """Declare one value per key.

    Args:
        default: what a key without an entry reads as.
        default_factory: makes the default; for values that are changed in place.

    Example:
        >>> import headgate as hg
        >>> class Count(hg.KeyedProcessFunction):
        ...     count: hg.ValueState[int] = hg.value_state(default=0)
        ...     def process(self, record, ctx):
        ...         self.count.value += 1
        ...         yield ctx.key, self.count.value
    """
    return _noted(StateDeclaration(StateKind.VALUE, default, default_factory))


def list_state() -> Any:
    """Declare a list per key: ``seen: hg.ListState[str] = hg.list_state()``."""
    return _noted(StateDeclaration(StateKind.LIST, default_factory=list))


def map_state() -> Any:
    """Declare a map per key: ``totals: hg.MapState[str, int] = hg.map_state()``."""
    return _noted(StateDeclaration(StateKind.MAP, default_factory=dict))


_NOTES = "__headgate_declared_states__"

_HANDLES = {StateKind.VALUE: (ValueState, 1), StateKind.LIST: (ListState, 1), StateKind.MAP: (MapState, 2)}


def declared_state(function: object) -> dict[str, StateDescriptor]:
    """The states that a function's class declares, by name, in order of declaration.

    Raises:
        PlanError: an annotation does not fit its declaration, or a name is declared twice.
    """
    cls = type(function)
    found: dict[str, StateDeclaration[Any]] = {}
    for base in reversed(cls.__mro__):
        _refuse_repeated(base, found)
        found.update({k: v for k, v in vars(base).items() if isinstance(v, StateDeclaration)})
    if not found:
        return {}
    hints = _hints(cls)
    return {name: _describe(cls, name, declaration, hints.get(name)) for name, declaration in found.items()}


def _noted(declaration: StateDeclaration[Any]) -> StateDeclaration[Any]:
    # A second declaration of the same name replaces the first in the class body without a trace, so
    # each one is also noted there, in the namespace of the class that is just being made.
    declaration.site = user_site()
    frame = sys._getframe(2)
    if "__qualname__" in frame.f_locals and "__module__" in frame.f_locals:
        frame.f_locals.setdefault(_NOTES, []).append(declaration)
    return declaration


def _refuse_repeated(cls: type, inherited: dict[str, StateDeclaration[Any]]) -> None:
    names = vars(cls)
    kept = [value for value in names.values() if isinstance(value, StateDeclaration)]
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


def _hints(cls: type) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except NameError as error:
        raise PlanError(
            f"the annotations of {cls.__qualname__} name a type that cannot be found ({error}); "
            "import it at the top of the module, outside TYPE_CHECKING"
        ) from None


def _describe(cls: type, name: str, declaration: StateDeclaration[Any], hint: Any) -> StateDescriptor:
    handle, arity = _HANDLES[declaration.kind]
    types: tuple[Any, ...] = (Any,) * arity
    if hint is not None:
        if (get_origin(hint) or hint) is not handle:
            raise PlanError(
                f"state {name!r} of {cls.__qualname__} is declared with hg.{declaration.kind}_state() "
                f"but annotated {hint!r}; annotate it as hg.{handle.__name__}[...]"
            )
        types = get_args(hint) or types
    return StateDescriptor(name, declaration.kind, types, declaration.default)
