"""The layout of a canonical table: what its rows are, and the description in its file's metadata.

A table is one state of one subtask, or all its timers, as a Parquet file. Rows are in the order of key
groups. All entries of a key stand together, in their order; row groups begin and end between keys.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

import msgspec

from headgate.api.declared.keyed_states import StateKind
from headgate.common.decoders import UNDECODABLE, converter
from headgate.common.errors import StorageError
from headgate.common.files.durable import json_dumps, json_loads
from headgate.common.plain_data import Description, Plain, mappings_in, text_in
from headgate.serde.arrow.stored_values import is_open
from headgate.serde.codecs.type_codec import describe
from headgate.state.stored.blob_format import KEY_SERIALIZER

VERSION: Final = 1
METADATA_KEY: Final = "headgate.state"
"""Key of the text of :class:`TableInfo` in the Parquet file's key-value metadata."""
TIMERS: Final = "timers:all"
"""Name of the table of all timers; no state can have it."""
TIMER_SECTIONS: Final[dict[str, str]] = {"timers:event": "event", "timers:processing": "processing"}
"""Section of a stored blob -> the value of the column `time_domain` for its timers."""

VALUE: Final = "value"
BYTES: Final = "bytes"
ELEMENT: Final = "element"
ENTRY: Final = "entry"
TIMER: Final = "timer"


class TableInfo(msgspec.Struct, frozen=True):
    """The description of a canonical table, which its Parquet file carries in its metadata.

    A row is the "value" of a key; an "element" of its list; an "entry" of its map; a "timer"; or, where a
    serializer of the user's own wrote it, the "bytes" of what a key has.
    """

    format: int
    name: str  # of the state, or TIMERS
    kind: str
    rows_are: str
    schema: Description  # kind and description of the serializers, as in every checkpoint
    key_schema: Description  # of the serializer of keys that are in no typed column
    key: Description | None  # of the keys in the typed column; None when there is no such column
    max_parallelism: int
    first_group: int
    last_group: int
    rows: int = 0

    def text(self) -> str:
        plain = msgspec.to_builtins(self, builtin_types=(bytes,))
        return json_dumps(plain, default=lambda value: {"base64": base64.b64encode(value).decode()})


def new_table_info(
    name: str, schema: Description, key: Description | None, max_parallelism: int, groups: tuple[int, int]
) -> TableInfo:
    """Return the description of a new table of one state, or of all timers, for a range of key groups.

    `key` describes the keys in the typed column; None: there is no such column.
    """
    return TableInfo(
        format=VERSION,
        name=name,
        kind=text_in(schema, "kind"),
        rows_are=row_of(schema),
        schema=schema,
        key_schema=KEY_SERIALIZER.describe(),
        key=key,
        max_parallelism=max_parallelism,
        first_group=groups[0],
        last_group=groups[1],
    )


_table_info: Final = converter(TableInfo)


def _bytes_from_json(value: dict[str, Plain]) -> Plain:
    return base64.b64decode(text_in(value, "base64")) if value.keys() == {"base64"} else value


def table_info(metadata: Mapping[bytes, bytes] | None) -> TableInfo:
    """Return the description in a Parquet file's key-value metadata; StorageError: it is no table of state,
    or of another version of the format, or the description does not decode.
    """
    text = (metadata or {}).get(METADATA_KEY.encode())
    if text is None:
        raise StorageError(
            f"a Parquet file has no metadata {METADATA_KEY!r}, so it holds no state; restore from the files "
            "of a savepoint as they were written"
        )
    try:
        info = json_loads(text, object_hook=_bytes_from_json)
        version = info["format"]
    except UNDECODABLE as error:
        raise StorageError(
            f"the metadata {METADATA_KEY!r} of a Parquet file does not decode ({error})"
        ) from None
    if version != VERSION:
        raise StorageError(
            f"a table of state has version {version!r} of its format; this Headgate reads {VERSION}"
        )
    try:
        return _table_info(info)
    except msgspec.ValidationError as error:
        raise StorageError(
            f"the metadata {METADATA_KEY!r} of a Parquet file does not decode ({error})"
        ) from None


def section_names(info: TableInfo) -> list[str]:
    """Return the names of a table's content as sections of a blob: its state's, or both kinds of timers."""
    return list(TIMER_SECTIONS) if info.rows_are == TIMER else [info.name]


def row_of(schema: Description) -> str:
    """Return what a row of the table of a state with the stored description `schema` is: "value", "element",
    "entry", "timer", or "bytes" where a serializer of the program's own wrote the values.
    """
    kind = text_in(schema, "kind")
    if kind == "timers":
        return TIMER
    if not all(map(is_open, mappings_in(schema, "of"))):
        return BYTES
    return ELEMENT if kind == StateKind.LIST else ENTRY if kind == StateKind.MAP else VALUE


def stored_type(schema: Description) -> Description:
    """Return the type description of all that a state holds under one key: of a list state, the list."""
    of = mappings_in(schema, "of")
    if schema["kind"] == StateKind.LIST:
        return describe("list", of=of[0])
    return describe("dict", key=of[0], value=of[1]) if schema["kind"] == StateKind.MAP else of[0]
