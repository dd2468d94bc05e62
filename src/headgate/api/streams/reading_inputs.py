"""The ways into a dataflow: files, collections, generators, Spark DataFrames, and any other source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from headgate.api.checking import inference
from headgate.api.checking.arguments import made_by, path_uid, refuse_arity, refuse_unawaited
from headgate.api.site import user_site
from headgate.api.source import Source
from headgate.api.streams.event_time import WatermarkStrategy
from headgate.api.streams.stream_classes import DataStream
from headgate.common.errors import PlanError
from headgate.common.hints import Hint
from headgate.common.refusals.calls import called
from headgate.common.registry import Kind, load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headgate.api.tables.column_table import Table
    from headgate.records.row import Row

T = TypeVar("T")

OnError = Literal["fail", "skip", "side-output"]
Paths = str | PathLike[str] | Iterable[str | PathLike[str]]


class Readers(ABC):
    """The methods of the Environment that begin a stream: from files, collections, Spark or any source."""

    def from_source(
        self,
        source: Source[T],
        uid: str | None = None,
        name: str | None = None,
        watermarks: WatermarkStrategy | None = None,
        parallelism: int | None = None,
    ) -> DataStream[T]:
        """Begin a stream with a source.

        Args:
            source: the description of the input.
            uid: names the source's position; needed when checkpoints are on.
            name: of the operator, for people; by default the source's own description.
            watermarks: gives the records event time, as ``with_watermarks`` right after the source.
            parallelism: of the source; the job's default when None.

        Raises:
            PlanError: `source` is no :class:`Source`.
        """
        if not isinstance(source, Source):
            raise PlanError(f"from_source() ({user_site()}) got {type(source).__name__}; expected a Source")
        stream = self._begin(source, name or source.describe(), uid, inference.source_output(source))
        if parallelism is not None:
            stream.set_parallelism(parallelism)
        return stream if watermarks is None else stream.with_watermarks(watermarks)

    @overload
    def read_json(
        self, path: Paths, schema: type[T], on_error: OnError = "fail", uid: str | None = None, **options: Any
    ) -> DataStream[T]: ...
    @overload
    def read_json(
        self,
        path: Paths,
        schema: None = None,
        on_error: OnError = "fail",
        uid: str | None = None,
        **options: Any,
    ) -> DataStream[dict[str, Any]]: ...
    @overload
    def read_json(
        self, path: Paths, schema: Any, on_error: OnError = "fail", uid: str | None = None, **options: Any
    ) -> DataStream[Any]: ...
    def read_json(
        self,
        path: Paths,
        schema: Any = None,
        on_error: OnError = "fail",
        uid: str | None = None,
        **options: Any,
    ) -> DataStream[Any]:
        """Read files of JSON lines, plain or compressed, as a stream; PlanError for a wrong argument.

        Args:
            path: a file, a directory, a glob, or several of these.
            schema: a record type (dataclass, TypedDict, NamedTuple, msgspec.Struct, attrs class, pydantic
                model), or a ``pyarrow.Schema`` for columnar records; None gives dicts.
            on_error: what happens to a line that does not decode: "fail" the job, naming file and
                line; "skip" and count it; or send a BadRecord to the ``side_output`` "bad-records".
            uid: names the position in the files; made from the path when omitted.
            options: further arguments of ``json_source`` in ``headgate.connectors.files``.
        """
        return self._read("json_source", "read_json", path, schema, on_error, uid, options)

    @overload
    def read_csv(
        self, path: Paths, schema: type[T], on_error: OnError = "fail", uid: str | None = None, **options: Any
    ) -> DataStream[T]: ...
    @overload
    def read_csv(
        self,
        path: Paths,
        schema: None = None,
        on_error: OnError = "fail",
        uid: str | None = None,
        **options: Any,
    ) -> DataStream[dict[str, str]]: ...
    @overload
    def read_csv(
        self, path: Paths, schema: Any, on_error: OnError = "fail", uid: str | None = None, **options: Any
    ) -> DataStream[Any]: ...
    def read_csv(
        self,
        path: Paths,
        schema: Any = None,
        on_error: OnError = "fail",
        uid: str | None = None,
        **options: Any,
    ) -> DataStream[Any]:
        """Read CSV files as :meth:`read_json` does; without `schema`, records are dicts of texts. Options are
        `delimiter`, one ASCII character, and `header`: whether the first row names the fields.
        """
        return self._read("csv_source", "read_csv", path, schema, on_error, uid, options)

    def read_parquet(
        self, path: Paths, columns: Iterable[str] | None = None, uid: str | None = None, **options: Any
    ) -> DataStream[Row]:
        """Read Parquet files as a stream of rows, which stay columnar up to the first per-record function.

        Args:
            path: a file, a directory, a glob, or several of these.
            columns: the columns to read; None reads all.
            uid: names the position in the files; made from the path when omitted.
            options: arguments of ``parquet_source`` in ``headgate.connectors.files``; PlanError for others.
        """
        chosen = None if columns is None else list(columns)
        source, paths = _made("parquet_source", "read_parquet", path, {"columns": chosen, **options})
        source.produces_columns = True
        return self._begin(source, "read_parquet", uid or path_uid("read_parquet", paths), None)

    def table(self, source: Paths | DataFrame, uid: str | None = None) -> Table[DataStream[Row]]:
        """Begin a table with Parquet files or a Spark DataFrame; UsageError: its columns cannot be read now.

        Args:
            source: a file, directory, glob, or several; or a bounded or streaming ``pyspark.sql.DataFrame``.
            uid: names the position in the input; for files it is made from the path when omitted.
        """
        if hasattr(source, "sparkSession"):
            return self.from_spark(source, uid).to_table()  # type: ignore[arg-type]  # by a mark of DataFrames
        return self.read_parquet(source, uid=uid).to_table()

    def from_collection(self, records: Iterable[T], uid: str | None = None) -> DataStream[T]:
        """Begin a stream with records from memory; for tests and small tables.

        Args:
            records: anything iterable, which is read now.
            uid: names the position in the records; needed when checkpoints are on.
        """
        kept = list(records)
        with made_by("from_collection"):
            source = load(Kind.CONNECTOR, "collection_source")(kept)
        return self._begin(source, "from_collection", uid, inference.common_scalar(kept))

    def from_quarantine(
        self,
        path: str | PathLike[str],
        operator: str | None = None,
        schema: type[T] | None = None,
        uid: str | None = None,
    ) -> DataStream[T]:
        """Begin a stream with the records of a quarantine, each once, those of a subtask in their order.

        For the next version of a program: union it in before the function that can process them now. What is
        discarded is left out, and so are timers. What is quarantined after the job began for the first time
        is left for another such stream. That one reads the first lot again, too, unless it is discarded.

        Args:
            path: the checkpoint directory, ``quarantine.dir``, or a folder in one of them.
            operator: uid of the operator whose records are meant; None: all that are there.
            schema: the class of the records, if they are stored as its fields (a dataclass, NamedTuple or
                msgspec.Struct); None gives plain values, such as dicts.
            uid: names the position in the files; made from the path when omitted.
        """
        with made_by("from_quarantine"):
            source = load(Kind.CONNECTOR, "quarantine_source")(path, operator, schema)
        name = uid or path_uid("from_quarantine", path)
        return self._begin(source, "from_quarantine", name, schema).set_parallelism(1)

    def from_spark(
        self, dataframe: DataFrame, uid: str | None = None, trigger: str | None = None
    ) -> DataStream[Row]:
        """Begin a stream with the rows of a Spark DataFrame, bounded or streaming.

        Rows stay columnar up to the first per-record function. The rows of a bounded one are computed once,
        when the job is executed. Those of a streaming one come epoch by epoch, as Spark plans them, and every
        checkpoint lies between two epochs.

        Args:
            dataframe: of a classic session; a streaming one with stateless SQL only.
            uid: names the position in the rows; needed when checkpoints are on.
            trigger: of a streaming DataFrame: when Spark looks for input. "available-now" reads what is there
                and ends, "processing-time 1s" looks once a second; None looks all the time.

        Raises:
            UsageError: `dataframe` is something else, of Spark Connect, stateful, or has a column of a type
                that would not come through unchanged; or there is no such trigger.
        """
        source = load(Kind.CONNECTOR, "spark_source")(dataframe, uid or "from_spark", trigger)
        return self._begin(source, "from_spark", uid, None)

    def generate(
        self,
        function: Callable[[int], T],
        count: int | None = None,
        rate_per_s: float | None = None,
        uid: str | None = None,
        **options: Any,
    ) -> DataStream[T]:
        """Begin a stream with records that a function makes, for tests and load.

        Args:
            function: makes the record of an index, counted from 0.
            count: number of records; None: the stream never ends.
            rate_per_s: at most so many records per second, of all subtasks together; None: no limit.
            uid: names the position (the next index); needed when checkpoints are on.
            options: further arguments of ``generator_source`` in ``headgate.connectors``.

        Raises:
            PlanError: `function` is no function of an index, or a number is not positive.
        """
        if not callable(function):
            raise PlanError(f"generate() ({user_site()}) got {function!r}; expected a function of an index")
        refuse_arity(f"generate() ({user_site()})", function, "an index")
        refuse_unawaited("generate", function)
        for what, number in (("count", count), ("rate_per_s", rate_per_s)):
            if number is not None and not number > 0:
                raise PlanError(f"{what} of generate() ({user_site()}) is {number!r}; expected more than 0")
        make = called("generate", load(Kind.CONNECTOR, "generator_source"))
        with made_by("generate"):
            source = make(function, count=count, rate_per_s=rate_per_s, **options)
        return self._begin(source, "generate", uid, inference.map_output(function))

    def _read(
        self,
        connector: str,
        verb: str,
        path: Paths,
        schema: Any,
        on_error: OnError,
        uid: str | None,
        options: dict[str, Any],
    ) -> DataStream[Any]:
        if on_error not in ("fail", "skip", "side-output"):
            raise PlanError(
                f"on_error of {verb}() ({user_site()}) is {on_error!r}; "
                "expected 'fail', 'skip' or 'side-output'"
            )
        given = {"schema": schema, "on_error": on_error, **options}
        source, paths = _made(connector, verb, path, given)
        kind = schema if isinstance(schema, type) else None
        source.produces_columns = type(schema).__module__.startswith("pyarrow")
        return self._begin(source, verb, uid or path_uid(verb, paths), kind)

    @abstractmethod
    def _begin(
        self, source: Source[T], name: str, uid: str | None, record_type: Hint | None
    ) -> DataStream[T]:
        """Add a source node to the program; return its stream. `record_type` None: the type is unknown."""


def _made(connector: str, verb: str, path: Paths, options: dict[str, Any]) -> tuple[Source, str | list[str]]:
    paths = fspath(path) if isinstance(path, (str, PathLike)) else [fspath(each) for each in path]
    with made_by(verb):
        return called(verb, load(Kind.CONNECTOR, connector))(paths, **options), paths
