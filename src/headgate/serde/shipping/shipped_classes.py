"""Rebuilds a script's classes in a worker, without running their metaclasses and hooks a second time.

What `__init_subclass__` and a metaclass did to a class when the program defined it travels with its
attributes. The keywords that they were called with are not kept anywhere.

A member of an enumeration is made again from its value and its attributes, without the program's `__new__`
and `__init__`, whose arguments it does not keep. The metaclass of ``msgspec.Struct`` lays out fields while it
makes the class, so they, their defaults and the options of the class are sent first; the types of the fields
and the methods may refer to the class and are sent after it. A struct is recognised by its marks, as the
program may bring its own copy of msgspec.
"""

from __future__ import annotations

import enum
import inspect
import sys
import threading
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeGuard, TypeVar

if TYPE_CHECKING:
    import msgspec

V = TypeVar("V")

Reduction: TypeAlias = tuple[Any, ...]
"""What `pickle.Pickler.reducer_override` returns: what makes the object, its arguments, its state, ..."""
Usual: TypeAlias = Reduction | types.NotImplementedType
"""What cloudpickle's own method returns; `NotImplemented` for what pickle itself reduces."""
Attributes: TypeAlias = dict[str, Any]
State: TypeAlias = tuple[Attributes, Attributes]
"""The state that cloudpickle takes from a class or function, and sets on the rebuilt one."""
Track: TypeAlias = Callable[[str, type], type]
"""Registers a class under an id, or returns the one that is registered already."""


class Tools(NamedTuple):
    """The functions of cloudpickle's module that shipping needs besides its pickler; `of` finds them."""

    track: Track
    tracker_of: Callable[[type], str]
    class_state: Callable[[type], State]
    set_class_state: Callable[[type, State], type]
    by_reference: Callable[[Any], bool]
    globals_of: Callable[[types.CodeType], dict[str, None]]
    make_class: Callable[..., type]

    @classmethod
    def of(cls, names: Attributes) -> Tools:
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
    """Return the class's metaclass, or the nearest one above it that workers import (`by_reference`)."""
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
    """Make a class of a metaclass that the program has defined, without calling that metaclass.

    `above`, the nearest metaclass that is imported, makes it; `bases` are as the program wrote them; `track`
    notes it under the id `tracker`, so that each worker makes it once.
    """
    resolved = types.resolve_bases(bases)
    if resolved is not bases:
        body = {**body, "__orig_bases__": bases}
    made = above.__new__(metaclass, name, resolved, body)
    above.__init__(made, name, resolved, body)
    return track(tracker, made)


def parents_with_hook(cls: type, by_reference: Callable[[type], bool]) -> tuple[type, ...]:
    """Return those parents of a class that define an `__init_subclass__` and travel by value.
    `by_reference` tells whether workers import a class instead.
    """
    return tuple(
        base for base in cls.__mro__[1:] if "__init_subclass__" in vars(base) and not by_reference(base)
    )


def make_without_hooks(make: Callable[..., type], arguments: tuple[V, ...], hooked: tuple[type, ...]) -> type:
    """Return the class `make(*arguments)`, for which `__init_subclass__` is taken off `hooked` meanwhile.
    It is called in a worker: these hooks ran when the program defined the class. One call at a time runs.
    """
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


# -- enumerations

Args = tuple[Any, ...]  # of the data type that a member derives from
MSGSPEC_CACHE: Final = "__msgspec_cache__"  # an attribute in which msgspec keeps its facts about a class

# What the metaclass sets while it makes the class.
_OF_ENUM_META: Final = frozenset({
    MSGSPEC_CACHE, "_member_names_", "_member_map_", "_member_type_", "_value2member_map_",
    "_unhashable_values_", "_unhashable_values_map_", "_hashable_values_",
})  # fmt: skip
_OF_MEMBER: Final = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_"})


class _Made:
    """A rebuilt enumeration's member before its attributes: its value, and arguments of its data type."""

    __slots__ = ("args", "value")  # not a tuple, which an enumeration of a data type would take apart

    def __init__(self, value: V, args: Args) -> None:
        self.value, self.args = value, args


def enum_reduction(cls: Any, above: type[type], tools: Tools) -> Reduction:
    """Return what a pickler ships of an enumeration (as of `__reduce__`); :func:`make_enum` rebuilds it."""
    members = {name: (one._value_, _data_of(one, cls._member_type_)) for name, one in cls.__members__.items()}
    named = (cls.__name__, cls.__qualname__, cls.__module__)
    attributes, slots = tools.class_state(cls)
    attributes = {
        name: value
        for name, value in attributes.items()
        if name not in _OF_ENUM_META and name not in cls.__members__
    }
    attributes |= {"_new_member_": cls._new_member_, "_use_args_": cls._use_args_}
    own = {
        member._name_: {name: value for name, value in vars(member).items() if name not in _OF_MEMBER}
        for member in cls
    }
    state, kinds = ((attributes, slots), own, tools.set_class_state), (above, type(cls))
    boundary = getattr(cls, "_boundary_", None)
    arguments = (kinds, cls.__bases__, named, members, boundary, tools.tracker_of(cls), tools.track)
    return make_enum, arguments, state, None, None, set_enum


def make_enum(
    kinds: tuple[type[enum.EnumMeta], type[enum.EnumMeta]],
    bases: tuple[type, ...],
    named: tuple[str, str, str],
    members: dict[str, tuple[V, Args]],
    boundary: enum.FlagBoundary | None,
    tracker: str,
    track: Track,
) -> type:
    """Make an enumeration with its members; :func:`set_enum` gives it its methods.

    `kinds` are the imported metaclass that makes it, and its own; `named` are name, qualified name and
    module; `members` has the value of each name, aliases included, and the arguments of its data type.
    """
    name, qualname, module = named
    above, metaclass = kinds
    body = above.__prepare__(name, bases)
    body["__new__"], body["__init__"] = _new_member, _no_init
    for member, (value, args) in members.items():
        body[member] = _Made(value, args)
    made = above.__new__(metaclass, name, bases, body, boundary=boundary)
    made.__module__, made.__qualname__ = module, qualname
    return track(tracker, made)


def set_enum(
    cls: type[enum.Enum], state: tuple[State, dict[str, Attributes], Callable[[type, State], type]]
) -> None:
    """Give a rebuilt enumeration its methods, and its members their attributes; unpickling calls this last.
    `state`: the class's attributes, those of each member by its name, and the function that sets the former.
    """
    (attributes, slots), own, set_attributes = state
    for name, placeholder in (("__init__", _no_init), ("__new_member__", _new_member)):
        if vars(cls).get(name) is placeholder and name not in attributes:
            type.__delattr__(cls, name)
    set_attributes(cls, (attributes, slots))
    for name, values in own.items():
        vars(cls[name]).update(values)


def _data_of(member: enum.Enum, data_type: Any) -> Args:
    if data_type.__new__ is object.__new__:
        return ()
    known = getattr(data_type, "__getnewargs__", None)
    if known is not None:
        return tuple(known(member))
    made_by, args, *_ = data_type.__reduce__(member)
    return tuple(args) if made_by is type(member) else (member.value,)


def _new_member(cls: Any, made: _Made) -> Any:
    member = cls._member_type_.__new__(cls, *made.args)
    member._value_ = made.value
    return member


def _no_init(_: enum.Enum, *args: V) -> None:
    """Do nothing in place of a member's `__init__`, which ran when the program defined the member."""


# -- structs

_OPTIONS: Final = (
    "frozen", "eq", "order", "array_like", "gc", "repr_omit_defaults", "omit_defaults",
    "forbid_unknown_fields", "weakref", "dict", "cache_hash", "tag", "tag_field",
)  # fmt: skip
MakeField = Callable[..., Any]  # `msgspec.field`
_OF_STRUCT_META: Final = frozenset({
    "__struct_fields__", "__struct_encode_fields__", "__struct_defaults__", "__struct_config__",
    "__match_args__", "__slots__", "__weakref__", "__dict__",
})  # fmt: skip


def is_struct(cls: type) -> TypeGuard[type[msgspec.Struct]]:
    return hasattr(cls, "__struct_fields__") and hasattr(cls, "__struct_config__")


def struct_reduction(cls: type[msgspec.Struct], tools: Tools) -> Reduction:
    """Return what a pickler ships of a struct class (as of `__reduce__`); :func:`make_struct` rebuilds it."""
    fields = _own_fields(cls)
    config = cls.__struct_config__
    options = {name: getattr(config, name) for name in _OPTIONS if hasattr(config, name)}
    options["kw_only"] = bool(fields) and not any(name in cls.__match_args__ for name in fields)
    named = (cls.__name__, cls.__qualname__, cls.__module__)
    attributes, slots = tools.class_state(cls)
    attributes = {
        name: value
        for name, value in attributes.items()
        if name not in _OF_STRUCT_META and not isinstance(value, types.MemberDescriptorType)
    }
    bases = vars(cls).get("__orig_bases__", cls.__bases__)
    has_post_init, tracked = "__post_init__" in vars(cls), (tools.tracker_of(cls), tools.track)
    arguments = (type(cls), named, bases, fields, _field_of(cls), options, has_post_init, *tracked)
    return make_struct, arguments, ((attributes, slots), tools.set_class_state), None, None, set_struct


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
    """Make, in a worker, a struct with its fields; :func:`set_struct` gives it types and methods afterwards.
    `fields` are the arguments of `field` (`msgspec.field`) for each field that the class itself declares. The
    metaclass looks `__post_init__` up only now. `track` notes the class under the id `tracker`.
    """
    name, qualname, module = named

    def fill(body: Attributes) -> None:
        body |= {"__module__": module, "__qualname__": qualname}
        body["__annotations__"] = dict.fromkeys(fields, Any)
        body |= {each: field(**arguments) for each, arguments in fields.items() if arguments}
        if has_post_init:
            body["__post_init__"] = lambda self: made.__post_init__(self)

    made: Any = types.new_class(name, bases, {"metaclass": metaclass, **options}, fill)
    return track(tracker, made)


def set_struct(cls: type, state: tuple[State, Callable[[type, State], type]]) -> None:
    attributes, set_attributes = state
    set_attributes(cls, attributes)


def _own_fields(cls: type[msgspec.Struct]) -> dict[str, Attributes]:
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    declared = inspect.get_annotations(cls)
    fields: dict[str, Attributes] = {}
    for name, encoded in zip(names, cls.__struct_encode_fields__, strict=True):
        if name in declared:
            default = _default_of(given[name]) if name in given else {}
            fields[name] = default if encoded == name else {**default, "name": encoded}
    return fields


def _default_of(given: Any) -> Attributes:
    kind = type(given).__name__
    if kind == "Factory":
        return {"default_factory": given.factory}
    return {} if kind in ("NoDefaultType", "NODEFAULT") or repr(given) == "NODEFAULT" else {"default": given}


def _field_of(cls: type) -> MakeField:
    field: MakeField = sys.modules[type(cls).__module__.partition(".")[0]].field
    return field
