"""Tables: columns with names and types, and what a program computes of them, each call checked at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from headgate.api.patterns.matched_tables import MatchedTables
from headgate.api.site import user_site
from headgate.api.streams.event_time import WatermarkStrategy
from headgate.api.streams.steps import ProgramContext
from headgate.api.tables.by_name import ByName, refuse_text, selected_columns
from headgate.api.tables.changelogs.set_operations import SetOperations
from headgate.api.tables.changelogs.ways_out import WaysOut
from headgate.api.tables.checked_columns import all_columns, place_of, projected, resolved
from headgate.api.tables.column import Column, ColumnLike, expression_of
from headgate.api.tables.grouped_table import GroupedTable
from headgate.api.tables.joins.joined_tables import JoinedTables
from headgate.api.tables.lowering import as_changes
from headgate.api.tables.program_functions import Columns, form_of, table_function
from headgate.api.tables.ranking.ranked_tables import RankedTables
from headgate.api.tables.selecting import selected
from headgate.api.tables.side_outputs import SideOutputs
from headgate.api.tables.table_explained import explained
from headgate.api.tables.table_outputs import S, TableOutputs
from headgate.common.errors import PlanError
from headgate.graph.logical import NEW, TimestampsNode
from headgate.relational.changes import CHANGE
from headgate.relational.exploding import is_map
from headgate.relational.expressions import Aliases, Expression, Generator, Reference
from headgate.relational.relations import (
    Filter,
    Form,
    Relation,
    Scan,
)
from headgate.relational.resolved import Typed
from headgate.relational.schema import Schema, shown
from headgate.relational.spark_types import text_of
from headgate.relational.united_tables import Pair, by_name, by_position, united


class Table(
    ByName, SideOutputs, JoinedTables, RankedTables, MatchedTables, SetOperations, WaysOut, TableOutputs[S]
):
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
        return [field.name for field in shown(self._relation.schema)]

    @property
    def dtypes(self) -> list[tuple[str, str]]:
        """The names of the columns, each with its type as Spark calls it."""
        return [(field.name, text_of(field.type)) for field in shown(self._relation.schema)]

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

        If rows of one of them are corrected, those of the result are, too.
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

    def _of(self, relation: Relation) -> Table[S]:
        return Table(self._environment, relation, self._stream)

    def _united(self, verb: str, other: Table[S], pairs: Callable[[Schema, Schema], list[Pair]]) -> Table[S]:
        where = f"{verb}() ({user_site()})"
        if not isinstance(other, Table):
            raise PlanError(f"{where} got {type(other).__name__}; expected a table")
        if other._environment is not self._environment:
            raise PlanError(f"{where} got a table of another Environment; expected one of the same")
        left, right = self._relation, other._relation
        change = []
        if left.schema.updating or right.schema.updating:
            left, right = as_changes(left), as_changes(right)
            change = [Pair(CHANGE, len(left.schema) - 1, len(right.schema) - 1)]
        both = Schema(shown(left.schema)), Schema(shown(right.schema))
        try:
            return self._of(united(left, right, [*pairs(*both), *change]))
        except PlanError as error:
            raise PlanError(f"{where}: {error}") from None

    def _projected(self, verb: str, chosen: list[tuple[str, Typed]]) -> Table[S]:
        return self._of(projected(verb, self._relation, chosen))
