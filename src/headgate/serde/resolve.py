"""From a type annotation to the serializer of its values."""

from __future__ import annotations

import enum
import types
from typing import Annotated, Any, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from headgate.common.errors import UsageError
from headgate.common.stored_as import AvroMark, JsonMark, StoredAs, avro
from headgate.serde.codecs.arrays import array_form, foreign_form
from headgate.serde.codecs.avro import avro_form
from headgate.serde.codecs.containers import dict_form, sequence_form, tuple_form
from headgate.serde.codecs.dynamic import DynamicSerializer
from headgate.serde.codecs.json_text import json_form
from headgate.serde.codecs.models import model_form
from headgate.serde.codecs.pickled_values import holds_pickle, pickled_form
from headgate.serde.codecs.primitives import ANY, PRIMITIVES, enum_form
from headgate.serde.codecs.protobuf import is_message, message_form
from headgate.serde.codecs.record_classes import Resolve, logical_name, record_form
from headgate.serde.codecs.type_codec import Annotation, Form, FormSerializer
from headgate.serde.codecs.unions import literal_form, union_form
from headgate.serde.evolution.description_rules import DescriptionRules
from headgate.serde.rule_registry import register
from headgate.serde.serializer import TypeSerializer

V = TypeVar("V")


def serializer_for(hint: Any, where: str = "a value") -> TypeSerializer[Any]:
    """The serializer of values annotated with `hint`.

    Args:
        hint: a type, or anything else that stands in an annotation; ``Any`` gives the
            self-describing codec for plain values.
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
        # Any | None and the like: the same description, so it must be the same bytes.
        return DynamicSerializer() if form is ANY else FormSerializer(form, (serializer_for, (hint,)))
    except UsageError as error:
        raise UsageError(f"{where} is declared as {_shown(hint)}: {error}") from None


def record_serializer(hint: Annotation) -> TypeSerializer[Any] | None:
    """The serializer of records of a class with fields; None where the self-describing codec is used.

    Records on the way are part of unaligned checkpoints, so none of them is pickled by an annotation.

    Example:
        >>> import decimal
        >>> from typing import NamedTuple
        >>> class Point(NamedTuple):
        ...     x: int
        >>> record_serializer(Point).name, record_serializer(int), record_serializer(decimal.Context)
        ('Point', None, None)
    """
    if not isinstance(hint, type):
        return None
    try:
        found = serializer_for(hint) if is_message(hint) or get_type_hints(hint) else None
    except (UsageError, NameError, TypeError):
        return None  # Fields of no known serializer, or annotations that name nothing here.
    return None if found is None or holds_pickle(found.describe()) else found


def composite_serializer(hint: Annotation) -> TypeSerializer[Any] | None:
    """The serializer of a declared type without fields, such as a union, a tuple of record classes, an Enum.

    Example:
        >>> composite_serializer(tuple[str, int]).name, composite_serializer(object)
        ('tuple[str, int]', None)
    """
    if hint is None or hint is Any:
        return None
    try:
        found = serializer_for(hint)
    except (UsageError, NameError, TypeError):
        return None
    return None if holds_pickle(found.describe()) else found


def _form(hint: Annotation, outer: tuple[type, ...]) -> Form:
    """The form of a hint; `outer` are the record classes that it is part of."""
    known = PRIMITIVES.get(hint) if _hashable(hint) else None
    if known is not None:
        return known
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(args[0], args[1:], outer)
    if isinstance(hint, NewType):
        return _form(hint.__supertype__, outer)
    if origin in (Union, types.UnionType):
        return ANY if Any in args else union_form([_form(member, outer) for member in args])
    if origin is Literal:
        return _literal(args, outer)
    if origin is not None:
        return _generic(hint, origin, args, outer)
    if isinstance(hint, type):
        return _class(hint, outer)
    if isinstance(hint, TypeVar):
        return ANY if hint.__bound__ is None else _form(hint.__bound__, outer)
    raise _unknown(hint)


def _annotated(hint: Annotation, marks: tuple[V, ...], outer: tuple[type, ...]) -> Form:
    """The form that a mark chooses; other notes mean nothing here."""
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


def _generic(hint: Annotation, origin: Any, args: tuple[Any, ...], outer: tuple[type, ...]) -> Form:
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


def _of_generic_class(
    origin: Annotation, args: tuple[Annotation, ...], outer: tuple[type, ...]
) -> Form | None:
    """The form of a record class with type arguments, such as ``Pair[int]``."""
    names = getattr(origin, "__parameters__", ())
    if not isinstance(origin, type) or len(names) != len(args):
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
    form = message_form(cls) or foreign_form(cls)
    form = form or _record_form(cls, lambda inner: _form(inner, (*outer, cls)))
    if form is None:
        raise _unknown(cls)
    return form


def _record_form(cls: type, resolve: Resolve) -> Form | None:
    return record_form(cls, resolve) or model_form(cls, resolve)


def _literal(values: tuple[V, ...], outer: tuple[type, ...]) -> Form:
    kinds = dict.fromkeys(map(type, values))
    if any(issubclass(kind, enum.Enum) for kind in kinds):
        raise UsageError("a Literal of enumeration members is not supported; annotate the enumeration itself")
    return literal_form(values, [_form(kind, outer) for kind in kinds])


def _unknown(hint: Annotation) -> UsageError:
    return UsageError(
        f"no serializer is known for {_shown(hint)}; use None, bool, int, float, str, bytes, list, tuple, "
        "set, frozenset, dict, a union of these, datetime types, Decimal, UUID, an Enum, a dataclass, "
        "NamedTuple, TypedDict, msgspec.Struct, attrs class or pydantic model, a Protobuf message, a NumPy "
        "scalar or array, an Arrow RecordBatch or Table, Any for plain values, or a format by name: "
        "Annotated[T, hg.json], hg.avro(schema) or, with its risks, hg.pickled"
    )


def _shown(hint: Annotation) -> str:
    return hint.__qualname__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)


def _hashable(hint: Annotation) -> bool:
    try:
        hash(hint)
    except TypeError:
        return False
    return True


register(DescriptionRules(serializer_for))
