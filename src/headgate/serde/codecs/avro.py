"""The form of values that are stored in Avro's binary encoding: ``Annotated[T, hg.avro(schema)]``.

What is stored is the value alone, without a container; the description holds the schema. Values are what
fastavro reads: a record is a dict, an array a list.
"""

from __future__ import annotations

import datetime as dt
import math
import types
from decimal import Decimal
from typing import Any, Final, TypeVar, Union, get_origin, is_typeddict
from uuid import UUID

from headgate.common.errors import UsageError
from headgate.serde.codecs.avro_schemas import (
    Schema,
    canonical,
    expanded,
    hinted,
    kind_of,
    logical_of,
    name_of,
    read,
    write,
)
from headgate.serde.codecs.type_codec import Annotation, Form, copier, describe

T = TypeVar("T")

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


def avro_form(hint: Annotation, schema_text: str) -> Form:
    """The form of ``Annotated[hint, hg.avro(schema)]``."""
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
    """The classes of a schema's values."""
    if isinstance(tree, list):
        return frozenset().union(*map(_classes, tree))
    logical = logical_of(tree)[0]
    return frozenset({_LOGICAL_CLASSES.get(str(logical), _CLASSES[kind_of(tree)])})


def _check_hint(hint: Annotation, classes: frozenset[type], name: str) -> None:
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
    """Whether nothing was lost on the way: a float of 32 bits, a zone, or the class of a value could be."""
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
