"""The sink of `stream.to_spark()`: workers stage rows, the driver passes epochs to a writer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from typing_extensions import override

from headgate.api.sink import Sink, SinkCommitter, SinkWriter, SinkWriterContext, T
from headgate.api.source import Plain
from headgate.common.errors import UsageError
from headgate.common.files.permissions import make_folder
from headgate.connectors.dataframe.arrow_rows import TypedRows, check_schema, struct_of, typed_rows
from headgate.connectors.dataframe.connector import DataFrameConnector, unprepared
from headgate.connectors.dataframe.sink import ForwardingWriter, TypedWriter
from headgate.connectors.dataframe.to_spark_commit import SparkCommitter
from headgate.connectors.dataframe.to_spark_frames import Frames, SparkFrames
from headgate.connectors.dataframe.to_spark_staging import StagedRows, Staging, staged_parquet
from headgate.connectors.dataframe.writers.writer_contract import EpochWriter, FunctionWriter, R, SparkEpoch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def spark_sink(
    write: EpochWriter | Callable[[DataFrame, SparkEpoch], R], schema: StructType | str | None = None
) -> SparkSink:
    """Return the sink of `to_spark()`, which passes the records to `write` in epochs.

    An epoch is the records between two checkpoints, passed once the later one is complete. An `EpochWriter`
    makes it visible once. A function gets it again, with the same rows, after a failure in the middle.
    Without `schema`: columns of each subtask's first records (tuples: ``_1``, ...). UsageError: wrong types.
    """
    if not isinstance(write, EpochWriter) and not callable(write):
        raise UsageError(
            f"to_spark() got {type(write).__name__}; expected a function of (frame, epoch), or a writer such "
            "as headgate.spark.parquet(path)"
        )
    check_schema(schema, "to_spark")
    return SparkSink(write if isinstance(write, EpochWriter) else FunctionWriter(write), schema)


class SparkSink(Sink[T, StagedRows], DataFrameConnector):
    """Sink whose writers stage Parquet files and whose committer writes epochs; see :func:`spark_sink`."""

    accepts_columns = True
    leaves_output = False
    verb = "to_spark"
    # Workers stage; the writer may hold what only a driver can have.
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
        struct = None if self._schema is None else struct_of(self._schema, self.verb)
        self._rows = None if struct is None else typed_rows(struct, self.verb)
        self.stage_in(folder, SparkFrames(spark, struct))

    def stage_in(self, folder: str, frames: Frames) -> None:
        make_folder(folder)
        self._folder, self._frames = folder, frames

    @override
    def create_writer(
        self, context: SinkWriterContext, restored: Sequence[Plain]
    ) -> SinkWriter[T, StagedRows]:
        if self._folder is None:
            raise unprepared("to_spark")
        columns = None if self._rows is None else self._rows.schema
        files = staged_parquet(self._folder, columns).create_writer(context, restored)
        files = files if self._rows is None else TypedWriter(files, self._rows)
        return StagingWriter(files, self._folder, context)

    @override
    def create_committer(self) -> SinkCommitter[StagedRows]:
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


class StagingWriter(ForwardingWriter[T]):
    """Writes pending Parquet files in the staging folder; committables name the attempt and checkpoint."""

    def __init__(self, files: SinkWriter[T], root: str, context: SinkWriterContext) -> None:
        super().__init__(files)
        self._root, self._context = root, context

    @override
    def prepare_commit(self) -> list[StagedRows]:
        return self.prepare_commit_at(0)

    @override
    def prepare_commit_at(self, checkpoint: int) -> list[StagedRows]:
        where = self._context
        return [
            StagedRows(
                root=self._root,
                pending=ready["pending"],
                size=ready["size"],
                crc32=ready["crc32"],
                job=where.job,
                generation=where.generation,
                attempt=where.attempt,
                checkpoint=checkpoint,
            )
            for ready in self._inner.prepare_commit()
        ]
