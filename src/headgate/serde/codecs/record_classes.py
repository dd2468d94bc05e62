"""Codecs of records: dataclass, NamedTuple, TypedDict, msgspec.Struct, attrs classes and pydantic models.

A record is known by its logical name and its fields' names, and stored as the row of its fields' values in
the order of the description, a TypedDict as a dict. Kinds of records are recognised by their marks and not by
`isinstance`, as user code may come with its own copy of attrs or msgspec.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable
from itertools import chain
from operator import attrgetter
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    NamedTuple,
    NotRequired,
    Required,
    TypedDict,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from headgate.common.errors import UsageError
from headgate.common.former_names import Alias, former_names
from headgate.common.hints import Hint
from headgate.common.plain_data import Description
from headgate.serde.codecs.containers import apply_each, row_converter
from headgate.serde.codecs.primitives import exactly
from headgate.serde.codecs.type_codec import Constant, Convert, Field, Form, Record, copier, describe
from headgate.serde.logical_names import logical_name

if TYPE_CHECKING:
    import msgspec
from collections.abc import Sequence

T = TypeVar("T")
V = TypeVar("V")

Resolve = Callable[[Hint], Form]


def record_form(cls: type, resolve: Resolve) -> Form | None:
    """Return the codec of a dataclass, attrs class, struct, NamedTuple or TypedDict; None for other classes.

    `resolve` gives the codec of a field's annotation. UsageError if a field has no annotation, or one that
    names no type.
    """
    if is_typeddict(cls):
        return _typed_dict_form(cls, resolve)
    if dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls)]
        frozen = bool(cls.__dataclass_params__.frozen)  # type: ignore[attr-defined]
        return _record("dataclass", cls, names, frozen, _filler(cls, names), resolve)
    if hasattr(cls, "__attrs_attrs__"):
        names = [attribute.name for attribute in cls.__attrs_attrs__]
        return _record("attrs", cls, names, False, _filler(cls, names), resolve)
    if hasattr(cls, "__struct_fields__") and hasattr(cls, "__struct_config__"):
        fields = list(cls.__struct_fields__)
        frozen = bool(cls.__struct_config__.frozen)

        def build(row: Iterable[V]) -> Any:
            return cls(**dict(zip(fields, row, strict=True)))

        return _record("struct", cls, fields, frozen, build, resolve)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _record("namedtuple", cls, list(cls._fields), True, cls._make, resolve)  # type: ignore[attr-defined]
    return None


def _record(kind: str, cls: type, names: list[str], frozen: bool, build: Convert, resolve: Resolve) -> Form:
    name = logical_name(cls)
    hints = _hints(cls, name)
    for field in names:
        if field not in hints:
            raise UsageError(f"field {field!r} of {name} has no annotation; annotate it, with Any if need be")
    forms = [resolve(hints[field]) for field in names]
    immutable = frozen and all(form.immutable for form in forms)
    to_row = row_converter([form.to_plain for form in forms])
    from_row = row_converter([form.from_plain for form in forms])
    to_plain: Convert = to_row
    if kind != "namedtuple":  # which is a row already
        read = _reader(names)
        to_plain = lambda value: to_row(read(value))  # noqa: E731
    defaults = defaults_of(kind, cls)
    fields = tuple(
        Field(field, form, _aliases(hints[field]), _default(form, defaults.get(field, _NO_DEFAULT)))
        for field, form in zip(names, forms, strict=True)
    )
    described: Description = {field.name: field.form.description for field in fields}
    return Form(
        name=cls.__qualname__,
        description=describe(kind, name=name, fields=described),
        wire=tuple[tuple(form.wire for form in forms)],  # type: ignore[misc]
        to_plain=exactly(cls, to_plain),
        from_plain=lambda plain: build(from_row(plain)),
        classes=frozenset({cls}),
        immutable=immutable,
        copy=copier(immutable, False),
        record=Record((name, *former_names(cls)), fields, build),
    )


def _default(form: Form, found: T) -> Callable[[], T] | None:
    if found is _NO_DEFAULT:
        return None
    return found.make if isinstance(found, Factory) else Constant(found, form.copy)


def _aliases(hint: Hint) -> tuple[str, ...]:
    names: list[str] = []
    while get_origin(hint) in (Annotated, Required, NotRequired):
        hint, *marks = get_args(hint)
        names += chain.from_iterable(mark.names for mark in marks if isinstance(mark, Alias))
    return tuple(names)


def _reader(names: list[str]) -> Convert:
    if not names:
        return lambda _: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda value: (get(value),)


def _filler(cls: type[T], names: list[str]) -> Callable[[Iterable[V]], T]:
    put = object.__setattr__

    def fill(row: Iterable[V]) -> T:
        made = cls.__new__(cls)
        for name, value in zip(names, row, strict=True):
            put(made, name, value)
        return made

    return fill


def _hints(cls: type, name: str) -> dict[str, Hint]:
    try:
        return get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"the annotations of {name} name a type that cannot be found ({error}); "
            "define it at the top of its module, outside TYPE_CHECKING"
        ) from None


def _typed_dict_form(cls: type, resolve: Resolve) -> Form:
    name = logical_name(cls)
    hints = _hints(cls, name)
    forms = {field: resolve(_bare(hint)) for field, hint in hints.items()}
    required = frozenset(field for field, hint in hints.items() if _is_required(cls, field, hint))
    wires = {
        field: form.wire if field in required else NotRequired[form.wire] for field, form in forms.items()
    }
    known = forms.keys()

    def to_plain(value: dict[str, V]) -> dict[str, V]:
        if not (required <= value.keys() <= known):
            wrong = sorted(map(repr, value.keys() ^ known))
            raise ValueError(f"got other keys than {name} has: {', '.join(wrong)}")
        return apply_each({field: form.to_plain for field, form in forms.items()}, value)

    fields = tuple(
        Field(field, form, _aliases(hints[field]), None if field in required else absent)
        for field, form in forms.items()
    )
    described: Description = {field: form.description for field, form in forms.items()}
    return Form(
        name=cls.__qualname__,
        description=describe("typeddict", name=name, required=sorted(required), fields=described),
        wire=TypedDict(cls.__name__, wires),  # type: ignore[operator]
        to_plain=exactly(dict, to_plain),
        from_plain=lambda plain: apply_each({field: form.from_plain for field, form in forms.items()}, plain),
        classes=frozenset({dict}),
        immutable=False,
        copy=copier(False, all(form.immutable for form in forms.values())),
        record=Record((name, *former_names(cls)), fields, dict_builder(list(forms))),
    )


class _Mark(enum.Enum):
    """Marks that stand where there is no value."""

    ABSENT = "the key of a dict is missing"
    NO_DEFAULT = "a field has no default"


_ABSENT, _NO_DEFAULT = _Mark.ABSENT, _Mark.NO_DEFAULT


def absent() -> _Mark:
    """Return the mark for a missing key: the default of an optional key of a TypedDict."""
    return _ABSENT


def dict_builder(names: list[str]) -> Convert:
    """Return a function that makes a dict of a row of values, without the values that are `absent()`."""
    return lambda row: {name: value for name, value in zip(names, row, strict=True) if value is not _ABSENT}


def _bare(hint: Hint) -> Hint:
    while _says_required(hint) or (get_origin(hint) is Annotated and _says_required(get_args(hint)[0])):
        hint = get_args(hint)[0]
    return hint


def _says_required(hint: Hint) -> bool:
    return get_origin(hint) in (Required, NotRequired)


def _is_required(cls: type, field: str, hint: Hint) -> bool:
    # The class itself does not see the marks of annotations that are kept as text.
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    mark = get_origin(hint)
    return mark is Required or (mark is not NotRequired and field in cls.__required_keys__)  # type: ignore[attr-defined]


# -- the defaults that a class declares


class Factory(NamedTuple):
    """A default that is made anew for each record."""

    make: Callable[[], Any]


Defaults = dict[str, Any]
"""Field name -> default value or :class:`Factory`, of those fields that have one."""


def defaults_of(kind: str, cls: type) -> Defaults:
    """Return the defaults of a class's fields; `kind` is "dataclass", "attrs", "struct" or "namedtuple"."""
    return _DEFAULTS[kind](cls)


def _of_dataclass(cls: type) -> Defaults:
    found: Defaults = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = Factory(field.default_factory)
    return found


def _of_attrs(cls: Any) -> Defaults:
    found: Defaults = {}
    for attribute in cls.__attrs_attrs__:
        default: Any = getattr(attribute, "default", _NO_DEFAULT)
        # By name: user code may come with its own copy of attrs.
        if default is _NO_DEFAULT or type(default).__name__ == "_Nothing":
            continue
        if not hasattr(default, "takes_self"):
            found[attribute.name] = default
        elif not default.takes_self:  # one that takes the instance would get an incomplete record
            found[attribute.name] = Factory(default.factory)
    return found


def _of_struct(cls: type[msgspec.Struct]) -> Defaults:
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    found: Defaults = {}
    for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
        mark = type(default).__name__
        if mark == "Factory":
            found[name] = Factory(default.factory)
        elif mark != "NoDefaultType":
            found[name] = default
    return found


_DEFAULTS: Final[dict[str, Callable[[Any], Defaults]]] = {
    "dataclass": _of_dataclass,
    "attrs": _of_attrs,
    "struct": _of_struct,
    "namedtuple": lambda cls: dict(cls._field_defaults),
}


# -- pydantic models of version 2


def model_form(cls: Any, resolve: Callable[[Hint], Form]) -> Form | None:
    """Return the codec (:class:`Form`) of a pydantic model; None for other classes.

    A model is read back without validation: its values were validated when the program made it, and a
    validator that became stricter must not make a checkpoint unreadable. Fields are checked against their
    annotations. UsageError for a model with private attributes, extra values or an unresolved annotation.
    """
    if not (isinstance(vars(cls).get("__pydantic_fields__"), dict) and hasattr(cls, "__pydantic_complete__")):
        return None
    name = logical_name(cls)
    _refuse_unstorable(cls, name)
    names = list(cls.__pydantic_fields__)
    forms = [resolve(info.annotation) for info in cls.__pydantic_fields__.values()]
    immutable = bool(cls.model_config.get("frozen")) and all(form.immutable for form in forms)
    fields = {field: form.description for field, form in zip(names, forms, strict=True)}
    return Form(
        name=cls.__qualname__,
        description=describe("model", name=name, fields=fields),
        wire=tuple[tuple[tuple(form.wire for form in forms)], int],  # type: ignore[misc]
        to_plain=exactly(cls, _model_writer(names, row_converter([form.to_plain for form in forms]))),
        from_plain=_model_reader(cls, names, row_converter([form.from_plain for form in forms])),
        classes=frozenset({cls}),
        immutable=immutable,
        copy=copier(immutable, False),
    )


def _refuse_unstorable(cls: Any, name: str) -> None:
    if not cls.__pydantic_complete__:
        raise UsageError(
            f"the annotations of {name} name a type that is not defined yet; call "
            f"{cls.__name__}.model_rebuild() where it is"
        )
    if cls.model_config.get("extra") == "allow":
        raise UsageError(
            f"{name} allows extra values, which have no declared type; give it a field of type "
            "dict[str, Any] for them"
        )
    if cls.__private_attributes__:
        raise UsageError(
            f"{name} has private attributes ({', '.join(cls.__private_attributes__)}), which would be lost; "
            "make them fields, or compute them"
        )


def _model_writer(names: list[str], to_row: Convert) -> Convert:
    bits = {name: 1 << place for place, name in enumerate(names)}

    def write(value: Any) -> tuple[Sequence[V], int]:
        held = value.__dict__
        row = to_row(tuple([held[name] for name in names]))
        return row, sum(bits[name] for name in value.__pydantic_fields_set__)

    return write


def _model_reader(cls: type[T], names: list[str], from_row: Convert) -> Convert:
    put, end = object.__setattr__, 1 << len(names)

    def read(plain: tuple[Sequence[V], int]) -> T:
        row, mask = plain
        if not 0 <= mask < end:
            raise ValueError(f"{mask} does not say which of {len(names)} fields were set")
        made = cls.__new__(cls)
        put(made, "__dict__", dict(zip(names, from_row(row), strict=True)))
        put(made, "__pydantic_fields_set__", {name for place, name in enumerate(names) if mask >> place & 1})
        put(made, "__pydantic_extra__", None)
        put(made, "__pydantic_private__", None)
        return made

    return read
