"""Reads values of an older shape: compares their stored description with the declared type.

The judgement and the reader come out of one walk over both, so that values are read in the way that was
judged. The old classes need not exist: the description alone describes the bytes, and each value is made of
the new type at once. Records are in `evolved_records`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sized
from functools import partial
from typing import Any, Final, TypeVar

from headgate.common.errors import UsageError
from headgate.common.former_names import former_names
from headgate.common.hints import Hint
from headgate.common.plain_data import Description, Plain, mapping_in, mappings_in, text_in, texts_in
from headgate.serde.codecs.containers import DIRECT_KEYS, dict_wire, each, row_converter_or_none
from headgate.serde.codecs.json_text import evolve_json
from headgate.serde.codecs.pickled import evolve_pickled
from headgate.serde.codecs.primitives import ANY, BY_KIND
from headgate.serde.codecs.type_codec import Convert, Form, FormSerializer, keep
from headgate.serde.codecs.unions import union_reading
from headgate.serde.evolution.evolved_avro import evolve_avro
from headgate.serde.evolution.evolved_protobuf import evolve_message
from headgate.serde.evolution.evolved_records import RECORDS, evolve_record
from headgate.serde.evolution.readings import PartRefused, Reading, Refused, changed, prefixed
from headgate.serde.evolution.undecodable import stored_description
from headgate.serde.logical_names import logical_name
from headgate.serde.serializer import Buffer, TypeSerializer
from headgate.serde.verdicts import (
    AfterMigration,
    AsIs,
    Compatibility,
    Incompatible,
    Reconfigured,
    combined,
    compare,
)

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

Reader = Callable[[Buffer, int], list[Any]]

_CONTAINERS: Final[dict[str, type]] = {"list": list, "set": set, "frozenset": frozenset, "tuple_of": tuple}
_EXACT_FLOATS: Final = 2**53  # up to which every int is a float
_PARTS: Final[dict[str, tuple[str, ...]]] = {"list": ("of",), "dict": ("key", "value")}


@stored_description()
def judge_description(stored: Description, current: TypeSerializer[T]) -> Compatibility:
    """Return the verdict on reading values of description `stored` with the built-in serializer `current`.
    "Incompatible" is returned, not raised. StorageError if the description is damaged.
    """
    try:
        return evolve(stored, form_of(current)).verdict
    except Refused as refused:
        return Incompatible(refused.why)


def reading_serializer(stored: Description, current: TypeSerializer[T]) -> TypeSerializer[T]:
    """Return a serializer that decodes batches of description `stored` as values of `current`'s type.
    It is `current` itself if nothing changed, else it only decodes. UsageError if the values do not fit.
    """
    try:
        reading = evolve(stored, form_of(current))
    except Refused as refused:
        raise UsageError(refused.why) from None
    if isinstance(reading.verdict, AsIs):
        return current
    return FormSerializer(Form(current.name, dict(stored), reading.wire, from_plain=reading.convert))


def holds_custom(stored: Description) -> bool:
    """Return whether a program's own serializer has written the values, or parts of lists or maps."""
    kind = text_in(stored, "kind")
    parts = [mapping_in(stored, name) for name in _PARTS.get(kind, ()) if stored.get(name) is not None]
    return kind == "custom" or any(part["kind"] == "custom" for part in parts)


def form_of(serializer: TypeSerializer[T]) -> Form:
    """Return the codec (form) of a built-in serializer; the dynamic serializer has that of Any."""
    return serializer.form if isinstance(serializer, FormSerializer) else ANY


def evolve(stored: Description, new: Form) -> Reading:
    """Return how values of description `stored` are read as those of codec `new`: verdict, type, converter.
    Nothing is read for it. Refused if the values, or a part of them, cannot become those of the new type.
    """
    if isinstance(compare(stored, new.description), AsIs):
        return Reading(AsIs(), new.wire, new.from_plain)
    if stored.get("version") != 1:
        raise Refused(f"was stored in version {stored.get('version')} of its format; this Headgate reads 1")
    kind = stored["kind"]
    if new is ANY:
        return _plain(stored)._replace(verdict=AfterMigration((f"{_shown(stored)} became Any",)))
    if kind == "union":
        return _from_union(stored, new)
    if kind == "literal":
        return _from_literal(stored, new)
    if new.description["kind"] == "union":
        return changed(_into(stored, new)[1], f"{_shown(stored)} became {new.name}")
    return _single(stored, new)


def _plain(stored: Description) -> Reading:
    if stored["kind"] == "union":
        return _from_union(stored, ANY)
    return evolve(mapping_in(stored, "of"), ANY) if stored["kind"] == "literal" else _single(stored, ANY)


def _single(stored: Description, new: Form) -> Reading:
    kind = text_in(stored, "kind")
    if kind in RECORDS:
        return evolve_record(stored, new, evolve)
    reader = _BY_KIND.get(kind)
    return _primitive(stored, new) if reader is None else reader(stored, new)


# -- unions and literals


def _from_union(stored: Description, new: Form) -> Reading:
    members = mappings_in(stored, "of")
    found = [_alternative(member, stored, new) for member in members]
    verdict = combined([reading.verdict for _, reading in found])
    same = [place for place, _ in found] == list(range(len(new.inner)))
    if new is not ANY and not same:
        verdict = combined([verdict, AfterMigration((f"{_shown(stored)} became {new.name}",))])
    wire, convert = union_reading(members, [reading for _, reading in found])
    return Reading(verdict, wire, convert)


def _alternative(member: Description, stored: Description, new: Form) -> tuple[int, Reading]:
    try:
        return _into(member, new)
    except PartRefused:
        raise
    except Refused as refused:
        raise Refused(
            f"was {_shown(stored)} and is {new.name}, but {_shown(member)} may be stored, which must stay "
            f"allowed ({refused.why})"
        ) from None


def _into(stored: Description, new: Form) -> tuple[int, Reading]:
    """Return place (-1: no union) and reading of the least changing alternative of `new`; else Refused."""
    if new.description["kind"] != "union":
        return -1, evolve(stored, new)
    found: list[tuple[int, Reading]] = []
    refusals: list[str] = []
    for place, member in enumerate(new.inner):
        try:
            found.append((place, evolve(stored, member)))
        except PartRefused:
            raise
        except Refused as refused:
            refusals.append(f"{member.name}: {refused.why}")
    if not found:
        raise Refused(f"{_shown(stored)} fits no alternative of {new.name} ({'; '.join(refusals)})")
    return min(found, key=lambda one: _GRAVITY.index(type(one[1].verdict)))


_GRAVITY: Final[tuple[type, ...]] = (AsIs, Reconfigured, AfterMigration)


def _from_literal(stored: Description, new: Form) -> Reading:
    if new.description["kind"] == "union":
        try:
            return changed(_into(stored, new)[1], f"{_shown(stored)} became {new.name}")
        except Refused:
            pass  # Its values may still fit as what they are: text, numbers.
    if new.description["kind"] != "literal":
        return changed(evolve(mapping_in(stored, "of"), new), f"{_shown(stored)} became {new.name}")
    kept = texts_in(new.description, "values")
    lost = [value for value in texts_in(stored, "values") if value not in kept]
    if lost:
        raise Refused(
            f"was {_shown(stored)} and is {new.name}, which allows {', '.join(lost)} no longer; keep what is "
            "stored among the values"
        )
    base = evolve(mapping_in(stored, "of"), new.inner[0])
    became = Reconfigured((f"{_shown(stored)} became {new.name}",))
    return base._replace(verdict=combined([base.verdict, became]))


# -- containers


def _sequence(stored: Description, new: Form) -> Reading:
    cls = _CONTAINERS[_same_kind(stored, new)]
    element = prefixed("elements", lambda: evolve(mapping_in(stored, "of"), _inner(new, 0)))
    make = None if cls is list and element.convert is None else each(cls, element.convert)
    if cls in (set, frozenset):
        make = _all_apart(each(cls, element.convert))
    return Reading(element.verdict, list[element.wire], make)  # type: ignore[name-defined]


def _tuple(stored: Description, new: Form) -> Reading:
    _same_kind(stored, new)
    of = mappings_in(stored, "of")
    if new is not ANY and len(of) != len(new.inner):
        raise Refused(
            f"was a tuple of {len(of)} and is one of {len(new.inner)}; a NamedTuple or dataclass "
            "could gain and lose fields"
        )
    parts = [
        prefixed(f"position {place}", partial(evolve, part, _inner(new, place)))
        for place, part in enumerate(of)
    ]
    wire: Hint = tuple[tuple(part.wire for part in parts)]  # type: ignore[misc]
    convert = row_converter_or_none([part.convert for part in parts])
    return Reading(combined([part.verdict for part in parts]), wire, convert)


def _dict(stored: Description, new: Form) -> Reading:
    _same_kind(stored, new)
    key = prefixed("keys", lambda: evolve(mapping_in(stored, "key"), _inner(new, 0)))
    value = prefixed("values", lambda: evolve(mapping_in(stored, "value"), _inner(new, 1)))
    direct = mapping_in(stored, "key")["kind"] in DIRECT_KEYS
    to_key, to_value = key.convert or keep, value.convert or keep

    def make(entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> dict[K, V]:
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        return {to_key(k): to_value(v) for k, v in pairs}

    verdict = combined([key.verdict, value.verdict])
    return Reading(verdict, dict_wire(direct, key.wire, value.wire), _all_apart(make))


def _all_apart(make: Convert) -> Convert:
    def checked(plain: Sized) -> Sized:
        made: Sized = make(plain)
        if len(made) != len(plain):
            raise UsageError(
                f"{len(plain)} stored elements of a set or keys of a dict became {len(made)}, because what "
                "told them apart was removed; keep that field"
            )
        return made

    return checked


def _same_kind(stored: Description, new: Form) -> str:
    kind, now = text_in(stored, "kind"), text_in(new.description, "kind")
    if new is not ANY and now != kind:
        now = f"{now} {new.name}" if "members" in new.description else new.name
        raise Refused(f"was {_shown(stored)} and is {now}")
    return kind


def _inner(new: Form, place: int) -> Form:
    return ANY if new is ANY else new.inner[place]


# -- single values


def _primitive(stored: Description, new: Form) -> Reading:
    own = BY_KIND.get(text_in(stored, "kind"))
    if own is None:
        verdict = compare(stored, new.description)  # such a kind only reads what is equal
        if stored["kind"] == new.description["kind"] and isinstance(verdict, Incompatible):
            raise Refused(verdict.why)
        raise Refused(f"was {_shown(stored)} and is {new.name}")
    if new is ANY:
        return Reading(AsIs(), own.wire, own.from_plain)
    if own.name == "int" and new.description["kind"] == "float":
        return Reading(AfterMigration(("int became float",)), own.wire, _to_float)
    raise Refused(f"was {own.name} and is {new.name}")


def _to_float(value: int) -> float:
    # Outside this range a float would be another number; the type takes ints as well.
    return float(value) if -_EXACT_FLOATS <= value <= _EXACT_FLOATS else value


def _enumeration(stored: Description, new: Form) -> Reading:
    was = text_in(stored, "name")
    if new is ANY:
        raise Refused(f"was the enumeration {was}, and Any takes plain values only")
    kind = _same_kind(stored, new)
    (cls,) = new.classes
    names = (logical_name(cls), *former_names(cls))
    if was not in names:
        raise Refused(
            f"was the enumeration {was} and is {names[0]}; if it is the same, mark it with "
            f"@hg.formerly({was!r})"
        )
    if kind == "flag":
        for name, value in mapping_in(stored, "members").items():
            _check_flag(cls, name, value)
    else:
        for name in texts_in(stored, "members"):
            _check_member(cls, name)
    return Reading(Reconfigured((f"members of {names[0]} changed",)), new.wire, new.from_plain)


def _check_member(cls: type[enum.Enum], name: str) -> None:
    # Also under a second name for a member, which is how one is renamed.
    if name not in cls.__members__:
        raise Refused(
            f"{cls.__qualname__} has no member {name} any more, which may be stored; keep it, or keep its "
            f"name for the new member: {name} = NEW_NAME"
        )


def _check_flag(cls: type[enum.Enum], name: str, stored: Plain) -> None:
    member = cls.__members__.get(name)
    if member is None or member.value != stored:
        now = "was removed" if member is None else f"is {member.value}"
        raise Refused(
            f"flag {name} of {cls.__qualname__} was {stored!r} and {now}; flags are stored by value, so "
            "keep it as it was"
        )


def _shown(stored: Description) -> str:
    kind = text_in(stored, "kind")
    if kind == "union":
        return " | ".join(map(_shown, mappings_in(stored, "of")))
    if kind == "literal":
        return f"Literal[{', '.join(texts_in(stored, 'values'))}]"
    if kind in BY_KIND:
        return BY_KIND[kind].name
    return f"{kind} {text_in(stored, 'name')}" if "name" in stored else kind.replace("_of", "")


_BY_KIND: Final[dict[str, Callable[[Description, Form], Reading]]] = {
    "list": _sequence,
    "set": _sequence,
    "frozenset": _sequence,
    "tuple_of": _sequence,
    "tuple": _tuple,
    "dict": _dict,
    "enum": _enumeration,
    "flag": _enumeration,
    "protobuf": evolve_message,
    "avro": evolve_avro,
    "json": lambda stored, new: evolve_json(stored, new, evolve),
    "pickle": evolve_pickled,
}
