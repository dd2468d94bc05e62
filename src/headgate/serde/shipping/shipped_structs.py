"""Classes derived from ``msgspec.Struct`` on their way to the workers.

The metaclass lays out fields while it makes the class, so they, their defaults and the options of the class
must be there at once; the types of the fields and the methods may refer to the class and come after it.
A struct is recognised by its marks, as the program may bring its own copy of msgspec.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from headgate.serde.shipping.shipped_classes import Attributes, Reduction, State, Tools, Track

if TYPE_CHECKING:
    import msgspec

_OPTIONS: Final = (
    "frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults",
    "forbid_unknown_fields", "weakref", "dict", "cache_hash", "tag", "tag_field",
)  # fmt: skip
MakeField = Callable[..., Any]
"""`msgspec.field`."""
_OF_METACLASS: Final = frozenset({
    "__struct_fields__", "__struct_encode_fields__", "__struct_defaults__", "__struct_config__",
    "__match_args__", "__slots__", "__weakref__", "__dict__",
})  # fmt: skip


def is_struct(cls: type) -> TypeGuard[type[msgspec.Struct]]:
    """Whether a class derives from ``msgspec.Struct``."""
    return hasattr(cls, "__struct_fields__") and hasattr(cls, "__struct_config__")


def struct_reduction(cls: type[msgspec.Struct], tools: Tools) -> Reduction:
    """Reduce a struct for a pickler."""
    fields = _own_fields(cls)
    config = cls.__struct_config__
    options = {name: getattr(config, name) for name in _OPTIONS if hasattr(config, name)}
    options["kw_only"] = bool(fields) and not any(name in cls.__match_args__ for name in fields)
    named = (cls.__name__, cls.__qualname__, cls.__module__)
    attributes, slots = tools.class_state(cls)
    attributes = {
        name: value
        for name, value in attributes.items()
        if name not in _OF_METACLASS and not isinstance(value, types.MemberDescriptorType)
    }
    track, tracker = tools.track, tools.tracker_of(cls)
    bases = vars(cls).get("__orig_bases__", cls.__bases__)
    has_post_init = "__post_init__" in vars(cls)
    arguments = (type(cls), named, bases, fields, _field_of(cls), options, has_post_init, tracker, track)
    state = ((attributes, slots), tools.set_class_state)
    return make_struct, arguments, state, None, None, set_struct


def make_struct(
    metaclass: type[type],
    named: tuple[str, str, str],
    bases: tuple[type, ...],
    fields: dict[str, Attributes],
    field: MakeField,
    options: Attributes,
    has_post_init: bool,
    tracker: str,
    track: Track,
) -> type:
    """Make a struct with its fields; :func:`set_struct` gives it types and methods.

    `fields` are the arguments of `field` (`msgspec.field`) for each field that the class itself declares. The
    metaclass looks `__post_init__` up only now. `track` is as for an enumeration.
    """
    name, qualname, module = named

    def fill(body: Attributes) -> None:
        body |= {
            "__module__": module,
            "__qualname__": qualname,
            "__annotations__": dict.fromkeys(fields, Any),
        }
        body |= {each: field(**arguments) for each, arguments in fields.items() if arguments}
        if has_post_init:
            body["__post_init__"] = lambda self: made.__post_init__(self)

    made: Any = types.new_class(name, bases, {"metaclass": metaclass, **options}, fill)
    return track(tracker, made)


def set_struct(cls: type, state: tuple[State, Callable[[type, State], type]]) -> None:
    """Give a made struct the types of its fields and its methods."""
    attributes, set_attributes = state
    set_attributes(cls, attributes)


def _own_fields(cls: type[msgspec.Struct]) -> dict[str, Attributes]:
    """For each field that the class itself declares, the arguments of `msgspec.field`."""
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    encoded = dict(zip(names, cls.__struct_encode_fields__, strict=True))
    declared = inspect.get_annotations(cls)
    fields: dict[str, Attributes] = {}
    for name in names:
        if name in declared:
            fields[name] = _default_of(given[name]) if name in given else {}
            if encoded[name] != name:
                fields[name]["name"] = encoded[name]
    return fields


def _default_of(given: Any) -> Attributes:
    kind = type(given).__name__
    if kind == "Factory":
        return {"default_factory": given.factory}
    return {} if kind in ("NoDefaultType", "NODEFAULT") or repr(given) == "NODEFAULT" else {"default": given}


def _field_of(cls: type) -> MakeField:
    """`msgspec.field` of the copy of msgspec that the class comes from."""
    field: MakeField = sys.modules[type(cls).__module__.partition(".")[0]].field
    return field
