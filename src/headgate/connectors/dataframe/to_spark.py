"""The sink of `stream.to_spark()`: workers stage rows, the driver hands each epoch on as a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext
from headgate.api.source import Plain, T
from headgate.common.errors import UsageError
from headgate.common.files.permissions import make_folder
from headgate.connectors.dataframe.arrow_rows import TypedRows
from headgate.connectors.dataframe.column_types import arrow_schema, check_types
from headgate.connectors.dataframe.connector import DataFrameConnector, first_line, unprepared
from headgate.connectors.dataframe.sink import TypedWriter
from headgate.connectors.dataframe.to_spark_commit import SparkCommitter
from headgate.connectors.dataframe.to_spark_frames import Frames, SparkFrames
from headgate.connectors.dataframe.to_spark_staging import Staging, staged_parquet
from headgate.connectors.dataframe.writers.writer_contract import EpochWriter, FunctionWriter, R, SparkEpoch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def spark_sink(
    write: EpochWriter | Callable[[DataFrame, SparkEpoch], R], schema: StructType | str | None = None
) -> SparkSink:
    """A sink that hands what each checkpoint completes to `write`, as a DataFrame.

    Args:
        write: a writer of `headgate.connectors.dataframe.writers`, whose epochs come once; or a function of
            the DataFrame and the :class:`SparkEpoch`, which gets an epoch again, with the same rows,
            where the job broke off.
        schema: a ``StructType`` or its text, such as ``"author string, commits long"``; None takes the
            columns of the first records. Tuples without names get the columns ``_1``, ``_2``, ...

    Raises:
        UsageError: `write` or `schema` is something else.
    """
    if not isinstance(write, EpochWriter) and not callable(write):
        raise UsageError(
            f"to_spark() got {type(write).__name__}; expected a function of (frame, epoch), or a writer such "
            "as headgate.spark.parquet(path)"
        )
    if schema is not None and not isinstance(schema, str) and type(schema).__name__ != "StructType":
        raise UsageError(
            f"to_spark() got a schema of type {type(schema).__name__}; expected a StructType or text such as "
            "'author string, commits long'"
        )
    return SparkSink(write if isinstance(write, EpochWriter) else FunctionWriter(write), schema)


class SparkSink(Sink, DataFrameConnector):
    """See :func:`spark_sink`."""

    accepts_columns = True
    leaves_output = False
    verb = "to_spark"
    # Workers stage; what writes may hold whatever only a driver can have.
    driver_only = ("_writer", "_frames", "_schema")

    def __init__(self, writer: EpochWriter, schema: StructType | str | None) -> None:
        self.guarantee = writer.guarantee
        self._writer: EpochWriter | None = writer
        self._schema, self._description = schema, f"to_spark: {writer.describe()}"
        self._folder: str | None = None
        self._rows: TypedRows | None = None
        self._frames: Frames | None = None

    @override
    def prepare(self, spark: SparkSession, folder: str) -> None:
        struct = None if self._schema is None else _struct(self._schema)
        self._rows = None if struct is None else _typed_rows(struct)
        self.stage_in(folder, SparkFrames(spark, struct))

    def stage_in(self, folder: str, frames: Frames) -> None:
        """Settle where rows are staged, and what makes DataFrames of them."""
        make_folder(folder)
        self._folder, self._frames = folder, frames

    @override
    def create_writer(self, context: SinkWriterContext, restored: Sequence[Plain]) -> SinkWriter:
        if self._folder is None:
            raise unprepared("to_spark")
        columns = None if self._rows is None else self._rows.schema
        files = staged_parquet(self._folder, columns).create_writer(context, restored)
        files = files if self._rows is None else TypedWriter(files, self._rows)
        return StagingWriter(files, self._folder, context)

    @override
    def create_committer(self) -> SinkCommitter:
        assert self._writer is not None, "only the program's own object commits"
        return SparkCommitter(Staging(self._folder), self._writer, self._frames)

    @override
    def place(self) -> str | None:
        return None if self._writer is None else self._writer.place()

    @override
    def validate(self) -> None:
        assert self._writer is not None, "only the program's own object is checked"
        self._writer.check()

    @override
    def describe(self) -> str:
        return self._description


class StagingWriter(SinkWriter[T]):
    """Writes pending files of the Parquet sink, and describes them by where they come from."""

    accepts_columns = True

    def __init__(self, files: SinkWriter[T], root: str, context: SinkWriterContext) -> None:
        self._files, self._root, self._context = files, root, context

    @override
    def write(self, records: list[T] | pa.RecordBatch) -> None:
        self._files.write(records)

    @override
    def prepare_commit(self) -> list[Plain]:
        return self.prepare_commit_at(0)

    @override
    def prepare_commit_at(self, checkpoint: int) -> list[Plain]:
        where = self._context
        origin = {"job": where.job, "generation": where.generation, "attempt": where.attempt}
        return [
            {
                "root": self._root,
                "pending": ready["pending"],
                "size": ready["size"],
                "crc32": ready["crc32"],
                **origin,
                "checkpoint": checkpoint,
            }
            for ready in self._files.prepare_commit()
        ]

    @override
    def close(self) -> None:
        self._files.close()


def _struct(schema: StructType | str) -> StructType:
    from pyspark.sql.types import StructType

    if not isinstance(schema, str):
        return schema
    try:
        found = StructType.fromDDL(schema)
    except Exception as error:
        raise UsageError(f"the schema of to_spark() is wrong: {first_line(error)}") from error
    assert isinstance(found, StructType), "a list of columns is a struct"
    return found


def _typed_rows(schema: StructType) -> TypedRows:
    check_types(schema, "to_spark")
    shown = {field.name: field.dataType.simpleString() for field in schema}
    required = frozenset(field.name for field in schema if not field.nullable)
    return TypedRows(arrow_schema(schema), shown, required, "to_spark")
