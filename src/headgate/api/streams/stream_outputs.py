"""Name, uid and parallelism of operators, and the ways out of a stream: sinks, DataFrames, its records. Only
`preview`, `take`, `collect`, `to_dataframe` run a job: of what feeds the stream, outside the program.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from headgate.api.checking import inference
from headgate.api.checking.arguments import made_by, path_uid
from headgate.api.showing import Preview, ShownAsLine, counted, html_facts
from headgate.api.sink import Sink
from headgate.api.site import user_site
from headgate.api.streams import looks as queries
from headgate.api.streams.steps import ProgramContext
from headgate.common.errors import PlanError
from headgate.common.refusals.calls import called
from headgate.common.registry import Kind, load
from headgate.graph import logical
from headgate.graph.rewrites import VIRTUAL
from headgate.graph.type_text import type_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

T = TypeVar("T")


class Operator:
    """A step of the program, as calls of streams return it; its name, uid and parallelism can be set."""

    def __init__(self, environment: ProgramContext, number: int) -> None:
        self._environment, self._number = environment, number

    def __repr__(self) -> str:
        facts = self._facts()
        details = "".join(f", {name} {value}" for name, value in facts.items())
        return f"<{type(self).__name__} {self._node.name!r}{details}>"

    def _repr_html_(self) -> str:
        return html_facts(f"{type(self).__name__} {self._node.name}", self._facts())

    def _facts(self) -> dict[str, str | int]:
        node = self._node
        facts = {
            "of": None if node.record_type is None else type_text(node.record_type),
            "uid": None if node.uid is None else repr(node.uid),
            "parallelism": node.parallelism,
            "written at": node.site or None,
        }
        return {name: value for name, value in facts.items() if value is not None}

    @property
    def _node(self) -> logical.Node:
        return self._environment.program.node(self._number)

    def name(self, name: str) -> Self:
        """Set the name that plans and logs show of the operator; PlanError for a sink that a job has run."""
        self._environment.program.change(self._number, name=name)
        return self

    def uid(self, uid: str) -> Self:
        """Set the operator's uid, by which a later version of the program finds its state.

        Args:
            uid: unique in the program; printable, at most 200 characters, no slash.

        Raises:
            PlanError: not a uid, a sink that a job has run, or a step that is no operator (``union``, ...).
        """
        self._demand_operator("a uid")
        self._environment.program.change(self._number, uid=uid)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks of this operator alone.

        Raises:
            PlanError: not an int above 0, a sink that a job has run, or no operator (``union``, ...).
        """
        self._demand_operator("a parallelism")
        self._environment.program.change(self._number, parallelism=parallelism)
        return self

    def _demand_operator(self, what: str) -> None:
        if isinstance(self._node, VIRTUAL):
            raise PlanError(
                f"{self._node.name}() ({user_site()}) was given {what}, but it only says how records "
                f"travel; give {what} to the operator before or behind it"
            )


class StreamSink(Operator):
    """A sink in the program, as the calls that write a stream return it."""


def add_sink(
    environment: ProgramContext, number: int, sink: Sink[T], uid: str | None, name: str | None = None
) -> StreamSink:
    """Add `sink` for stream `number` to the program; return its step. `name` None: the sink's description."""
    node = logical.SinkNode(logical.NEW, name or sink.describe(), sink=sink, uid=uid)
    return StreamSink(environment, environment.program.add(node, (number,)))


class Looks(Generic[T]):
    """Base class of streams with the calls that show their records: print, collect, take, preview."""

    _environment: ProgramContext
    _number: int

    def print(self, uid: str | None = None) -> StreamSink:
        """Have ``execute()`` print every record, as soon as it comes; after a failure some are printed again.

        Records are shown as output of user code is (``docs/cli-output.md``): with the subtask that printed
        them, above the line of progress.

        Args:
            uid: of the sink; stands on each of its lines.
        """
        uid = uid or self._environment.free_uid("print")
        return add_sink(self._environment, self._number, load(Kind.CONNECTOR, "print_sink")(), uid, "print")

    def collect(self, job_name: str = "collect") -> list[T]:
        """Return all records of this stream. Runs only what feeds it, and leaves the program open.

        The program's sinks are not run, nothing is restored, and no checkpoints are taken. The stream must be
        bounded, with at most a million records, which must fit into the driver's memory. To collect several
        streams of one job, or together with its sinks, use :meth:`collect_later`.

        Args:
            job_name: of the job.

        Raises:
            UsageError: what feeds the stream cannot run as written; nothing was started.
            UserFunctionError: the program's code failed.
            JobFailedError: anything else failed.

        Example:
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=2, executor=MiniCluster())
            >>> numbers = env.from_collection([1, 2, 3])
            >>> sorted(numbers.collect()), sorted(numbers.map(lambda n: n * n).collect())
            ([1, 2, 3], [1, 4, 9])
        """
        return queries.collected(self._environment, self._number, job_name)

    def take(self, n: int, timeout_s: float | None = None) -> list[T]:
        """Return the first `n` records that come, of whichever subtask; also of a stream that never ends.

        Runs only what feeds the stream, as :meth:`collect` does, and ends as soon as they are there.

        Args:
            n: how many; fewer where the stream has no more.
            timeout_s: return what has come by then; None: wait for all of them.

        Raises:
            PlanError: `n` or `timeout_s` is not above 0.
            UsageError: what feeds the stream cannot run as written; nothing was started.
            UserFunctionError: the program's code failed.
            JobFailedError: anything else failed.

        Example:
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> env.from_collection(range(1000)).map(lambda n: n * n).take(4)
            [0, 1, 4, 9]
        """
        return queries.taken(self._environment, self._number, n, timeout_s, "take")

    def preview(self, n: int = 10, timeout_s: float | None = None) -> Preview[T]:
        """Return the first `n` records, as :meth:`take` does, in a sequence that shows itself as a table.

        Args:
            n: how many records; fewer where the stream has no more.
            timeout_s: show what has come by then; None: wait for all of them.

        Raises:
            HeadgateError: the errors of :meth:`take`.

        Example:
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> authors = [{"author": "ada", "commits": 3}, {"author": "bob", "commits": 12}]
            >>> env.from_collection(authors).preview()
            author | commits
            -------+--------
            ada    |       3
            bob    |      12
            2 records
        """
        return Preview(queries.taken(self._environment, self._number, n, timeout_s, "preview"))


class Outputs(Operator, Looks[T]):
    """Base class of streams with the calls that write their records to sinks and DataFrames."""

    def sink_to(self, sink: Sink[T], uid: str | None = None, name: str | None = None) -> StreamSink:
        """Send the records to a sink.

        Args:
            sink: the description of the output.
            uid: names the sink's state; needed when checkpoints are on and the sink commits.
            name: of the operator, for people; by default the sink's own description.

        Raises:
            PlanError: `sink` is no :class:`Sink`.
        """
        if not isinstance(sink, Sink):
            raise PlanError(f"sink_to() ({user_site()}) got {type(sink).__name__}; expected a Sink")
        return add_sink(self._environment, self._number, sink, uid, name)

    def write_json(self, path: str | PathLike[str], uid: str | None = None, **options: Any) -> StreamSink:
        """Write JSON lines into a directory, exactly once if checkpoints are on; UsageError: wrong options.

        Args:
            path: the directory.
            uid: names the sink's state; made from the path when omitted.
            options: of ``connectors.files.json_sink``: ``roll_bytes``, ``partition_by=("day",)`` for folders.
        """
        return self._write("json_sink", "write_json", path, uid, options)

    def write_parquet(self, path: str | PathLike[str], uid: str | None = None, **options: Any) -> StreamSink:
        """Write Parquet files into a directory, exactly once with checkpoints; UsageError: wrong options.

        Args:
            path: the directory.
            uid: names the sink's state; made from the path when omitted.
            options: of ``connectors.files.parquet_sink``: ``roll_bytes``, ``partition_by``: for folders.
        """
        return self._write("parquet_sink", "write_parquet", path, uid, options)

    def collect_later(self, uid: str | None = None) -> Collected[T]:
        """Add a sink that keeps the records in the driver; return a handle, which has them after the next
        ``execute()``. `uid` names the sink's state; by default it is "collect", with a number if taken.
        """
        uid = uid or self._environment.free_uid("collect")
        rebuilt = inference.rebuildable(self._node.record_type)
        sink = load(Kind.CONNECTOR, "collect_sink")(record_type=rebuilt)
        self.sink_to(sink, uid=uid, name="collect")
        self._environment.collecting[uid] = sink
        return Collected(self._environment, uid)

    def to_dataframe(
        self, schema: StructType | str | None = None, job_name: str = "to_dataframe"
    ) -> DataFrame:
        """Return this stream's records as a Spark DataFrame. Runs only what feeds it, like :meth:`collect`.

        The stream must be bounded. The rows are staged as files that live as long as this process. To get
        several streams of one job, use :meth:`to_dataframe_later`. Errors are those of :meth:`collect`.

        Args:
            schema: a ``StructType`` or its text, such as ``"author string, commits long"``; None
                takes the columns of the first records.
            job_name: of the job.
        """
        sink = load(Kind.CONNECTOR, "dataframe_sink")(schema)
        queries.run_query(self._environment, self._number, sink, "to_dataframe", job_name)
        found: DataFrame = sink.dataframe
        return found

    def to_spark(
        self, write: Any, uid: str | None = None, schema: StructType | str | None = None
    ) -> StreamSink:
        """Hand the records to Spark epoch by epoch: what each checkpoint completes is one DataFrame.

        Epochs come in order, each when its checkpoint is complete. With a writer of ``headgate.spark``
        each is there exactly once. A function may get an epoch again after a failure: under the same
        lineage and number and with the same rows, so that it can tell. It runs in the driver, and its
        failure restarts the job.

        Args:
            write: ``headgate.spark.parquet(path)``, ``.jdbc(url, table)``, ``.delta(path)`` or
                ``.iceberg(table)``; or a function of (frame, epoch), where the epoch is a ``SparkEpoch``.
            uid: names the sink's state; needed when checkpoints are on.
            schema: a ``StructType`` or its text, such as ``"author string, commits long"``; None takes the
                columns of the first records.

        Raises:
            UsageError: `write` or `schema` is something else.
        """
        sink = load(Kind.CONNECTOR, "spark_sink")(write, schema)
        return self.sink_to(sink, uid=uid, name="to_spark")

    def to_dataframe_later(
        self, schema: StructType | str | None = None, uid: str | None = None
    ) -> DataFrameLater:
        """Add a sink; return a handle of the DataFrame that the next ``execute()`` makes of this stream.
        `schema` is as for :meth:`to_dataframe`; `uid` names the sink's state, and is made up when omitted.
        """
        uid = uid or self._environment.free_uid("to_dataframe")
        sink = load(Kind.CONNECTOR, "dataframe_sink")(schema, "to_dataframe_later")
        number = self.sink_to(sink, uid=uid, name="to_dataframe")._number
        return DataFrameLater(self._environment, sink, number)

    def _write(
        self, connector: str, verb: str, given: str | PathLike[str], uid: str | None, options: dict[str, Any]
    ) -> StreamSink:
        path = fspath(given)
        with made_by(verb):
            sink = called(verb, load(Kind.CONNECTOR, connector))(path, **options)
        sink.accepts_columns = connector == "parquet_sink"
        return self.sink_to(sink, uid=uid or path_uid(verb, path), name=verb)


class Collected(ShownAsLine, Generic[T]):
    """Handle of records that ``execute()`` brings to the driver; :meth:`Outputs.collect_later` returns it."""

    def __init__(self, environment: ProgramContext, uid: str) -> None:
        self._environment, self._uid = environment, uid

    def __repr__(self) -> str:
        found = self._environment.collected.get(self._uid)
        return f"<Collected {self._uid!r}: {'not executed yet' if found is None else counted(len(found))}>"

    @property
    def records(self) -> list[T]:
        """The records; those of one subtask are in the order in which it got them.

        Raises:
            PlanError: no job has brought them yet.
        """
        found = self._environment.collected.get(self._uid)
        if found is None:
            raise PlanError(
                f"nothing was collected yet ({user_site()}); call execute() on the Environment first"
            )
        return found


class HasDataFrame(Protocol):
    """A sink whose committed records can be read as a DataFrame after the job's end."""

    @property
    def dataframe(self) -> DataFrame:
        """The committed records as a ``pyspark.sql.DataFrame``."""


class DataFrameLater(ShownAsLine):
    """Handle of a DataFrame that ``execute()`` makes; :meth:`Outputs.to_dataframe_later` returns it."""

    def __init__(self, environment: ProgramContext, sink: HasDataFrame, number: int) -> None:
        self._environment, self._sink, self._number = environment, sink, number

    def __repr__(self) -> str:
        ready = self._number in self._environment.program.ended
        return f"<DataFrameLater: {'see its dataframe' if ready else 'not executed yet'}>"

    @property
    def dataframe(self) -> DataFrame:
        """The committed records as a ``pyspark.sql.DataFrame``.

        Raises:
            PlanError: no job that wrote it has ended well yet.
            UsageError: no record has come and no schema was given.
        """
        if self._number not in self._environment.program.ended:
            raise PlanError(
                f"there is no DataFrame yet ({user_site()}); call execute() on the Environment first"
            )
        return self._sink.dataframe
