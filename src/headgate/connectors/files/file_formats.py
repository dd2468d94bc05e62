"""The file sources for JSON lines, CSV and Parquet, and the functions that make them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from typing_extensions import override

from headgate.api.source import T
from headgate.common.errors import UsageError
from headgate.common.hints import Hint
from headgate.connectors.files.paths import Paths, expand
from headgate.connectors.files.source import FileCursor, FilesSource, TextFilesSource
from headgate.connectors.files.text_cursor import OnError, TextDecoder
from headgate.relational.column_tests import ColumnTest

if TYPE_CHECKING:
    import pyarrow as pa

    from headgate.connectors.files.parquet_cursor import ParquetPosition

Schema: TypeAlias = "type | Mapping[str, Hint] | pa.Schema"
"""Schema of a file source: a class of records, fields' names and types, or the columns of batches."""


def json_source(
    paths: Paths, schema: type[T] | pa.Schema | None = None, on_error: OnError = "fail"
) -> JsonSource[T]:
    """Return a bounded source of JSON lines; plain, gzip and zstd files, distinguished by their content.

    Args:
        paths: a file, a directory (recursive; names beginning with ``_`` or ``.`` are skipped), a glob,
            or a list of these. A file that is named twice is read once. The job's start fails (UsageError)
            for a path without files, and for files that are unreadable or look like another format.
        schema: None for records as JSON has them (objects become dicts); a dataclass, TypedDict, NamedTuple,
            msgspec.Struct, attrs class or pydantic model for checked, typed records; a ``pyarrow.Schema`` for
            columnar batches. Fields that the schema does not have are ignored; all that it has must fit it,
            also those that a table does not use, and in rows that a filter drops.
        on_error: for lines that do not decode: "fail" raises with file and line, "skip" only counts them,
            "side-output" sends them to the side output ``"bad-records"``.

    Example:
        >>> json_source("events/*.jsonl.gz", on_error="skip").describe()
        'JSON files events/*.jsonl.gz'
    """
    return JsonSource(paths, schema, on_error)


def csv_source(
    paths: Paths,
    schema: Schema | None = None,
    on_error: OnError = "fail",
    *,
    delimiter: str = ",",
    header: bool = True,
) -> CsvSource:
    """Return a bounded source of CSV files with quoting as in RFC 4180, line breaks in quotes included.

    Args:
        paths: as for :func:`json_source`.
        schema: None for dicts of strings; a dict of field name and type, a dataclass, TypedDict, NamedTuple,
            msgspec.Struct, attrs class or pydantic model for typed records (an empty field is None where None
            is allowed); a ``pyarrow.Schema`` for columnar batches.
        on_error: as for :func:`json_source`; a row with too few or too many fields does not decode.
        delimiter: one ASCII character between fields.
        header: whether the first row names the fields; otherwise the schema does, in its order.
    """
    return CsvSource(paths, schema, on_error, delimiter, header)


def parquet_source(paths: Paths, columns: Sequence[str] | None = None) -> ParquetSource:
    """Return a bounded source of Parquet files that stays columnar: it gives Arrow record batches.

    Args:
        paths: as for :func:`json_source`.
        columns: which columns to read; None reads all. A file without one of them fails the job's start.
    """
    return ParquetSource(paths, columns)


def is_arrow_schema(schema: Schema | None) -> TypeGuard[pa.Schema]:
    kind = type(schema)
    return kind.__module__.partition(".")[0] == "pyarrow" and kind.__name__ == "Schema"


class JsonSource(TextFilesSource[T]):
    """Bounded source of JSON lines; made by :func:`json_source`."""

    def __init__(self, paths: Paths, schema: type[T] | pa.Schema | None, on_error: OnError) -> None:
        super().__init__(paths, "JSON", on_error)
        self.schema = schema
        self.columns: list[str] | None = None

    @override
    def new_decoder(self, path: str, saved: list[str] | None) -> TextDecoder[T]:
        from headgate.connectors.files import json_decoder as decoding

        parser: decoding.LineParser[T]
        if is_arrow_schema(self.schema):
            from headgate.connectors.files.json_columns import parser_of

            parser = parser_of(self.schema, self.columns)
        else:
            parser = decoding.ObjectParser(self.schema)
        return decoding.JsonDecoder(path, parser, self.on_error)

    @override
    def arrow_schema(self) -> pa.Schema | None:
        return self.schema if is_arrow_schema(self.schema) else None

    @override
    def with_columns(self, names: Sequence[str]) -> JsonSource[T]:
        narrow = copy.copy(self)
        narrow.columns = list(names)
        return narrow

    @override
    def validate(self) -> None:
        self.new_decoder("", None)
        super().validate()


class CsvSource(TextFilesSource[T]):
    """Bounded source of CSV files; made by :func:`csv_source`."""

    def __init__(
        self, paths: Paths, schema: Schema | None, on_error: OnError, delimiter: str, header: bool
    ) -> None:
        super().__init__(paths, "CSV", on_error)
        self.schema, self.delimiter, self.header = schema, delimiter, header

    @override
    def new_decoder(self, path: str, saved: list[str] | None) -> TextDecoder[T]:
        from headgate.connectors.files import csv_decoder as decoding

        make: decoding.RowMaker[T]
        if self.schema is None:
            make = decoding.DictMaker()
        elif is_arrow_schema(self.schema):
            make = decoding.ArrowMaker(self.schema)
        else:
            make = decoding.TypedMaker(self.schema)
        return decoding.CsvDecoder(path, make, self.on_error, self.delimiter, self.header, saved)

    @override
    def arrow_schema(self) -> pa.Schema | None:
        return self.schema if is_arrow_schema(self.schema) else None

    @override
    def validate(self) -> None:
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise UsageError(
                f"csv_source got delimiter={self.delimiter!r}; expected one ASCII character that is neither "
                "a quote nor a line break"
            )
        self.new_decoder("", None)
        super().validate()


class ParquetSource(FilesSource[T, "ParquetPosition"]):
    """Bounded source of Parquet files, read as record batches; made by :func:`parquet_source`."""

    def __init__(self, paths: Paths, columns: Sequence[str] | None) -> None:
        super().__init__(paths, "Parquet")
        self.columns = None if columns is None else list(columns)
        self.filters: tuple[ColumnTest, ...] = ()

    @override
    def arrow_schema(self) -> pa.Schema | None:
        from headgate.connectors.files.parquet_cursor import schema_of_file

        files = expand(self.paths, self.file_format)
        return schema_of_file(files[0], self.columns) if files else None

    @override
    def with_columns(self, names: Sequence[str]) -> ParquetSource[T]:
        narrow = copy.copy(self)
        # A batch without columns would have no rows; files may have more columns than one table knows.
        narrow.columns = list(names) or self.columns
        return narrow

    @override
    def with_filters(self, tests: Sequence[ColumnTest]) -> ParquetSource[T]:
        filtered = copy.copy(self)
        filtered.filters = (*self.filters, *tests)
        return filtered

    @override
    def open_cursor(self, path: str, position: ParquetPosition | None) -> FileCursor[T, ParquetPosition]:
        from headgate.connectors.files.parquet_cursor import ParquetCursor

        return ParquetCursor(path, self.columns, position, self.filters)

    @override
    def validate(self) -> None:
        from headgate.connectors.files.parquet_cursor import missing_columns

        super().validate()
        if self.columns is None:
            return
        for path in expand(self.paths, self.file_format):
            missing = missing_columns(path, self.columns)
            if missing:
                raise UsageError(f"{path!r} has no column {missing[0]!r}; correct columns=...")
