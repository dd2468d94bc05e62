"""Forms of records: dataclass, NamedTuple, TypedDict, msgspec.Struct and attrs classes.

A record is known by its logical name and its fields' names, and stored as the row of its fields'
values in the order of the description. Kinds of records are recognised by their marks and not by
`isinstance`, as user code may come with its own copy of attrs or msgspec.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable
from itertools import chain
from operator import attrgetter
from typing import (
    Annotated,
    Final,
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
from headgate.common.plain_data import Plain
from headgate.serde.codecs.containers import row_converter
from headgate.serde.codecs.defaults import NO_DEFAULT, Factory, defaults_of
from headgate.serde.codecs.primitives import exactly
from headgate.serde.codecs.type_codec import (
    Annotation,
    Constant,
    Convert,
    Field,
    Form,
    Record,
    copier,
    describe,
)
from headgate.serde.logical_names import logical_name as logical_name

T = TypeVar("T")
V = TypeVar("V")

Resolve = Callable[[Annotation], Form]


def record_form(cls: type, resolve: Resolve) -> Form | None:
    """The form of a record class; None when the class is no record."""
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
        names = list(cls.__struct_fields__)
        frozen = bool(cls.__struct_config__.frozen)
        return _record("struct", cls, names, frozen, _by_keyword(cls, names), resolve)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _record("namedtuple", cls, list(cls._fields), True, cls._make, resolve)  # type: ignore[attr-defined]
    return None


def _record(kind: str, cls: type, names: list[str], frozen: bool, build: Convert, resolve: Resolve) -> Form:
    name = logical_name(cls)
    hints = _hints(cls, name)
    forms = [resolve(_hint_of(hints, field, name)) for field in names]
    immutable = frozen and all(form.immutable for form in forms)
    to_row = row_converter([form.to_plain for form in forms])
    from_row = row_converter([form.from_plain for form in forms])
    read = _reader(names) if kind != "namedtuple" else tuple
    made = defaults_of(kind, cls)
    fields = tuple(
        Field(field, form, _aliases(hints[field]), _default(form, made.get(field, NO_DEFAULT)))
        for field, form in zip(names, forms, strict=True)
    )
    return Form(
        name=cls.__qualname__,
        description=describe(kind, name=name, fields=_fields(names, forms)),
        wire=tuple[tuple(form.wire for form in forms)],  # type: ignore[misc]
        to_plain=exactly(cls, lambda value: to_row(read(value))),
        from_plain=lambda plain: build(from_row(plain)),
        classes=frozenset({cls}),
        immutable=immutable,
        copy=copier(immutable, False),
        record=Record((name, *former_names(cls)), fields, build),
    )


def _default(form: Form, found: T) -> Callable[[], T] | None:
    if found is NO_DEFAULT:
        return None
    return found.make if isinstance(found, Factory) else Constant(found, form.copy)


def _aliases(hint: Annotation) -> tuple[str, ...]:
    """The earlier names that an annotation gives its field."""
    names: list[str] = []
    while get_origin(hint) in (Annotated, Required, NotRequired):
        hint, *marks = get_args(hint)
        names += chain.from_iterable(mark.names for mark in marks if isinstance(mark, Alias))
    return tuple(names)


def _fields(names: list[str], forms: list[Form]) -> dict[str, Plain]:
    return {field: form.description for field, form in zip(names, forms, strict=True)}


def _reader(names: list[str]) -> Convert:
    if not names:
        return lambda _: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda value: (get(value),)


def _filler(cls: type[T], names: list[str]) -> Callable[[Iterable[V]], T]:
    """Builds an instance field by field: an initialiser must not run again on values it has made."""
    put = object.__setattr__

    def fill(row: Iterable[V]) -> T:
        made = cls.__new__(cls)
        for name, value in zip(names, row, strict=True):
            put(made, name, value)
        return made

    return fill


def _by_keyword(cls: type, names: list[str]) -> Convert:
    return lambda row: cls(**dict(zip(names, row, strict=True)))


def _hints(cls: type, name: str) -> dict[str, Annotation]:
    try:
        return get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"the annotations of {name} name a type that cannot be found ({error}); "
            "define it at the top of its module, outside TYPE_CHECKING"
        ) from None


def _hint_of(hints: dict[str, Annotation], field: str, name: str) -> Annotation:
    if field not in hints:
        raise UsageError(f"field {field!r} of {name} has no annotation; annotate it, with Any if need be")
    return hints[field]


def _typed_dict_form(cls: type, resolve: Resolve) -> Form:
    name = logical_name(cls)
    hints = _hints(cls, name)
    forms = {field: resolve(_bare(hint)) for field, hint in hints.items()}
    required = frozenset(field for field, hint in hints.items() if _is_required(cls, field, hint))
    wires = {
        field: form.wire if field in required else NotRequired[form.wire] for field, form in forms.items()
    }
    fields = _fields(list(forms), list(forms.values()))
    known = forms.keys()

    def to_plain(value: dict[str, V]) -> dict[str, V]:
        if not (required <= value.keys() <= known):
            wrong = sorted(map(repr, value.keys() ^ known))
            raise ValueError(f"got other keys than {name} has: {', '.join(wrong)}")
        return _apply({field: form.to_plain for field, form in forms.items()}, value)

    record = tuple(
        Field(field, form, _aliases(hints[field]), None if field in required else absent)
        for field, form in forms.items()
    )
    return Form(
        name=cls.__qualname__,
        description=describe("typeddict", name=name, required=sorted(required), fields=fields),
        wire=TypedDict(cls.__name__, wires),  # type: ignore[operator]
        to_plain=exactly(dict, to_plain),
        from_plain=lambda plain: _apply({field: form.from_plain for field, form in forms.items()}, plain),
        classes=frozenset({dict}),
        immutable=False,
        copy=copier(False, all(form.immutable for form in forms.values())),
        record=Record((name, *former_names(cls)), record, dict_builder(list(forms))),
    )


ABSENT: Final = object()
"""In place of a value: the key of a dict that is not there."""


def absent() -> Hashable:
    """The default of a key that need not be there."""
    return ABSENT


def dict_builder(names: list[str]) -> Convert:
    """Builds a dict of a row of values, without those that are absent."""
    return lambda row: {name: value for name, value in zip(names, row, strict=True) if value is not ABSENT}


def _bare(hint: Annotation) -> Annotation:
    """The type without what a TypedDict says of its key; other marks stay."""
    while _says_required(hint) or (get_origin(hint) is Annotated and _says_required(get_args(hint)[0])):
        hint = get_args(hint)[0]
    return hint


def _says_required(hint: Annotation) -> bool:
    return get_origin(hint) in (Required, NotRequired)


def _is_required(cls: type, field: str, hint: Annotation) -> bool:
    # The class itself does not see the marks of annotations that are kept as text.
    while get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    mark = get_origin(hint)
    return mark is Required or (mark is not NotRequired and field in cls.__required_keys__)  # type: ignore[attr-defined]


def _apply(converts: dict[str, Convert | None], row: dict[str, V]) -> dict[str, V]:
    made = {}
    for field, value in row.items():
        convert = converts[field]
        made[field] = value if convert is None else convert(value)
    return made
