"""The exactly-once files sink: writes pending files, and publishes them by rename after a checkpoint."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext, T
from headgate.api.source import Plain
from headgate.common.errors import UsageError
from headgate.common.files.stored_paths import unlinked
from headgate.connectors.files.committer import FilesCommitter
from headgate.connectors.files.file_names import PENDING, Prepared, final_name, part_name, pending_folder
from headgate.connectors.files.folder_layout import OPEN_FILES_DEFAULT, Layout
from headgate.connectors.files.part_file import PartFile
from headgate.connectors.files.paths import local_path

if TYPE_CHECKING:
    import pyarrow as pa

    from headgate.connectors.files.part_writers import PartWriter

ROLL_BYTES_DEFAULT: Final = 128 * 1024 * 1024

IfExists = Literal["append", "refuse"]


def json_sink(
    path: str | os.PathLike[str],
    *,
    roll_bytes: int = ROLL_BYTES_DEFAULT,
    if_exists: IfExists = "append",
    partition_by: str | Sequence[str] = (),
    open_files: int = OPEN_FILES_DEFAULT,
    success_markers: bool = False,
) -> FilesSink[T]:
    """Return a sink of JSON lines in files ``part-*.jsonl`` of a directory, exactly once.

    Dicts, rows, dataclasses and msgspec structs become objects, and a NamedTuple where it is the record;
    lists and tuples become arrays, also NamedTuples inside records. NaN and infinity, which JSON does not
    have, become null. Bytes become base64 text.

    Args:
        path: the output directory, on a disk that the driver and all workers share.
        roll_bytes: begin a new file, as at each checkpoint, when the present one has this many bytes.
        if_exists: "append" adds files to what the directory holds, which only ``older-snapshot=take-back``
            changes; a restored job needs it. "refuse": UsageError at start if files are visible there.
        partition_by: columns by whose values records go to folders such as ``day=2024-05-06``, as Spark
            writes and reads them; they are not in the files.
        open_files: how many files a subtask has open; when there are more partitions, it closes the one that
            it has not written to for longest.
        success_markers: whether to write an empty file ``_SUCCESS`` when a job has read all its input and
            published all output; what a later job publishes removes it until that one ends.

    Raises:
        UsageError: an argument is out of its bounds.
    """
    layout = Layout(partition_by, open_files, success_markers)
    return FilesSink(path, JsonFormat(), roll_bytes, if_exists, layout)


def parquet_sink(
    path: str | os.PathLike[str],
    schema: pa.Schema | None = None,
    *,
    roll_bytes: int = ROLL_BYTES_DEFAULT,
    if_exists: IfExists = "append",
    dictionary: bool = True,
    partition_by: str | Sequence[str] = (),
    open_files: int = OPEN_FILES_DEFAULT,
    success_markers: bool = False,
) -> FilesSink[T]:
    """Return a sink of Parquet files ``part-*.parquet`` in a directory, exactly once.

    Args:
        path: as for :func:`json_sink`.
        schema: the columns; None takes those of each writer's first batch, to which its later records must
            fit. A field that the schema does not have, or a value that Arrow does not convert, is refused; a
            missing field is null. Tuples without names have the columns ``_1``, ``_2``, ...
        roll_bytes: as for :func:`json_sink`.
        if_exists: as for :func:`json_sink`.
        dictionary: whether to look for repeated values: smaller files for several times the CPU time.
        partition_by: as for :func:`json_sink`.
        open_files: as for :func:`json_sink`.
        success_markers: as for :func:`json_sink`.

    Raises:
        UsageError: an argument is out of its bounds.
    """
    layout = Layout(partition_by, open_files, success_markers)
    if schema is not None:
        schema = layout.in_files(schema)
    return FilesSink(path, ParquetFormat(schema, dictionary), roll_bytes, if_exists, layout)


class FileFormat(Protocol):
    """Encoding of a sink's files: name, file suffix, and the encoder; picklable."""

    name: str  # for messages
    suffix: str  # of file names

    def opener(self) -> Callable[[PartFile], PartWriter]:
        """Return the function that makes an encoder for each new file of a sink writer, once per writer."""


class JsonFormat:
    """JSON lines as the format of a sink's files."""

    name, suffix = "JSON", ".jsonl"

    def opener(self) -> Callable[[PartFile], PartWriter]:
        from headgate.connectors.files.part_writers import JsonPartWriter

        return JsonPartWriter


class ParquetFormat:
    """Parquet as the format of a sink's files; without a schema, each writer takes its first batch's."""

    name, suffix = "Parquet", ".parquet"
    verb = "write_parquet"  # what the program called, for messages

    def __init__(self, schema: pa.Schema | None, dictionary: bool = True) -> None:
        self.schema, self.dictionary = schema, dictionary

    def opener(self) -> Callable[[PartFile], PartWriter]:
        from headgate.connectors.files.part_writers import Columns, ParquetPartWriter

        columns, dictionary = Columns(self.schema, self.verb), self.dictionary
        return lambda file: ParquetPartWriter(file, columns, dictionary)


class FilesSink(Sink[T, Prepared]):
    """Sink of files in a directory, exactly once; made by :func:`json_sink` and :func:`parquet_sink`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        file_format: FileFormat,
        roll_bytes: int,
        if_exists: IfExists,
        layout: Layout,
    ) -> None:
        if roll_bytes < 1:
            raise UsageError(f"the {file_format.name} sink got roll_bytes={roll_bytes}; expected 1 or more")
        if if_exists not in ("append", "refuse"):
            raise UsageError(
                f'the {file_format.name} sink got if_exists={if_exists!r}; expected "append" or "refuse"'
            )
        self.path, self.format, self.layout = local_path(path), file_format, layout
        self.roll_bytes, self.if_exists = roll_bytes, if_exists

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter[T, Prepared]:
        return FilesWriter(self, context)

    @override
    def create_committer(self) -> SinkCommitter[Prepared]:
        return FilesCommitter(self.path, self.layout.success_markers)

    @override
    def place(self) -> str:
        return self.path

    @override
    def arrow_schema(self) -> pa.Schema | None:
        return self.format.schema if isinstance(self.format, ParquetFormat) else None

    @override
    def validate(self) -> None:
        root = Path(self.path)
        if os.path.lexists(root) and not root.is_dir():
            raise UsageError(f"output {self.path!r} is a file; expected a directory or a new name")
        if root.is_dir() and self.if_exists == "refuse":
            visible = sorted(e.name for e in root.iterdir() if e.name[0] not in "_." or "=" in e.name)
            if visible:
                raise UsageError(
                    f"output directory {self.path!r} holds {visible[0]!r} already; empty it, choose another, "
                    'or use if_exists="append"'
                )
        for folder in (root, root / PENDING):
            _check_writable(folder)

    @override
    def describe(self) -> str:
        return f"{self.format.name} files {self.path}"


def _check_writable(folder: Path) -> None:
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write in {str(folder)!r}; allow writing there or choose another directory")


class _Part(NamedTuple):
    """The file that a sink writer is writing, its encoder, and its names before and after publication."""

    file: PartFile
    writer: PartWriter
    pending: str  # name until it is published
    final: str  # name from then on


class FilesWriter(SinkWriter[T, Prepared]):
    """Writes one pending file per folder at a time, each begun with its first record, so none is empty.
    A file ends at `roll_bytes`, at a checkpoint, and where more folders are written to than may be open.
    """

    accepts_columns = True

    def __init__(self, sink: FilesSink[T], context: SinkWriterContext) -> None:
        self._root, self._suffix = Path(sink.path), sink.format.suffix
        self._roll_bytes, self._context = sink.roll_bytes, context
        self._open_part = sink.format.opener()
        self._partitions, self._open_files = sink.layout.partitions(), sink.layout.open_files
        self._sequence = 0
        # By the folder of what it will be; the one that was written to last comes last.
        self._parts: OrderedDict[str, _Part] = OrderedDict()
        self._unprepared: list[tuple[PartFile, Prepared]] = []

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        if len(records) == 0:
            return
        if self._partitions is None:
            self._write("", records)
            return
        for folder, some in self._partitions.split(records):
            self._write(folder, some)

    def _write(self, folder: str, records: list[T] | pa.RecordBatch) -> None:
        part = self._parts.get(folder)
        if part is None:
            if len(self._parts) >= self._open_files:
                self._finish(next(iter(self._parts)))
            part = self._parts[folder] = self._begin(folder)
        self._parts.move_to_end(folder)
        part.writer.write(records)
        if part.file.size >= self._roll_bytes:
            self._finish(folder)

    @override
    def prepare_commit_at(self, checkpoint: int) -> list[Prepared]:
        ready = self.prepare_commit()
        return [{**each, "final": final_name(each["final"], checkpoint, self._suffix)} for each in ready]

    @override
    def prepare_commit(self) -> list[Prepared]:
        for folder in list(self._parts):
            self._finish(folder)
        finished, self._unprepared = self._unprepared, []
        return [ready for _, ready in finished]

    @override
    def close(self) -> None:
        unfinished = [*(file for file, _ in self._unprepared), *(part.file for part in self._parts.values())]
        self._unprepared = []
        self._parts.clear()
        for file in unfinished:
            file.discard()

    def _begin(self, folder: str) -> _Part:
        where = self._context
        who = where.job, where.uid, where.subtask, where.generation, where.attempt
        name = part_name(*who, self._sequence, self._suffix)
        pending = f"{PENDING}/{pending_folder(where.job, where.uid)}/{name}"
        self._sequence += 1
        file = PartFile(unlinked(self._root, pending))
        return _Part(file, self._open_part(file), pending, f"{folder}/{name}" if folder else name)

    def _finish(self, folder: str) -> None:
        file, writer, pending, final = self._parts[folder]
        writer.finish()
        file.make_durable()
        ready = Prepared(pending=pending, final=final, size=file.size, crc32=file.crc32)
        self._unprepared.append((file, ready))
        del self._parts[folder]
