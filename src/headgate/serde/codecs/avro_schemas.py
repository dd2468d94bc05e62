"""Avro schemas: from a program's text to one canonical form, and to the form in which bytes are read.

The canonical form has full names, and of all attributes only those that a later program needs to read values.
In the expanded form every name is replaced by its definition, so that fastavro never has to look a name up.

What ``Annotated[T, hg.avro(schema)]`` stores is the value alone, without a container; the description has
the schema. Values are what fastavro reads: a record is a dict, an array a list.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import types
from collections.abc import Collection
from decimal import Decimal
from typing import Any, Final, TypeAlias, TypeVar, Union, get_origin, is_typeddict
from uuid import UUID

from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.common.plain_data import Json
from headgate.serde.codecs.type_codec import Form, copier, describe

T = TypeVar("T")

NAMED: Final = frozenset({"record", "enum", "fixed"})
LOGICAL: Final = ("logicalType", "precision", "scale")
Definition: TypeAlias = dict[str, Any]
"""A type with parameters, such as a record or an array, as the JSON object of the schema."""
Schema: TypeAlias = "str | list[Schema] | Definition"
"""A schema in the canonical or the expanded form: a name, alternatives, or a definition."""


def canonical(text: str) -> Schema:
    """Return the schema in a JSON text in canonical form: full names, and only what reading values needs.
    UsageError: it is no valid schema, is recursive or cannot be stored, or the package fastavro is missing.
    """
    fastavro = _fastavro()

    def parsed(schema: Schema) -> Schema:
        return _reduced(fastavro.parse_schema(_wrapped(schema))["fields"][0]["type"], "")

    try:
        found = parsed(json.loads(text))
        same = parsed(found) == found
    except UsageError:
        raise
    except Exception as error:  # fastavro raises whatever it stumbles over
        raise UsageError(
            f"hg.avro got no valid Avro schema ({type(error).__name__}: {error}); mend the schema"
        ) from None
    if not same:
        raise UsageError(
            "a type without namespace is used inside one that has a namespace, which Avro's text cannot say "
            "again; give it a namespace"
        )
    expanded(found)
    return found


def expanded(schema: Schema) -> Schema:
    """Return a canonical schema in which each name is replaced by its definition.
    UsageError if a type contains itself, or an array has items that take no bytes.
    """
    return _expand(schema, {}, ())


def name_of(schema: Schema) -> str:
    if isinstance(schema, list):
        return " | ".join(map(name_of, schema))
    if not isinstance(schema, dict):
        return str(schema)
    if schema["type"] in NAMED:
        return str(schema["name"])
    inner = schema.get("items", schema.get("values"))
    kind = schema.get("logicalType", schema["type"])
    return f"{kind} of {name_of(inner)}" if inner is not None else str(kind)


def defined(schema: Schema) -> Definition:
    """Return `schema` if it is a definition (a dict); TypeError for a type's name and a list (a union)."""
    if not isinstance(schema, dict):
        raise TypeError(f"got the schema {schema!r:.40}; expected a definition")
    return schema


def kind_of(schema: Schema) -> str:
    """Return the type of a schema without its parameters, such as "record"; "union" for a list of types."""
    if isinstance(schema, list):
        return "union"
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def logical_of(schema: Schema) -> tuple[Json, ...]:
    """Return a schema's logical type ("decimal"), precision and scale; None for each that it does not set."""
    return tuple(schema.get(name) for name in LOGICAL) if isinstance(schema, dict) else (None, None, None)


def hinted(schema: Schema) -> Definition:
    """Return an expanded schema as the one field of a record, which fastavro takes without parsing it again.

    A record is encoded as its fields one after the other, so the bytes are those of the value itself.
    """
    wrapper: Definition = _fastavro().parse_schema(_wrapped("null"))
    wrapper["fields"][0]["type"] = schema
    return wrapper


def _wrapped(schema: Schema) -> Definition:
    return {"type": "record", "name": "HeadgateValue", "fields": [{"name": "value", "type": schema}]}


def write(schema: Definition, value: T) -> bytes:
    """Return the Avro bytes of a value under a :func:`hinted` schema; ValueError if it does not fit."""
    out = io.BytesIO()
    try:
        _fastavro().schemaless_writer(out, schema, {"value": value}, strict=True, disable_tuple_notation=True)
    except Exception as error:  # as above
        raise ValueError(f"it does not fit the Avro schema: {type(error).__name__}: {error}") from None
    return out.getvalue()


def fits(schema: Definition, value: T) -> bool:
    """Return whether a value fits a :func:`hinted` schema; unlike the writer, take no bool for a number."""
    found: bool = _fastavro().validate({"value": value}, schema, raise_errors=False, strict=True)
    return found


def read(data: bytes, writer: Definition, reader: Definition | None = None) -> Any:
    """Return the value that `writer` wrote, as `reader` (None: the same) reads it; ValueError if it fails."""
    source = io.BytesIO(data)
    try:
        value = _fastavro().schemaless_reader(source, writer, reader)["value"]
    except Exception as error:  # as above
        raise ValueError(f"the bytes do not fit the Avro schema: {type(error).__name__}: {error}") from None
    if source.tell() != len(data):
        raise ValueError(f"{len(data) - source.tell()} bytes follow an Avro value")
    return value


def without(schema: Schema, names: Collection[str]) -> Schema:
    """Return an expanded schema without the attributes in `names`, in all its types and fields."""
    if isinstance(schema, list):
        return [without(one, names) for one in schema]
    if not isinstance(schema, dict):
        return schema
    bare = {name: value for name, value in schema.items() if name not in names}
    for name in bare.keys() & {"type", "items", "values"}:
        bare[name] = without(bare[name], names)
    if "fields" in bare:
        bare["fields"] = [without(field, names) for field in bare["fields"]]
    return bare


def _reduced(parsed: Schema, namespace: str) -> Schema:
    if isinstance(parsed, list):
        return [_reduced(one, namespace) for one in parsed]
    if not isinstance(parsed, dict):
        return parsed
    kind = parsed["type"]
    if kind not in NAMED:
        return _reduced_unnamed(parsed, kind, namespace)
    name = parsed["name"]
    namespace = name.rpartition(".")[0]
    found: Definition = {"type": kind, "name": name}
    if not namespace:
        found["namespace"] = ""
    if parsed.get("aliases"):
        prefix = f"{namespace}." if namespace else ""
        found["aliases"] = [alias if "." in alias else prefix + alias for alias in parsed["aliases"]]
    if kind == "record":
        found["fields"] = [_reduced_field(field, namespace) for field in parsed["fields"]]
    elif kind == "enum":
        found |= {key: parsed[key] for key in ("symbols", "default") if key in parsed}
    else:
        found |= {"size": parsed["size"], **_logical_type(parsed)}
    return found


def _reduced_unnamed(parsed: Definition, kind: str, namespace: str) -> Schema:
    if kind == "array":
        return {"type": kind, "items": _reduced(parsed["items"], namespace)}
    if kind == "map":
        return {"type": kind, "values": _reduced(parsed["values"], namespace)}
    logical = _logical_type(parsed)
    return {"type": kind, **logical} if logical else kind


def _reduced_field(field: Definition, namespace: str) -> Definition:
    found = {"name": field["name"], "type": _reduced(field["type"], namespace)}
    return found | {key: field[key] for key in ("default", "aliases") if key in field}


def _logical_type(parsed: Definition) -> Definition:
    # Avro says to ignore a logical type that the library lacks.
    if f"{parsed['type']}-{parsed.get('logicalType')}" not in _fastavro().read.LOGICAL_READERS:
        return {}
    return {name: parsed[name] for name in LOGICAL if name in parsed}


def _expand(schema: Schema, names: dict[str, Schema], outer: tuple[str, ...]) -> Schema:
    if isinstance(schema, list):
        return [_expand(one, names, outer) for one in schema]
    if not isinstance(schema, dict):
        if schema in outer:
            # fastavro reads and writes such values on the C stack, which ends the worker when they are deep.
            raise UsageError(f"Avro type {schema} contains itself; store it flat, as an array with places")
        return names.get(schema, schema)
    found = dict(schema)
    if "items" in schema:
        found["items"] = _expand(schema["items"], names, outer)
        if _takes_no_bytes(found["items"]):
            # A damaged count would not be noticed before memory is full.
            raise UsageError(
                f"an Avro array of {name_of(found['items'])} holds nothing but its length; store an int"
            )
    if "values" in schema:
        found["values"] = _expand(schema["values"], names, outer)
    if "fields" in schema:
        inside = (*outer, schema["name"])
        found["fields"] = [
            {**field, "type": _expand(field["type"], names, inside)} for field in schema["fields"]
        ]
    if schema["type"] in NAMED:
        names[schema["name"]] = found
    return found


def _takes_no_bytes(schema: Schema) -> bool:
    kind = kind_of(schema)
    if kind == "record":
        return all(_takes_no_bytes(field["type"]) for field in defined(schema)["fields"])
    return kind == "null" or (kind == "fixed" and bool(defined(schema)["size"] == 0))


def _fastavro() -> types.ModuleType:
    try:
        import fastavro
        import fastavro.read
    except ImportError:
        raise UsageError(
            "hg.avro needs the package fastavro; install headgate[avro] here and on all workers"
        ) from None
    return fastavro


# -- values

_CLASSES: Final[dict[str, type]] = {
    "null": type(None), "boolean": bool, "int": int, "long": int, "float": float, "double": float,
    "bytes": bytes, "string": str, "fixed": bytes, "enum": str, "array": list, "map": dict,
    "record": dict,
}  # fmt: skip
_LOGICAL_CLASSES: Final[dict[str, type]] = {
    "timestamp-millis": dt.datetime, "timestamp-micros": dt.datetime,
    "local-timestamp-millis": dt.datetime, "local-timestamp-micros": dt.datetime, "date": dt.date,
    "time-millis": dt.time, "time-micros": dt.time, "decimal": Decimal, "uuid": UUID,
}  # fmt: skip


def avro_form(hint: Hint, schema_text: str) -> Form:
    """Return the codec of ``Annotated[hint, hg.avro(schema)]``, whose values are checked by a round trip.
    UsageError if the schema is bad, or its values are not of class `hint`.
    """
    schema = canonical(schema_text)
    tree = expanded(schema)
    classes = _classes(tree)
    _check_hint(hint, classes, name_of(schema))
    own = hinted(tree)

    def to_plain(value: T) -> bytes:
        data = write(own, value)
        back = read(data, own)
        if not _same(value, back):
            raise ValueError(
                f"it would come back from Avro as {back!r:.80}; make it what the schema can hold"
            )
        return data

    immutable = classes.isdisjoint((list, dict))
    return Form(
        name=f"avro {name_of(schema)}",
        description=describe("avro", name=name_of(schema), schema=schema),
        wire=bytes,
        to_plain=to_plain,
        from_plain=lambda data: read(data, own),
        classes=classes,
        guests=frozenset({int}) - classes if float in classes else frozenset(),
        immutable=immutable,
        copy=copier(immutable, False),
    )


def _classes(tree: Schema) -> frozenset[type]:
    if isinstance(tree, list):
        return frozenset().union(*map(_classes, tree))
    logical = logical_of(tree)[0]
    return frozenset({_LOGICAL_CLASSES.get(str(logical), _CLASSES[kind_of(tree)])})


def _check_hint(hint: Hint, classes: frozenset[type], name: str) -> None:
    cls = get_origin(hint) or hint
    if hint is Any or cls in (Union, types.UnionType) or not isinstance(cls, type) or is_typeddict(cls):
        return
    if any(issubclass(one, cls) for one in classes):
        return
    raise UsageError(
        f"values of the Avro schema {name} are {' or '.join(sorted(c.__name__ for c in classes))} and no "
        f"{cls.__qualname__}; annotate what they are, such as Annotated[dict, hg.avro(...)]"
    )


def _same(value: Any, back: Any) -> bool:
    if type(value) is not type(back):
        return {type(value), type(back)} <= {int, float} and bool(value == back)
    if isinstance(value, dict):
        return value.keys() == back.keys() and all(_same(value[key], back[key]) for key in value)
    if isinstance(value, list):
        return len(value) == len(back) and all(map(_same, value, back))
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(back)
    if isinstance(value, dt.datetime) and value.utcoffset() != back.utcoffset():
        return False
    return bool(value == back)
