"""Codec (:class:`Form`) of values that are stored as JSON text: ``Annotated[T, hg.json]``.

The text is what a reader of JSON expects: records are objects by field, enumerations their names. It is made
of the plain values of the inner type's serializer, and read back to them, by the inner type's description
alone. So text of an older type is read without its class, and evolves as the inner type does.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from headgate.common.decoders import json_decoder
from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.common.plain_data import Description, Json, mapping_in, mappings_in, named_mappings_in, text_in
from headgate.serde.codecs.dynamic import untag
from headgate.serde.codecs.temporal import (
    Moment,
    datetime_from_plain,
    datetime_to_plain,
    time_from_plain,
    time_to_plain,
)
from headgate.serde.codecs.type_codec import Convert, Form, describe, keep
from headgate.serde.codecs.unions import skip_none
from headgate.serde.descriptions import DIRECT, optional_place
from headgate.serde.evolution.readings import Reading, Refused

V = TypeVar("V")
W = TypeVar("W", dt.datetime, dt.time)

JSON: Final = "json"  # the kind in descriptions

_ROWS: Final = frozenset({"dataclass", "attrs", "struct", "namedtuple"})
_ARRAYS: Final = frozenset({"list", "set", "frozenset", "tuple_of"})
_SCALARS: Final[Mapping[str, frozenset[type]]] = {
    "none": frozenset({type(None)}),
    "bool": frozenset({bool}),
    "int": frozenset({int, bool}),
    "float": frozenset({float, int, bool}),
    "str": frozenset({str}),
    "enum": frozenset({str}),
    "flag": frozenset({int}),
    "decimal": frozenset({str}),
}
"""Classes of the plain values of each kind; JSON would also take a date as text and lose its type."""
_TEXT_KEYS: Final = frozenset({"str", "any", "enum"})


def json_form(inner: Form) -> Form:
    """Return the codec of ``Annotated[T, hg.json]``; `inner` is T's. UsageError if JSON cannot hold T.
    Values that JSON would change are refused when they are encoded.
    """
    shape = _shape(inner.description)
    to_inner = keep if inner.to_plain is None else inner.to_plain
    return Form(
        name=f"json[{inner.name}]",
        description=describe(JSON, of=inner.description),
        wire=str,
        to_plain=lambda value: msgspec.json.encode(shape.write(to_inner(value))).decode(),
        from_plain=_reader(shape, inner.wire, inner.from_plain),
        classes=inner.classes,
        guests=inner.guests,
        immutable=inner.immutable,
        copy=inner.copy,
        inner=(inner,),
    )


def evolve_json(stored: Description, new: Form, evolve: Callable[[Description, Form], Reading]) -> Reading:
    """Return how JSON text of description `stored` is read as codec `new`, its inner type by `evolve`.
    Refused if `new` is no ``hg.json`` type, or the inner types do not fit. The old class is not needed.
    """
    if new.description["kind"] != JSON:
        raise Refused(f"was JSON text and is {new.name}; keep hg.json in the annotation")
    of = mapping_in(stored, "of")
    inner = evolve(of, new.inner[0])
    convert = _reader(_shape(of), inner.wire, inner.convert)
    return Reading(inner.verdict, str, convert)


def _reader(shape: _Shape, wire: Hint, from_plain: Convert | None) -> Convert:
    # Through text once more: only this decoder leaves out what the type does not take of an older record.
    decode = json_decoder(wire).decode  # type: ignore[arg-type]  # a wire is a type

    def read(text: str) -> Any:
        try:
            plain = decode(msgspec.json.encode(shape.read(msgspec.json.decode(text))))
        except RecursionError:
            raise ValueError("the JSON text is nested too deeply") from None
        return plain if from_plain is None else from_plain(plain)

    return read


class _Shape(NamedTuple):
    """Conversions of one description's plain values to JSON and back; values that do not fit raise."""

    write: Convert
    read: Convert


def _shape(description: Description) -> _Shape:
    kind = text_in(description, "kind")
    if kind in _SCALARS:
        return _Shape(_scalar(_SCALARS[kind]), keep)
    if kind in _ARRAYS:
        element = _shape(mapping_in(description, "of"))
        return _Shape(_each(element.write), _each(element.read))
    if kind in _ROWS:
        return _object(named_mappings_in(description, "fields"))
    make = _BY_KIND.get(kind)
    if make is None:
        raise UsageError(
            f"hg.json cannot hold {kind} values; JSON-shaped are None, bool, int, float, str, Decimal, UUID, "
            "datetime types, an Enum, lists, tuples, sets, dicts with str keys, unions and records of these, "
            "and Any for what JSON itself has"
        )
    return make(description)


def _each(convert: Convert) -> Convert:
    return lambda values: [convert(value) for value in values]


def _object(fields: Mapping[str, Description]) -> _Shape:
    shapes = {name: _shape(inner) for name, inner in fields.items()}

    def write(row: Sequence[V]) -> dict[str, Json]:
        return {name: shape.write(value) for (name, shape), value in zip(shapes.items(), row, strict=True)}

    def read(found: Json) -> list[V]:
        if type(found) is not dict or found.keys() != shapes.keys():
            raise ValueError(f"expected a JSON object with {', '.join(shapes)}; got {found!r:.80}")
        return [shape.read(found[name]) for name, shape in shapes.items()]

    return _Shape(write, read)


def _typed_dict(description: Description) -> _Shape:
    shapes = {name: _shape(inner) for name, inner in named_mappings_in(description, "fields").items()}
    return _Shape(
        lambda entries: {name: shapes[name].write(value) for name, value in entries.items()},
        lambda found: {name: shapes[name].read(value) for name, value in found.items()},
    )


def _tuple(description: Description) -> _Shape:
    shapes = [_shape(inner) for inner in mappings_in(description, "of")]
    return _Shape(
        lambda row: [shape.write(value) for shape, value in zip(shapes, row, strict=True)],
        lambda found: [shape.read(value) for shape, value in zip(shapes, found, strict=True)],
    )


def _dict(description: Description) -> _Shape:
    key, value = text_in(mapping_in(description, "key"), "kind"), _shape(mapping_in(description, "value"))
    if key not in _TEXT_KEYS:
        raise UsageError(f"hg.json holds dicts with str keys only; got {key} keys, write them as text")
    if key == "str":
        return _Shape(
            lambda entries: {_text_key(name): value.write(entry) for name, entry in entries.items()},
            lambda found: {name: value.read(entry) for name, entry in found.items()},
        )

    def write(pairs: Iterable[tuple[V, V]]) -> dict[str, Json]:
        return {_text_key(name): value.write(entry) for name, entry in pairs}

    return _Shape(write, lambda found: [(name, value.read(entry)) for name, entry in found.items()])


def _union(description: Description) -> _Shape:
    members = mappings_in(description, "of")
    kinds = {text_in(member, "kind") for member in members}
    if kinds <= DIRECT:
        return _Shape(_scalar(frozenset().union(*(_SCALARS[kind] for kind in kinds))), keep)
    shapes, optional = [_shape(member) for member in members], optional_place(members)
    if optional is not None:
        return _Shape(skip_none(shapes[optional].write), skip_none(shapes[optional].read))

    def write(tagged: tuple[int, V]) -> list[Json]:
        place, value = tagged
        return [place, shapes[place].write(value)]

    def read(found: Sequence[Any]) -> tuple[int, V]:
        place, value = found
        if type(place) is not int or not 0 <= place < len(shapes):
            raise ValueError(f"expected the place of one of {len(shapes)} alternatives; got {place!r:.40}")
        return place, shapes[place].read(value)

    return _Shape(write, read)


def _moment(
    cls: type[W], from_plain: Callable[[Moment], W], to_plain: Callable[[W], Moment]
) -> Callable[[Description], _Shape]:
    """Return a maker of conversions between times and ISO text with the zone's key in brackets (RFC 9557)."""

    def read(text: str) -> Moment:
        iso, _, key = text.removesuffix("]").partition("[")
        value = cls.fromisoformat(iso)
        # An offset shows which of two equal wall clocks is meant; a zone shows it by its fold.
        return to_plain(_in_zone(value, ZoneInfo(key)) if key else value)

    def write(plain: Moment) -> str:
        value = from_plain(plain)
        key = getattr(value.tzinfo, "key", None)
        text = value.isoformat() if key is None else f"{value.isoformat()}[{key}]"
        if read(text) != plain:
            raise ValueError(f"{value!r} would not come back from its text {text!r}; give it in UTC")
        return text

    return lambda _: _Shape(write, read)


def _in_zone(value: W, zone: ZoneInfo) -> W:
    if isinstance(value, dt.time):
        return value.replace(tzinfo=zone)
    wall = [value.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    return wall[1] if wall[0].utcoffset() != value.utcoffset() == wall[1].utcoffset() else wall[0]


def _scalar(classes: frozenset[type]) -> Convert:
    def checked(value: V) -> V:
        if type(value) not in classes:
            raise TypeError(f"got {type(value).__qualname__}; JSON would lose its type")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"JSON has no {value}")
        return value

    return checked


_json_scalar: Final = _scalar(frozenset({type(None), bool, int, str, float}))


def _text_key(key: V) -> str:
    text = untag(key.code, memoryview(key.data)) if isinstance(key, msgspec.msgpack.Ext) else key
    if type(text) is not str:
        raise ValueError(f"JSON has text keys only; got {text!r:.40}")
    return text


def _any(value: Any) -> Json:
    kind = type(value)
    if kind is msgspec.msgpack.Ext:
        return _any(untag(value.code, memoryview(value.data)))
    if kind is list:
        return [_any(element) for element in value]
    if kind is dict:
        return {_text_key(key): _any(entry) for key, entry in value.items()}
    if value is None or kind in (bool, int, str, float):
        return _json_scalar(value)  # type: ignore[no-any-return]
    raise ValueError(f"JSON has no {kind.__name__}; declare its type, or make it text or a list")


_BY_KIND: Final[dict[str, Callable[[Description], _Shape]]] = {
    "any": lambda _: _Shape(_any, keep),
    "date": lambda _: _Shape(
        lambda day: dt.date.fromordinal(day).isoformat(), lambda text: dt.date.fromisoformat(text).toordinal()
    ),
    "datetime": _moment(dt.datetime, datetime_from_plain, datetime_to_plain),
    "time": _moment(dt.time, time_from_plain, time_to_plain),
    "timedelta": lambda _: _Shape(keep, keep),
    "dict": _dict,
    "literal": lambda description: _shape(mapping_in(description, "of")),
    "tuple": _tuple,
    "typeddict": _typed_dict,
    "union": _union,
    "uuid": lambda _: _Shape(lambda data: str(UUID(bytes=data)), lambda text: UUID(text).bytes),
}
