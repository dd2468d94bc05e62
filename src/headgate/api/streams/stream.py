"""Streams: what a program calls to say how records are transformed and where they go.

Nothing here runs anything; every call adds a node to the environment's program. The exceptions are those
that look at a stream: :meth:`DataStream.preview`, `take`, `collect` and `to_dataframe` run what feeds it, and
leave the program as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from headgate.api.checking import inference
from headgate.api.checking.arguments import (
    check_callable,
    check_columns,
    check_peers,
    check_timestamp,
    made_by,
    path_uid,
    refuse_arity,
    refuse_blocking,
    refuse_unawaited,
)
from headgate.api.functions import OutputTag, ProcessFunction, is_blocking
from headgate.api.showing import Preview, counted, html_facts, html_line
from headgate.api.sink import Sink
from headgate.api.site import user_site
from headgate.api.streams import looks as queries
from headgate.api.streams.event_time import WatermarkStrategy
from headgate.api.streams.known_fields import refuse_unknown_fields
from headgate.api.streams.other_names import no_such_member
from headgate.common.errors import PlanError
from headgate.common.refusals.calls import called
from headgate.common.registry import Kind, load
from headgate.graph import logical
from headgate.graph.partitioners import Broadcast, ByKeyGroup, Rebalance
from headgate.graph.rewrites import VIRTUAL
from headgate.graph.type_text import type_text

if TYPE_CHECKING:
    from headgate.api.environment import Environment
    from headgate.api.streams.connected import BroadcastConnectedStream, BroadcastStream
    from headgate.api.streams.keyed_stream import KeyedStream
    from headgate.records.row import Row

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")
KS = TypeVar("KS")


class Operator:
    """Something in the program that has a name, a uid and a parallelism."""

    def __init__(self, environment: Environment, number: int) -> None:
        self._environment, self._number = environment, number

    def __repr__(self) -> str:
        facts = self._facts()
        details = "".join(f", {name} {value}" for name, value in facts.items())
        return f"<{type(self).__name__} {self._node.name!r}{details}>"

    def _repr_html_(self) -> str:
        return html_facts(f"{type(self).__name__} {self._node.name}", self._facts())

    def _facts(self) -> dict[str, Any]:
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
        """Name the operator for people."""
        self._environment.program.change(self._number, name=name)
        return self

    def uid(self, uid: str) -> Self:
        """Name the operator for its state: what a later version of the program finds it by.

        Args:
            uid: unique in the program; printable, at most 200 characters, no slash.

        Raises:
            PlanError: not a uid, or the stream comes from no operator (``union``, ``rebalance``, ...).
        """
        self._demand_operator("a uid")
        self._environment.program.change(self._number, uid=uid)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of subtasks of this operator alone.

        Raises:
            PlanError: not a whole number of at least 1, or the stream comes from no operator.
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
    """The end of a stream."""


class DataStream(Operator, Generic[T]):
    """Records of type `T` on their way.

    Example:
        >>> import headgate as hg
        >>> env = hg.Environment()
        >>> lengths = env.from_collection(["a", "bc"]).map(len).filter(lambda n: n > 1)
    """

    if not TYPE_CHECKING:  # a type checker is to find what does not exist

        def __getattr__(self, name: str) -> Any:
            raise no_such_member(self, name)

    # -- per record

    def map(self, function: Callable[[T], U], uid: str | None = None) -> DataStream[U]:
        """One record out per record in."""
        check_callable("map", function)
        return self._then(logical.MapNode, "map", inference.map_output(function), function=function, uid=uid)

    def flat_map(self, function: Callable[[T], Iterable[U]], uid: str | None = None) -> DataStream[U]:
        """Any number of records out per record in: those of the iterable that `function` returns."""
        check_callable("flat_map", function)
        kind = inference.flat_map_output(function)
        return self._then(logical.FlatMapNode, "flat_map", kind, function=function, uid=uid)

    def filter(self, function: Callable[[T], object], uid: str | None = None) -> DataStream[T]:
        """Only the records for which `function` is true."""
        check_callable("filter", function)
        return self._then(logical.FilterNode, "filter", self._node.record_type, function=function, uid=uid)

    where = filter
    """PySpark's other name of :meth:`filter`."""

    def select(self, *columns: str, uid: str | None = None) -> DataStream[Row]:
        """Only some fields of each record, in this order, as rows; columnar batches stay columnar.

        Raises:
            PlanError: no column, one that is no text, or one named twice.
        """
        check_columns("select", columns)
        return self._then(logical.SelectNode, "select", None, columns=columns, uid=uid)

    def process(self, function: ProcessFunction[T, U], uid: str | None = None) -> DataStream[U]:
        """Zero, one or many records out per record in, with `open`, `close` and side outputs.

        State and timers need a key: ``stream.key_by(...).process(...)``.

        Raises:
            PlanError: `function` is no :class:`ProcessFunction`.
        """
        if not isinstance(function, ProcessFunction):
            raise PlanError(
                f"process() ({user_site()}) got {type(function).__name__}; expected a ProcessFunction "
                "(a KeyedProcessFunction goes behind key_by())"
            )
        kind = inference.process_output(function)
        return self._then(logical.ProcessNode, type(function).__name__, kind, function=function, uid=uid)

    def side_output(self, tag: OutputTag[U]) -> DataStream[U]:
        """What the operator of this stream emitted under `tag`.

        Raises:
            PlanError: the stream does not come from ``process()`` or a source.
        """
        emitters = (logical.ProcessNode, logical.KeyedProcessNode, logical.SourceNode)
        if not isinstance(self._node, emitters):
            raise PlanError(
                f"side output {tag.name!r} ({user_site()}) is taken from {self._node.name!r}, which has "
                "none; take it from the stream that process() or the source returned"
            )
        kind = inference.tag_output(tag)
        return self._then(logical.SideOutputNode, f"side output {tag.name}", kind, tag=tag.name)

    # -- time

    def with_event_time(
        self,
        timestamp: str | Callable[[T], int],
        out_of_orderness: str | int = 0,
        idleness: str | int | None = None,
    ) -> DataStream[T]:
        """Give records event time, and the stream watermarks.

        Args:
            timestamp: field or column with ms since 1970, or a function of the record.
            out_of_orderness: how much earlier than its predecessors a record may be; text such as
                ``"7d"`` or ms.
            idleness: after this long without records a source subtask no longer holds others back;
                None for never.

        Raises:
            PlanError: a duration is negative or none, or `timestamp` is neither name nor function.
        """
        check_timestamp(timestamp)
        refuse_unknown_fields("with_event_time", (timestamp,), self._environment.program, self._number)
        refuse_blocking("with_event_time", timestamp)
        try:
            strategy = WatermarkStrategy.of(timestamp, out_of_orderness, idleness)
        except PlanError as error:
            raise PlanError(f"with_event_time() ({user_site()}): {error}") from None
        return self.with_watermarks(strategy)

    def with_watermarks(self, strategy: WatermarkStrategy) -> DataStream[T]:
        """:meth:`with_event_time` with a strategy made elsewhere.

        Raises:
            PlanError: the strategy has a negative duration.
        """
        for what, value in (
            ("out_of_orderness_ms", strategy.out_of_orderness_ms),
            ("idleness_ms", strategy.idleness_ms or 0),
        ):
            if value < 0:
                raise PlanError(
                    f"{what} of a watermark strategy ({user_site()}) is {value}; expected 0 or more"
                )
        refuse_blocking("with_watermarks", strategy.timestamp)
        return self._then(logical.TimestampsNode, "event time", self._node.record_type, strategy=strategy)

    # -- how records travel

    def union(self, *others: DataStream[T]) -> DataStream[T]:
        """All records of this stream and the others, in no particular order between them.

        Raises:
            PlanError: no other stream, something else than a stream, or one of another Environment.
        """
        mine = self._environment
        check_peers(
            "union", others, lambda other: isinstance(other, DataStream) and other._environment is mine
        )
        kinds = [self._node.record_type, *(other._node.record_type for other in others)]
        same = all(kind == kinds[0] for kind in kinds)
        inputs = (self._number, *(other._number for other in others))
        number = self._environment.program.add(
            logical.UnionNode, "union", inputs, record_type=kinds[0] if same else None
        )
        return DataStream(self._environment, number)

    def rebalance(self) -> DataStream[T]:
        """Spread the records evenly over the subtasks of the next operator."""
        return self._travel("rebalance", Rebalance())

    def broadcast(self) -> BroadcastStream[T]:
        """Send every record to every subtask of the next operator."""
        from headgate.api.streams.connected import BroadcastStream

        return BroadcastStream(self._environment, self._travel("broadcast", Broadcast())._number)

    def connect(self, broadcast: BroadcastStream[U]) -> BroadcastConnectedStream[T, U]:
        """Let a function see the records of this stream and, in every subtask, those of another one.

        Follow it by ``process()`` with a :class:`BroadcastProcessFunction`. To have state per key as well,
        connect behind :meth:`key_by`.

        Args:
            broadcast: what :meth:`broadcast` returned.

        Raises:
            PlanError: no broadcast stream, or one of another Environment.

        Example:
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> class Known(hg.BroadcastProcessFunction[int, int, int]):
            ...     known = hg.broadcast_state()
            ...     def process(self, record, ctx):
            ...         yield record
            ...     def process_broadcast(self, record, ctx):
            ...         self.known.put(record, True)
            ...         yield 100 + len(self.known)
            >>> env = hg.Environment(parallelism=2, executor=MiniCluster())
            >>> known = env.from_collection([7]).broadcast()
            >>> sorted(env.from_collection([1, 2]).connect(known).process(Known()).collect())
            [1, 2, 101, 101]
        """
        from headgate.api.streams.connected import BroadcastConnectedStream

        return BroadcastConnectedStream(self, broadcast)

    @overload
    def key_by(self, key: str, *more: str) -> KeyedStream[Any, T]: ...
    @overload
    def key_by(self, key: Callable[[T], KS]) -> KeyedStream[KS, T]: ...
    def key_by(self, key: str | Callable[[T], Any], *more: str) -> KeyedStream[Any, T]:
        """Send records of equal key to the same subtask, and open the door to state per key.

        Args:
            key: a field or column name, or a function of the record.
            more: further names; the key is then a tuple.

        Raises:
            PlanError: neither names nor one function, a name that the records of the source do not have, or a
                field or function that is declared to give what can be no key, such as a record.
        """
        from headgate.api.streams.key_hints import refuse_impossible_fields, refuse_impossible_key
        from headgate.api.streams.keyed_stream import KeyedStream

        selector: Any = key
        if not callable(key) or more:
            check_columns("key_by", (key, *more))
            refuse_unknown_fields("key_by", (key, *more), self._environment.program, self._number)
            records = self._environment.program.node(self._number).record_type
            refuse_impossible_fields(map(str, (key, *more)), records)
            selector = (key, *more) if more else key
        else:
            refuse_arity(f"key_by() ({user_site()})", key, "one record")
            refuse_unawaited("key_by", key)
        refuse_blocking("key_by", key)
        refuse_impossible_key(key)
        stream = self._travel("key_by", ByKeyGroup(selector))
        return KeyedStream(self._environment, stream._number, selector)

    group_by = key_by
    """PySpark's name of :meth:`key_by`."""

    # -- ends

    def sink_to(self, sink: Sink[T], uid: str | None = None, name: str | None = None) -> StreamSink:
        """Send the records to a sink.

        Args:
            sink: the description of the output.
            uid: names the sink's state; needed when checkpoints are on and the sink commits.
            name: for people; by default what the sink says of itself.

        Raises:
            PlanError: `sink` is none.
        """
        if not isinstance(sink, Sink):
            raise PlanError(f"sink_to() ({user_site()}) got {type(sink).__name__}; expected a Sink")
        number = self._environment.program.add(
            logical.SinkNode, name or sink.describe(), (self._number,), sink=sink, uid=uid
        )
        return StreamSink(self._environment, number)

    def write_json(self, path: str | PathLike[str], uid: str | None = None, **options: Any) -> StreamSink:
        """Write JSON lines into the directory `path`, exactly once when checkpoints are on.

        Args:
            path: the directory.
            uid: names the sink's state; made from the path when omitted.
            options: of the files sink.
        """
        return self._write("json_sink", "write_json", path, uid, options)

    def write_parquet(self, path: str | PathLike[str], uid: str | None = None, **options: Any) -> StreamSink:
        """Write Parquet files into the directory `path`, exactly once when checkpoints are on.

        Args:
            path: the directory.
            uid: names the sink's state; made from the path when omitted.
            options: of the files sink.
        """
        return self._write("parquet_sink", "write_parquet", path, uid, options)

    def print(self, uid: str | None = None) -> StreamSink:
        """Have ``execute()`` print every record, as soon as it comes; after a failure some come again.

        It is shown as what user code prints is, see ``docs/cli.md``: with the subtask that printed it, above
        the line of progress.

        Args:
            uid: names the sink on its lines.
        """
        uid = uid or self._environment.free_uid("print")
        return self.sink_to(load(Kind.CONNECTOR, "print_sink")(), uid=uid, name="print")

    def collect(self, job_name: str = "collect") -> list[T]:
        """All records of this stream. Runs only what feeds it, and leaves the program open.

        The program's sinks are not run, nothing is restored, and no checkpoints are drawn. The stream must
        be bounded and its records must fit into the driver's memory. To collect several streams of one job,
        or beside its sinks, use :meth:`collect_later`.

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
        """The first `n` records that come, of whichever subtask; also of a stream that never ends.

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

    def preview(self, n: int = 10, timeout_s: float | None = None) -> Preview:
        """As :meth:`take`, but what it gives shows itself as a table, in a shell and in a notebook.

        Args:
            n: how many records; fewer where the stream has no more.
            timeout_s: show what has come by then; None: wait for all of them.

        Raises:
            UsageError: as :meth:`take`.

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

    def collect_later(self, uid: str | None = None) -> Collected[T]:
        """Have this stream's records brought to the driver by ``execute()``."""
        uid = uid or self._environment.free_uid("collect")
        rebuilt = inference.rebuildable(self._node.record_type)
        sink = load(Kind.CONNECTOR, "collect_sink")(record_type=rebuilt)
        self.sink_to(sink, uid=uid, name="collect")
        self._environment.collecting[uid] = sink
        return Collected(self._environment, uid)

    def to_dataframe(self, schema: Any = None, job_name: str = "to_dataframe") -> Any:
        """This stream's records as a Spark DataFrame. Runs only what feeds it, as :meth:`collect` does.

        The stream must be bounded. The rows are staged as files that live as long as this process.
        To get several streams of one job, or beside its sinks, use :meth:`to_dataframe_later`.

        Args:
            schema: a ``StructType`` or its text, such as ``"author string, commits long"``; None
                takes the columns of the first records.
            job_name: of the job.
        """
        sink = load(Kind.CONNECTOR, "dataframe_sink")(schema)
        queries.run_query(self._environment, self._number, sink, "to_dataframe", job_name)
        return sink.dataframe

    def to_spark(self, write: Any, uid: str | None = None, schema: Any = None) -> StreamSink:
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

    def to_dataframe_later(self, schema: Any = None, uid: str | None = None) -> DataFrameLater:
        """Have this stream's committed records made a Spark DataFrame by ``execute()``."""
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

    def _travel(self, name: str, partitioner: Any) -> DataStream[T]:
        return self._then(logical.PartitionNode, name, self._node.record_type, partitioner=partitioner)

    def _then(self, node: type[logical.Node], name: str, record_type: Any, **fields: Any) -> DataStream[Any]:
        if is_blocking(fields.get("function")):
            fields["blocking"] = True
        number = self._environment.program.add(node, name, (self._number,), record_type=record_type, **fields)
        return DataStream(self._environment, number)


class Collected(Generic[T]):
    """Records that ``execute()`` will have brought to the driver."""

    def __init__(self, environment: Environment, uid: str) -> None:
        self._environment, self._uid = environment, uid

    def __repr__(self) -> str:
        found = self._environment.collected.get(self._uid)
        return f"<Collected {self._uid!r}: {'not executed yet' if found is None else counted(len(found))}>"

    def _repr_html_(self) -> str:
        return html_line(repr(self))

    @property
    def records(self) -> list[T]:
        """The records, in order per subtask.

        Raises:
            PlanError: the job was not executed yet.
        """
        found = self._environment.collected.get(self._uid)
        if found is None:
            raise PlanError(
                f"nothing was collected yet ({user_site()}); call execute() on the Environment first"
            )
        return found


class DataFrameLater:
    """A DataFrame that ``execute()`` will have made."""

    def __init__(self, environment: Environment, sink: Any, number: int) -> None:
        self._environment, self._sink, self._number = environment, sink, number

    def __repr__(self) -> str:
        ready = self._environment.program.has_run(self._number)
        return f"<DataFrameLater: {'see its dataframe' if ready else 'not executed yet'}>"

    def _repr_html_(self) -> str:
        return html_line(repr(self))

    @property
    def dataframe(self) -> Any:
        """The ``pyspark.sql.DataFrame``.

        Raises:
            PlanError: the job was not executed yet.
            UsageError: no record came and no schema was given.
        """
        if not self._environment.program.has_run(self._number):
            raise PlanError(
                f"there is no DataFrame yet ({user_site()}); call execute() on the Environment first"
            )
        return self._sink.dataframe
