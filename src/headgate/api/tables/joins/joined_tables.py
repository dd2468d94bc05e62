"""Calls of tables that join them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext
from headgate.api.tables.joins.lookups import lookup
from headgate.api.tables.joins.regular_joins import regular_join
from headgate.api.tables.joins.window_joins import joins_windows, window_join
from headgate.api.tables.lowering import lowered_join
from headgate.common.errors import PlanError
from headgate.relational.relations import Join, Relation, Scan, WindowJoin

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
        other: Self,
        on: str | Sequence[str],
        how: str = "inner",
        uid: str | None = None,
        ttl: str | int | None = None,
    ) -> Self:
        """Return the rows of this and the other table that have equal columns, in the same window if one of
        the columns is a window.

        With a window a row goes out when event time passes the end of its window; rows that come later are
        dropped and counted. Without one rows are kept for good, and the result of all but inner joins of
        tables that only grow is corrected. The result has the columns of `on` (the window last), the others
        of this table and, but for "semi" and "anti", those of the other table.

        Args:
            other: the other table, of the same Environment.
            on: names of columns that both tables have; one of them may be a window, as of an aggregation.
            how: "inner", "left", "right", "full", "semi" or "anti", or PySpark's other names of these.
            uid: names the state for later versions of the program; needed when checkpoints are on.
            ttl: without a window: after so long without rows, of either table, a key is forgotten with its
                rows, as "1h" or in ms. None: never.

        Raises:
            PlanError: a column of `on` is not in both or cannot be a key, two are windows, `how` is unknown,
                windows may emit more than once, or both tables have another column of one name; or `ttl` is
                given with a window.
        """
        names = [on] if isinstance(on, str) else list(on)
        if getattr(other, "_environment", None) is not self._environment:
            raise PlanError(f"join() ({user_site()}) got {other!r}; expected a table of the same Environment")
        sides = self._relation, other._relation
        windows = joins_windows(*sides, names)
        if windows and ttl is not None:
            raise PlanError(
                f"join() ({user_site()}) got ttl, and windows are forgotten when they end; leave it away"
            )
        plan: WindowJoin | Join = (
            window_join(*sides, names, how, uid) if windows else regular_join(*sides, names, how, uid, ttl)
        )
        number = lowered_join(self._environment, plan, f"join() ({user_site()})")
        return self._of(Scan(plan.schema, number))

    def lookup(self, table: pa.Table, on: str | Sequence[str], how: str = "inner") -> Self:
        """Return the rows of this table with those of `table` that have equal columns. `table` does not
        change, and every subtask has all of it, so nothing is kept and nothing is sent. Null equals nothing.

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
