"""Writes generated events into a directory of Parquet or JSON-lines files, once: later runs find them there.

A manifest next to the folders of the tables says what was written, and is how a directory is recognised.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from headgate.common.decoders import UNDECODABLE, json_decoder
from headgate.common.errors import ConfigError, StorageError
from headgate.common.files.durable import rename
from headgate.common.files.durable_file import temporary_beside
from headgate.nexmark.dataset import TABLES, Dataset, FileFormat
from headgate.nexmark.generator import EVENTS_MAX, GENERATOR_VERSION, SCHEMAS, NexmarkSettings, events
from headgate.nexmark.json_rows import json_lines

MANIFEST: Final = "nexmark.json"
"""Name of the file that says what is in a directory."""

PIECE_EVENTS: Final = 50_000
"""Events that are generated at a time, and that a file has in a row if files are interleaved."""

ROW_GROUP_ROWS: Final = 100_000
"""Rows of a row group of Parquet, apart from the last one of a file."""

_FILES_MAX: Final = 10_000
_FEW_VALUES: Final = ("name", "city", "state", "category", "channel", "url")  # worth a dictionary in Parquet


class Contents(msgspec.Struct, frozen=True):
    """The request by which a directory of generated events was written; later ones must be equal to it.

    Attributes:
        generator_version: `GENERATOR_VERSION` when it was written.
        settings: the fields of `NexmarkSettings`.
        events: how many, from the first.
        file_format: a value of `FileFormat`.
        files: how many each table has.
        interleaved: whether the files cover the same time, or follow each other.
    """

    generator_version: int
    settings: dict[str, int]
    events: int
    file_format: str
    files: int
    interleaved: bool


class Manifest(msgspec.Struct, frozen=True):
    """What the file `MANIFEST` in a directory of generated events stores, as JSON.

    Attributes:
        contents: what was asked for.
        sizes: path of each file from the directory -> its bytes.
    """

    contents: Contents
    sizes: dict[str, int]


class _TableFile(Protocol):
    """A file of one table that is being written."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of a batch."""

    def close(self) -> None:
        """Write what is left, and close the file."""


def generate_files(
    directory: Path,
    settings: NexmarkSettings,
    count: int,
    *,
    file_format: FileFormat = FileFormat.PARQUET,
    files: int = 4,
    interleaved: bool = False,
) -> Dataset:
    """Return a dataset of the first `count` events in a directory; write it unless an earlier run did.

    The directory appears under its name when it is complete. Each table is cut into `files` files by time.

    Arguments:
        directory: does not exist, is empty, or has what an earlier call with the same arguments wrote.
        settings: what the events depend on.
        count: number of events, of all three kinds together; best a multiple of the out-of-order group size.
        file_format: of all files.
        files: files of each table, 1 to 10,000.
        interleaved: if False, each file goes on where the one before it ends, which is right for whoever
            reads one after the other. If True, the events are dealt out, `PIECE_EVENTS` at a time, so that
            readers of all files at the same time are at about the same event time.

    Raises:
        ConfigError: a number is out of its range, or the directory has something else.
        StorageError: files of the directory are missing or of another size than when they were written.
        OSError: a file cannot be written.
    """
    for name, value, most in (("files", files, _FILES_MAX), ("number of events", count, EVENTS_MAX)):
        if not 1 <= value <= most:
            raise ConfigError(f"Nexmark's {name} is {value}; expected 1 to {most}")
    wanted = Contents(GENERATOR_VERSION, asdict(settings), count, FileFormat(file_format), files, interleaved)
    if not _is_there(directory, wanted):
        _write_beside(directory, settings, wanted)
    paths = {
        table: [directory / _path(table, number, file_format) for number in range(files)] for table in TABLES
    }
    return Dataset(directory, file_format, paths)


def _is_there(directory: Path, wanted: Contents) -> bool:
    """Return whether a directory has the events that are wanted; False if it is absent or empty.
    ConfigError if it has others or was not generated; StorageError if files are missing or of other size.
    """
    if not directory.exists() or not any(directory.iterdir()):
        return False
    manifest = _manifest(directory)
    if manifest.contents != wanted:
        raise ConfigError(
            f"{directory} has events of other settings: {_differences(manifest.contents, wanted)}; "
            "remove it, or name another directory"
        )
    for name, size in manifest.sizes.items():
        path = directory / name
        if not path.is_file() or path.stat().st_size != size:
            got = f"{path.stat().st_size} bytes" if path.is_file() else "no file"
            raise StorageError(
                f"{path} is not what was written there: got {got}, expected {size} bytes; "
                f"remove {directory}, and it will be written again"
            )
    return True


def _manifest(directory: Path) -> Manifest:
    path = directory / MANIFEST
    if not path.is_file():
        raise ConfigError(
            f"{directory} is not empty and has no {MANIFEST}, so nobody generated events there; "
            "name another directory"
        )
    try:
        return json_decoder(Manifest).decode(path.read_bytes())
    except UNDECODABLE as problem:
        raise StorageError(
            f"{path} cannot be read ({problem}); remove {directory}, and it will be written again"
        ) from problem


def _differences(found: Contents, wanted: Contents) -> str:
    pairs = zip(_flat(found).items(), _flat(wanted).values(), strict=True)
    return ", ".join(f"{name} {has} (expected {asked})" for (name, has), asked in pairs if has != asked)


def _flat(contents: Contents) -> dict[str, int | str]:
    plain = msgspec.structs.asdict(contents)
    return {**plain.pop("settings"), **plain}


def _path(table: str, number: int, file_format: FileFormat) -> Path:
    return Path(table, f"part-{number:04d}.{file_format}")


def _write_beside(directory: Path, settings: NexmarkSettings, wanted: Contents) -> None:
    """Write a directory under a temporary name and rename it; another process's stays. Else StorageError."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(directory)
    try:
        for table in TABLES:
            (temporary / table).mkdir(parents=True)
        for number in range(wanted.files):
            _write_files(temporary, number, settings, wanted)
        sizes = {
            path.relative_to(temporary).as_posix(): path.stat().st_size
            for path in sorted(temporary.glob("*/*"))
        }
        (temporary / MANIFEST).write_bytes(msgspec.json.encode(Manifest(wanted, sizes)))
        with suppress(OSError):  # the check afterwards says what is there instead
            rename(temporary, directory)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if not _is_there(directory, wanted):
        raise StorageError(
            f"{directory} cannot be given to the finished events; make {directory.parent} writable"
        )


def _write_files(directory: Path, number: int, settings: NexmarkSettings, wanted: Contents) -> None:
    file_format = FileFormat(wanted.file_format)
    with ExitStack() as open_files:
        tables = []
        for table in TABLES:
            file = _new_file(directory / _path(table, number, file_format), file_format, SCHEMAS[table])
            tables.append(open_files.enter_context(closing(file)))
        for first, stop in _pieces(number, wanted):
            for file, batch in zip(tables, events(settings, first, stop)):
                file.write(batch)


def _new_file(path: Path, file_format: FileFormat, schema: pa.Schema) -> _TableFile:
    return _ParquetFile(path, schema) if file_format is FileFormat.PARQUET else _JsonFile(path)


def _pieces(number: int, wanted: Contents) -> Iterator[tuple[int, int]]:
    # As (first, stop), for the file of this number of each table.
    count = -(-wanted.events // PIECE_EVENTS)
    if wanted.interleaved:
        pieces = range(number, count, wanted.files)
    else:
        pieces = range(number * count // wanted.files, (number + 1) * count // wanted.files)
    for piece in pieces:
        yield piece * PIECE_EVENTS, min((piece + 1) * PIECE_EVENTS, wanted.events)


class _ParquetFile:
    """A Parquet file that is being written, in row groups of `ROW_GROUP_ROWS`."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        few = [name for name in schema.names if name in _FEW_VALUES]
        self._writer = pq.ParquetWriter(path, schema, use_dictionary=few, compression="snappy")
        self._waiting = pa.Table.from_batches([], schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting = pa.concat_tables([self._waiting, pa.Table.from_batches([batch])])
        full = self._waiting.num_rows // ROW_GROUP_ROWS * ROW_GROUP_ROWS
        if full:
            self._writer.write_table(self._waiting.slice(0, full), ROW_GROUP_ROWS)
            self._waiting = self._waiting.slice(full)

    def close(self) -> None:
        with self._writer:
            if self._waiting.num_rows:
                self._writer.write_table(self._waiting, ROW_GROUP_ROWS)


class _JsonFile:
    """A file of JSON lines that is being written."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.write(json_lines(batch))

    def close(self) -> None:
        self._file.close()
