"""Reading Avro values of an older schema: Avro's rules of resolution, judged before anything is read.

One walk over the writer's and the reader's schema gives the judgement and two schemas for fastavro. In these
everything that was matched has one name and the same place in both, so that fastavro has nothing to decide:
it matches names without their namespaces, and alternatives in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, Final

from headgate.common.errors import UsageError
from headgate.common.plain_data import Description, Json, text_in
from headgate.serde.codecs.avro_schemas import (
    LOGICAL,
    NAMED,
    Definition,
    Schema,
    defined,
    expanded,
    fits,
    hinted,
    kind_of,
    logical_of,
    name_of,
    read,
    without,
    write,
)
from headgate.serde.codecs.type_codec import Convert, Form
from headgate.serde.evolution.readings import PartRefused, Reading, Refused, stored_sources
from headgate.serde.verdicts import AfterMigration, Reconfigured

_PROMOTED: Final[Mapping[str, tuple[str, ...]]] = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
"""The types that a type may be read as, the nearest first."""
_PARTS: Final = {"array": "items", "map": "values"}
_ORDER: Final = ("int", "long", "float", "double")


def evolve_avro(stored: Description, new: Form) -> Reading:
    """Return how Avro values of description `stored` (with the writer's schema) are read as type `new`.
    The verdict has the changes. Refused if `new` is no Avro type, or Avro's rules of resolution do not allow
    the reading of every value that may be stored.
    """
    if new.description["kind"] != "avro":
        raise Refused(f"was Avro {text_in(stored, 'name')} and is {new.name}; keep hg.avro in the annotation")
    try:
        writer, reader = (expanded(_schema_in(one)) for one in (stored, new.description))
    except UsageError as error:
        raise Refused(str(error)) from None
    resolution = _Resolution()
    written, wanted = resolution.of(writer, reader)
    if _layout(writer) == _layout(reader):
        change = f"defaults or aliases of {text_in(new.description, 'name')} changed"
        return Reading(Reconfigured((change,)), bytes, new.from_plain)
    convert = _converter(hinted(written), hinted(wanted), hinted(reader) if resolution.fills else None)
    return Reading(AfterMigration(tuple(resolution.changes)), bytes, convert)


def _converter(writer: Definition, reader: Definition, own: Definition | None) -> Convert:
    if own is None:
        return lambda data: read(data, writer, reader)
    # A default is one object to fastavro; written and read once more, each value has its own.
    return lambda data: read(write(own, read(data, writer, reader)), own)


def _schema_in(description: Description) -> Schema:
    found = description["schema"]
    if not isinstance(found, str | list | dict):
        raise TypeError(f"got the schema {found!r:.40}; expected a name, alternatives or a definition")
    return found  # it came out of msgpack as the dicts and lists that it was


class _Resolution:
    """Resolves a writer's schema against a reader's, both expanded, and collects the changes."""

    def __init__(self) -> None:
        self.changes: list[str] = []  # what differs, in words
        self.fills = False  # whether a default takes the place of what was not stored
        self._numbers = count()

    def of(self, writer: Schema, reader: Schema) -> tuple[Schema, Schema]:
        """Return both schemas as fastavro gets them; all that was matched has one name and place in both.
        What differs is added to `changes`. Refused if the reader's schema cannot take all of the writer's
        values; PartRefused if that is so in a part of them.
        """
        if isinstance(writer, list):
            return self._alternatives(writer, reader)
        if isinstance(reader, list):
            self.changes.append(f"{name_of(writer)} became {name_of(reader)}")
            return self.of(writer, _alternative(writer, reader))
        kind = kind_of(writer)
        if kind != kind_of(reader):
            return self._promoted(writer, reader)
        if logical_of(writer) != logical_of(reader):
            raise Refused(
                f"was {_described(writer)} and is {_described(reader)}; a logical type may not change"
            )
        if kind in NAMED:
            return self._named(defined(writer), defined(reader))
        part = _PARTS.get(kind)
        if part is None:
            return writer, reader
        written, wanted = self.of(defined(writer)[part], defined(reader)[part])
        return {"type": kind, part: written}, {"type": kind, part: wanted}

    def _promoted(self, writer: Schema, reader: Schema) -> tuple[Schema, Schema]:
        was, now = kind_of(writer), kind_of(reader)
        if now not in _PROMOTED.get(was, ()) or any(logical_of(writer)) or any(logical_of(reader)):
            narrowed = was in _PROMOTED.get(now, ())
            why = "; a type may become wider, not narrower" if narrowed else ""
            raise Refused(f"was {_described(writer)} and is {_described(reader)}{why}")
        self.changes.append(f"{was} became {now}")
        return writer, reader

    def _alternatives(self, writer: list[Schema], reader: Schema) -> tuple[Schema, Schema]:
        if not isinstance(reader, list) or name_of(writer) != name_of(reader):
            self.changes.append(f"{name_of(writer)} became {name_of(reader)}")
        pairs = []
        for one in writer:
            try:
                target = _alternative(one, reader) if isinstance(reader, list) else reader
                pairs.append(self.of(one, target))
            except PartRefused:
                raise
            except Refused as refused:
                raise Refused(
                    f"{name_of(one)} may be stored and has no place in {name_of(reader)}, which must stay "
                    f"allowed ({refused.why})"
                ) from None
        targets: list[Schema] = []
        for _, wanted in pairs:
            if wanted not in targets:
                targets.append(wanted)
        targets.sort(key=lambda one: _ORDER.index(kind_of(one)) if kind_of(one) in _ORDER else len(_ORDER))
        for written, wanted in pairs:
            if next(one for one in targets if _matches(written, one)) != wanted:
                raise Refused(
                    f"in {name_of(writer)} text and bytes cannot be told apart while something else in it "
                    "changes; leave the other alternatives as they were"
                )
        return [written for written, _ in pairs], targets

    def _named(self, writer: Definition, reader: Definition) -> tuple[Schema, Schema]:
        if not _same_name(writer, reader):
            raise Refused(
                f"was {name_of(writer)} and is {name_of(reader)}; if it is the same, give the new one "
                f'"aliases": ["{name_of(writer)}"]'
            )
        if writer["name"] != reader["name"]:
            self.changes.append(f"{writer['name']} became {reader['name']}")
        name = f"n{next(self._numbers)}"
        if writer["type"] == "record":
            head = {"type": "record", "name": name}
            written, wanted = self._fields(writer, reader)
            return {**head, "fields": written}, {**head, "fields": wanted}
        if writer["type"] == "fixed":
            if writer["size"] != reader["size"]:
                raise PartRefused(f"{reader['name']} had {writer['size']} bytes and has {reader['size']}")
        else:
            self._symbols(writer, reader)
        return {**writer, "name": name}, {**reader, "name": name}

    def _symbols(self, writer: Definition, reader: Definition) -> None:
        removed = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
        if removed and reader.get("default") not in reader["symbols"]:
            raise PartRefused(
                f"enum {reader['name']} has no {', '.join(removed)} any more, which may be stored, and no "
                "default; keep the symbol, or give the enum a default"
            )
        if writer["symbols"] != reader["symbols"]:
            self.changes.append(f"symbols of {reader['name']} changed")

    # -- records

    def _fields(self, writer: Definition, reader: Definition) -> tuple[list[Definition], list[Definition]]:
        stored = {field["name"]: field for field in writer["fields"]}
        aliases = [(field["name"], field.get("aliases", ())) for field in reader["fields"]]
        sources = stored_sources(stored, aliases, reader["name"])
        wanted: list[Definition] = []
        types: dict[str, tuple[str, Schema]] = {}
        for field, source in zip(reader["fields"], sources, strict=True):
            if source is None:
                wanted.append(self._added(field, reader["name"]))
                continue
            written, target = self._field(stored[source], field, reader["name"])
            types[source] = (field["name"], written)
            wanted.append({"name": field["name"], "type": target})
        removed = [name for name in stored if name not in types]
        self.changes += [f"field {name!r} of {reader['name']} was removed" for name in removed]
        if list(types) != [name for name in stored if name in types]:
            self.changes.append(f"the fields of {reader['name']} are in another order")
        # No field of Avro can have such a name, so nothing takes it.
        unread = {name: (f"-{name}", stored[name]["type"]) for name in removed}
        names = types | unread
        return [{"name": names[name][0], "type": names[name][1]} for name in stored], wanted

    def _field(self, stored: Definition, field: Definition, name: str) -> tuple[Schema, Schema | None]:
        if stored["name"] != field["name"]:
            self.changes.append(f"field {stored['name']!r} of {name} became {field['name']!r}")
        if _layout(stored["type"]) == _layout(field["type"]):
            # As it was written: fastavro then resolves nothing in it.
            return stored["type"], None
        where = f"field {field['name']!r} of {name}"
        before = len(self.changes)
        try:
            found = self.of(stored["type"], field["type"])
        except Refused as refused:
            raise PartRefused(f"{where}: {refused.why}") from None
        self.changes[before:] = [f"{where}: {change}" for change in self.changes[before:]]
        return found

    def _added(self, field: Definition, name: str) -> Definition:
        if "default" not in field:
            raise PartRefused(
                f"field {field['name']!r} was added to {name} without a default, and stored records have no "
                "value for it; give it a default, or an alias if it had another name"
            )
        self.changes.append(f"field {field['name']!r} of {name} was added")
        self.fills = True
        try:
            return {"name": field["name"], "type": None, "default": _default(field["type"], field["default"])}
        except ValueError as error:
            raise PartRefused(
                f"field {field['name']!r} was added to {name} with a default of another type: {error}"
            ) from None


def _default(schema: Schema, given: Json) -> Any:
    bare = without(schema, LOGICAL)
    return read(write(hinted(bare), _raw(bare, given)), hinted(schema))


def _raw(schema: Schema, given: Any) -> Any:
    kind = kind_of(schema)
    try:
        if isinstance(schema, list):
            return _raw_of_union(schema, given)
        if kind in ("bytes", "fixed"):
            return given.encode("latin-1")
        if kind == "array":
            return [_raw(defined(schema)["items"], one) for one in given]
        if kind == "map":
            return {name: _raw(defined(schema)["values"], one) for name, one in given.items()}
        if kind == "record":
            fields = ((field, field["name"]) for field in defined(schema)["fields"])
            return {
                name: _raw(field["type"], given[name] if name in given else field["default"])
                for field, name in fields
            }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{given!r:.40} is no {name_of(schema)} ({type(error).__name__}: {error})") from None
    if kind in ("float", "double") and type(given) is int:
        return float(given)
    return given


def _raw_of_union(schema: list[Schema], given: Any) -> Any:
    # Avro 1.12 allows a default of any alternative, older ones only of the first.
    for one in schema:
        try:
            raw = _raw(one, given)
            if fits(hinted(one), raw):
                return raw
        except ValueError:
            continue
    raise ValueError(f"{given!r:.40} is none of {name_of(schema)}")


def _alternative(writer: Schema, reader: list[Schema]) -> Schema:
    for one in reader:
        if kind_of(one) == kind_of(writer) and (
            kind_of(one) not in NAMED or _same_name(defined(writer), defined(one))
        ):
            return one
    kinds = {kind_of(one): one for one in reader}
    for kind in _PROMOTED.get(kind_of(writer), ()):
        if kind in kinds:
            return kinds[kind]
    raise Refused(f"{name_of(writer)} is none of {name_of(reader)}")


def _same_name(writer: Definition, reader: Definition) -> bool:
    return writer["name"] in (reader["name"], *reader.get("aliases", ()))


def _matches(writer: Schema, reader: Schema) -> bool:
    was, now = kind_of(writer), kind_of(reader)
    if was == now == "union":
        return True
    if was == now and was in NAMED:
        return bool(defined(writer)["name"] == defined(reader)["name"])
    if was == now and was in _PARTS:
        return _matches(defined(writer)[_PARTS[was]], defined(reader)[_PARTS[was]])
    return was == now or now in _PROMOTED.get(was, ())


def _described(schema: Schema) -> str:
    logical = [str(part) for part in logical_of(schema) if part is not None]
    return f"{kind_of(schema)} ({', '.join(logical)})" if logical else name_of(schema)


def _layout(schema: Schema) -> Schema:
    return without(schema, ("aliases", "default"))
