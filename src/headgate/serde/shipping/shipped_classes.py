"""Makes a script's classes again in a worker, without what was called when the program made them.

What `__init_subclass__` and a metaclass did to a class when the program defined it travels with its
attributes. The keywords that they were called with are not kept anywhere.
"""

from __future__ import annotations

import inspect
import threading
import types
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

V = TypeVar("V")

Reduction: TypeAlias = tuple[Any, ...]
"""What `pickle.Pickler.reducer_override` returns: what makes the object, its arguments, its state, ..."""
Usual: TypeAlias = Reduction | types.NotImplementedType
"""What cloudpickle's own method returns; `NotImplemented` for what pickle itself reduces."""
Attributes: TypeAlias = dict[str, Any]
State: TypeAlias = tuple[Attributes, Attributes]
"""What cloudpickle takes from a class or function, and gives the one that is made again."""
Track: TypeAlias = Callable[[str, type], type]
"""Notes a class under an id, or returns the one that is noted already."""


class Tools(NamedTuple):
    """What cloudpickle's module has besides its pickler."""

    track: Track
    tracker_of: Callable[[type], str]
    class_state: Callable[[type], State]
    set_class_state: Callable[[type, State], type]
    by_reference: Callable[[Any], bool]
    globals_of: Callable[[types.CodeType], dict[str, None]]
    make_class: Callable[..., type]

    @classmethod
    def of(cls, names: Attributes) -> Tools:
        """Take them from the names of a module of cloudpickle."""
        return cls(
            names["_lookup_class_or_track"],
            names["_get_or_create_tracker_id"],
            names["_class_getstate"],
            names["_class_setstate"],
            names["_should_pickle_by_reference"],
            names["_extract_code_globals"],
            names["_make_skeleton_class"],
        )


_creating: Final = threading.RLock()


def foreign_metaclass(cls: type, by_reference: Callable[[type], bool]) -> type[type]:
    """The metaclass of a class, or the nearest one above it that workers import."""
    found: type[type] = type
    for metaclass in reversed(inspect.getmro(type(cls))):
        if issubclass(metaclass, type):
            if not by_reference(metaclass):
                break
            found = metaclass
    return found


def make_under(
    above: type[type],
    metaclass: type[type],
    name: str,
    bases: tuple[type, ...],
    body: Attributes,
    tracker: str,
    track: Track,
) -> type:
    """Make a class of a metaclass that the program has defined, without calling that.

    `above` is the nearest metaclass that is imported, which makes it; `bases` are as the program wrote them.
    `track` notes the class under `tracker`, or returns the one that is noted already.
    """
    resolved = types.resolve_bases(bases)
    if resolved is not bases:
        body = {**body, "__orig_bases__": bases}
    made = above.__new__(metaclass, name, resolved, body)
    above.__init__(made, name, resolved, body)
    return track(tracker, made)


def parents_with_hook(cls: type, by_reference: Callable[[type], bool]) -> tuple[type, ...]:
    """The parents of a class that have an `__init_subclass__` and travel by value."""
    return tuple(
        base for base in cls.__mro__[1:] if "__init_subclass__" in vars(base) and not by_reference(base)
    )


def make_without_hooks(make: Callable[..., type], arguments: tuple[V, ...], hooked: tuple[type, ...]) -> type:
    """Make a class without calling `__init_subclass__` of its shipped parents a second time."""
    with _creating:
        hooks = [(base, vars(base)["__init_subclass__"]) for base in hooked if _has_hook(base)]
        for base, _ in hooks:
            del base.__init_subclass__
        try:
            made = make(*arguments)
        finally:
            for base, hook in hooks:
                base.__init_subclass__ = hook  # type: ignore[method-assign]  # a classmethod object
    return made


def _has_hook(base: type) -> bool:
    return "__init_subclass__" in vars(base)  # not yet, while a circle of classes is being made
