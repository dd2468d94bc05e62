"""The pickler that ships a program to its workers: cloudpickle, and what it loses of a script's classes.

Classes and functions of the running script travel by value, as the workers have no module to import them
from. This pickler keeps what cloudpickle drops or refuses: resolved annotations, the name of the class in
stored data, slots, aliases of enumerations, fields of ``msgspec.Struct``, which fields of a dataclass have no
default, cached functions, variables that closures share, and ``NewType``.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import operator
import types
import weakref
from collections.abc import Callable, Iterable
from typing import (
    Any,
    Final,
    ForwardRef,
    Generic,
    NewType,
    ParamSpec,
    TypedDict,
    TypeVar,
    get_type_hints,
    is_typeddict,
)

from headgate.serde.logical_names import generic_model, note_logical_name
from headgate.serde.shipping.shipped_classes import (
    MSGSPEC_CACHE,
    Attributes,
    Reduction,
    State,
    Tools,
    Usual,
    enum_reduction,
    foreign_metaclass,
    is_struct,
    make_under,
    make_without_hooks,
    parents_with_hook,
    struct_reduction,
)

P = ParamSpec("P")
T = TypeVar("T")


def shipping_pickler(pickler: Any) -> Any:
    """Return the subclass of `pickler`, cloudpickle's `Pickler`, by which a program is sent to workers.

    Its instances write a program's functions and classes; cloudpickle's own loader reads them. Pickling a
    class of the running script notes on it its logical name and its resolved annotations.
    """
    tools = Tools.of(pickler.dump.__globals__)

    class ShippingPickler(pickler):  # type: ignore[misc]  # the package has no types
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._cells = _Cells()

        def reducer_override(self, obj: Any) -> Any:
            """Return how to rebuild `obj` (see `pickle.Pickler`); note names and types on script classes."""
            if isinstance(obj, _MARK_TYPES) and obj in _MARKS:
                return _MARKS[obj]
            if isinstance(obj, type) and not isinstance(obj, _GENERIC_ALIAS):
                if obj.__module__ == "__main__" or "<locals>" in obj.__qualname__:
                    _resolve_annotations(obj)
                    note_logical_name(obj)
                generic = generic_model(obj)
                if generic is not None:
                    return operator.getitem, generic
                if not tools.by_reference(obj):
                    return _class_reduction(obj, tools, super().reducer_override(obj))
            elif isinstance(obj, functools.cached_property):
                return _make_cached_property, (), (obj.func, obj.attrname), None, None, _set_cached_property
            elif isinstance(obj, _CACHED) and not tools.by_reference(obj.__wrapped__):
                limits = obj.cache_parameters()
                return _make_cached, (limits,), obj.__wrapped__, None, None, _set_cached
            elif isinstance(obj, weakref.WeakKeyDictionary):  # the cache of functools.singledispatch
                return type(obj), (dict(obj),)
            elif isinstance(obj, types.FunctionType):
                _note_globals_of_classes(obj.__code__, tools.globals_of(obj.__code__))
                return self._cells.reduced(obj, super().reducer_override(obj))
            elif isinstance(obj, types.CellType) and obj in self._cells:
                return _empty_cell, ()
            elif (type(obj).__module__, type(obj).__name__) == ("msgspec", "Meta"):  # cannot be pickled
                return _make_with, (type(obj), dict(obj.__rich_repr__()))
            elif isinstance(obj, NewType) and obj.__module__ == "__main__":
                return _make_new_type, (obj.__name__, obj.__module__, obj.__supertype__)
            return super().reducer_override(obj)

    return ShippingPickler


class _Cells:
    """The variables of closures that one pickler has met; each travels once, and empty.

    cloudpickle gives each function variables of its own, so a decorator whose wrapper counts calls, and whose
    other function returns the count, would only return the count of the driver. A variable may hold the
    function that it belongs to, so what it holds comes after the function.
    """

    def __init__(self) -> None:
        self._known: dict[int, types.CellType] = {}

    def __contains__(self, cell: types.CellType) -> bool:
        return id(cell) in self._known

    def reduced(self, function: types.FunctionType, usual: Usual) -> Usual:
        closure = function.__closure__
        if closure is None or not isinstance(usual, tuple):
            return usual
        make, (*arguments, _), (state, slots), *_, set_state = usual
        self._known.update((id(cell), cell) for cell in closure)
        held: list[tuple[types.CellType, ...]] = [_held(cell) for cell in closure]
        complete = (state, {**slots, "__closure__": None}), held, set_state
        return make, (*arguments, closure), complete, None, None, _set_function


def _empty_cell() -> types.CellType:
    return types.CellType()


def _set_function(
    function: types.FunctionType,
    state: tuple[State, list[tuple[T, ...]], Callable[[types.FunctionType, State], None]],
) -> None:
    usual, held, set_usual = state
    set_usual(function, usual)
    for cell, contents in zip(function.__closure__ or (), held, strict=True):
        if contents:
            (cell.cell_contents,) = contents


def _held(cell: types.CellType) -> tuple[T, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


_MARKS: Final[dict[type, str]] = {
    getattr(dataclasses, name): name
    for name in ("MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY")
    if hasattr(dataclasses, name)
}
"""Marks that `dataclasses` compares by identity, so that a copy would be another default; and their names."""

_MARK_TYPES: Final = tuple(map(type, _MARKS))
_CACHED: Final = type(functools.lru_cache(lambda: None))
_GENERIC_ALIAS: Final = type(list[int])


def _class_reduction(cls: type, tools: Tools, usual: Usual) -> Usual:
    above = foreign_metaclass(cls, tools.by_reference)
    if issubclass(cls, enum.Enum):
        reduced = enum_reduction(cls, above, tools)
    elif is_struct(cls):
        reduced = struct_reduction(cls, tools)
    elif not isinstance(usual, tuple) or usual[0] is not tools.make_class:
        return usual
    else:
        reduced = _plain_reduction(cls, above, tools, usual)
    hooked = parents_with_hook(cls, tools.by_reference)
    if not hooked:
        return reduced
    make, arguments, *rest = reduced
    return make_without_hooks, (make, arguments, hooked), *rest


def _plain_reduction(cls: type, above: type, tools: Tools, usual: Reduction) -> Reduction:
    make, (kind, name, bases, keywords, tracker, *others), (attributes, slots), *rest = usual
    if is_typeddict(cls) and "__orig_bases__" not in vars(cls):
        # One that extends others is a dict, and has all of their fields; the base that makes it is nowhere.
        bases = (TypedDict,)
    attributes = {name: value for name, value in attributes.items() if name != MSGSPEC_CACHE}
    keywords = {**keywords, "__qualname__": cls.__qualname__}
    declared = vars(cls).get("__slots__")
    if declared is not None and not hasattr(cls, "_fields"):  # a NamedTuple gets them from its own maker
        keywords["__slots__"] = declared
        attributes = _without_slots(attributes, cls, declared)
    state = attributes, slots
    if kind is not above and not is_typeddict(cls):
        return make_under, (above, kind, name, bases, keywords, tracker, tools.track), state, *rest
    return make, (kind, name, bases, keywords, tracker, *others), state, *rest


def _without_slots(attributes: Attributes, cls: type, declared: str | Iterable[str]) -> Attributes:
    names = (declared,) if isinstance(declared, str) else tuple(declared)
    mangled = {f"_{cls.__name__.lstrip('_')}{name}" for name in names if name.startswith("__")}
    return {name: value for name, value in attributes.items() if name not in mangled}


def _note_globals_of_classes(code: types.CodeType, names: dict[str, None]) -> None:
    """Add what class bodies within a function load to `names`, the globals that travel with the function.

    `names` is the dict in which cloudpickle keeps what it has found for this function.
    """
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            if not inner.co_flags & inspect.CO_OPTIMIZED:
                names |= dict.fromkeys(inner.co_names)
            _note_globals_of_classes(inner, names)


def _make_with(cls: Callable[..., T], arguments: Attributes) -> T:
    return cls(**arguments)


def _make_new_type(name: str, module: str, supertype: type) -> Callable[[T], T]:
    make: Callable[[str, type], Callable[[T], T]] = NewType
    made = make(name, supertype)
    made.__module__ = module
    return made


def _make_cached_property() -> functools.cached_property[None]:
    return functools.cached_property(lambda _: None)


def _set_cached_property(
    made: functools.cached_property[T], state: tuple[Callable[[Any], T], str | None]
) -> None:
    made.func, made.attrname = state
    made.__doc__ = made.func.__doc__


class _Late(Generic[P, T]):
    """The function that a cache calls, which may refer to the cache itself and so comes after it."""

    function: Callable[P, T]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.function(*args, **kwargs)


def _make_cached(limits: Attributes) -> Any:
    late: _Late[..., Any] = _Late()
    made: Any = functools.lru_cache(**limits)(late)
    made.late = late
    return made


def _set_cached(made: Any, function: Callable[P, T]) -> None:
    made.late.function = function
    functools.update_wrapper(made, function)


def _resolve_annotations(cls: type) -> None:
    # Textual annotations are replaced, as workers lack the module in which their names mean something.
    written = inspect.get_annotations(cls)
    if not any(isinstance(hint, (str, ForwardRef)) for hint in written.values()):
        return
    try:
        resolved = get_type_hints(cls, include_extras=True)
    except NameError:
        return  # the code that needs the types has the better error
    cls.__annotations__ = {name: resolved.get(name, hint) for name, hint in written.items()}
