"""JSON lines decoder: blocks of lines become Python objects, or columns by a parser of `json_columns`.
Python records hold integers of any size. Bad records are lines with an integer too large for its Arrow
column, with a number beyond a double's range or, unless Arrow reads it, with NaN, which is no JSON.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeGuard, TypeVar

import msgspec

from headgate.api.source import BadRecord
from headgate.common.decoders import json_decoder
from headgate.common.errors import UsageError
from headgate.connectors.fields import check_decodable, model_hook
from headgate.connectors.files.json_certain import one_record_per_line
from headgate.connectors.files.text_cursor import Decoded, OnError, bad_record_error

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
R = TypeVar("R", covariant=True)
Records: TypeAlias = list[Any]  # records of a schema that is known at run time only

UNREADABLE: Final = (ValueError, RecursionError)
"""What msgspec raises for lines that it does not decode."""


class LineParser(Protocol[R]):
    """Parses JSON lines into records of one kind, strictly one record per line."""

    def block(self, data: bytes) -> list[R] | pa.RecordBatch | None:
        """Return the records of a block of complete lines; None if the lines must be parsed one by one.
        That is so where a line is bad, or where it is not certain that each line is one record.
        """

    def singly(self, lines: Sequence[bytes]) -> tuple[list[R] | pa.RecordBatch, list[tuple[int, str]]]:
        """Return the good records of non-empty lines, and (index in `lines`, reason) of each bad line."""


class JsonDecoder(Generic[T]):
    """Decodes blocks of one JSON lines file for a `TextCursor`; implements its `TextDecoder`.
    With `on_error` "fail" the first bad line raises BadRecordError; otherwise bad lines are returned.
    """

    def __init__(self, name: str, parser: LineParser[T], on_error: OnError) -> None:
        self._name, self._parser, self._on_error = name, parser, on_error

    def begin(self, data: bytes) -> int:
        return 0

    def saved(self) -> None:
        """Return None: a position in JSON lines needs no header."""

    def border(self, data: bytes) -> int:
        return data.rfind(b"\n") + 1

    def decode(self, data: bytes, first_line: int) -> Decoded[T]:
        records = self._parser.block(data)
        if records is not None:
            return Decoded(records)
        lines, ends, numbers, offset = [], [], [], 0
        for number, line in enumerate(data.split(b"\n"), first_line):
            offset = min(len(data), offset + len(line) + 1)
            if line.strip():
                lines.append(line)
                ends.append(offset)
                numbers.append(number)
        records, reasons = self._parser.singly(lines)
        bad = [
            (index - earlier, BadRecord(self._name, numbers[index], reason, lines[index]))
            for earlier, (index, reason) in enumerate(reasons)
        ]
        if bad and self._on_error == "fail":
            raise bad_record_error(bad[0][1])
        lost = {index for index, _ in reasons}
        return Decoded(records, [end for i, end in enumerate(ends) if i not in lost], bad)


class ObjectParser(Generic[T]):
    """Parses lines into Python objects with msgspec."""

    def __init__(self, schema: type[T] | None) -> None:
        decoder, self._finish = object_decoder(schema)
        self._decode, self._decode_lines = decoder.decode, decoder.decode_lines

    def block(self, data: bytes) -> list[T] | None:
        try:
            records = self._decode_lines(data)
        except UNREADABLE:
            return None
        if not one_record_per_line(data, len(records)):
            return None
        return records if self._finish is None else self._finish(records)

    def singly(self, lines: Sequence[bytes]) -> tuple[list[T], list[tuple[int, str]]]:
        good, bad = [], []
        for index, line in enumerate(lines):
            try:
                good.append(self._decode(line))
            except UNREADABLE as problem:
                bad.append((index, str(problem)))
        return good if self._finish is None else self._finish(good), bad


def object_decoder(
    schema: type[T] | None,
) -> tuple[msgspec.json.Decoder[Any], Callable[[Records], list[T]] | None]:
    """Return a msgspec decoder of one JSON value for `schema`, and what to call on a list of its results.
    `schema` None decodes any JSON. The second is None except for a NamedTuple class: its decoder makes
    structs, which that function turns into NamedTuples. UsageError for a class that cannot be decoded.
    """
    try:
        if schema is None:
            return msgspec.json.Decoder(), None
        if not is_named_tuple(schema):
            check_decodable(schema)
            return json_decoder(schema, model_hook), None
        return json_decoder(struct_like(schema), model_hook), named_tuple_maker(schema)
    except (TypeError, NameError) as problem:
        raise UsageError(
            f"schema {schema!r} cannot be decoded into ({problem}); expected a dataclass, TypedDict, "
            "NamedTuple, msgspec.Struct, attrs class, pydantic model or pyarrow.Schema"
        ) from problem


def is_named_tuple(schema: type[T] | Mapping[str, T]) -> TypeGuard[type[NamedTuple]]:
    return isinstance(schema, type) and issubclass(schema, tuple) and hasattr(schema, "_fields")


def struct_like(schema: type[NamedTuple]) -> type[msgspec.Struct]:
    """Return a struct class with a NamedTuple class's fields and defaults, read by msgspec by names."""
    hints = typing.get_type_hints(schema, include_extras=True)
    fields: list[Any] = [
        (name, hints.get(name, Any), schema._field_defaults[name])
        if name in schema._field_defaults
        else (name, hints.get(name, Any))
        for name in schema._fields
    ]
    return msgspec.defstruct(schema.__name__, fields, gc=False)


def named_tuple_maker(schema: type[NamedTuple]) -> Callable[[Records], Records]:
    """Return a function from a list of structs of :func:`struct_like` to a list of NamedTuples (`schema`)."""
    make, values = schema._make, msgspec.structs.astuple
    return lambda records: [make(values(record)) for record in records]
