"""Tables: columns with names and types, and what a program computes of them.

Every call checks its columns and types at once, so that an error names the line that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headgate.api.showing import Preview
from headgate.api.site import user_site
from headgate.api.streams.event_time import WatermarkStrategy
from headgate.api.streams.steps import ProgramContext
from headgate.api.streams.stream_outputs import Outputs, StreamSink
from headgate.api.tables.column import Column, ColumnLike, expression_of, shown_name
from headgate.api.tables.lowering import lowered, lowered_aggregation
from headgate.common.errors import PlanError
from headgate.graph.logical import NEW, TimestampsNode
from headgate.relational.aggregates import Aggregate, resolve_aggregate
from headgate.relational.expressions import AggregateCall, Alias, Expression, Reference, TimeWindow
from headgate.relational.python_types import can_be_key
from headgate.relational.relations import (
    Aggregation,
    Filter,
    Project,
    Relation,
    Scan,
    aggregation_schema,
    windowed,
)
from headgate.relational.resolved import Column as ResolvedColumn
from headgate.relational.resolved import Typed
from headgate.relational.resolving import resolve
from headgate.relational.schema import Field, Schema
from headgate.relational.spark_types import text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

S = TypeVar("S", bound=Outputs[Any])
"""The class of streams that tables become."""


class Table(Generic[S]):
    """Columns of a stream, on which expressions are computed batch by batch; ``stream.to_table()`` makes one.

    Example:
        >>> import pyarrow as pa
        >>> import headgate as hg
        >>> import headgate.functions as F
        >>> from headgate.testing import MiniCluster
        >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
        >>> rows = env.from_collection([{"price": 3}, {"price": 40}])
        >>> bids = rows.to_table(pa.schema({"price": pa.int64()}))
        >>> bids.filter(F.col("price") > 10).select((F.col("price") * 2).alias("double")).collect()
        [{'double': 80}]
    """

    def __init__(
        self, environment: ProgramContext, relation: Relation, stream: Callable[[ProgramContext, int], S]
    ) -> None:
        self._environment, self._relation, self._stream = environment, relation, stream

    def __repr__(self) -> str:
        return f"Table\n{self._relation.schema.tree()}"

    # -- what it has

    @property
    def schema(self) -> Schema:
        """The columns, in order."""
        return self._relation.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return self._relation.schema.names

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """The names of the columns, each with its type as Spark calls it."""
        return [(field.name, text_of(field.type)) for field in self._relation.schema]

    def printSchema(self) -> None:  # noqa: N802  # PySpark's name
        """Print the columns with their types."""
        print(self._relation.schema.tree())  # noqa: T201

    def __getitem__(self, name: str) -> Column:
        self._relation.schema.place(name)
        return Column(Reference(name))

    def with_watermark(self, time: str, delay: str | int = 0, idleness: str | int | None = None) -> Table[S]:
        """Give the rows event time by a column; call it before anything else of the table.

        Args:
            time: the column, a timestamp or ms since 1970.
            delay: how much earlier than its predecessors a row may be without being late.
            idleness: after this long without rows a source subtask no longer holds others back; None: never.

        Raises:
            PlanError: there is no such column, or the table has been filtered or computed already.
        """
        where = f"with_watermark() ({user_site()})"
        if not isinstance(self._relation, Scan):
            raise PlanError(f"{where} comes after other calls; call it right after to_table() or env.table()")
        place = self._place("with_watermark", time)
        name = self._relation.schema.names[place]
        try:
            strategy = WatermarkStrategy.of(name, delay, idleness)
        except PlanError as error:
            raise PlanError(f"{where}: {error}") from None
        node = TimestampsNode(NEW, "event time", strategy=strategy)
        number = self._environment.program.add(node, (self._relation.stream,))
        return self._of(Scan(replace(self._relation.schema, event_time=name), number))

    withWatermark = with_watermark  # noqa: N815  # PySpark's name

    # -- columns

    def select(self, *columns: Column | str) -> Table[S]:
        """Return a table of these columns, each a name or an expression; "*" stands for all.

        Raises:
            PlanError: a column does not exist, does not fit its function, or is named twice.
        """
        chosen: list[tuple[str, Typed]] = []
        for each in columns:
            if isinstance(each, str) and each == "*":
                chosen += self._all()
            else:
                made = Column(Reference(each)) if isinstance(each, str) else each
                chosen.append((shown_name(made), self._resolved("select", made.expression)))
        return self._projected("select", chosen)

    def with_column(self, name: str, column: ColumnLike) -> Table[S]:
        """Return the table with one more column, or with another in place of the one that has this name."""
        return self.with_columns({name: column})

    withColumn = with_column  # noqa: N815  # PySpark's name

    def with_columns(self, columns: dict[str, ColumnLike]) -> Table[S]:
        """Return the table with these columns added, or put in place of those of the same name."""
        found = dict(self._all())
        for name, column in columns.items():
            place = self._relation.schema.find(name)
            known = name if place is None else self._relation.schema.fields[place].name
            found[known] = self._resolved("with_columns", expression_of(column))
        return self._projected("with_columns", list(found.items()))

    withColumns = with_columns  # noqa: N815

    def rename(self, names: dict[str, str]) -> Table[S]:
        """Return the table with other names for some columns: old name -> new name."""
        found = dict(enumerate(self._all()))
        for old, new in names.items():
            place = self._place("rename", old)
            found[place] = new, found[place][1]
        return self._projected("rename", list(found.values()))

    def drop(self, *names: str) -> Table[S]:
        """Return the table without these columns."""
        gone = {self._place("drop", name) for name in names}
        return self._projected("drop", [each for place, each in enumerate(self._all()) if place not in gone])

    def filter(self, condition: Column) -> Table[S]:
        """Return the rows for which a condition is true; not those for which it is null.

        Raises:
            PlanError: it names a column that does not exist, or is no condition.
        """
        found = self._resolved("filter", expression_of(condition))
        if text_of(found.type) != "boolean":
            raise PlanError(f"filter() ({user_site()}): {found} is {text_of(found.type)}, not a condition")
        return self._of(Filter(self._relation.schema, self._relation, found))

    where = filter

    def group_by(self, *keys: Column | str) -> GroupedTable[S]:
        """Group the rows by columns and by a window of event time; ``agg()`` follows.

        Args:
            keys: names, expressions, and one ``F.window(...)``.

        Raises:
            PlanError: there is no window, or more than one; or a key is of a type that cannot be one.
        """
        return GroupedTable(self, [Column(Reference(key)) if isinstance(key, str) else key for key in keys])

    groupBy = group_by  # noqa: N815

    # -- ways out

    def to_stream(self, uid: str | None = None) -> S:
        """Return the rows as a stream, which stays columnar until a function of rows reads it."""
        return self._stream(self._environment, lowered(self._environment, self._relation, uid))

    def collect(self, job_name: str = "collect") -> list[dict[str, Any]]:
        """Return all rows, as :meth:`DataStream.collect`."""
        return self.to_stream().collect(job_name)

    def take(self, n: int, timeout_s: float | None = None) -> list[dict[str, Any]]:
        """Return the first `n` rows, as :meth:`DataStream.take`."""
        return self.to_stream().take(n, timeout_s)

    def preview(self, n: int = 10, timeout_s: float | None = None) -> Preview[dict[str, Any]]:
        """Return the first `n` rows as a table to look at, as :meth:`DataStream.preview`."""
        return self.to_stream().preview(n, timeout_s)

    def write_parquet(self, path: str | PathLike[str], uid: str | None = None, **options: Any) -> StreamSink:
        """Write Parquet files, as :meth:`DataStream.write_parquet`."""
        return self.to_stream().write_parquet(path, uid, **options)

    def write_json(self, path: str | PathLike[str], uid: str | None = None, **options: Any) -> StreamSink:
        """Write JSON lines, as :meth:`DataStream.write_json`."""
        return self.to_stream().write_json(path, uid, **options)

    def to_dataframe(self, job_name: str = "to_dataframe") -> DataFrame:
        """Return the rows as a Spark DataFrame, as :meth:`DataStream.to_dataframe`."""
        return self.to_stream().to_dataframe(job_name=job_name)

    def to_spark(self, write: Any, uid: str | None = None) -> StreamSink:
        """Hand the rows to Spark epoch by epoch, as :meth:`DataStream.to_spark`."""
        return self.to_stream().to_spark(write, uid)

    # -- helpers

    def _of(self, relation: Relation) -> Table[S]:
        return Table(self._environment, relation, self._stream)

    def _all(self) -> list[tuple[str, Typed]]:
        return [
            (each.name, ResolvedColumn(each.type, each.nullable, place, each.name))
            for place, each in enumerate(self._relation.schema)
        ]

    def _place(self, verb: str, name: str) -> int:
        try:
            return self._relation.schema.place(name)
        except PlanError as error:
            raise PlanError(f"{verb}() ({user_site()}): {error}") from None

    def _resolved(self, verb: str, expression: Expression) -> Typed:
        try:
            return resolve(expression, self._relation.schema)
        except PlanError as error:
            raise PlanError(f"{verb}() ({user_site()}): {error}") from None

    def _projected(self, verb: str, chosen: list[tuple[str, Typed]]) -> Table[S]:
        return self._of(projected(verb, self._relation, chosen))


def projected(verb: str, child: Relation, chosen: list[tuple[str, Typed]]) -> Project:
    """Return a plan of computed columns; the column of event time is still that if it is among them."""
    names = [name for name, _ in chosen]
    twice = {name for name in names if names.count(name) > 1}
    if twice or not names:
        what = (
            f"{sorted(twice)[0]!r} is there twice; give one another name with alias()"
            if twice
            else "no column"
        )
        raise PlanError(f"{verb}() ({user_site()}): {what}")
    time = child.schema.event_time
    kept = next((n for n, e in chosen if isinstance(e, ResolvedColumn) and e.name == time), None)
    fields = tuple(Field(name, each.type, each.nullable) for name, each in chosen)
    return Project(Schema(fields, kept), child, tuple(each for _, each in chosen))


class GroupedTable(Generic[S]):
    """Rows grouped by keys and a window; made by :meth:`Table.group_by`, and followed by ``agg()``."""

    def __init__(self, table: Table[S], keys: list[Column]) -> None:
        self._table = table
        windows = [key.expression for key in keys if isinstance(key.expression, TimeWindow)]
        if len(windows) != 1:
            raise PlanError(
                f"group_by() ({user_site()}) got {len(windows)} windows; expected one, such as "
                'F.window("at", "10s"), as the state of groups without a window has no bound'
            )
        self._window: TimeWindow = windows[0]
        self._keys = [key for key in keys if not isinstance(key.expression, TimeWindow)]
        self._check_time()

    def _check_time(self) -> None:
        schema = self._table.schema
        time = self._window.time
        if not isinstance(time, Reference) or schema.event_time is None or time.name != schema.event_time:
            has = "has none" if schema.event_time is None else f"is {schema.event_time!r}"
            raise PlanError(
                f"group_by() ({user_site()}): {self._window} is of {time}, and the table's event time {has}; "
                "name the column that with_event_time() of the stream names"
            )

    def agg(self, *aggregates: Column, uid: str | None = None) -> Table[S]:
        """Return a row for each group: its keys, its window, and these aggregates.

        A row goes out when event time passes the end of its window. Records that come after that, and after
        `lateness`, are counted and go to the side output "late".

        Args:
            aggregates: such as ``F.count("*").alias("n")``.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: something is no aggregate, or a name is there twice.
        """
        where, child = f"agg() ({user_site()})", self._table._relation
        calls = [_named_call(each, where) for each in aggregates]
        keys = [self._key(key) for key in self._keys]
        try:
            found = [resolve_aggregate(call, name, child.schema) for name, call in calls]
        except PlanError as error:
            raise PlanError(f"{where}: {error}") from None
        plan = self._plan(where, child, keys, found, uid)
        number = lowered_aggregation(self._table._environment, plan)
        return self._table._of(Scan(plan.schema, number))

    def _key(self, key: Column) -> tuple[str, Typed]:
        found = self._table._resolved("group_by", key.expression)
        if not can_be_key(found.type):
            raise PlanError(
                f"group_by() ({user_site()}): {found} is {text_of(found.type)}, by which rows cannot be "
                "grouped; cast it to string or to a number"
            )
        return shown_name(key), found

    def _plan(
        self, where: str, child: Relation, keys: list[tuple[str, Typed]], found: list[Aggregate],
        uid: str | None,
    ) -> Aggregation:  # fmt: skip
        """Return the plan whose child computes the keys and the aggregates' arguments, and nothing else."""
        chosen, moved = list(keys), []
        for each in found:
            if each.argument is None:
                moved.append(each)
                continue
            name = f"{each.name}/argument"
            column = ResolvedColumn(each.argument.type, each.argument.nullable, len(chosen), name)
            chosen.append((name, each.argument))
            moved.append(each._replace(argument=column))
        if not chosen:
            # A batch needs a column to have rows.
            chosen.append((child.schema.names[0], self._table._all()[0][1]))
        narrow = projected("group_by", child, chosen)
        places = tuple(range(len(keys)))
        schema = aggregation_schema(narrow.schema, places, tuple(moved))
        if len(set(schema.names)) != len(schema.names):
            raise PlanError(f"{where}: two columns of the result have one name; use alias()")
        return Aggregation(schema, narrow, places, windowed(self._window), tuple(moved), uid)


def _named_call(column: Column, where: str) -> tuple[str, AggregateCall]:
    inner = column.expression.child if isinstance(column.expression, Alias) else column.expression
    if not isinstance(inner, AggregateCall):
        raise PlanError(f"{where} got {column!r}; expected an aggregate, such as F.count('*')")
    return shown_name(column), inner
