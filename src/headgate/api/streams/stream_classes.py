"""Streams: the calls that say how records are transformed, and by which key they are partitioned. Each adds a
node to the program and runs nothing. Sinks and looks at records are in `stream_outputs`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from headgate.api.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from headgate.api.checking import inference
from headgate.api.checking.arguments import (
    check_columns,
    check_peers,
    check_timestamp,
    refuse_blocking,
)
from headgate.api.functions import KeyedProcessFunction, OutputTag, ProcessFunction
from headgate.api.on_error import Decides, checked_on_error
from headgate.api.patterns.matches_by_key import MatchesByKey
from headgate.api.showing import ShownAsLine
from headgate.api.site import user_site
from headgate.api.streams.async_calls import AsyncFunction, CallSettings, Retry, async_node
from headgate.api.streams.connected import Connected, demand
from headgate.api.streams.declared_fields import refuse_unknown_fields
from headgate.api.streams.event_time import WatermarkStrategy, refuse_negative_times
from headgate.api.streams.joining.joins_of_streams import JoinsOfStreams
from headgate.api.streams.other_names import no_such_member
from headgate.api.streams.per_record import function_node, side_output_node
from headgate.api.streams.steps import ProgramContext, add_function, checked_key
from headgate.api.streams.stream_outputs import Looks
from headgate.common.errors import PlanError
from headgate.graph import logical
from headgate.graph.logical import NEW
from headgate.graph.partitioners import Broadcast, ByKeyGroup, Partitioner, Rebalance
from headgate.records.selectors import KeySelector

if TYPE_CHECKING:
    import pyarrow as pa

    from headgate.api.tables.column_table import Table
    from headgate.api.windows.assigners import WindowAssigner
    from headgate.api.windows.windowed_stream import WindowedStream
    from headgate.records.row import Row

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")
B = TypeVar("B")


class DataStream(JoinsOfStreams[T, "DataStream[Any]"]):
    """A stream of records of type `T`, to which the program adds steps.

    Example:
        >>> import headgate as hg
        >>> env = hg.Environment()
        >>> lengths = env.from_collection(["a", "bc"]).map(len).filter(lambda n: n > 1)
    """

    if not TYPE_CHECKING:  # a type checker is to find what does not exist

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such_member(self, name)

    # -- per record

    def map(
        self, function: Callable[[T], U], uid: str | None = None, *, on_error: Decides | None = None
    ) -> DataStream[U]:
        """Emit the one record that `function` returns for each record; `uid` names the operator, `on_error`
        says what becomes of records on which it fails. PlanError if it is async, or takes not one record.
        """
        node = function_node(logical.MapNode, "map", function, inference.map_output, uid, on_error)
        return DataStream(self._environment, self._added(node))

    def flat_map(
        self, function: Callable[[T], Iterable[U]], uid: str | None = None, *, on_error: Decides | None = None
    ) -> DataStream[U]:
        """Emit all records of the iterable that `function` returns; else as :meth:`map`."""
        kind = inference.flat_map_output
        node = function_node(logical.FlatMapNode, "flat_map", function, kind, uid, on_error)
        return DataStream(self._environment, self._added(node))

    def map_async(
        self,
        function: Callable[[T], Awaitable[U]] | AsyncFunction[T, U],
        uid: str | None = None,
        *,
        capacity: int = 100,
        timeout: str | int | None = "10s",
        ordered: bool = True,
        retry: Retry | None = None,
        on_timeout: Callable[[T], U | Awaitable[U]] | None = None,
    ) -> DataStream[U]:
        """Emit what the coroutine function `function` returns for each record; many calls run at once in an
        event loop of the subtask's own, while the worker goes on. See ``docs/async-io.md``.

        Args:
            function: an ``async def`` of one record, or an :class:`AsyncFunction`, which may open a session.
            uid: names the operator, which keeps the records in flight; needed when checkpoints are on.
            capacity: how many records of one subtask may be in flight before it takes no more input.
            timeout: how long a record may wait for its answer, repeated calls included; None: for ever.
            ordered: whether results leave in the records' order; else as they come, but across no watermark.
            retry: when a call that failed is made again; None: the first failure fails the job.
            on_timeout: gives the output for a record whose time is over; None: the job fails.

        Raises:
            PlanError: an argument is of a wrong kind, or out of its range.

        Example:
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> async def doubled(n: int) -> int:
            ...     return 2 * n
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> env.from_collection([1, 2, 3]).map_async(doubled, capacity=10, timeout="5s").collect()
            [2, 4, 6]
        """
        given = CallSettings(capacity, timeout, ordered, retry, on_timeout)
        node = async_node("map_async", function, self._node.record_type, uid, given)
        return DataStream(self._environment, self._added(node))

    def flat_map_async(
        self,
        function: Callable[[T], Awaitable[Iterable[U] | None]] | AsyncFunction[T, U],
        uid: str | None = None,
        *,
        capacity: int = 100,
        timeout: str | int | None = "10s",
        ordered: bool = True,
        retry: Retry | None = None,
        on_timeout: Callable[[T], Iterable[U] | Awaitable[Iterable[U] | None] | None] | None = None,
    ) -> DataStream[U]:
        """Emit all outputs of the iterable (None: no output) that the coroutine function `function` returns
        for each record, or `on_timeout` in its place. All else is as in :meth:`map_async`.
        """
        given = CallSettings(capacity, timeout, ordered, retry, on_timeout)
        node = async_node("flat_map_async", function, self._node.record_type, uid, given)
        return DataStream(self._environment, self._added(node))

    def filter(
        self, function: Callable[[T], object], uid: str | None = None, *, on_error: Decides | None = None
    ) -> DataStream[T]:
        """Keep the records for which `function` returns something true; else as :meth:`map`. PlanError if it
        is async or a generator function, or does not take one record.
        """
        kind = self._node.record_type
        node = function_node(logical.FilterNode, "filter", function, lambda _: kind, uid, on_error)
        return DataStream(self._environment, self._added(node))

    where = filter
    """PySpark's other name of :meth:`filter`."""

    def select(self, *columns: str, uid: str | None = None) -> DataStream[Row]:
        """Keep the fields `columns` of each record, in this order, as rows; columnar batches stay columnar.

        Raises:
            PlanError: no column, a name that is no text, or a column named twice.
        """
        check_columns("select", columns)
        node = logical.SelectNode(NEW, "select", uid=uid, columns=columns)
        return DataStream(self._environment, self._added(node))

    def process(
        self, function: ProcessFunction[T, U], uid: str | None = None, *, on_error: Decides | None = None
    ) -> DataStream[U]:
        """Run a function that emits any number of records per record, with `open`, `close`, side outputs;
        keyed state and timers need a key: ``stream.key_by(...).process(...)``. `uid` names the operator, and
        `on_error` says what becomes of records on which it fails: it cannot undo changes of operator state.

        Raises:
            PlanError: `function` is no :class:`ProcessFunction`, or has operator state and `on_error`.
        """
        demand(ProcessFunction, function, hint=" (a KeyedProcessFunction goes behind key_by())")
        guard = checked_on_error("process", on_error, function)
        node = logical.ProcessNode(NEW, "", function=function, on_error=guard)
        return DataStream(self._environment, add_function(self._environment, node, uid, self._number))

    def side_output(self, tag: OutputTag[U]) -> DataStream[U]:
        """Return the stream of the records that this stream's operator emits under the name of `tag`.

        Raises:
            PlanError: the stream is not what ``process()``, a call on windows, or a source returned.
        """
        return DataStream(self._environment, self._added(side_output_node(self._node, tag)))

    # -- time

    def with_event_time(
        self,
        timestamp: str | Callable[[T], int],
        out_of_orderness: str | int = 0,
        idleness: str | int | None = None,
        max_drift: str | int | None = None,
        drift_group: str = "default",
    ) -> DataStream[T]:
        """Give records event time, and the stream watermarks.

        Args:
            timestamp: field or column with ms since 1970, or a function of the record.
            out_of_orderness: how much earlier than its predecessors a record may be; text as ``"7d"``, or ms.
            idleness: after so long without records a source subtask no longer holds others back; None: never.
            max_drift: by how much event time a source subtask may be ahead of the slowest one of its group:
                whoever is further ahead reads nothing until the others have come nearer. None: no limit.
            drift_group: name of the group, which may have sources of several streams.

        Raises:
            PlanError: a duration is negative or no duration; or `timestamp` is neither name nor function, a
                name that the source's records lack, or an async or :func:`blocking` function.
        """
        check_timestamp(timestamp)
        refuse_unknown_fields("with_event_time", (timestamp,), self._environment.program, self._number)
        refuse_blocking("with_event_time", timestamp)
        try:
            strategy = WatermarkStrategy.of(timestamp, out_of_orderness, idleness, max_drift, drift_group)
        except PlanError as error:
            raise PlanError(f"with_event_time() ({user_site()}): {error}") from None
        return self.with_watermarks(strategy)

    def with_watermarks(self, strategy: WatermarkStrategy) -> DataStream[T]:
        """Give records event time, and the stream watermarks, by `strategy`. PlanError if it has a negative
        duration, or its `timestamp` is a function marked by :func:`blocking`.
        """
        refuse_negative_times(strategy)
        refuse_blocking("with_watermarks", strategy.timestamp)
        kind = self._node.record_type
        node = logical.TimestampsNode(NEW, "event time", record_type=kind, strategy=strategy)
        return DataStream(self._environment, self._added(node))

    def to_table(self, schema: pa.Schema | None = None) -> Table[DataStream[Row]]:
        """Return the records as a table, on whose columns expressions are computed batch by batch.

        Args:
            schema: the columns of the records, a ``pyarrow.Schema``; None: those of the source, if it knows
                them (Parquet, DataFrames, and JSON or CSV that were given a ``pyarrow.Schema``).

        Raises:
            PlanError: the columns are not known, or one is of a type that Spark does not have.
        """
        from headgate.api.tables.from_streams import table_of

        return table_of(self._environment, self._number, schema, DataStream)

    # -- how records travel

    def union(self, *others: DataStream[T]) -> DataStream[T]:
        """Return one stream of the records of this and the other streams, in no particular order.

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
        node = logical.UnionNode(NEW, "union", record_type=kinds[0] if same else None)
        return DataStream(self._environment, self._environment.program.add(node, inputs))

    def rebalance(self) -> DataStream[T]:
        """Spread the records evenly over the subtasks of the next operator, whatever their keys."""
        return DataStream(self._environment, self._travel("rebalance", Rebalance()))

    def broadcast(self) -> BroadcastStream[T]:
        """Return a stream that sends each record to all subtasks of the next operator, for ``connect()``."""
        return BroadcastStream(self._environment, self._travel("broadcast", Broadcast()))

    def connect(self, broadcast: BroadcastStream[U]) -> BroadcastConnectedStream[T, U]:
        """Let a function see the records of this stream and, in every subtask, those of another one.

        Follow it by ``process()`` with a :class:`BroadcastProcessFunction`. To have state per key as well,
        connect after :meth:`key_by`.

        Args:
            broadcast: what :meth:`broadcast` returned.

        Raises:
            PlanError: `broadcast` is no broadcast stream, or of another Environment.

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
        return BroadcastConnectedStream(self._environment, self._number, broadcast)

    @overload
    def key_by(self, key: str, *more: str) -> KeyedStream[Any, T]: ...
    @overload
    def key_by(self, key: Callable[[T], K]) -> KeyedStream[K, T]: ...
    def key_by(self, key: str | Callable[[T], K], *more: str) -> KeyedStream[K, T]:
        """Send records of equal key to the same subtask, where a function may have state per key.

        Args:
            key: a field or column name, or a function of the record.
            more: further names; the key is then a tuple.

        Raises:
            PlanError: neither names nor one function (not ``async``, not :func:`blocking`), a name that the
                source's records lack, or a field or function declared to give no possible key, as a record.
        """
        selector = checked_key(self._environment, self._number, key, more)
        return KeyedStream(self._environment, self._travel("key_by", ByKeyGroup(selector)), selector)

    group_by = key_by
    """PySpark's name of :meth:`key_by`."""

    def _travel(self, name: str, partitioner: Partitioner) -> int:
        kind = self._node.record_type
        return self._added(logical.PartitionNode(NEW, name, record_type=kind, partitioner=partitioner))

    def _added(self, node: logical.Node) -> int:
        return self._environment.program.add(node, (self._number,))


class KeyedStream(ShownAsLine, Looks[T], MatchesByKey[DataStream[Any]], Generic[K, T]):
    """A stream of records of type `T`; all records with one key of type `K` go to one subtask.

    Of it only `process`, `connect`, `window`, `match`, `print`, `collect`, `take` and `preview` are called.

    Example:
        >>> import headgate as hg
        >>> env = hg.Environment()
        >>> by_length = env.from_collection(["a", "bc"]).key_by(len)
    """

    def __init__(self, environment: ProgramContext, number: int, key: KeySelector) -> None:
        self._environment, self._number, self._key, self._emits = environment, number, key, DataStream

    def __repr__(self) -> str:
        key = getattr(self._key, "__qualname__", None) or repr(self._key)
        return f"<KeyedStream by {key}, written at {self._environment.program.node(self._number).site}>"

    if not TYPE_CHECKING:  # a type checker is to find what does not exist

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such_member(self, name, of_stream=hasattr(DataStream, name))

    def connect(self, broadcast: BroadcastStream[U]) -> KeyedBroadcastConnectedStream[K, T, U]:
        """Let a function with state per key see, in every subtask, the records of another stream.

        Follow it by ``process()`` with a :class:`KeyedBroadcastProcessFunction`.

        Args:
            broadcast: what ``broadcast()`` returned.

        Raises:
            PlanError: `broadcast` is no broadcast stream, or of another Environment.
        """
        return KeyedBroadcastConnectedStream(self._environment, self._number, broadcast, self._key)

    def process(
        self,
        function: KeyedProcessFunction[K, T, U],
        uid: str | None = None,
        *,
        on_error: Decides | None = None,
    ) -> DataStream[U]:
        """Run a function that emits any number of records for each record, with state and timers per key.

        Args:
            function: its class declares its state as class attributes.
            uid: names the state for later versions of the program; needed when checkpoints are on and there
                is state or a timer.
            on_error: what becomes of records and timers on which it fails; their changes of state are undone.

        Raises:
            PlanError: `function` is no :class:`KeyedProcessFunction`, or has operator state and `on_error`.
        """
        demand(KeyedProcessFunction, function, " behind key_by()")
        guard = checked_on_error("process", on_error, function, keyed=True)
        node = logical.KeyedProcessNode(NEW, "", function=function, key=self._key, on_error=guard)
        return DataStream(self._environment, add_function(self._environment, node, uid, self._number))

    def window(self, windows: WindowAssigner) -> WindowedStream[K, T, DataStream[Any]]:
        """Put the records into windows; ``aggregate()``, ``reduce()`` or ``process()`` follows.

        Args:
            windows: a window assigner, such as ``hg.tumbling("1h")`` or ``hg.session("30min")``.

        Raises:
            PlanError: `windows` is no :class:`WindowAssigner`.
        """
        from headgate.api.windows.windowed_stream import windowed

        return windowed(self._environment, self._number, lambda: self._key, windows, DataStream)


class BroadcastStream(DataStream[B]):
    """A stream of records of type `B`, each of which goes to every subtask of the next operator.

    Example:
        >>> import headgate as hg
        >>> env = hg.Environment()
        >>> rules = env.from_collection(["no tea after six"]).broadcast()
    """


class BroadcastConnectedStream(Connected, Generic[T, B]):
    """A stream of type `T` connected to a broadcast stream of type `B`; ``process()`` reads both."""

    def process(self, function: BroadcastProcessFunction[T, B, U], uid: str | None = None) -> DataStream[U]:
        """Run a function that emits any number of records for each record of either input.

        Args:
            function: its class declares broadcast state as class attributes.
            uid: names the state for later versions of the program; needed when checkpoints are on and there
                is state.

        Raises:
            PlanError: `function` is no :class:`BroadcastProcessFunction`.
        """
        hint = " (a KeyedBroadcastProcessFunction goes behind key_by().connect())"
        demand(BroadcastProcessFunction, function, " behind connect()", hint)
        node = logical.BroadcastProcessNode(NEW, "", function=function)
        return DataStream(self._environment, self._added(node, uid))


class KeyedBroadcastConnectedStream(Connected, Generic[K, T, B]):
    """A keyed stream of type `T` (key type `K`) connected to a broadcast stream of type `B`."""

    def process(
        self, function: KeyedBroadcastProcessFunction[K, T, B, U], uid: str | None = None
    ) -> DataStream[U]:
        """Run a function with state and timers per key on each record of either input.

        Args:
            function: its class declares its state as class attributes.
            uid: names the state for later versions of the program; needed when checkpoints are on and there
                is state or a timer.

        Raises:
            PlanError: `function` is no :class:`KeyedBroadcastProcessFunction`.
        """
        demand(KeyedBroadcastProcessFunction, function, " behind key_by().connect()")
        node = logical.KeyedBroadcastProcessNode(NEW, "", function=function, key=self._key)
        return DataStream(self._environment, self._added(node, uid))
