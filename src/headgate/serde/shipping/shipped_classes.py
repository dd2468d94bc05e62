"""Makes a script's classes again in a worker, without what was called when the program made them.

What `__init_subclass__` and a metaclass did to a class when the program defined it travels with its
attributes. The keywords that they were called with are known to nobody any more.
"""

from __future__ import annotations

import inspect
import threading
import types
from collections.abc import Callable
from typing import Any, Final

_creating: Final = threading.RLock()


def foreign_metaclass(cls: type, by_reference: Callable[[type], bool]) -> Any:
    """The metaclass of a class, or the nearest one above it that workers import."""
    found: type = type
    for metaclass in reversed(inspect.getmro(type(cls))):
        if issubclass(metaclass, type):
            if not by_reference(metaclass):
                break
            found = metaclass
    return found


def make_under(
    above: Any,
    metaclass: type,
    name: str,
    bases: tuple[Any, ...],
    body: dict[str, Any],
    tracker: str,
    track: Callable[[str, type], type],
) -> type:
    """Make a class of a metaclass that the program has defined, without calling that.

    `above` is the nearest metaclass that is imported, which makes it; `bases` are as the program wrote them.
    `track` notes the class under `tracker`, or returns the one that is noted already.
    """
    resolved = types.resolve_bases(bases)
    if resolved is not bases:
        body = {**body, "__orig_bases__": bases}
    made: type = above.__new__(metaclass, name, resolved, body)
    above.__init__(made, name, resolved, body)
    return track(tracker, made)


def parents_with_hook(cls: type, by_reference: Callable[[type], bool]) -> tuple[type, ...]:
    """The parents of a class that have an `__init_subclass__` and travel by value."""
    return tuple(
        base for base in cls.__mro__[1:] if "__init_subclass__" in vars(base) and not by_reference(base)
    )


def make_without_hooks(make: Any, arguments: tuple[Any, ...], hooked: tuple[type, ...]) -> type:
    """Make a class without calling `__init_subclass__` of its shipped parents a second time."""
    with _creating:
        hooks = [(base, vars(base)["__init_subclass__"]) for base in hooked if _has_hook(base)]
        for base, _ in hooks:
            del base.__init_subclass__
        try:
            made: type = make(*arguments)
        finally:
            for base, hook in hooks:
                base.__init_subclass__ = hook  # type: ignore[method-assign]  # a classmethod object
    return made


def _has_hook(base: type) -> bool:
    return "__init_subclass__" in vars(base)  # not yet, while a circle of classes is being made
