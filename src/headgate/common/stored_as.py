"""Marks in annotations for values that are stored in another format than their type's own."""

from __future__ import annotations

import json as json_text
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headgate.common.errors import UsageError

Schema = Mapping[str, Any] | Sequence[Any] | str | os.PathLike[str]


class StoredAs:
    """Base of the marks that choose the format in which values are stored; they stand inside `Annotated`."""


@dataclass(frozen=True, slots=True, repr=False)
class AvroMark(StoredAs):
    """The mark that :func:`avro` makes; the schema is JSON text, so that annotations stay hashable."""

    schema: str

    def __repr__(self) -> str:
        parsed = json_text.loads(self.schema)
        name = parsed.get("name", parsed.get("type")) if isinstance(parsed, dict) else parsed
        return f"hg.avro({name!r})"


@dataclass(frozen=True, slots=True, repr=False)
class JsonMark(StoredAs):
    """Class of the mark :data:`json`: values are stored as JSON text."""

    def __repr__(self) -> str:
        return "hg.json"


@dataclass(frozen=True, slots=True, repr=False)
class PickleMark(StoredAs):
    """Class of the mark :data:`pickled`: values are stored as pickle."""

    def __repr__(self) -> str:
        return "hg.pickled"


json: Final = JsonMark()
"""``Annotated[T, hg.json]``: stored as JSON text, so that other tools read it as it lies there."""

pickled: Final = PickleMark()
"""``Annotated[T, hg.pickled]``: stored as pickle, for types of no other format; unpickling may run code."""


def avro(schema: Schema) -> object:
    """Mark values as stored in Avro's binary encoding; stands inside `Annotated`. Needs headgate[avro].

    Args:
        schema: an Avro schema as JSON text or as the dict or list that the text stands for, or the path of an
            ``.avsc`` file. The file is read here, also where workers import the module.

    Raises:
        UsageError: the file cannot be read, or the text is no JSON. Whether it is a schema is checked when
            the program is planned.

    Example:
        >>> from typing import Annotated
        >>> import headgate as hg
        >>> POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "double"}]}
        >>> class Last(hg.KeyedProcessFunction):
        ...     point: hg.ValueState[Annotated[dict, hg.avro(POINT)] | None] = hg.value_state()
        ...     def process(self, record, ctx):
        ...         self.point.value = {"x": record["x"]}
        ...         yield ctx.key
    """
    if isinstance(schema, os.PathLike) or (isinstance(schema, str) and schema.endswith(".avsc")):
        return AvroMark(_compact(_file_text(Path(schema)), f"the Avro schema in {os.fspath(schema)!r}"))
    if isinstance(schema, str):
        # A bare name such as "long" is a schema, too, though it is no JSON text.
        return AvroMark(json_text.dumps(schema) if schema.isidentifier() else _compact(schema, "hg.avro()"))
    try:
        return AvroMark(json_text.dumps(schema, separators=(",", ":")))
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"hg.avro() got a schema of type {type(schema).__name__} that is no JSON ({error}); give it "
            "text, the dict or list that the text stands for, or the path of an .avsc file"
        ) from None


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the Avro schema {str(path)!r} cannot be read ({error}); give a path that driver and workers "
            "both have, such as one beside the program: Path(__file__).with_name(...)"
        ) from None


def _compact(text: str, what: str) -> str:
    try:
        return json_text.dumps(json_text.loads(text), separators=(",", ":"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is no JSON ({error}); expected an Avro schema as JSON text") from None
