"""JSON lines to Arrow record batches: by msgspec where its answer is surely Arrow's, else by Arrow's reader.

Which lines are bad follows from the schema, not from what a program uses of it: all fields are decoded and
checked, and those that are not used become no columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json

from headgate.connectors.files.json_certain import (
    has_odd_zero,
    line_feeds,
    lines_are_records,
    one_record_per_line,
)
from headgate.connectors.files.json_decoder import Records
from headgate.connectors.files.json_structs import RowDecoder, is_nameable
from headgate.connectors.files.late_lines import LateLines, lines_of
from headgate.records.late_columns import LateColumns, concat_late

if TYPE_CHECKING:
    from typing_extensions import TypeForm

Kinds: TypeAlias = "Mapping[str, TypeForm[Any]]"  # name of a field -> type that msgspec decodes

# Arrow's reader crashes where the first line is null.
_BEGINS_WITH_NULL: Final = re.compile(rb"(\xef\xbb\xbf)?[ \t\r\n]*null")
_FEW: Final = 0.25
"""Share of the rows from which on a column is cheaper made for all of them than by decoding lines again."""
_NO_RECORD: Final = "the line holds null; expected an object"


class ArrowParser:
    """Parses lines into record batches by Arrow's reader, with the columns `used` of `schema` (None: all)."""

    def __init__(self, schema: pa.Schema, used: Sequence[str] | None = None) -> None:
        self.schema = schema if used is None else narrowed(schema, used)
        self._parse = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")

    def block(self, data: bytes) -> pa.RecordBatch | None:
        if _BEGINS_WITH_NULL.match(data):
            return None
        # One block for all: a record that crosses Arrow's own blocks would be refused.
        options = json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        try:
            table = json.read_json(pa.BufferReader(data), read_options=options, parse_options=self._parse)
        except (pa.ArrowException, ValueError):
            return None
        if not one_record_per_line(data, table.num_rows):
            return None
        batches = table.select(self.schema.names).combine_chunks().to_batches()
        return batches[0] if batches else None

    def singly(self, lines: Sequence[bytes]) -> tuple[pa.RecordBatch | LateColumns, list[tuple[int, str]]]:
        batches: list[pa.RecordBatch | LateColumns] = []
        bad: list[tuple[int, str]] = []
        pending = [(0, len(lines))]
        while pending:
            start, stop = pending.pop()
            if start == stop:
                continue
            batch = self.block(b"\n".join(lines[start:stop]))
            if batch is not None:
                batches.append(batch)
            elif stop - start == 1:
                bad.append((start, self._reason(lines[start])))
            else:
                middle = (start + stop) // 2
                pending += [(middle, stop), (start, middle)]
        if not batches:
            return pa.RecordBatch.from_pylist([], schema=self.schema), bad
        return concat_late(batches), bad

    def _reason(self, line: bytes) -> str:
        if _BEGINS_WITH_NULL.match(line):
            return _NO_RECORD
        try:
            # With threads the reason of a line with two bad fields would be one or the other.
            options = json.ReadOptions(use_threads=False)
            rows = json.read_json(
                pa.BufferReader(line), read_options=options, parse_options=self._parse
            ).num_rows
        except (pa.ArrowException, ValueError) as problem:
            return str(problem)
        return f"the line holds {rows} records; expected one"


class ColumnParser(ArrowParser):
    """Parses lines as `ArrowParser` does, by msgspec where it can; `kinds` are :func:`msgspec_kinds`.

    If a plan says which columns are `used`, those are late of which few rows are asked for: their lines are
    decoded once more then. Which ones that are is learned from batches that were returned before.
    """

    def __init__(self, schema: pa.Schema, kinds: Kinds, used: Sequence[str] | None = None) -> None:
        super().__init__(schema, used)
        self._rows = RowDecoder(kinds)
        self._fields = [(schema.get_field_index(field.name), field.type) for field in self.schema]
        self._late = {at for at, field in enumerate(self.schema) if used and _is_settled(field.type)}
        self._unused = [
            (at, field.type)
            for at, field in enumerate(schema)
            if field.name not in self.schema.names and not _is_settled(field.type)
        ]

    def block(self, data: bytes) -> pa.RecordBatch | LateColumns | None:
        rows = self._rows.decode(data)
        if rows is None:
            return super().block(data)
        feeds = line_feeds(data)
        if not lines_are_records(data, feeds, len(rows)):
            return None
        made = self._made(data, rows)
        if made is None:
            return super().block(data)
        if self._late:
            return LateColumns(self.schema, lines_of(data, feeds), self._column, made)
        return pa.RecordBatch.from_arrays([made[at] for at in range(len(made))], schema=self.schema)

    def _made(self, data: bytes, rows: Records) -> dict[int, pa.Array] | None:
        """Return the columns that are not late, by their places; None if Arrow has to read the lines."""
        for at, kind in self._unused:
            if column_of(self._rows.values(rows, at), kind, data) is None:
                return None
        made = {}
        for place, (at, kind) in enumerate(self._fields):
            if place not in self._late:
                column = column_of(self._rows.values(rows, at), kind, data)
                if column is None:
                    return None
                made[place] = column
        return made

    def _column(self, lines: LateLines, place: int) -> pa.Array:
        if len(lines) > lines.of * _FEW:
            self._late.discard(place)
        at, kind = self._fields[place]
        return pa.array(self._rows.values(lines.rows(self._rows.decode_again), at), kind)


def parser_of(schema: pa.Schema, used: Sequence[str] | None = None) -> ArrowParser:
    """Return a parser of lines to the columns `used` of a schema (None: all), each line checked for all.
    Names that the schema lacks are left out: whoever asked for them refuses its records.
    """
    used = used and [name for name in used if name in schema.names]
    kinds = msgspec_kinds(schema)
    return ArrowParser(schema, used) if kinds is None else ColumnParser(schema, kinds, used)


def narrowed(schema: pa.Schema, used: Sequence[str]) -> pa.Schema:
    """Return the schema of the columns `used`, in that order."""
    return pa.schema([schema.field(name) for name in used], schema.metadata)


def msgspec_kinds(schema: pa.Schema) -> Kinds | None:
    """Return what msgspec decodes the fields of a schema to; None: lines of this schema are left to Arrow."""
    if len(set(schema.names)) < len(schema) or not all(map(is_nameable, schema.names)):
        return None
    if not all(field.nullable for field in schema):
        return None
    kinds = {field.name: _msgspec_kind(field.type) for field in schema}
    found = {name: kind for name, kind in kinds.items() if kind is not None}
    return found if found and len(found) == len(kinds) else None


def _msgspec_kind(kind: pa.DataType) -> TypeForm[Any] | None:
    if pa.types.is_signed_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return Annotated[int, msgspec.Meta(ge=-most, le=most - 1)]
    if pa.types.is_unsigned_integer(kind):
        return int
    if pa.types.is_float64(kind):
        return float
    if pa.types.is_boolean(kind):
        return bool
    return str if _is_text(kind) or pa.types.is_timestamp(kind) else None


def _is_settled(kind: pa.DataType) -> bool:
    """Return whether Arrow takes each value of this type that msgspec has decoded, as the same value."""
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_boolean(kind) or _is_text(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def column_of(values: list[Any], kind: pa.DataType, data: bytes) -> pa.Array | None:
    """Return decoded values of a field as a column; None if Arrow may read something else in `data`."""
    try:
        if pa.types.is_timestamp(kind):
            return _times(pa.array(values, pa.string()), kind)
        column = pa.array(values, kind)
    except (pa.ArrowException, ValueError, OverflowError):
        return None
    signless = pa.types.is_floating(kind) or pa.types.is_unsigned_integer(kind)
    if signless and pc.any(pc.equal(column, pa.scalar(0, kind))).as_py() and has_odd_zero(data):
        return None
    return column


def _times(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    # Arrow's reader takes times with and without a zone, whether or not the column has one; its cast not.
    for zone in ("UTC", None):
        try:
            return texts.cast(pa.timestamp(kind.unit, zone)).view(kind)
        except pa.ArrowInvalid:
            continue
    return None
