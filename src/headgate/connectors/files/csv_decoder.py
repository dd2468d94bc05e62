"""CSV decoder: blocks of rows become dicts, typed records or Arrow record batches.

A record ends at a line feed outside quotes. Quotes are balanced within a record, so it ends at a line feed
with an even number of quotes before it. A quote inside an unquoted field breaks that rule; such rows are bad
records, named by the line where they begin.
"""

from __future__ import annotations

import csv
import io
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from typing_extensions import TypedDict

from headgate.api.source import BadRecord
from headgate.common.decoders import converter
from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.connectors.fields import check_decodable, is_model, model_hook
from headgate.connectors.files.json_decoder import Records, is_named_tuple, named_tuple_maker, struct_like
from headgate.connectors.files.text_cursor import RECORD_BYTES_MAX, Decoded, OnError, bad_record_error

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
R = TypeVar("R", covariant=True)

_BAD: Final = (csv.Error, ValueError)

Rows = list[list[str]]


class RowMaker(Protocol[R]):
    """Makes records from rows of text fields; one class per kind of record (dict, typed, columns)."""

    names: list[str] | None  # the fields of the schema, None without one

    def __call__(self, header: Sequence[str], rows: Rows) -> list[R] | pa.RecordBatch:
        """Return one record for each of `rows`, which all have as many fields as `header`, in its order.
        ValueError if one of the rows does not fit the schema; it need not say which.
        """


class CsvDecoder(Generic[T]):
    """Decodes one CSV file, as the :class:`TextDecoder` of its cursor; `name` is the file's, for messages.
    `saved` is the header in a restored position, since a reader that resumes does not read the first row
    again; None at the file's beginning. UsageError if neither the file nor `make` has names of fields.
    """

    def __init__(
        self,
        name: str,
        make: RowMaker[T],
        on_error: OnError,
        delimiter: str,
        has_header: bool,
        saved: Sequence[str] | None,
    ) -> None:
        if not has_header and make.names is None:
            raise UsageError(
                "header=False leaves the fields of a CSV file without names; give a schema that names them"
            )
        # The module's limit of 128 KiB for a field is the process's, so it is only ever raised.
        csv.field_size_limit(max(csv.field_size_limit(), RECORD_BYTES_MAX))
        self._name, self._make, self._on_error, self._delimiter = name, make, on_error, delimiter
        self._has_header = has_header
        self._header: list[str] = list(saved or make.names or [])

    def begin(self, data: bytes) -> int:
        if not self._has_header or not data:
            return 0
        end = _first_border(data)
        try:
            header = self._parse(data[:end].decode().rstrip("\r\n"))
            problem = (
                "" if header and len(set(header)) == len(header) else "field names are missing or repeated"
            )
        except _BAD as failure:
            header, problem = [], str(failure)
        if problem:
            raise bad_record_error(BadRecord(self._name, 1, f"the header is unusable, {problem}", data[:end]))
        self._header = header
        return end

    def saved(self) -> list[str]:
        return list(self._header)

    def border(self, data: bytes) -> int:
        # A line feed ends a record where the number of quotes before it is even.
        end = data.rfind(b"\n")
        quotes = data.count(b'"', 0, max(0, end))
        while end >= 0 and quotes % 2:
            earlier = data.rfind(b"\n", 0, end)
            quotes -= data.count(b'"', earlier + 1, end)
            end = earlier
        return end + 1

    def decode(self, data: bytes, first_line: int) -> Decoded[T]:
        if b'"' not in data:
            body = data[:-1] if data.endswith(b"\n") else data
            try:
                rows = list(csv.reader(body.decode().split("\n"), delimiter=self._delimiter, strict=True))
                if set(map(len, rows)) == {len(self._header)}:
                    return Decoded(self._make(self._header, rows))
            except _BAD:
                pass
        return self._singly(data, first_line)

    def _singly(self, data: bytes, first_line: int) -> Decoded[T]:
        rows: Rows = []
        raws: list[tuple[int, int, bytes]] = []
        failed: list[tuple[int, BadRecord]] = []
        for line, end, raw in _cut(data, first_line):
            try:
                row = self._parse(raw.decode().rstrip("\r\n"))
                if len(row) != len(self._header):
                    raise ValueError(f"the row has {len(row)} fields; expected {len(self._header)}")
            except _BAD as problem:
                failed.append((len(rows), BadRecord(self._name, line, str(problem), raw)))
                continue
            rows.append(row)
            raws.append((line, end, raw))
        kept, misfits = self._fitting(rows)
        lost = dict(misfits)
        for index, reason in misfits:
            line, _, raw = raws[index]
            failed.append((index, BadRecord(self._name, line, reason, raw)))
        # From here on "records before it" counts only what is kept.
        bad = sorted(
            ((before - sum(index < before for index in lost), record) for before, record in failed),
            key=lambda pair: pair[1].position,
        )
        if bad and self._on_error == "fail":
            raise bad_record_error(bad[0][1])
        return Decoded(kept, [end for i, (_, end, _) in enumerate(raws) if i not in lost], bad)

    def _fitting(self, rows: Rows) -> tuple[list[T] | pa.RecordBatch, list[tuple[int, str]]]:
        try:
            return self._make(self._header, rows), []
        except ValueError:
            pass
        good, misfits = [], []
        for index, row in enumerate(rows):
            try:
                self._make(self._header, [row])
                good.append(row)
            except ValueError as problem:
                misfits.append((index, str(problem).replace(" - at `$[0]", " - at `$")))
        return self._make(self._header, good), misfits

    def _parse(self, text: str) -> list[str]:
        if text.count('"') % 2:
            raise ValueError("a quote is left open, or stands inside an unquoted field")
        rows = list(csv.reader([text], delimiter=self._delimiter, strict=True))
        return rows[0] if rows else []


def _first_border(data: bytes) -> int:
    end = 0
    while end < len(data):
        following = data.find(b"\n", end)
        if following < 0:
            return len(data)
        end = following + 1
        if data.count(b'"', 0, end) % 2 == 0:
            return end
    return end


def _cut(data: bytes, first_line: int) -> list[tuple[int, int, bytes]]:
    # Line, offset of the end, and bytes of each record; empty lines are left out.
    records, start, line, end, quotes = [], 0, first_line, 0, 0
    for piece in io.BytesIO(data):
        end += len(piece)
        quotes += piece.count(b'"')
        if quotes % 2 and end < len(data):
            continue
        raw = data[start:end]
        if raw.strip():
            records.append((line, end, raw))
        line += raw.count(b"\n")
        start = end
    return records


class DictMaker:
    """Makes a dict of strings from each row, for a CSV source without a schema."""

    names: list[str] | None = None

    def __call__(self, header: Sequence[str], rows: Rows) -> list[dict[str, str]]:
        return [dict(zip(header, row)) for row in rows]


class TypedMaker:
    """Makes records of a class, or typed dicts, from texts; UsageError for a `schema` unfit for that."""

    names: list[str] | None

    def __init__(self, schema: type[T] | Mapping[str, Hint]) -> None:
        self._finish: Callable[[Records], Records] | None = None
        record: Any = schema
        try:
            if isinstance(schema, Mapping):
                # Written as a call of the class's maker, since the fields are only known now.
                record = types.new_class(
                    "Record", (TypedDict,), {}, lambda body: body.update(__annotations__=schema)
                )
            elif is_named_tuple(schema):
                self._finish, record = named_tuple_maker(schema), struct_like(schema)
            check_decodable(record)
            hints = _field_types(record)
            self._convert = converter(list[record], strict=False, dec_hook=model_hook)
        except (TypeError, NameError) as problem:
            raise UsageError(
                f"schema {schema!r} cannot be read from CSV ({problem}); expected a dict of names and types, "
                "a dataclass, TypedDict, NamedTuple, msgspec.Struct, attrs class, pydantic model or "
                "pyarrow.Schema"
            ) from problem
        self.names = list(hints)
        self._nullable = {name for name, hint in hints.items() if _allows_none(hint)}

    def __call__(self, header: Sequence[str], rows: Rows) -> Records:
        # An empty field is None where its type allows None.
        records: list[dict[str, str | None]] = [dict(zip(header, row)) for row in rows]
        for name in self._nullable.intersection(header):
            for record in records:
                if not record[name]:
                    record[name] = None
        made: Records = self._convert(records)
        return made if self._finish is None else self._finish(made)


def _field_types(record: Any) -> dict[str, Hint]:
    if is_model(record):
        return {name: info.annotation for name, info in record.__pydantic_fields__.items()}
    hints = typing.get_type_hints(record)
    return {name: hint for name, hint in hints.items() if typing.get_origin(hint) is not typing.ClassVar}


def _allows_none(hint: Hint) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType) and type(None) in typing.get_args(hint)


class ArrowMaker:
    """Makes Arrow record batches; an empty field is null in every column that is not text."""

    names: list[str] | None

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.names = list(schema.names)

    def __call__(self, header: Sequence[str], rows: Rows) -> pa.RecordBatch:
        import pyarrow as pa

        columns = dict(zip(header, zip(*rows))) if rows else dict.fromkeys(header, ())
        arrays = []
        for field in self._schema:
            if field.name not in columns:
                raise ValueError(f"the header has no field {field.name!r}")
            texts: Sequence[str | None] = columns[field.name]
            is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
            if not is_text:
                texts = [text or None for text in texts]
            try:
                arrays.append(pa.array(texts, pa.string()).cast(field.type))
            except pa.ArrowException as problem:
                raise ValueError(f"{problem} (field {field.name!r})") from problem
        return pa.record_batch(arrays, schema=self._schema)
