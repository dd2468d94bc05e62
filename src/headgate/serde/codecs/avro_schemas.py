"""Avro schemas: from what a program gives to one canonical form, and to the form in which bytes are read.

The canonical form has full names, and of all attributes only those that matter to values: what a later
program needs to read them. In the expanded form every name stands for its definition; fastavro reads with
it and never has to look a name up.
"""

from __future__ import annotations

import io
import json
import types
from typing import Any, Final, TypeAlias, TypeVar

from headgate.common.errors import UsageError
from headgate.common.plain_data import Json

T = TypeVar("T")

NAMED: Final = frozenset({"record", "enum", "fixed"})
_LOGICAL: Final = ("logicalType", "precision", "scale")
_WRAPPER: Final = "HeadgateValue"

Definition: TypeAlias = dict[str, Any]
"""A type with parameters, as the text of the schema gives it."""
Schema: TypeAlias = "str | list[Schema] | Definition"
"""A schema in the canonical or the expanded form: a name, alternatives, or a definition."""


def canonical(text: str) -> Schema:
    """The canonical form of a schema given as JSON text."""
    fastavro = _fastavro()
    try:
        given = {"type": "record", "name": _WRAPPER, "fields": [{"name": "value", "type": json.loads(text)}]}
        found = _reduced(fastavro.parse_schema(given)["fields"][0]["type"], "")
        again = {"type": "record", "name": _WRAPPER, "fields": [{"name": "value", "type": found}]}
        same = _reduced(fastavro.parse_schema(again)["fields"][0]["type"], "") == found
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
    """The same schema with every name replaced by its definition."""
    return _expand(schema, {}, ())


def name_of(schema: Schema) -> str:
    """What a schema is called in messages.

    Example:
        >>> name_of({"type": "fixed", "name": "shop.Id", "size": 4}), name_of(["null", "long"])
        ('shop.Id', 'null | long')
    """
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
    """A schema that must be a definition, not a name or alternatives."""
    if not isinstance(schema, dict):
        raise TypeError(f"got the schema {schema!r:.40}; expected a definition")
    return schema


def kind_of(schema: Schema) -> str:
    """The type of a schema without its parameters; "union" of a list."""
    if isinstance(schema, list):
        return "union"
    return str(schema["type"]) if isinstance(schema, dict) else str(schema)


def logical_of(schema: Schema) -> tuple[Json, ...]:
    """What a schema says of its values' meaning beyond their type."""
    return tuple(schema.get(name) for name in _LOGICAL) if isinstance(schema, dict) else (None, None, None)


def hinted(schema: Schema) -> Definition:
    """A schema as fastavro takes it without looking at it again: as the one field of a record.

    A record is encoded as its fields one after the other, so the bytes are those of the value itself.
    """
    wrapper: Definition = _fastavro().parse_schema(
        {"type": "record", "name": _WRAPPER, "fields": [{"name": "value", "type": "null"}]}
    )
    wrapper["fields"][0]["type"] = schema
    return wrapper


def write(schema: Definition, value: T) -> bytes:
    """The bytes of a value under a :func:`hinted` schema."""
    out = io.BytesIO()
    try:
        _fastavro().schemaless_writer(out, schema, {"value": value}, strict=True, disable_tuple_notation=True)
    except Exception as error:  # as above
        raise ValueError(f"it does not fit the Avro schema: {type(error).__name__}: {error}") from None
    return out.getvalue()


def fits(schema: Definition, value: T) -> bool:
    """Whether a value is of a :func:`hinted` schema; the writer would also take a bool for a number."""
    found: bool = _fastavro().validate({"value": value}, schema, raise_errors=False, strict=True)
    return found


def read(data: bytes, writer: Definition, reader: Definition | None = None) -> Any:
    """The value of bytes, resolved to the reader's schema if one is given; both :func:`hinted`."""
    source = io.BytesIO(data)
    try:
        value = _fastavro().schemaless_reader(source, writer, reader)["value"]
    except Exception as error:  # as above
        raise ValueError(f"the bytes do not fit the Avro schema: {type(error).__name__}: {error}") from None
    if source.tell() != len(data):
        raise ValueError(f"{len(data) - source.tell()} bytes follow an Avro value")
    return value


def without_logical(schema: Schema) -> Schema:
    """An expanded schema whose values are those that Avro's types have by themselves."""
    if isinstance(schema, list):
        return [without_logical(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    bare = {name: value for name, value in schema.items() if name not in _LOGICAL}
    for name in ("items", "values"):
        if name in bare:
            bare[name] = without_logical(bare[name])
    if "fields" in bare:
        bare["fields"] = [{**field, "type": without_logical(field["type"])} for field in bare["fields"]]
    return bare


def _reduced(parsed: Schema, namespace: str) -> Schema:
    """The canonical form of what fastavro parsed, in which all names are full."""
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
        found["aliases"] = [_full(alias, namespace) for alias in parsed["aliases"]]
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
    """The logical type, if values are read as one; an unknown one means nothing, as Avro says."""
    if f"{parsed['type']}-{parsed.get('logicalType')}" not in _fastavro().read.LOGICAL_READERS:
        return {}
    return {name: parsed[name] for name in _LOGICAL if name in parsed}


def _full(alias: str, namespace: str) -> str:
    return alias if "." in alias or not namespace else f"{namespace}.{alias}"


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
