"""Calls of tables that join them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from headgate.api.site import user_site
from headgate.api.streams.async_calls import Retry
from headgate.api.streams.steps import ProgramContext
from headgate.api.tables.column import Column
from headgate.api.tables.joins.as_of_joins import as_of_join
from headgate.api.tables.joins.conditions import filtered
from headgate.api.tables.joins.interval_joins import interval_join
from headgate.api.tables.joins.kinds_and_bounds import Within, kind_of
from headgate.api.tables.joins.lookups import loading_of, lookup, refuse_loading
from headgate.api.tables.joins.regular_joins import check_several, regular_join
from headgate.api.tables.joins.split_keys import check_split, dealt_out, in_all_parts, without_part
from headgate.api.tables.joins.window_joins import joins_windows, window_join
from headgate.api.tables.lowering import lowered_join
from headgate.api.tables.program_functions import Columns
from headgate.common.errors import PlanError
from headgate.relational.joins.equal_joins import PART, Join, WindowJoin
from headgate.relational.joins.timed_joins import Direction, IntervalJoin, TimedJoin
from headgate.relational.relations import Relation, Scan

if TYPE_CHECKING:
    import pyarrow as pa


class JoinedTables:
    """Base class of tables: joins."""

    _environment: ProgramContext
    _relation: Relation

    @abstractmethod
    def _of(self, relation: Relation) -> Self:
        """Return a table of the same Environment for the plan `relation`."""

    def join(
        self,
        other: Self | Sequence[Self],
        on: str | Sequence[str],
        how: str = "inner",
        uid: str | None = None,
        *,
        within: Within | None = None,
        where: Column | None = None,
        ttl: str | int | None = None,
        split: int | None = None,
    ) -> Self:
        """Return the rows of this and the other table that have equal columns, in one of three ways.

        In windows, where `on` has one: a row goes out when event time passes the end of its window. In an
        interval of event time, with `within`: pairs go out at once, rows without partner when event time
        has passed them. In both, rows that come later are dropped and counted. With neither, all rows are
        kept for ever, and the result is corrected, unless it is an inner join of tables whose rows are
        not.

        Several other tables that have the columns of `on`, too, are joined at once: the result is that of
        one inner join after the other, but each table's rows are sent and kept once, rather than joined rows.

        The result has the columns of `on` (the window last), the others of this table and, but for "semi"
        and "anti", those of the other tables. With `within`, its event time is that of this table's row
        ("right": of the other's; "full": it has none), and its watermark lags by as much as rows may
        wait.

        Args:
            other: the other table, of the same Environment, or several of them.
            on: names of columns that all tables have.
            how: "inner", "left", "right", "full", "semi" or "anti", or PySpark's other names of these.
            uid: names the state for later versions of the program; needed when checkpoints are on.
            within: the other row's event time minus this row's, as (lower, upper), both included, in
                durations such as ("-5s", "1min") or ms; one duration is the upper bound, with 0 as the
                lower.
            where: a condition on the columns of both rows that partners have to meet, too; null is false.
            ttl: without a window and an interval: after so long without rows, of either table, a key is
                forgotten with its rows, as "1h" or in ms. None: never.
            split: into how many parts each key is split, for keys that have very many rows in this table:
                its rows are dealt out over the parts by a hash of all their columns, and each row of the
                other tables goes to every part. None: a key is in one subtask.

        Raises:
            PlanError: a column of `on` is not in all or cannot be a key, more than one is a window, `how` is
                unknown, windows may emit more than once, both tables have another column of one name, a table
                has no event time for `within`, `within` or `where` is wrong, `ttl` is given with a window or
                an interval, `split` with a window, `ttl`, "right" or "full", or several tables with a
                window, an interval, or another `how` than "inner".

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> def table(time, rows):
            ...     schema = pa.schema({"ad": pa.int64(), time: pa.int64()})
            ...     return env.from_collection(rows).with_event_time(time).to_table(schema)
            >>> shown = table("shown", [{"ad": 1, "shown": 1_000}, {"ad": 2, "shown": 2_000}])
            >>> clicks = table("clicked", [{"ad": 1, "clicked": 4_000}, {"ad": 2, "clicked": 9_000}])
            >>> both = shown.join(clicks, "ad", "left", uid="both", within="5s")
            >>> sorted(both.collect(), key=lambda row: row["ad"])
            [{'ad': 1, 'shown': 1000, 'clicked': 4000}, {'ad': 2, 'shown': 2000, 'clicked': None}]
        """
        names = [on] if isinstance(on, str) else list(on)
        others: Sequence[Self] = other if isinstance(other, Sequence) else [other]
        for each in others:
            self._same_environment("join", each)
        sides = [self._relation, *(each._relation for each in others)]
        windows = joins_windows(sides, names)
        check_several(sides, how, by_time=windows or within is not None)
        if ttl is not None and (windows or within is not None):
            raise PlanError(
                f"join() ({user_site()}) got ttl, and event time bounds what is kept; leave it away"
            )
        if split is not None:
            check_split(split, how, windows=windows and within is None, ttl=ttl is not None)
            sides = [dealt_out(sides[0], split), *(in_all_parts(each, split) for each in sides[1:])]
            names.append(PART)
        plan: WindowJoin | Join | TimedJoin
        only_pairs = kind_of(f"join() ({user_site()})", how) == "inner"
        of_partners = None if only_pairs else where
        if within is not None:
            plan, where = interval_join(sides, names, how, within, where, uid), None
        elif windows:
            plan = window_join(sides, names, how, uid, of_partners)
        else:
            plan = regular_join(sides, names, how, uid, ttl, of_partners)
        if split is not None and isinstance(plan, Join | IntervalJoin):
            plan = replace(plan, parts=split)
        number = lowered_join(self._environment, plan, f"join() ({user_site()})")
        joined: Relation = Scan(plan.schema, number)
        joined = filtered(joined, where) if where is not None and only_pairs else joined
        return self._of(joined if split is None else without_part(joined))

    def join_asof(
        self,
        other: Self,
        by: str | Sequence[str],
        how: str = "left",
        uid: str | None = None,
        *,
        direction: Direction = "backward",
        tolerance: str | int | None = None,
        exact: bool = True,
    ) -> Self:
        """Return each row of this table with the one row of the other that was there at its event time.

        That is the last row of the same key that is not later. With "inner" this is Flink's temporal join
        with a versioned table, whose rows are the versions of their key.

        A row goes out when the watermark of both tables has passed it, so that no nearer row can come;
        rows that come later are dropped and counted. Of each key the last row of the other table is kept
        for ever, unless there is a tolerance. A table that seldom has rows should have an `idleness`, or
        it holds all back.

        Args:
            other: the other table, of the same Environment.
            by: names of columns that both tables have, and that are equal.
            how: "left", or "inner", which leaves out rows for which there is none.
            uid: names the state for later versions of the program; needed when checkpoints are on.
            direction: "backward"; "forward": the next row that is not earlier; "nearest": the closer one
                of both, the earlier one if they are as close. Of several rows with one time the last that
                came counts.
            tolerance: how far apart in event time both may be, as a duration or in ms; None: any time,
                which only "backward" has.
            exact: whether a row of the same time counts.

        Raises:
            PlanError: a column of `by` is not in both or cannot be a key, a table has no event time, or
                rows that are corrected, both have another column of one name, or another argument is wrong.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> def table(time, rows, *columns):
            ...     schema = pa.schema({name: pa.int64() for name in ("id", time, *columns)})
            ...     return env.from_collection(rows).with_event_time(time).to_table(schema)
            >>> since = [{"id": 1, "since": 0, "rate": 7}, {"id": 1, "since": 50, "rate": 8}]
            >>> rates = table("since", since, "rate")
            >>> sales = table("at", [{"id": 1, "at": 40}, {"id": 1, "at": 60}])
            >>> [row["rate"] for row in sales.join_asof(rates, "id", uid="rated").collect()]
            [7, 8]
        """
        names, where = [by] if isinstance(by, str) else list(by), f"join_asof() ({user_site()})"
        self._same_environment("join_asof", other)
        sides = self._relation, other._relation
        plan = as_of_join(*sides, names, how, direction, tolerance, exact, uid)
        return self._of(Scan(plan.schema, lowered_join(self._environment, plan, where)))

    def lookup(
        self,
        table: pa.Table | Callable[[], pa.Table],
        on: str | Sequence[str],
        how: str = "inner",
        *,
        schema: Columns | None = None,
        refresh: str | int | None = None,
        retry: Retry | None = None,
    ) -> Self:
        """Return the rows of this table with those of `table` that have equal columns. Null equals nothing.

        Every subtask has all of `table`, as in Spark's broadcast join: no row of this table is sent to
        another subtask, and no state is kept. A table that is given never changes. A function is called by
        each subtask when it starts, and again every `refresh` in a thread; until it has returned, the rows of
        the call before are used. So what is found depends on when a row comes, also after a restart.

        Args:
            table: a ``pyarrow.Table``, such as ``dataframe.toArrow()``, which is shipped with the program; or
                a function without arguments that returns one.
            on: names of columns that both have.
            how: "inner", "left", "semi" or "anti".
            schema: the columns that the function returns, more of which are ignored: a ``pyarrow.Schema``, or
                text as "currency string, rate double".
            refresh: how often the function is called, as a duration or in ms; None: once.
            retry: ``hg.retry(...)`` says which exceptions of the function are followed by another call, and
                when; the job fails when all calls raise. None: three more calls, after 1 s, 2 s and 4 s.

        Raises:
            PlanError: a column of `on` is not in both or is of two types, `how` is another one, both have
                another column of one name, another argument is wrong or missing, or a function is to be
                called for a table whose rows are corrected.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> bids = env.from_collection([{"currency": "EUR", "price": 3}])
            >>> bids = bids.to_table(pa.schema({"currency": pa.string(), "price": pa.int64()}))
            >>> rates = pa.table({"currency": ["EUR"], "rate": [1.1]})
            >>> bids.lookup(rates, "currency").collect()
            [{'currency': 'EUR', 'price': 3, 'rate': 1.1}]
            >>> columns = "currency string, rate double"
            >>> bids.lookup(lambda: rates, "currency", schema=columns, refresh="10 minutes").collect()
            [{'currency': 'EUR', 'price': 3, 'rate': 1.1}]
        """
        names = [on] if isinstance(on, str) else list(on)
        if not callable(table):
            refuse_loading(schema, refresh)
            return self._of(lookup(self._relation, table, names, how))
        loading = loading_of(self._relation, table, schema, refresh, retry)
        return self._of(lookup(self._relation, loading.schema.empty_table(), names, how, loading))

    def _same_environment(self, verb: str, other: Self) -> None:
        if getattr(other, "_environment", None) is not self._environment:
            raise PlanError(
                f"{verb}() ({user_site()}) got {other!r}; expected a table of the same Environment"
            )
