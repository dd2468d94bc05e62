"""Tables grouped by columns and a window, on their way to aggregates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext
from headgate.api.tables.aggregate_functions import plain_aggregate
from headgate.api.tables.checked_columns import all_columns, projected, resolved
from headgate.api.tables.column import Column, shown_name
from headgate.api.tables.lowering import lowered_aggregation
from headgate.common.errors import PlanError
from headgate.relational.aggregates import Aggregate, resolve_aggregate
from headgate.relational.expressions import AggregateCall, Alias, Call, Reference, TimeWindow
from headgate.relational.python_types import can_be_key
from headgate.relational.relations import (
    WINDOW_START,
    Aggregation,
    Relation,
    Scan,
    aggregation_schema,
    windowed,
)
from headgate.relational.resolved import Column as ResolvedColumn
from headgate.relational.resolved import Typed
from headgate.relational.spark_types import WINDOW, is_numeric, text_of

T = TypeVar("T")
"""The class of tables that results are."""


class GroupedTable(Generic[T]):
    """Rows grouped by keys and a window; made by :meth:`Table.group_by`, and followed by ``agg()``."""

    def __init__(
        self, environment: ProgramContext, child: Relation, keys: list[Column], table: Callable[[Relation], T]
    ) -> None:
        self._environment, self._child, self._table = environment, child, table
        windows = [found for key in keys if (found := _window(key, child)) is not None]
        if len(windows) != 1:
            raise PlanError(
                f"group_by() ({user_site()}) got {len(windows)} windows; expected one, such as "
                'F.window("at", "10s"), as the state of groups without a window has no bound'
            )
        self._window: TimeWindow = windows[0]
        self._keys = [key for key in keys if _window(key, child) is None]
        self._check_time()
        for key in self._keys:
            self._key(key)  # a wrong one is refused on its line

    def __repr__(self) -> str:
        keys = ", ".join(map(str, (*(key.expression for key in self._keys), self._window)))
        return f"<table grouped by {keys}; agg() follows>"

    def _check_time(self) -> None:
        schema, time = self._child.schema, self._window.time
        if not isinstance(time, Reference) or schema.event_time is None or time.name != schema.event_time:
            has = "has none" if schema.event_time is None else f"is {schema.event_time!r}"
            raise PlanError(
                f"group_by() ({user_site()}): {self._window} is of {time}, and the table's event time {has}; "
                "name the column that with_event_time() of the stream names"
            )

    def agg(self, *aggregates: Column, uid: str | None = None) -> T:
        """Return a row for each group: its keys, its window, and these aggregates.

        A row goes out when event time passes the end of its window. Records that come after that are dropped
        and counted.

        Args:
            aggregates: such as ``F.count("*").alias("n")``.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: something is no aggregate, or a name is there twice.
        """
        where, child = f"agg() ({user_site()})", self._child
        calls = [_named_call(each, where) for each in aggregates]
        keys = [self._key(key) for key in self._keys] + self._hidden_keys()
        try:
            found = [resolve_aggregate(call, name, child.schema) for name, call in calls]
        except PlanError as error:
            raise PlanError(f"{where}: {error}") from None
        plan = self._plan(where, child, keys, found, uid)
        number = lowered_aggregation(self._environment, plan)
        return self._table(Scan(plan.schema, number))

    def count(self, *, uid: str | None = None) -> T:
        """Return how many rows each group has, in the column ``count``; as ``agg(F.count("*"))``.

        Args:
            uid: names the state, as in :meth:`agg`.
        """
        return self.agg(plain_aggregate("count").alias("count"), uid=uid)

    def sum(self, *columns: str, uid: str | None = None) -> T:
        """Return the sums of columns for each group; that of ``x`` is called ``sum(x)``.

        Args:
            columns: names of columns of numbers; none: all of them but event time.
            uid: names the state, as in :meth:`agg`.

        Raises:
            PlanError: a column is not there, or has no numbers.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> import headgate.functions as F
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> rows = env.from_collection([{"at": 1, "price": 3}, {"at": 2, "price": 40}])
            >>> bids = rows.with_event_time("at").to_table(pa.schema({"at": pa.int64(), "price": pa.int64()}))
            >>> bids.group_by(F.window("at", "1s")).sum("price").select("sum(price)").collect()
            [{'sum(price)': 43}]
        """
        return self._of_each("sum", columns, uid)

    def min(self, *columns: str, uid: str | None = None) -> T:
        """Return the least values of columns for each group; that of ``x`` is called ``min(x)``.

        Arguments and errors are those of :meth:`sum`.
        """
        return self._of_each("min", columns, uid)

    def max(self, *columns: str, uid: str | None = None) -> T:
        """Return the greatest values of columns for each group; that of ``x`` is called ``max(x)``.

        Arguments and errors are those of :meth:`sum`.
        """
        return self._of_each("max", columns, uid)

    def avg(self, *columns: str, uid: str | None = None) -> T:
        """Return the means of columns for each group; that of ``x`` is called ``avg(x)``.

        Arguments and errors are those of :meth:`sum`.
        """
        return self._of_each("avg", columns, uid)

    mean = avg

    def _of_each(self, function: str, columns: tuple[str, ...], uid: str | None) -> T:
        schema, where = self._child.schema, f"{function}() ({user_site()})"
        found = {field.name for field in schema if is_numeric(field.type) and field.name != schema.event_time}
        # In the order of the table: all of them, as PySpark does, keys among them.
        named = columns or tuple(name for name in schema.names if name in found)
        for name in named:
            kind = resolved(self._child, function, Reference(name)).type
            if not is_numeric(kind):
                raise PlanError(f"{where}: {name!r} is {text_of(kind)}; expected a column of numbers")
        if not named:
            raise PlanError(f"{where} got no columns, and the table has none of numbers")
        return self.agg(*(plain_aggregate(function, name) for name in named), uid=uid)

    def _key(self, key: Column) -> tuple[str, Typed]:
        found = resolved(self._child, "group_by", key.expression)
        if not can_be_key(found.type):
            raise PlanError(
                f"group_by() ({user_site()}): {found} is {text_of(found.type)}, by which rows cannot be "
                "grouped; cast it to string or to a number"
            )
        return shown_name(key), found

    def _hidden_keys(self) -> list[tuple[str, Typed]]:
        """Return where the window of a row begins, if rows are results of windows."""
        if self._window.kind != "same":
            return []
        start = Reference(f"{self._window.time}.start")
        return [(WINDOW_START, resolved(self._child, "group_by", Call("unix_millis", (start,))))]

    def _plan(
        self, where: str, child: Relation, keys: list[tuple[str, Typed]], found: list[Aggregate],
        uid: str | None,
    ) -> Aggregation:  # fmt: skip
        """Return the aggregation's plan; its child computes only the keys and the aggregates' arguments."""
        chosen, moved = list(keys), []
        for each in found:
            columns: list[Typed] = []
            for place, argument in enumerate(each.arguments):
                name = f"{each.name}/argument{place or ''}"
                columns.append(ResolvedColumn(argument.type, argument.nullable, len(chosen), name))
                chosen.append((name, argument))
            moved.append(each._replace(arguments=tuple(columns)))
        if not chosen:
            # A batch needs a column to have rows.
            chosen.append((child.schema.names[0], all_columns(child)[0][1]))
        narrow = projected("group_by", child, chosen)
        places = tuple(range(len(keys)))
        schema = aggregation_schema(narrow.schema, places, tuple(moved), self._window.name)
        if len(set(schema.names)) != len(schema.names):
            raise PlanError(f"{where}: two columns of the result have one name; use alias()")
        return Aggregation(schema, narrow, places, windowed(self._window), tuple(moved), uid)


def _window(key: Column, child: Relation) -> TimeWindow | None:
    """Return the window that a key of `group_by` is; None: it is an ordinary key."""
    expression = key.expression
    if isinstance(expression, TimeWindow):
        return expression
    time = child.schema.event_time
    if time is None or not isinstance(expression, Reference) or expression.name != time:
        return None
    of_windows = child.schema.fields[child.schema.place(time)].type == WINDOW
    return TimeWindow(expression, 0, 0, kind="same") if of_windows else None


def _named_call(column: object, where: str) -> tuple[str, AggregateCall]:
    expression = column.expression if isinstance(column, Column) else None
    inner = expression.child if isinstance(expression, Alias) else expression
    if not isinstance(column, Column) or not isinstance(inner, AggregateCall):
        raise PlanError(
            f"{where} got {column!r:.80}; expected an aggregate, such as F.count('*'); what is computed of "
            "results goes into a select() after it"
        )
    return shown_name(column), inner
