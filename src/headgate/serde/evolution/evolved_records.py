"""Reading records of an older shape: fields are found by name, whatever kind of class it was and is.

Each field of the new class has a taker, which takes the field's value from the stored record and converts it,
or makes the default. Stored fields without a taker are skipped undecoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, NotRequired, TypedDict, TypeVar

import msgspec

from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.common.plain_data import Description, mapping_in, text_in, texts_in
from headgate.serde.codecs.primitives import ANY
from headgate.serde.codecs.record_classes import absent, dict_builder
from headgate.serde.codecs.type_codec import Constant, Convert, Field, Form, FormSerializer, Record
from headgate.serde.evolution.readings import PartRefused, Reading, Refused, prefixed, stored_sources
from headgate.serde.verdicts import AfterMigration, AsIs, Compatibility, combined

V = TypeVar("V")

RECORDS: Final = frozenset({"dataclass", "attrs", "struct", "namedtuple", "typeddict"})

Evolve = Callable[[Description, Form], Reading]


def evolve_record(stored: Description, new: Form, evolve: Evolve) -> Reading:
    """Return how stored records are read as `new`, the codec of a record class or Any; or Refused.
    Fields are found by their names and aliases and judged by `evolve`. A removed field is skipped, an added
    one gets its default; without one the reading is refused.
    """
    record = _as_dict(stored) if new is ANY and stored["kind"] == "typeddict" else new.record
    name = text_in(stored, "name")
    if record is None:
        why = f"was the record {name} and is {new.name}"
        raise Refused(why if new is not ANY else f"{why}, which takes plain values only")
    if name not in record.names:
        raise Refused(
            f"was the record {name} and is {record.names[0]}; if it is the same, mark it with "
            f"@hg.formerly({name!r})"
        )
    aliases = [(field.name, field.former) for field in record.fields]
    sources = stored_sources(mapping_in(stored, "fields"), aliases, record.names[0])
    pairs = list(zip(record.fields, sources, strict=True))
    readings = {
        source: _of_field(stored, source, field, record, evolve)
        for field, source in pairs
        if source is not None
    }
    takers = [
        _added(field, record) if source is None else _taker(stored, source, readings[source], field, record)
        for field, source in pairs
    ]
    parts = (found.verdict for found in readings.values())
    verdict = combined([_shape(stored, new, sources, record), *parts])
    return Reading(verdict, _wire(stored, readings), _converter(stored, takers, record.build))


def _as_dict(stored: Description) -> Record:
    names, required = list(mapping_in(stored, "fields")), texts_in(stored, "required")
    fields = tuple(Field(name, ANY, default=None if name in required else absent) for name in names)
    return Record((text_in(stored, "name"),), fields, dict_builder(names))


def _of_field(stored: Description, source: str, field: Field, record: Record, evolve: Evolve) -> Reading:
    where = f"field {field.name!r} of {record.names[0]}"
    return prefixed(where, lambda: evolve(mapping_in(mapping_in(stored, "fields"), source), field.form))


def _added(field: Field, record: Record) -> Convert:
    default = field.default
    if default is None:
        raise PartRefused(
            f"field {field.name!r} was added to {record.names[0]} without a default, and stored records have "
            "no value for it; give it a default, or hg.alias(...) if it had another name"
        )
    if isinstance(default, Constant):
        try:
            FormSerializer(field.form).encode_checked([default()])
        except UsageError as error:
            raise PartRefused(
                f"field {field.name!r} was added to {record.names[0]} with a default of another type: {error}"
            ) from None
    return lambda _: default()


def _taker(stored: Description, source: str, reading: Reading, field: Field, record: Record) -> Convert:
    if source in _optional_keys(stored):
        return _optional_taker(source, reading.convert, field, record)
    at = source if stored["kind"] == "typeddict" else list(mapping_in(stored, "fields")).index(source)
    convert = reading.convert
    if convert is None:
        return itemgetter(at)
    return lambda plain: convert(plain[at])


def _optional_taker(source: str, convert: Convert | None, field: Field, record: Record) -> Convert:
    default = field.default
    if default is None:
        raise PartRefused(
            f"field {field.name!r} of {record.names[0]} was NotRequired and must be there now; stored "
            "records may lack it, so give it a default or leave it NotRequired"
        )

    def take(plain: Mapping[str, V]) -> Any:
        if source not in plain:
            return default()
        return plain[source] if convert is None else convert(plain[source])

    return take


def _optional_keys(stored: Description) -> frozenset[str]:
    if stored["kind"] != "typeddict":
        return frozenset()
    return frozenset(mapping_in(stored, "fields")) - frozenset(texts_in(stored, "required"))


def _shape(stored: Description, new: Form, sources: list[str | None], record: Record) -> Compatibility:
    changes = []
    name, kind, kind_now = text_in(stored, "name"), text_in(stored, "kind"), text_in(new.description, "kind")
    if name != record.names[0]:
        changes.append(f"{name} became {record.names[0]}")
    if kind != kind_now:
        changes.append(f"{record.names[0]} was a {kind} and is a {kind_now}")
    for field, source in zip(record.fields, sources, strict=True):
        if source is None:
            changes.append(f"field {field.name!r} of {record.names[0]} was added")
        elif source != field.name:
            changes.append(f"field {source!r} of {record.names[0]} became {field.name!r}")
    kept = [source for source in sources if source is not None]
    names = list(mapping_in(stored, "fields"))
    removed = [name for name in names if name not in kept]
    changes += [f"field {name!r} of {record.names[0]} was removed" for name in removed]
    if kept != [name for name in names if name in kept]:
        changes.append(f"the fields of {record.names[0]} are in another order")
    if _required(stored) != _required(new.description):
        changes.append(f"{record.names[0]} requires other keys")
    return AfterMigration(tuple(changes)) if changes else AsIs()


def _required(description: Description) -> list[str]:
    return sorted(texts_in(description, "required")) if "required" in description else []


def _wire(stored: Description, readings: Mapping[str, Reading]) -> Hint:
    if stored["kind"] != "typeddict":
        wires = [
            readings[name].wire if name in readings else msgspec.Raw for name in mapping_in(stored, "fields")
        ]
        return tuple[tuple(wires)]  # type: ignore[misc]
    optional = _optional_keys(stored)
    keys = {
        name: NotRequired[reading.wire] if name in optional else reading.wire
        for name, reading in readings.items()
    }
    return TypedDict("Stored", keys)  # type: ignore[operator, no-any-return]


def _converter(stored: Description, takers: list[Convert], build: Convert) -> Convert:
    if stored["kind"] == "typeddict":
        return lambda plain: build([take(plain) for take in takers])
    size = len(mapping_in(stored, "fields"))

    def convert(plain: Sequence[V]) -> Any:
        # Rows of the tagged mode are not checked by msgspec.
        if len(plain) != size:
            raise ValueError(f"got {len(plain)} values, expected {size}")
        return build([take(plain) for take in takers])

    return convert
