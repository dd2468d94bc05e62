"""Rows of a DataFrame as checksummed Arrow files in a shared folder: Spark's tasks write, readers read.

Spark may run a task more than once, one after the other or at the same time. Each attempt writes files of its
own names and describes them in rows of its result; of those rows Spark keeps the winner's only. So files of
other attempts may be in the folder, and are never read. Nothing is removed here.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from headgate.common.errors import StorageError
from headgate.common.files.durable import crc32, read_bytes
from headgate.common.files.durable_file import Measured, writing
from headgate.common.files.permissions import Permissions, make_folder
from headgate.common.files.stored_paths import inside, made_folder
from headgate.common.plain_data import Plain
from headgate.connectors.dataframe.column_types import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ROWS_PER_FILE: Final = 500_000
"""Most rows of a staged file. One reader reads a file, so a long partition gives work to several readers."""
BYTES_PER_FILE: Final = 64 << 20
"""About the most bytes of a staged file, which a reader holds in memory to verify it before the first row."""

STAGING: Final = ".headgate-staging"
"""Name, below the root of all staging, of the folder for rows that enter or leave jobs."""

TO_SPARK: Final = ".headgate-to-spark"
"""Name of the folder next to `STAGING` for the rows of `to_spark()` and the journals of its epochs."""

_TOKEN: Final = re.compile(r"[^/]+/[^/]+/[0-9a-f]{16}", re.DOTALL)
_BELOW: Final = re.compile(r".+", re.DOTALL)
_ROW_TYPES: Final = "path string, rows long, size long, crc32 long, partition int, attempt int"


class StagedFile(NamedTuple):
    """Description of one staged file, as reported by the attempt of the Spark task that wrote it."""

    path: str  # below the folder
    rows: int  # in the file, at least one
    size: int  # bytes
    crc32: int  # of all bytes
    partition: int  # of the DataFrame
    attempt: int  # Spark's number of the task's attempt, from 0


def stage(
    frame: DataFrame,
    folder: str,
    *,
    max_rows_per_file: int = ROWS_PER_FILE,
    max_bytes_per_file: int = BYTES_PER_FILE,
    durable: bool = True,
) -> list[StagedFile]:
    """Compute a DataFrame, write its rows as Arrow files, and return the files of winning task attempts.

    Runs one Spark job in the calling thread, with that thread's pool and job group. The files are ordered by
    partition, each partition's rows in order; partitions without rows have no file. The driver and all
    executors share the folder. A partition with more rows, or more bytes in Arrow's memory, than a file may
    have becomes several files; only one batch with too many bytes is not split. Rows that would be staged
    anew after a power failure need not be `durable`. What the Spark job raises is raised here; files that
    were written until then stay in the folder, which is made if it is not there.
    """
    make_folder(folder)
    columns = arrow_schema(frame.schema).serialize().to_pybytes()
    into = Target(str(Path(folder).absolute()), columns, max_rows_per_file, max_bytes_per_file, durable)
    write = _writing_function(into, tuple(sys.path))
    found = _plainly_named(frame).mapInArrow(write, _ROW_TYPES).collect()
    return [StagedFile(**row.asDict()) for row in found]


def _plainly_named(frame: DataFrame) -> DataFrame:
    # PySpark takes each column by its name, as if a dot led into a struct and a backtick quoted. The writing
    # task knows the columns by their places.
    if not any(mark in name for name in frame.columns for mark in ".`"):
        return frame
    return frame.toDF(*(f"_{place}" for place in range(len(frame.columns))))


def read(folder: str, staged: StagedFile, from_row: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a staged file from row `from_row` (from 0) on, in order; no batch is empty.
    `folder` is the staging folder that has the file. StorageError, before anything is decoded, if the file is
    missing or not byte for byte what was written; after the last row if their number is wrong.
    """
    import pyarrow as pa

    path = inside(folder, staged.path, "a file of staged rows")
    file = pa.ipc.open_file(pa.py_buffer(_trusted_bytes(path, staged)))
    before = 0
    for number in range(file.num_record_batches):
        batch = file.get_batch(number)
        after = before + batch.num_rows
        if after > from_row:
            yield batch.slice(max(0, from_row - before))
        before = after
    if before != staged.rows:
        raise StorageError(
            f"staged file {str(path)!r} has {before} rows; expected {staged.rows}, as the task that wrote it "
            "said; restart the job from its last checkpoint"
        )


def staged_folder(stored: Plain) -> Path:
    """Return `stored`, the folder that a split names, as a path; StrayPathError: in no staging area."""
    return made_folder(stored, STAGING, _BELOW, "a folder of staged rows")


def complete_staging(stored: Plain) -> Path:
    """Return `stored`, which a snapshot names as the folder of a source's staged rows, as a path.
    StrayPathError for a path that :func:`stage` makes for no source, so that nothing else is opened.
    """
    return made_folder(stored, STAGING, _TOKEN, "a folder of staged rows")


def _trusted_bytes(path: Path, staged: StagedFile) -> bytes:
    mend = "is the staging folder on a disk that all workers share, and was it left alone?"
    try:
        data = read_bytes(path)
    except OSError as problem:
        reason = problem.strerror or problem
        raise StorageError(f"cannot read staged file {str(path)!r}: {reason}; {mend}") from problem
    if len(data) != staged.size:
        raise StorageError(
            f"staged file {str(path)!r} ends at byte {len(data)}; expected {staged.size} bytes; {mend}"
        )
    found = crc32(data)
    if found != staged.crc32:
        raise StorageError(
            f"staged file {str(path)!r} is damaged somewhere in bytes 0 to {len(data)}: its CRC-32 is "
            f"{found:#010x}; expected {staged.crc32:#010x}; {mend}"
        )
    return data


class Target(NamedTuple):
    """Where and how the tasks of a staging job write: folder, Arrow schema, limits of a file."""

    folder: str  # absolute
    columns: bytes  # the Arrow schema to write, serialised
    max_rows: int  # of a file
    max_bytes: int  # of a file
    durable: bool  # whether files outlive a machine that loses power


def _writing_function(
    target: Target, paths: tuple[str, ...]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # Pickled by value; it adds the driver's import paths before it imports this module.
    values = tuple(target)  # their class is importable only with that path

    def headgate_feeder(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        sys.path.extend(path for path in paths if path not in sys.path)
        from headgate.connectors.dataframe.staged_files import Target, write_attempt

        yield from write_attempt(batches, Target._make(values))

    return headgate_feeder


def write_attempt(batches: Iterator[pa.RecordBatch], target: Target) -> Iterator[pa.RecordBatch]:
    """Write the rows of one attempt of a Spark task as staged files; called in the task, by `mapInArrow`.
    Yields a batch with one row, the fields of a :class:`StagedFile`, after each complete file. An attempt
    that fails leaves files that no result names. The folder must exist.
    """
    import pyarrow as pa
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None, "only tasks of Spark call this"
    schema = pa.ipc.read_schema(pa.py_buffer(target.columns))
    counts = {"rows": pa.int64(), "size": pa.int64(), "crc32": pa.int64()}
    kind = pa.schema({"path": pa.string(), **counts, "partition": pa.int32(), "attempt": pa.int32()})
    prefix = f"{task.partitionId():05d}-{task.taskAttemptId()}-{secrets.token_hex(4)}"
    for number, part in enumerate(_in_parts(batches, (target.max_rows, target.max_bytes))):
        name = f"{prefix}-{number:04d}.arrow"
        rows, size, checksum = _write_file(Path(target.folder) / name, schema, part, target.durable)
        made = StagedFile(name, rows, size, checksum, task.partitionId(), task.attemptNumber())
        yield pa.RecordBatch.from_pylist([made._asdict()], schema=kind)


def _in_parts(
    batches: Iterator[pa.RecordBatch], limits: tuple[int, int]
) -> Iterator[Iterator[pa.RecordBatch]]:
    # Each run of batches fits into a file, and must be used up before the next.
    max_rows, max_bytes = limits
    queue = (
        batch.slice(start, max_rows) for batch in batches for start in range(0, batch.num_rows, max_rows)
    )
    head = next(queue, None)

    def run() -> Iterator[pa.RecordBatch]:
        nonlocal head
        rows = size = 0
        while head is not None and (
            rows == 0 or (rows + head.num_rows <= max_rows and size + head.nbytes <= max_bytes)
        ):
            rows, size = rows + head.num_rows, size + head.nbytes
            yield head
            head = next(queue, None)

    while head is not None:
        yield run()


def _write_file(
    path: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch], durable: bool
) -> tuple[int, int, int]:
    import pyarrow as pa

    rows = 0
    with writing(path, Permissions.UMASK, durable=durable) as file:
        measured = Measured(file)
        with pa.ipc.new_file(pa.PythonFile(measured, mode="w"), schema) as writer:
            for batch in batches:
                writer.write_batch(batch.rename_columns(schema.names).cast(schema))
                rows += batch.num_rows
    return rows, measured.size, measured.crc32
