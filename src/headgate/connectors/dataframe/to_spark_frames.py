"""Staged rows as DataFrames for a writer, read in Spark jobs with a pool and a job group of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from typing_extensions import override

from headgate.common.errors import FencedError, UsageError
from headgate.connectors.dataframe.connector import first_line
from headgate.connectors.dataframe.writers.writer_contract import EpochWriter, SparkEpoch

if TYPE_CHECKING:
    import pyarrow as pa
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

POOL: Final = "headgate-writers"
"""FAIR scheduler pool of writing Spark jobs, so that a gang's and the program's own do not starve them."""

Columns = list[tuple[str, str]]  # names and types, in order


class Frames(Protocol):
    """Opens staged Parquet files as DataFrames for epoch writers."""

    def columns(self, paths: Sequence[str]) -> Columns:
        """Return names and types of the columns in staged files; UsageError if a column has two types."""

    def opened(
        self, paths: Sequence[str], columns: Columns, epoch: SparkEpoch, writer: EpochWriter
    ) -> contextlib.AbstractContextManager[DataFrame]:
        """Provide files' rows as a DataFrame of `columns` while `writer` writes; FencedError if cancelled."""

    def cancel(self) -> None:
        """Cancel the running write; later ones raise FencedError. Called from another thread."""


class SparkFrames(Frames):
    """Opens staged rows with a Spark session. Without a schema the columns are those of the files."""

    def __init__(self, spark: SparkSession, schema: StructType | None) -> None:
        self._spark, self._schema = spark, schema
        self._group, self._cancelled = "", False

    @override
    def columns(self, paths: Sequence[str]) -> Columns:
        import pyarrow.parquet as pq

        if self._schema is not None:
            return [(field.name, field.dataType.simpleString()) for field in self._schema.fields]
        return agreed([columns_of(pq.read_schema(path)) for path in paths])

    @override
    @contextmanager
    def opened(
        self, paths: Sequence[str], columns: Columns, epoch: SparkEpoch, writer: EpochWriter
    ) -> Iterator[DataFrame]:
        session = self._spark.newSession() if writer.own_session else self._spark
        with self._job(f"headgate-to-spark-{epoch.job}-{epoch.generation}-{epoch.token}", epoch):
            # Dates before 1582 are those of today's calendar, whatever the session says of old files.
            read = session.read.options(mergeSchema="true", datetimeRebaseMode="CORRECTED")
            if self._schema is not None:
                read = read.schema(self._schema)
            files = read.parquet(*(f"file://{path}" for path in paths))
            yield files.select(*(f"`{name.replace('`', '``')}`" for name, _ in columns))

    @override
    def cancel(self) -> None:
        self._cancelled = True
        if self._group:
            with contextlib.suppress(Exception):  # a JVM that has exited writes nothing
                self._spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group)

    @contextmanager
    def _job(self, group: str, epoch: SparkEpoch) -> Iterator[None]:
        # The pool and group of the block's Spark jobs, so that `cancel` reaches them.
        context: Any = self._spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", POOL)
        context.setJobGroup(group, f"sink {epoch.sink}: epoch {epoch.epoch}", interruptOnCancel=True)
        self._group = group
        try:
            # Whoever cancels says so first and then looks at the group.
            if self._cancelled:
                raise FencedError(f"epoch {epoch.epoch} of sink {epoch.sink!r} is not written any more")
            yield
        finally:
            self._group = ""
            for key in ("spark.scheduler.pool", *_GROUP_PROPERTIES):
                context.setLocalProperty(key, None)


_GROUP_PROPERTIES: Final = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


def columns_of(schema: pa.Schema) -> Columns:
    """Return the columns of a staged file's Arrow schema, with the types that Spark gives them."""
    from pyspark.sql.pandas.types import from_arrow_type

    found = []
    for field in schema:
        try:
            kind = from_arrow_type(field.type, prefer_timestamp_ntz=True).simpleString()
        except Exception:  # what Spark has no name for goes by Arrow's
            kind = str(field.type)
        found.append((field.name, kind))
    return found


def agreed(files: Sequence[Columns]) -> Columns:
    """Return the merged columns of several staged files. A column with two types raises UsageError.

    Example:
        >>> agreed([[("a", "bigint")], [("b", "string"), ("a", "bigint")]])
        [('a', 'bigint'), ('b', 'string')]
    """
    kinds: dict[str, str] = {}
    for name, kind in (column for columns in files for column in columns):
        if kinds.setdefault(name, kind) != kind:
            raise UsageError(
                f"to_spark() got column {name!r} as {kinds[name]} from one subtask and as {kind} from "
                "another; give to_spark(schema=...) or convert the records"
            )
    return list(kinds.items())


def same_columns(expected: Columns, found: Columns, epoch: str) -> Columns:
    """Return `expected`, the columns of earlier epochs, if `found` are the same in any order.

    UsageError, naming `epoch`, for one that is missing, new or of another type.

    Example:
        >>> same_columns([("a", "int"), ("b", "int")], [("b", "int"), ("a", "int")], "epoch 7")
        [('a', 'int'), ('b', 'int')]
    """
    before, now = dict(expected), dict(found)
    for name in {**before, **now}:
        if before.get(name) != now.get(name):
            raise UsageError(
                f"{epoch} of to_spark() has column {name!r} {_shown(now, name)}; expected it "
                f"{_shown(before, name)}, as in earlier epochs; give to_spark(schema=...) or convert the "
                "records"
            )
    return expected


def _shown(columns: Mapping[str, str], name: str) -> str:
    return f"as {columns[name]}" if name in columns else "absent"


def cause(error: Exception) -> str:
    r"""Return why a write failed, in one line; of a Java error the innermost cause, as outer ones say where.

    Example:
        >>> cause(ValueError("no such table: t\n  at line 1"))
        'ValueError: no such table: t'
    """
    java: JavaObject | None = getattr(error, "java_exception", None)
    if java is None:
        return f"{type(error).__name__}: {first_line(error)}"
    while (inner := java.getCause()) is not None:
        java = inner
    return str(java.toString()).splitlines()[0]
