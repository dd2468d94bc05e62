"""Tables grouped by columns and a window, on their way to aggregates."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, Generic, Self, TypeVar

from headgate.api.functions import OutputTag
from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext
from headgate.api.tables.aggregate_functions import plain_aggregate
from headgate.api.tables.aggregated_columns import ColumnsOf, arguments_of, with_sets
from headgate.api.tables.checked_columns import all_columns, checked, projected, resolved
from headgate.api.tables.column import Column, shown_name
from headgate.api.tables.firing_rules import (
    early_interval,
    lateness_of,
    refuse_repeated,
    tag_name,
    time_to_live,
)
from headgate.api.tables.lowering import lowered_aggregation, lowered_anew
from headgate.api.tables.retracting import PRESENT, WEIGHT, adds_up, one, present, rewritten, with_weights
from headgate.api.tables.selecting import selected
from headgate.api.tables.updating import refuse_updates
from headgate.api.windows.trigger import Trigger
from headgate.common.errors import PlanError
from headgate.relational.aggregates import Aggregate, resolve_aggregate
from headgate.relational.aggregation_schemas import aggregation_schema, running_schema, windowed
from headgate.relational.expressions import (
    AggregateCall,
    Alias,
    Call,
    Expression,
    ProcessingTime,
    Reference,
    TimeWindow,
)
from headgate.relational.firing import AT_END
from headgate.relational.joins.odd_keys import keys_with_nulls
from headgate.relational.python_types import can_be_key
from headgate.relational.relations import (
    ALL_ROWS,
    LATE_PREFIX,
    RUNNING,
    WINDOW_START,
    Aggregation,
    Relation,
    Scan,
)
from headgate.relational.resolved import Typed
from headgate.relational.schema import Schema, refuse_reserved, shown
from headgate.relational.spark_types import WINDOW, is_numeric, text_of

T = TypeVar("T")
"""The class of the tables of results."""

NO_WINDOW: Final = TimeWindow(ProcessingTime(), 0, 0, kind=RUNNING)
"""Stands for the window of groups that have none."""


class GroupedTable(Generic[T]):
    """Rows grouped by keys and a window; :meth:`Table.group_by` makes it, and ``agg()`` or the like follows.

    `lateness`, `late_to` and `trigger` may be called in between; each returns another grouped table.
    """

    def __init__(
        self, environment: ProgramContext, child: Relation, keys: list[Column], table: Callable[[Relation], T]
    ) -> None:
        self._environment, self._child, self._table = environment, child, table
        windows = [found for key in keys if (found := _window(key, child)) is not None]
        if len(windows) > 1:
            raise PlanError(f"group_by() ({user_site()}) got {len(windows)} windows; expected one at most")
        if windows:
            refuse_updates("group_by", child)
        self._window: TimeWindow = windows[0] if windows else NO_WINDOW
        self._keys = [key for key in keys if _window(key, child) is None]
        self._firing = AT_END
        self._ttl_ms: int | None = None
        self._made: frozenset[str] = frozenset()  # columns of the rows that the program does not know
        if windows:
            self._check_time()
        refuse_repeated("group_by", child)
        for key in self._keys:
            self._key(key)  # a wrong one is refused on its line

    def __repr__(self) -> str:
        keys = ", ".join(map(str, (*(key.expression for key in self._keys), self._window)))
        return f"<table grouped by {keys}; agg() follows>"

    def _check_time(self) -> None:
        schema, time = self._child.schema, self._window.time
        if isinstance(time, ProcessingTime):
            return
        if not isinstance(time, Reference) or schema.event_time is None or time.name != schema.event_time:
            has = "has none" if schema.event_time is None else f"is {schema.event_time!r}"
            raise PlanError(
                f"group_by() ({user_site()}): {self._window} is of {time}, and the table's event time {has}; "
                "name the column that with_event_time() of the stream names"
            )

    def lateness(self, lateness: str | int) -> Self:
        """Have windows take rows for some time after their end; each such row makes its window emit again.

        A row is late when the watermark has passed the end of its window by more than this. Until then the
        state of the window is kept.

        Args:
            lateness: as text such as ``"1min"``, or in ms.

        Raises:
            PlanError: `lateness` is no duration, or the windows are of processing time.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> import headgate.functions as F
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> rows = env.from_collection([{"at": at} for at in (1_000, 12_000, 2_000)])
            >>> table = rows.with_event_time("at").to_table(pa.schema({"at": pa.int64()}))
            >>> patient = table.group_by(F.window("at", "10s")).lateness("5s")
            >>> patient.agg(F.count("*").alias("n"), uid="patient").select("n").collect()
            [{'n': 1}, {'n': 2}, {'n': 1}]
        """
        return self._with(lateness_ms=lateness_of(self._window, lateness))

    def late_to(self, tag: OutputTag[Any]) -> Self:
        """Send late rows to a side output, with all columns of this table; else they are dropped and counted.

        Args:
            tag: the name of the side output, to be given to ``side_output()`` of the table of results.

        Raises:
            PlanError: `tag` is no tag, or the windows are of processing time.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> import headgate.functions as F
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> rows = env.from_collection([{"at": at} for at in (1_000, 12_000, 2_000)])
            >>> table = rows.with_event_time("at").to_table(pa.schema({"at": pa.int64()}))
            >>> late = hg.OutputTag("late")
            >>> counts = table.group_by(F.window("at", "10s")).late_to(late).agg(F.count("*").alias("n"))
            >>> counts.side_output(late).collect()
            [{'at': 2000}]
        """
        return self._with(late_tag=tag_name(self._window, tag))

    def trigger(self, trigger: Trigger) -> Self:
        """Set when windows emit; by default when time passes their end, and at each late row that is allowed.

        Args:
            trigger: ``hg.at_end()``, or one that emits before the end at intervals of the wall clock, if rows
                have come: ``hg.after_watermark(early="10s")``, ``hg.continuous("10s", time="processing")``.

        Raises:
            PlanError: `trigger` is no trigger, or one that only windows of rows have; or the windows are of
                processing time.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> import headgate.functions as F
            >>> env = hg.Environment(parallelism=1)
            >>> table = env.from_collection([{"at": 1}]).with_event_time("at")
            >>> hours = table.to_table(pa.schema({"at": pa.int64()})).group_by(F.window("at", "1h"))
            >>> counts = hours.trigger(hg.after_watermark(early="10s")).count(uid="hours")
        """
        return self._with(early_ms=early_interval(self._window, trigger))

    def _with(self, **changes: Any) -> Self:
        other = copy.copy(self)
        other._firing = replace(self._firing, **changes)
        return other

    def with_nulls(self) -> GroupedTable[T]:
        """Have null, and NaN, be keys like others, as in SQL; by default such a key fails the job.

        Raises:
            PlanError: there is no key besides a window, or a key is of a type that cannot be one.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> rows = env.from_collection([{"user": "ada"}, {"user": None}, {"user": None}])
            >>> table = rows.to_table(pa.schema({"user": pa.string()}))
            >>> counts = table.group_by("user").with_nulls().count(uid="counts").collect()
            >>> sorted(counts, key=lambda row: row["count"])
            [{'user': 'ada', 'count': 1}, {'user': None, 'count': 2}]
        """
        where = f"with_nulls() ({user_site()})"
        if not self._keys:
            raise PlanError(f"{where} is for groups by columns, and there are none; leave it away")
        shown_keys = [self._key(key) for key in self._keys]
        rows = projected("with_nulls", self._child, [*_named_keys(shown_keys), *all_columns(self._child)])
        keys = checked("with_nulls", partial(keys_with_nulls, rows.schema, list(range(len(shown_keys)))))
        whole = projected("with_nulls", rows, [*keys.columns, *all_columns(rows)[len(shown_keys) :]])
        given = dict(zip((name for name, _ in shown_keys), keys.given.values(), strict=True))
        hidden = {name for name, _ in keys.columns}

        def table(relation: Relation) -> T:
            results = [field.name for field in shown(relation.schema) if field.name not in hidden]
            chosen = [*given.items(), *((name, Reference(name)) for name in results)]
            return self._table(selected("agg", relation, chosen))

        columns = [Column(Reference(name)) for name, _ in keys.columns]
        if self._window is not NO_WINDOW:
            same = self._window.kind == "same"
            columns.append(Column(self._window.time if same else self._window))
        grouped = GroupedTable(self._environment, whole, columns, table)
        grouped._firing, grouped._made = self._firing, frozenset(hidden)
        return grouped

    def agg(self, *aggregates: Column, uid: str | None = None, ttl: str | int | None = None) -> T:
        """Return a row for each group: its keys, its window, and these aggregates.

        A row goes out when time passes the end of its window. Rows that come after that are dropped and
        counted, unless `lateness` or `late_to` says otherwise.

        Args:
            aggregates: such as ``F.count("*").alias("n")``.
            uid: names the state for later versions of the program; needed when checkpoints are on.
            ttl: without a window: after so long without rows a group is forgotten, as "1h" or in ms; its row
                stays as it is, and rows that come for it later begin a new one. None: never.

        Raises:
            PlanError: something is no aggregate, does not fit its columns, or a name is there twice; `ttl` is
                no duration, or windows bound the state already.
        """
        where, child = f"agg() ({user_site()})", self._child
        calls = [named_call(each, where) for each in aggregates]
        self._ttl_ms = time_to_live("agg", ttl)
        if self._ttl_ms is not None and self._window is not NO_WINDOW:
            raise PlanError(f"{where} got ttl, and windows are forgotten when they end; leave it away")
        if child.schema.updating:
            return self._of_changes(where, calls, uid)
        keys = [self._key(key) for key in self._keys] + self._hidden_keys()
        try:
            found = [resolve_aggregate(call, name, child.schema) for name, call in calls]
        except PlanError as error:
            raise PlanError(f"{where}: {error}") from None
        columns = with_sets if self._window is NO_WINDOW else arguments_of
        plan = self._plan(where, child, keys, found, uid, columns)
        number = lowered_aggregation(self._environment, plan)
        return self._table(Scan(plan.schema, number, plan))

    def _of_changes(self, where: str, calls: list[tuple[str, AggregateCall]], uid: str | None) -> T:
        if not all(adds_up(call, self._child) for _, call in calls):
            return self._anew(where, calls, uid)
        child = with_weights(self._child)
        found = {name: rewritten(name, call) for name, call in calls}
        sums = {name: call for each in found.values() for name, call in each.sums.items()}
        sums[PRESENT] = present()
        keys = [self._key(key) for key in self._keys]
        aggregates = [
            checked("agg", partial(resolve_aggregate, call, name, child.schema))
            for name, call in sums.items()
        ]
        columns = partial(with_sets, weight=resolved(child, "agg", Reference(WEIGHT)))
        plan = replace(self._plan(where, child, keys, aggregates, uid, columns), present=PRESENT)
        number = lowered_aggregation(self._environment, plan)
        chosen: list[tuple[str | None, Expression]] = [(name, Reference(name)) for name, _ in keys]
        chosen += [(name, each.result) for name, each in found.items()]
        return self._table(selected("agg", Scan(plan.schema, number, plan), chosen))

    def _anew(self, where: str, calls: list[tuple[str, AggregateCall]], uid: str | None) -> T:
        child, keys = self._child, [self._key(key) for key in self._keys]
        aggregates = [
            checked("agg", partial(resolve_aggregate, call, name, child.schema)) for name, call in calls
        ]
        plan = self._plan(where, child, keys or [(ALL_ROWS, one())], aggregates, uid)
        return self._table(Scan(plan.schema, lowered_anew(self._environment, plan, where), plan))

    def count(self, *, uid: str | None = None) -> T:
        """Return a row per group with its number of rows, as column ``count``; like ``agg(F.count("*"))``.

        Args:
            uid: names the state, as in :meth:`agg`.
        """
        return self.agg(plain_aggregate("count").alias("count"), uid=uid)

    def sum(self, *columns: str, uid: str | None = None) -> T:
        """Return a row per group with the sums of columns; the sum of ``x`` is called ``sum(x)``.

        Args:
            columns: names of columns of numbers; none given: all such columns but event time.
            uid: names the state, as in :meth:`agg`.

        Raises:
            PlanError: a column is not there or has no numbers; none is given, and none has numbers.

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
        """Return a row per group with the least values of columns; that of ``x`` is called ``min(x)``.

        Args:
            columns: names of columns of numbers; none given: all such columns but event time.
            uid: names the state, as in :meth:`agg`; errors are those of :meth:`sum`.
        """
        return self._of_each("min", columns, uid)

    def max(self, *columns: str, uid: str | None = None) -> T:
        """Return a row per group with the greatest values of columns; that of ``x`` is called ``max(x)``.

        Arguments and errors are those of :meth:`sum`: by default all columns of numbers.
        """
        return self._of_each("max", columns, uid)

    def avg(self, *columns: str, uid: str | None = None) -> T:
        """Return a row per group with the means of columns; that of ``x`` is called ``avg(x)``.

        Arguments and errors are those of :meth:`sum`: by default all columns of numbers.
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
        if self._window.kind != "same":
            return []
        start = Reference(f"{self._window.time}.start")
        return [(WINDOW_START, resolved(self._child, "group_by", Call("unix_millis", (start,))))]

    def _plan(
        self, where: str, child: Relation, keys: list[tuple[str, Typed]], found: list[Aggregate],
        uid: str | None, columns: ColumnsOf = arguments_of,
    ) -> Aggregation:  # fmt: skip
        # The child computes only the keys, the aggregates' arguments and, for late rows, all columns.
        chosen, moved, sets = columns(keys, found)
        if not chosen:
            # A batch needs a column to have rows.
            chosen.append((child.schema.names[0], all_columns(child)[0][1]))
        theirs = [(name, column) for name, column in all_columns(child) if name not in self._made]
        if self._firing.late_tag is not None:
            chosen += [(f"{LATE_PREFIX}{name}", column) for name, column in theirs]
        narrow = projected("group_by", child, chosen)
        places = tuple(range(len(keys)))
        if self._window is NO_WINDOW:
            schema = running_schema(narrow.schema, places, moved)
        else:
            schema = aggregation_schema(narrow.schema, places, moved, self._window)
        if len(set(schema.names)) != len(schema.names):
            raise PlanError(f"{where}: two columns of the result have one name; use alias()")
        window, late = windowed(self._window), None
        if self._firing.late_tag is not None:
            late = Schema(
                tuple(each for each in child.schema if each.name not in self._made), child.schema.event_time
            )
        return Aggregation(
            schema, narrow, places, window, moved, uid, self._firing, late, ttl_ms=self._ttl_ms, distinct=sets
        )


def _named_keys(keys: list[tuple[str, Typed]]) -> list[tuple[str, Typed]]:
    return [(f"group/{number}", value) for number, (_, value) in enumerate(keys)]


def _window(key: Column, child: Relation) -> TimeWindow | None:
    expression = key.expression
    if isinstance(expression, TimeWindow):
        return expression
    time = child.schema.event_time
    if time is None or not isinstance(expression, Reference) or expression.name != time:
        return None
    of_windows = child.schema.fields[child.schema.place(time)].type == WINDOW
    return TimeWindow(expression, 0, 0, kind="same") if of_windows else None


def named_call(column: object, where: str) -> tuple[str, AggregateCall]:
    expression = column.expression if isinstance(column, Column) else None
    inner = expression.child if isinstance(expression, Alias) else expression
    if not isinstance(column, Column) or not isinstance(inner, AggregateCall):
        raise PlanError(
            f"{where} got {column!r:.80}; expected an aggregate, such as F.count('*'); what is computed of "
            "results goes into a select() after it"
        )
    name = shown_name(column)
    refuse_reserved((name,), where)
    return name, inner
