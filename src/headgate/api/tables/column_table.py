"""Tables: columns with names and types, and what a program computes of them, each call checked at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal

from typing_extensions import TypeVar

from headgate.api.patterns.table_patterns import matched
from headgate.api.showing import Preview
from headgate.api.site import user_site
from headgate.api.streams.event_time import WatermarkStrategy
from headgate.api.streams.steps import ProgramContext
from headgate.api.streams.stream_outputs import Outputs, StreamSink
from headgate.api.tables.by_name import ByName, refuse_text, selected_columns
from headgate.api.tables.checked_columns import all_columns, check_partitions, place_of, projected, resolved
from headgate.api.tables.column import Column, ColumnLike, expression_of
from headgate.api.tables.grouped_table import GroupedTable, named_call
from headgate.api.tables.lookups import lookup
from headgate.api.tables.lowering import (
    lowered,
    lowered_anew,
    lowered_join,
    lowered_match,
    lowered_rank,
)
from headgate.api.tables.ordering import Ordered
from headgate.api.tables.program_functions import Columns, form_of, table_function
from headgate.api.tables.ranks import over, ranked
from headgate.api.tables.regular_joins import regular_join
from headgate.api.tables.selecting import selected
from headgate.api.tables.side_outputs import SideOutputs
from headgate.api.tables.table_explained import explained
from headgate.api.tables.updating import folded, refuse_updates
from headgate.api.tables.window_joins import joins_windows, window_join
from headgate.common.errors import PlanError
from headgate.graph.logical import NEW, TimestampsNode
from headgate.relational.exploding import is_map
from headgate.relational.expressions import Aliases, Expression, Generator, Reference
from headgate.relational.relations import (
    Filter,
    Form,
    Join,
    Relation,
    Scan,
    WindowJoin,
)
from headgate.relational.resolved import Typed
from headgate.relational.schema import Schema
from headgate.relational.spark_types import text_of
from headgate.relational.united_tables import Pair, by_name, by_position, united

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

S = TypeVar("S", bound=Outputs[Any], default=Any)
"""The class of streams that tables are turned into."""


class Table(ByName, SideOutputs, Generic[S]):
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
        """The columns in order, with names, types, and which of them carries event time."""
        return self._relation.schema

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in order."""
        return [field.name for field in self._relation.schema.shown]

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """The names of the columns, each with its type as Spark calls it."""
        return [(field.name, text_of(field.type)) for field in self._relation.schema.shown]

    def printSchema(self) -> None:  # noqa: N802  # PySpark's name
        """Print the columns with their types."""
        print(self._relation.schema.tree())  # noqa: T201

    def explain(self) -> str:
        """Return the plan as text: as written, and as it runs.

        As it runs, filters and columns are few steps, unused columns are not read, and an aggregation has a
        local part before the exchange and a final one after it. Where rows become columns, or columns rows, a
        line says so, with the number of columns.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> import headgate.functions as F
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> bids = env.from_collection([{"price": 3}]).to_table(pa.schema({"price": pa.int64()}))
            >>> print(bids.filter(F.col("price") > 10).select((F.col("price") * 2).alias("n")).explain())
            as written
              columns (price * 2) AS n
                filter (price > 10)
                  scan ...: price: bigint
            <BLANKLINE>
            as it runs
              vertex 0: from_collection -> filter and columns  x1
                from_collection (uid 'source-0')
                filter and columns (uid 'columns-1')
                  converts rows -> columns: conversion of 1 column
                  reads price
                  gives (price * 2) AS n where (price > 10)
        """
        return explained(self._environment, self._relation)

    def with_watermark(
        self,
        time: str,
        delay: str | int = 0,
        idleness: str | int | None = None,
        max_drift: str | int | None = None,
        drift_group: str = "default",
    ) -> Table[S]:
        """Return the table with event time by a column, and watermarks; call it before any other call.

        Args:
            time: the column, a timestamp or ms since 1970.
            delay: how much earlier than its predecessors a row may be without being late; "5s", or ms.
            idleness: after so long without rows a source subtask no longer holds others back; None: never.
            max_drift: how far a source may be ahead of slower ones; see :meth:`DataStream.with_event_time`.
            drift_group: name of the sources that are compared.

        Raises:
            PlanError: there is no such column, a duration is wrong, or the table was filtered or computed.
        """
        where = f"with_watermark() ({user_site()})"
        if not isinstance(self._relation, Scan) or self._relation.of is not None:
            raise PlanError(f"{where} comes after other calls; call it right after to_table() or env.table()")
        place = place_of(self._relation, "with_watermark", time)
        name = self._relation.schema.names[place]
        try:
            strategy = WatermarkStrategy.of(name, delay, idleness, max_drift, drift_group)
        except PlanError as error:
            raise PlanError(f"{where}: {error}") from None
        node = TimestampsNode(NEW, "event time", strategy=strategy)
        number = self._environment.program.add(node, (self._relation.stream,))
        return self._of(Scan(replace(self._relation.schema, event_time=name), number))

    withWatermark = with_watermark  # noqa: N815  # PySpark's name

    # -- columns

    def select(self, *columns: Column | str | Sequence[Column | str]) -> Table[S]:
        """Return a table of these columns, or of one list of them: names or expressions; "*" stands for all.

        Raises:
            PlanError: a column does not exist, does not fit its function, or is named twice.
        """
        chosen = selected_columns(columns, self.columns, f"select() ({user_site()})")
        return self._of(selected("select", self._relation, [(None, each.expression) for each in chosen]))

    def with_column(self, name: str, column: ColumnLike) -> Table[S]:
        """Return the table with `name`, new or replaced: `column`, or a constant (PlanError for text)."""
        return self.with_columns({name: column})

    withColumn = with_column  # noqa: N815  # PySpark's name

    def with_columns(self, columns: dict[str, ColumnLike]) -> Table[S]:
        """Return the table with these columns, new or replaced: name -> column, or a constant for all rows.
        PlanError for plain text, which could mean both, and for a column that does not exist or fit.
        """
        found: dict[str, Expression] = {name: Reference(name) for name in self.columns}
        for name, column in columns.items():
            refuse_text(column, f"with_columns() ({user_site()})")
            place = self._relation.schema.find(name)
            known = name if place is None else self._relation.schema.fields[place].name
            found[known] = expression_of(column)
        return self._of(selected("with_columns", self._relation, list(found.items())))

    withColumns = with_columns  # noqa: N815

    def rename(self, names: dict[str, str]) -> Table[S]:
        """Return the table with columns renamed, old -> new; PlanError: unknown, or two get the same name."""
        found = dict(enumerate(all_columns(self._relation)))
        for old, new in names.items():
            place = place_of(self._relation, "rename", old)
            found[place] = new, found[place][1]
        return self._projected("rename", list(found.values()))

    def drop(self, *names: str) -> Table[S]:
        """Return the table without these columns; PlanError for an unknown one, or if none is left."""
        gone = {place_of(self._relation, "drop", name) for name in names}
        return self._projected(
            "drop", [each for place, each in enumerate(all_columns(self._relation)) if place not in gone]
        )

    def explode(self, column: str, *names: str, outer: bool = False) -> Table[S]:
        """Return a row for each element of an array, or entry of a map, in place of the column that has it.

        The other columns are repeated, and so is the event time of the row. ``F.explode`` does the same
        within ``select()``.

        Args:
            column: the array or map.
            names: of the new column, or of a map's two; by default the array's name, or `key`, `value`.
            outer: whether a row whose array is null or empty gives one row, with null.

        Raises:
            PlanError: there is no such column, it is neither array nor map; or wrong, or repeated, `names`.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> carts = env.from_collection([{"user": "ada", "items": ["tea", "jam"]}])
            >>> table = carts.to_table(pa.schema({"user": pa.string(), "items": pa.list_(pa.string())}))
            >>> table.explode("items", "item").collect()
            [{'user': 'ada', 'item': 'tea'}, {'user': 'ada', 'item': 'jam'}]
        """
        place = place_of(self._relation, "explode", column)
        chosen: list[tuple[str | None, Expression]] = [(None, Reference(name)) for name in self.columns]
        made: Expression = Generator(Reference(self.columns[place]), position=False, outer=outer)
        if not names and not is_map(self._relation.schema.fields[place].type):
            names = (self.columns[place],)
        chosen[place] = None, Aliases(made, names) if names else made
        return self._of(selected("explode", self._relation, chosen))

    def union(self, other: Table[S]) -> Table[S]:
        """Return the rows of both tables, in no particular order; columns go together by place.

        Names are those of this table, and a type is the one that both fit into. Event time stays if the
        columns that carry it stand at the same place; the watermark is the lower one of both sides.

        Raises:
            PlanError: `other` is no table of this Environment, or its columns differ in number or type.
        """
        return self._united("union", other, lambda mine, its: by_position(mine, its))

    unionAll = union  # noqa: N815  # PySpark's name

    def union_by_name(self, other: Table[S], allow_missing: bool = False) -> Table[S]:
        """Return the rows of both tables, in no particular order; columns go together by name.

        Args:
            other: a table of the same Environment.
            allow_missing: whether a column may be in one table only; it is null in the rows of the other.

        Raises:
            PlanError: as :meth:`union`; or a column is missing, and `allow_missing` is false.
        """
        return self._united(
            "union_by_name", other, lambda mine, its: by_name(mine, its, allow_missing=allow_missing)
        )

    def unionByName(  # noqa: N802  # PySpark's name
        self,
        other: Table[S],
        allowMissingColumns: bool = False,  # noqa: N803
    ) -> Table[S]:
        """Return :meth:`union_by_name` of both tables; PySpark's name of that call."""
        return self.union_by_name(other, allowMissingColumns)

    def filter(self, condition: Column) -> Table[S]:
        """Return the rows for which `condition` is true, and not those for which it is null. PlanError if it
        names a column that does not exist, or is not boolean.
        """
        found = resolved(self._relation, "filter", expression_of(condition))
        if text_of(found.type) != "boolean":
            raise PlanError(
                f"filter() ({user_site()}): {found} is {text_of(found.type)}, not a condition; compare "
                'columns, as in F.col("price") > 3'
            )
        return self._of(Filter(self._relation.schema, self._relation, found))

    where = filter

    def map_batches(
        self,
        function: Callable[..., object],
        schema: Columns,
        frames: Literal["arrow", "table", "polars"] | None = None,
        uid: str | None = None,
    ) -> Table[S]:
        """Return the rows that a function makes of each batch of rows, of any number.

        Which rows are in a batch depends on the source and on the speed of the job: a function whose results
        depend on that gives others when the job continues after a failure. Event time stays if the result has
        the column of event time: each row's time is read from it. Without that column the table has no event
        time, and its rows keep theirs only in batches of as many rows as before.

        Args:
            function: takes a batch and returns one: RecordBatch or Table of pyarrow, or ``polars.DataFrame``.
            schema: the columns that it returns: a ``pyarrow.Schema``, or text as "user string, n bigint".
            frames: what a batch is; None: what its first parameter's annotation says, else a RecordBatch.
            uid: names the operator.

        Raises:
            PlanError: `function` is async or takes not one batch, `schema` is wrong, `frames` is unknown.

        Example:
            >>> import polars as pl, pyarrow as pa
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> bids = env.from_collection([{"price": 3}, {"price": 40}])
            >>> def doubled(bids: pl.DataFrame) -> pl.DataFrame:
            ...     return bids.select(double=pl.col("price") * 2)
            >>> table = bids.to_table(pa.schema({"price": pa.int64()}))
            >>> table.map_batches(doubled, "double bigint").collect()
            [{'double': 6}, {'double': 80}]
        """
        form = form_of(function, frames)
        return self._of(table_function("map_batches", self._relation, function, schema, form, uid))

    def as_rows(
        self, function: Callable[[dict[str, Any]], object], schema: Columns, uid: str | None = None
    ) -> Table[S]:
        """Return the rows that a function gives for each row, which it gets as a dict.

        A row keeps the event time of the row that it was made of. If the result has the column of event time,
        the time is read from it, and windows may follow.

        Args:
            function: returns a dict, several in a list, or None for no row.
            schema: the columns that it returns: a ``pyarrow.Schema``, or text as "user string, n bigint".
            uid: names the operator.

        Raises:
            PlanError: `function` is async or takes not one row, or `schema` is empty or has a wrong column.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> bids = env.from_collection([{"price": 3}, {"price": 40}])
            >>> def dear(bid):
            ...     return {"half": bid["price"] // 2} if bid["price"] > 10 else None
            >>> bids.to_table(pa.schema({"price": pa.int64()})).as_rows(dear, "half bigint").collect()
            [{'half': 20}]
        """
        return self._of(table_function("as_rows", self._relation, function, schema, Form.ROWS, uid))

    def group_by(self, *keys: Column | str) -> GroupedTable[Table[S]]:
        """Group the rows by columns and by a window; ``agg()`` follows.

        Args:
            keys: names, expressions, and one ``F.window(...)``.

        Raises:
            PlanError: not exactly one window, or one not of the table's event time; a key of a type that
                cannot be one; or the rows are results of windows that may come more than once.
        """
        columns = selected_columns(keys, self.columns, f"group_by() ({user_site()})")
        return GroupedTable(self._environment, self._relation, columns, self._of)

    groupBy = group_by  # noqa: N815

    def join(
        self, other: Table[S], on: str | Sequence[str], how: str = "inner", uid: str | None = None
    ) -> Table[S]:
        """Return the rows of this and the other table that have equal columns, in the same window.

        A row goes out when event time passes the end of its window; rows that come later are dropped and
        counted. The result has the columns of `on` (the window last), the others of this table and, but for
        "semi" and "anti", those of the other table.

        Args:
            other: the other table, of the same Environment.
            on: names of columns that both tables have; one of them is a window, as of an aggregation.
            how: "inner", "left", "right", "full", "semi" or "anti", or PySpark's other names of these.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: a column of `on` is not in both or cannot be a key, not exactly one is a window, `how`
                is unknown, windows may emit more than once, or both tables have another column of one name.
        """
        names = [on] if isinstance(on, str) else list(on)
        if getattr(other, "_environment", None) is not self._environment:
            raise PlanError(f"join() ({user_site()}) got {other!r}; expected a table of the same Environment")
        sides = self._relation, other._relation
        plan: WindowJoin | Join = (
            window_join(*sides, names, how, uid)
            if joins_windows(*sides, names)
            else regular_join(*sides, names, how, uid)
        )
        number = lowered_join(self._environment, plan, f"join() ({user_site()})")
        return self._of(Scan(plan.schema, number))

    def lookup(self, table: pa.Table, on: str | Sequence[str], how: str = "inner") -> Table[S]:
        """Return the rows of this table with those of `table` that have equal columns. `table` does not change, and
        every subtask has all of it, so nothing is kept and nothing is sent. Null equals nothing.

        Args:
            table: a ``pyarrow.Table``, such as ``dataframe.toArrow()``; it is shipped with the program.
            on: names of columns that both have.
            how: "inner", "left", "semi" or "anti".

        Raises:
            PlanError: a column of `on` is not in both or is of two types, `how` is another one, or both have
                another column of one name.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> bids = env.from_collection([{"currency": "EUR", "price": 3}])
            >>> bids = bids.to_table(pa.schema({"currency": pa.string(), "price": pa.int64()}))
            >>> bids.lookup(pa.table({"currency": ["EUR"], "rate": [1.1]}), "currency").collect()
            [{'currency': 'EUR', 'price': 3, 'rate': 1.1}]
        """
        return self._of(lookup(self._relation, table, [on] if isinstance(on, str) else list(on), how))

    def top_n(
        self,
        n: int,
        by: str | Sequence[str],
        order_by: Sequence[Ordered | Column | str] | Ordered | Column | str,
        rank: str | None = None,
        uid: str | None = None,
    ) -> Table[S]:
        """Return the first `n` rows of each key; they are corrected as more rows come.

        Args:
            n: how many rows of a key there are at most.
            by: the key: names of columns.
            order_by: columns, as ``F.desc("price")``; of equal rows the one that came earlier is first.
            rank: name of a column for the rows' places, from 1; None: there is none.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: a column does not exist, cannot be a key or has no order.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> import headgate.functions as F
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> rows = env.from_collection([{"k": 1, "v": v} for v in (3, 9, 4)])
            >>> table = rows.to_table(pa.schema({"k": pa.int64(), "v": pa.int64()}))
            >>> sorted(table.top_n(2, "k", F.desc("v"), uid="best").collect(), key=lambda row: row["v"])
            [{'k': 1, 'v': 4}, {'k': 1, 'v': 9}]
        """
        names = [by] if isinstance(by, str) else list(by)
        plan = ranked("top_n", self._relation, n, names, order_by, rank, uid)
        lower = lowered_anew if plan.child.schema.updating else lowered_rank
        number = lower(self._environment, plan, f"top_n() ({user_site()})")
        return self._of(Scan(plan.schema, number)).select(*plan.shown(self.columns))

    def over(
        self,
        *aggregates: Column,
        by: str | Sequence[str],
        order_by: Sequence[Ordered | Column | str] | Ordered | Column | str,
        preceding: int | None = None,
        uid: str | None = None,
    ) -> Table[S]:
        """Return all rows, each with aggregates over itself and rows of its key before it; they are corrected as
        more rows come. All rows are kept, and those of a key are computed anew when one of them changes.

        Args:
            aggregates: such as ``F.avg("price").alias("mean")``.
            by: the key: names of columns.
            order_by: columns, as ``F.desc("price")``; of equal rows the one that came earlier is first.
            preceding: over how many rows before a row; None: over all.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: something is no aggregate, a column does not exist, cannot be a key or has no order.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> import headgate.functions as F
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> table = env.from_collection([{"k": 1, "v": v} for v in (3, 9, 4)])
            >>> table = table.to_table(pa.schema({"k": pa.int64(), "v": pa.int64()}))
            >>> last = table.over(F.sum("v").alias("last two"), by="k", order_by="v", preceding=1, uid="o")
            >>> [row["last two"] for row in sorted(last.collect(), key=lambda row: row["v"])]
            [3, 7, 13]
        """
        where = f"over() ({user_site()})"
        calls = [named_call(each, where) for each in aggregates]
        plan = over(
            self._relation, [by] if isinstance(by, str) else list(by), order_by, preceding, calls, uid
        )
        number = lowered_anew(self._environment, plan, where)
        results = [each.name for each in plan.aggregates]
        return self._of(Scan(plan.schema, number)).select(*self.columns, *results)

    def match(
        self,
        by: str | Sequence[str],
        pattern: str,
        define: Mapping[str, Column],
        measures: Mapping[str, Column],
        within: str | int | None = None,
        skip: str = "past last row",
        order_by: Sequence[Ordered | Column | str] | Ordered | Column | str = (),
        uid: str | None = None,
    ) -> Table[S]:
        """Return a row for each match of a pattern among the rows of a key, as SQL's MATCH_RECOGNIZE.

        Rows of a key are matched in the order of event time, once the watermark has passed it; of rows that are
        equal in that the one that came earlier is first. Late rows are counted and dropped. A match begins at the first
        row that it can begin at, and follows the pattern in the order of preference. Its row is emitted when no
        preferred way is left, at the event time of the row, or of the end of `within`, by which that is known.

        In `define` a plain column is of the row in question; in `measures`, of the match's last row.
        ``F.col("A.price")`` is of the last row of A so far, ``F.first("A.price")`` of its first row,
        ``F.avg("A.price")`` and other aggregates are of all its rows so far; see also :mod:`headgate.patterns`.

        Args:
            by: names of the columns that all rows of a match have in common.
            pattern: variables in sequence, such as ``"A B* (C | D){2,} E+?"``, with ``? * + {n} {n,m}``, each
                as often as possible, or with another ``?`` as rarely as possible, ``|`` and parentheses.
            define: variable -> the condition of its rows; any row will do for one that is left out.
            measures: name -> value, the columns of the result after those of `by`.
            within: the last row comes less than so long after the first one; "5s", or ms. None: at any time.
                It bounds how long rows are kept.
            skip: where the search goes on after a match: "past last row", "to next row" (that after the match's
                first), or "to first A", "to last A" with a variable.
            order_by: columns that order the rows of one time, as ``F.desc("price")``, before their order of coming.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: the table has no event time or is corrected, a column or the pattern is wrong, or may
                match without a row, or a condition is not boolean.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> import headgate.functions as F
            >>> import headgate.patterns as P
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> rows = [{"k": "a", "at": at, "v": v} for at, v in enumerate([9, 7, 4, 6, 5])]
            >>> schema = pa.schema({"k": pa.string(), "at": pa.int64(), "v": pa.int64()})
            >>> table = env.from_collection(rows).to_table(schema).with_watermark("at")
            >>> falls = {"DOWN": F.col("v") < F.when(F.count("DOWN.v") > 1, P.last("DOWN.v", 1)).otherwise(F.col("TOP.v"))}
            >>> table.match("k", "TOP DOWN+ UP", falls, {"lowest": F.min("DOWN.v"), "end": F.col("UP.v")}).collect()
            [{'k': 'a', 'lowest': 4, 'end': 6}]
        """
        names = [by] if isinstance(by, str) else list(by)
        plan = matched(self._relation, names, order_by, pattern, define, measures, within, skip, uid)
        number = lowered_match(self._environment, plan, f"match() ({user_site()})")
        return self._of(Scan(plan.schema, number))

    # -- ways out

    def to_stream(self, uid: str | None = None) -> S:
        """Return the rows as a stream, columnar until a function of rows reads it; `uid`: the operator's."""
        refuse_updates("to_stream", self._relation)
        return self._changes(uid)

    def _changes(self, uid: str | None = None) -> S:
        return self._stream(self._environment, lowered(self._environment, self._relation, uid))

    def to_changes(self, uid: str | None = None) -> S:
        """Return the changes of a table whose rows are corrected as a stream of rows, which have the column
        ``__change`` last: 0 a row comes, 1 it leaves as 2 it comes back corrected, 3 it goes. Changes of a
        mark follow each other, and together they lead to an exact answer. `uid`: the operator's.

        Raises:
            PlanError: rows of this table are never corrected; call :meth:`to_stream`.
        """
        if not self._relation.schema.updating:
            raise PlanError(f"to_changes() ({user_site()}): no row of the table changes; write to_stream()")
        return self._changes(uid)

    def collect(self, job_name: str = "collect") -> list[dict[str, Any]]:
        """Return all rows of this bounded table as dicts, by a job of only what feeds it. UsageError: nothing
        was started; UserFunctionError: the program's code failed; JobFailedError: anything else failed.
        """
        if self._relation.schema.updating:
            return folded(self._changes().collect(job_name))
        return self.to_stream().collect(job_name)

    def take(self, n: int, timeout_s: float | None = None) -> list[dict[str, Any]]:
        """Return the first `n` rows that come, as dicts; fewer if the table ends or `timeout_s` s pass."""
        return self.to_stream().take(n, timeout_s)

    def preview(self, n: int = 10, timeout_s: float | None = None) -> Preview[dict[str, Any]]:
        """Return the rows that :meth:`take` returns, in a sequence that shows itself as a table."""
        return self.to_stream().preview(n, timeout_s)

    def write_parquet(self, path: str | PathLike[str], uid: str | None = None, **options: Any) -> StreamSink:
        """Write the rows as Parquet files into directory `path`, exactly once with checkpoints. `uid` names
        the sink's state (None: made of the path), `options` are as for ``DataStream.write_parquet``.
        UsageError: wrong options, or `partition_by` has an unknown column, or all.
        """
        check_partitions(self._relation, "write_parquet", options)
        return self.to_stream().write_parquet(path, uid, **options)

    def write_json(self, path: str | PathLike[str], uid: str | None = None, **options: Any) -> StreamSink:
        """Write the rows as JSON lines into directory `path`; all else is as for :meth:`write_parquet`."""
        check_partitions(self._relation, "write_json", options)
        return self.to_stream().write_json(path, uid, **options)

    def to_dataframe(self, job_name: str = "to_dataframe") -> DataFrame:
        """Return all rows of this bounded table as a Spark DataFrame; errors are those of :meth:`collect`."""
        return self.to_stream().to_dataframe(job_name=job_name)

    def to_spark(self, write: Any, uid: str | None = None) -> StreamSink:
        """Add a sink that gives each checkpoint's rows to `write`, as a DataFrame: `DataStream.to_spark`."""
        return self.to_stream().to_spark(write, uid)

    def _of(self, relation: Relation) -> Table[S]:
        return Table(self._environment, relation, self._stream)

    def _united(self, verb: str, other: Table[S], pairs: Callable[[Schema, Schema], list[Pair]]) -> Table[S]:
        where = f"{verb}() ({user_site()})"
        if not isinstance(other, Table):
            raise PlanError(f"{where} got {type(other).__name__}; expected a table")
        if other._environment is not self._environment:
            raise PlanError(f"{where} got a table of another Environment; expected one of the same")
        try:
            left, right = self._relation, other._relation
            return self._of(united(left, right, pairs(left.schema, right.schema)))
        except PlanError as error:
            raise PlanError(f"{where}: {error}") from None

    def _projected(self, verb: str, chosen: list[tuple[str, Typed]]) -> Table[S]:
        return self._of(projected(verb, self._relation, chosen))
