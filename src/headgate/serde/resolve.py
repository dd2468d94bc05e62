"""Finds the serializer of values for a type annotation or for a stored description."""

from __future__ import annotations

import enum
import types
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.common.plain_data import Description, mapping_in, mappings_in, text_in
from headgate.common.stored_as import AvroMark, JsonMark, StoredAs, avro
from headgate.serde.codecs.arrays import array_form, foreign_form
from headgate.serde.codecs.avro_schemas import avro_form
from headgate.serde.codecs.containers import dict_form, sequence_form, tuple_form
from headgate.serde.codecs.dynamic import DynamicSerializer
from headgate.serde.codecs.json_text import json_form
from headgate.serde.codecs.pickled import holds_pickle, pickled_form
from headgate.serde.codecs.primitives import ANY, BY_KIND, PRIMITIVES, enum_form
from headgate.serde.codecs.protobuf import is_message, message_form
from headgate.serde.codecs.record_classes import model_form, record_form
from headgate.serde.codecs.type_codec import Form, FormSerializer
from headgate.serde.codecs.unions import literal_form, union_form
from headgate.serde.described_snapshot import register
from headgate.serde.evolution.older_shapes import judge_description, reading_serializer
from headgate.serde.logical_names import class_named, logical_name
from headgate.serde.serializer import AnySerializer, TypeSerializer
from headgate.serde.verdicts import Compatibility

T = TypeVar("T")
V = TypeVar("V")


def serializer_for(hint: Any, where: str = "a value") -> AnySerializer:
    """Return the serializer of values annotated with `hint`.

    Args:
        hint: a type, or anything else that stands in an annotation; ``Any`` gives the self-describing codec
            for plain values (numbers, text, dates, containers of these).
        where: whose annotation it is, for the error.

    Raises:
        UsageError: no serializer is known for the type.

    Example:
        >>> counts = serializer_for(dict[str, int])
        >>> counts.decode(counts.encode({"a": 1})), counts.describe()["kind"], counts.immutable
        ({'a': 1}, 'dict', False)
    """
    if hint is Any:
        return DynamicSerializer()
    try:
        form = _form(hint, ())
        # `Any | None` and the like: the same description, so it must be the same bytes.
        return DynamicSerializer() if form is ANY else FormSerializer(form, (serializer_for, (hint,)))
    except UsageError as error:
        raise UsageError(f"{where} is declared as {_shown(hint)}: {error}") from None


def record_serializer(hint: Hint | None) -> AnySerializer | None:
    """Return the serializer of records of a class with fields; None: the self-describing codec has to serve.

    `hint` is the declared type of a stream's records. None also where values would be pickled: records in
    flight are part of unaligned checkpoints, so none of them is pickled by an annotation.
    """
    try:
        has_fields = isinstance(hint, type) and (is_message(hint) or get_type_hints(hint))
    except (NameError, TypeError):
        return None
    return composite_serializer(hint) if has_fields else None


def composite_serializer(hint: Hint | None) -> AnySerializer | None:
    """Return the serializer of a declared type, such as a union, a tuple of record classes, or an Enum.

    None for values that would be pickled, or have no serializer.
    """
    if hint is None or hint is Any:
        return None
    try:
        found = serializer_for(hint)
    except (UsageError, NameError, TypeError):
        return None  # fields of no known serializer, or annotations that name nothing here
    return None if holds_pickle(found.describe()) else found


def _form(hint: Hint, outer: tuple[type, ...]) -> Form:
    """Return the codec (form) of an annotation; `outer` are the record classes that it is part of."""
    known = PRIMITIVES.get(hint) if _hashable(hint) else None
    if known is not None:
        return known
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(args[0], args[1:], outer)
    supertype = getattr(hint, "__supertype__", hint)  # of a NewType
    if supertype is not hint:
        return _form(supertype, outer)
    if origin in (Union, types.UnionType):
        return ANY if Any in args else union_form([_form(member, outer) for member in args])
    if origin is Literal:
        return _literal(args, outer)
    if isinstance(origin, type):  # not an alias with parameters
        return _generic(hint, origin, args, outer)
    if isinstance(hint, type):
        return _class(hint, outer)
    if isinstance(hint, TypeVar):
        return ANY if hint.__bound__ is None else _form(hint.__bound__, outer)
    raise _unknown(hint)


def _annotated(hint: Hint, marks: tuple[V, ...], outer: tuple[type, ...]) -> Form:
    if avro in marks:
        raise UsageError("hg.avro stands without its schema; write hg.avro(schema)")
    chosen = [mark for mark in marks if isinstance(mark, StoredAs)]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(map(repr, chosen))} cannot both say how values are stored; keep one")
    if not chosen:
        return _form(hint, outer)
    (mark,) = chosen
    if isinstance(mark, AvroMark):
        return avro_form(hint, mark.schema)
    return json_form(_form(hint, outer)) if isinstance(mark, JsonMark) else pickled_form(hint)


def _generic(hint: Hint, origin: type, args: tuple[Any, ...], outer: tuple[type, ...]) -> Form:
    if not args and hint != tuple[()]:
        return _class(origin, outer)  # List and the like, as typing has them
    if origin in (list, set, frozenset):
        return sequence_form(origin, _form(args[0], outer))
    if origin is dict:
        return dict_form(_form(args[0], outer), _form(args[1], outer))
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return sequence_form(tuple, _form(args[0], outer))
        return tuple_form([_form(element, outer) for element in args])
    form = array_form(hint) or _of_generic_class(origin, args, outer)
    if form is None:
        raise _unknown(hint)
    return form


def _of_generic_class(origin: type, args: tuple[Hint, ...], outer: tuple[type, ...]) -> Form | None:
    names = getattr(origin, "__parameters__", ())
    if len(names) != len(args):
        return None
    given = dict(zip(names, args, strict=True))

    def resolve(hint: Any) -> Form:
        if isinstance(hint, TypeVar):
            hint = given.get(hint, hint)
        elif getattr(hint, "__parameters__", ()) and not isinstance(hint, type):
            hint = hint[tuple(given.get(name, name) for name in hint.__parameters__)]
        return _form(hint, (*outer, origin))

    return record_form(origin, resolve)


def _class(cls: type, outer: tuple[type, ...]) -> Form:
    if cls in (list, set, frozenset, tuple):
        return sequence_form(cls, ANY)
    if cls is dict:
        return dict_form(ANY, ANY)
    if issubclass(cls, enum.Enum):
        return enum_form(cls, logical_name(cls))
    if cls in outer:
        raise UsageError(f"{cls.__qualname__} contains itself; store it flat, or annotate the inner one Any")

    def resolve(inner: Hint) -> Form:
        return _form(inner, (*outer, cls))

    form = message_form(cls) or foreign_form(cls) or record_form(cls, resolve) or model_form(cls, resolve)
    if form is None:
        raise _unknown(cls)
    return form


def _literal(values: tuple[V, ...], outer: tuple[type, ...]) -> Form:
    kinds = dict.fromkeys(map(type, values))
    if any(issubclass(kind, enum.Enum) for kind in kinds):
        raise UsageError("a Literal of enumeration members is not supported; annotate the enumeration itself")
    return literal_form(values, [_form(kind, outer) for kind in kinds])


def _unknown(hint: Hint) -> UsageError:
    return UsageError(
        f"no serializer is known for {_shown(hint)}; use None, bool, int, float, str, bytes, list, tuple, "
        "set, frozenset, dict, a union of these, datetime types, Decimal, UUID, an Enum, a dataclass, "
        "NamedTuple, TypedDict, msgspec.Struct, attrs class or pydantic model, a Protobuf message, a NumPy "
        "scalar or array, an Arrow RecordBatch or Table, Any for plain values, or a format by name: "
        "Annotated[T, hg.json], hg.avro(schema) or, with its risks, hg.pickled"
    )


def _shown(hint: Hint) -> str:
    return hint.__qualname__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)


def _hashable(hint: Hint) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True


# -- stored descriptions


class _DescriptionRules:
    """The rules for described values that :mod:`described_snapshot` uses, by this module's serializers."""

    def serializer_of(self, description: Description) -> TypeSerializer[T]:
        return reading_serializer(description, serializer_for(_hint_of(description)))

    def reading(self, description: Description, new: TypeSerializer[T]) -> TypeSerializer[T]:
        return reading_serializer(description, new)

    def judge(self, description: Description, new: TypeSerializer[T]) -> Compatibility:
        return judge_description(description, new)


def _hint_of(description: Description) -> Hint:
    """Return an annotation whose serializer writes as described; its classes are imported by their names."""
    kind = text_in(description, "kind")
    if kind == "any":
        return Any
    if kind in BY_KIND:
        (cls,) = BY_KIND[kind].classes
        return cls
    if kind in _GENERIC:
        return _GENERIC[kind](description)
    if "name" in description:
        named: type = class_named(text_in(description, "name"))
        return named
    raise UsageError(f"a stored value of kind {kind} can only be read as the type that a program declares")


_GENERIC: Final[dict[str, Callable[[Description], Hint]]] = {
    "list": lambda d: list[_hint_of(mapping_in(d, "of"))],  # type: ignore[misc]
    "set": lambda d: set[_hint_of(mapping_in(d, "of"))],  # type: ignore[misc]
    "frozenset": lambda d: frozenset[_hint_of(mapping_in(d, "of"))],  # type: ignore[misc]
    "tuple_of": lambda d: tuple[_hint_of(mapping_in(d, "of")), ...],  # type: ignore[misc]
    "tuple": lambda d: tuple[tuple(map(_hint_of, mappings_in(d, "of")))],  # type: ignore[misc]
    "dict": lambda d: dict[_hint_of(mapping_in(d, "key")), _hint_of(mapping_in(d, "value"))],  # type: ignore[misc]
    "union": lambda d: reduce(or_, map(_hint_of, mappings_in(d, "of"))),
    "literal": lambda d: _hint_of(mapping_in(d, "of")),
}

register(_DescriptionRules())
