"""A directory of Nexmark's events: the folders persons, auctions and bids with Parquet or JSON-lines files.

Finds the files, checks their columns and reads them; :mod:`headgate.nexmark.files` writes such directories.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from headgate.common.errors import BadRecordError, UsageError
from headgate.connectors.files.paths import expand
from headgate.nexmark.generator import SCHEMAS

TABLES: Final = tuple(SCHEMAS)
"""Names of the tables, and of the folders they lie in."""

_BATCH_ROWS: Final = 100_000
_JSON_BLOCK_BYTES: Final = 16 << 20


class FileFormat(StrEnum):
    """How events are stored in files."""

    PARQUET = "parquet"
    JSON = "json"

    @property
    def label(self) -> str:
        """Name of the format in messages, and in those of the file sources: "Parquet" or "JSON"."""
        return "Parquet" if self is FileFormat.PARQUET else "JSON"


_ENDINGS: Final = {
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    ".json": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
}


@dataclass(frozen=True)
class Dataset:
    """The files of a directory of events; made by `open_files` and `generate_files`.

    Attributes:
        directory: where the folders of the tables are.
        file_format: of all files.
        files: table -> its files, sorted by name.
    """

    directory: Path
    file_format: FileFormat
    files: Mapping[str, Sequence[Path]]

    def paths(self, table: str) -> Sequence[Path]:
        """Return the files of a table; UsageError if the dataset was opened without it."""
        if table not in self.files:
            raise UsageError(
                f"{self.directory} was opened without {table}, only with {', '.join(self.files)}; "
                f"open it with {table} as well"
            )
        return self.files[table]

    def batches(self, table: str, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table in the order of the files, about 100,000 at a time.

        Arguments:
            table: "persons", "auctions" or "bids".
            columns: names of the columns to read; None reads all that `SCHEMAS` has, in its order.

        Raises:
            UsageError: the dataset was opened without this table.
            BadRecordError: a file cannot be decoded, or a value is missing; the message names the file.
        """
        for path in self.paths(table):
            yield from _batches(path, self.file_format, _chosen(table, columns))

    def read(self, table: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return all rows of a table; arguments, order and errors are those of :meth:`batches`."""
        return pa.Table.from_batches(self.batches(table, columns), schema=_chosen(table, columns))


def open_files(directory: Path, tables: Collection[str] = TABLES) -> Dataset:
    """Return the dataset in a directory, whoever wrote it, after a look at the columns of each file.

    Each table is a folder of files whose names end in .parquet or .json, all of one format; names that begin
    with ``_`` or ``.`` are skipped. Columns may be in any order, and there may be others. Of a JSON-lines
    file only the beginning is read here.

    Arguments:
        directory: where the folders of the tables are.
        tables: the tables that are needed; others may be missing.

    Raises:
        UsageError: a folder, column or file is missing, or a column is of another type.
        BadRecordError: a file cannot be decoded.
    """
    formats: dict[FileFormat, Path] = {}
    files: dict[str, Sequence[Path]] = {}
    for table in tables:
        folder = directory / table
        if not folder.is_dir():
            raise UsageError(
                f"{directory} has no folder {table}; expected a folder of Parquet or JSON-lines files for "
                f"each of {', '.join(tables)}: name the directory that has them"
            )
        found = _format_of(folder)
        formats.setdefault(found, folder)
        files[table] = [Path(path) for path in expand(folder, found.label)]
    if len(formats) > 1:
        told = " and ".join(f"{file_format.label} in {folder}" for file_format, folder in formats.items())
        raise UsageError(f"{directory} has {told}; expected one format: convert one of them")
    dataset = Dataset(directory, next(iter(formats)), files)
    for table, paths in files.items():
        for path in paths:
            _check(path, dataset.file_format, table)
    return dataset


def _chosen(table: str, columns: Sequence[str] | None) -> pa.Schema:
    schema = SCHEMAS[table]
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


def _format_of(folder: Path) -> FileFormat:
    # That of the first file by name; `expand` checks the others.
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    names = sorted(str(path) for path in paths if all(part[0] not in "_." for part in path.parts))
    if not names:
        raise UsageError(f"{folder} has no files; expected Parquet or JSON-lines files: write them there")
    found = _ENDINGS.get(Path(names[0]).suffix.lower())
    if found is None:
        raise UsageError(
            f"{folder} has the file {names[0]}; expected names that end in {', '.join(_ENDINGS)}: "
            "rename or convert it"
        )
    return found


def _check(path: Path, file_format: FileFormat, table: str) -> None:
    """Raise UsageError if a file lacks a column of its table, or its type; BadRecordError if undecodable."""
    if file_format is FileFormat.JSON:
        next(_batches(path, file_format, SCHEMAS[table]), None)
        return
    try:
        found = pq.read_schema(path)
    except (pa.ArrowException, OSError) as problem:
        raise _undecodable(path, file_format, problem) from problem
    for field in SCHEMAS[table]:
        if field.name not in found.names:
            raise UsageError(
                f"{path} has no column {field.name}, only {', '.join(found.names)}; expected the columns of "
                f"Nexmark's {table}, {', '.join(SCHEMAS[table].names)}: write the file with all of them"
            )
        got = found.field(field.name).type
        if got != field.type and not (pa.types.is_large_string(got) and field.type == pa.string()):
            raise UsageError(
                f"column {field.name} of {path} is {got}; expected {field.type}: "
                "cast it where the file is written"
            )


def _batches(path: Path, file_format: FileFormat, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        for batch in _JSON_OR_PARQUET[file_format](path, schema):
            _check_complete(path, batch, schema)
            yield batch.select(schema.names).cast(schema)
    except (pa.ArrowException, OSError) as problem:
        raise _undecodable(path, file_format, problem) from problem


def _parquet_batches(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(_BATCH_ROWS, columns=schema.names)


def _json_batches(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if path.stat().st_size == 0:  # no row is no error, but Arrow's reader takes it for one
        return
    reading = pj.ReadOptions(block_size=_JSON_BLOCK_BYTES)
    parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    with pj.open_json(path, reading, parsing) as reader:
        yield from reader


_JSON_OR_PARQUET: Final = {FileFormat.PARQUET: _parquet_batches, FileFormat.JSON: _json_batches}


def _check_complete(path: Path, batch: pa.RecordBatch, schema: pa.Schema) -> None:
    for name in schema.names:
        if batch[name].null_count:
            raise BadRecordError(
                f"{path} has rows without a value in column {name}; expected a value of type "
                f"{schema.field(name).type} in each row: leave such rows out"
            )


def _undecodable(path: Path, file_format: FileFormat, problem: Exception) -> BadRecordError:
    return BadRecordError(
        f"{path} cannot be read as {file_format.label} ({problem}); expected what Nexmark's generator "
        "writes: mend or remove the file"
    )
