"""The calls of tables that compare whole rows, or some columns, of one table or of two."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext
from headgate.api.tables.aggregate_functions import last
from headgate.api.tables.changelogs.duplicates import (
    Bounds,
    Keep,
    OrderBy,
    bounds_of,
    check_how,
    first_as_they_come,
    keyed,
    one_in_order,
)
from headgate.api.tables.changelogs.sets import set_operation
from headgate.api.tables.column import Column
from headgate.api.tables.grouped_table import GroupedTable
from headgate.api.tables.lowering import (
    lowered_aggregation,
    lowered_anew,
    lowered_deduplicate,
    lowered_rank,
)
from headgate.api.tables.selecting import selected
from headgate.common.errors import PlanError
from headgate.relational.expressions import Reference
from headgate.relational.relations import Copies, Relation, Scan
from headgate.relational.schema import shown


class SetOperations:
    """Base class of tables: rows without duplicates, and rows of two tables compared."""

    _environment: ProgramContext
    _relation: Relation

    @abstractmethod
    def _of(self, relation: Relation) -> Self:
        """Return a table of the same Environment for the plan `relation`."""

    def distinct(self, *, ttl: str | int | None = None, uid: str | None = None) -> Self:
        """Return the different rows. Null is equal to null, NaN to NaN and 0.0 to -0.0.

        A row goes out at once when it comes for the first time, unless rows of this table are corrected: then
        the result is corrected, too.

        Args:
            ttl: after so long without such a row it is forgotten, as "1h" or in ms; None: never.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: a column is an array, a map or a struct, or `ttl` is no duration.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> rows = env.from_collection([{"k": 1}, {"k": None}, {"k": 1}, {"k": None}])
            >>> rows.to_table(pa.schema({"k": pa.int64()})).distinct(uid="distinct").collect()
            [{'k': 1}, {'k': None}]
        """
        if self._relation.schema.updating:
            return self._counted("distinct", "distinct", None, uid, ttl)
        return self._first("distinct", None, bounds_of(self._relation, None, ttl), uid)

    def drop_duplicates(
        self,
        subset: Sequence[str] | None = None,
        keep: Keep = "first",
        order_by: OrderBy | None = None,
        within: str | int | None = None,
        *,
        ttl: str | int | None = None,
        uid: str | None = None,
    ) -> Self:
        """Return one of the rows that have equal columns `subset`; null is equal to null.

        The first row goes out once, as it comes, and keeps its event time. The last row, or one in an order,
        is corrected as more rows come.

        Args:
            subset: names of columns; None: all.
            keep: "first" or "last".
            order_by: columns that say which row is first, as ``F.asc("at")``; of equal rows it is the one
                that came earlier. None: the order in which rows come.
            within: for how much event time a row is a duplicate of the one that was sent, as "10min" or in
                ms: a key is forgotten when the watermark has passed it by so much. Rows that the watermark
                has passed are dropped and counted. None: for ever.
            ttl: after so long without rows a key is forgotten, by the wall clock; None: never.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: a column does not exist or is an array, a map or a struct; rows of the table are
                corrected and there is no `order_by`; `within` goes with something else, or the table has no
                event time.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> import headgate.functions as F
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> rows = env.from_collection([{"k": 1, "at": 5}, {"k": 1, "at": 9}, {"k": 1, "at": 7}])
            >>> table = rows.to_table(pa.schema({"k": pa.int64(), "at": pa.int64()}))
            >>> table.drop_duplicates(["k"], uid="first").collect()
            [{'k': 1, 'at': 5}]
            >>> table.drop_duplicates(["k"], keep="last", uid="last").collect()
            [{'k': 1, 'at': 7}]
            >>> table.drop_duplicates(["k"], "last", F.asc("at"), uid="latest").collect()
            [{'k': 1, 'at': 9}]
        """
        bounds = bounds_of(self._relation, within, ttl)
        check_how(self._relation, keep, order_by, bounds)
        if order_by is not None:
            return self._in_order(subset, keep, order_by, bounds, uid)
        if keep == "last":
            return self._last(subset, ttl, uid)
        return self._first("drop_duplicates", subset, bounds, uid)

    def dropDuplicates(  # noqa: N802  # PySpark's name
        self, subset: Sequence[str] | None = None, *, uid: str | None = None
    ) -> Self:
        """Return :meth:`drop_duplicates` of the columns `subset`; PySpark's name of that call."""
        return self.drop_duplicates(subset, uid=uid)

    def intersect(self, other: Self, *, ttl: str | int | None = None, uid: str | None = None) -> Self:
        """Return the different rows that are in both tables, corrected as rows come. Columns go together by
        place, with the names of this table; null is equal to null.

        Args:
            other: a table of the same Environment.
            ttl: after so long without such a row, on either side, it is forgotten; None: never.
            uid: names the state for later versions of the program; needed when checkpoints are on.

        Raises:
            PlanError: `other` is no table of this Environment, columns differ in number or type, or one is an
                array, a map or a struct.

        Example:
            >>> import pyarrow as pa
            >>> import headgate as hg
            >>> from headgate.testing import MiniCluster
            >>> env = hg.Environment(parallelism=1, executor=MiniCluster())
            >>> some, others = (
            ...     env.from_collection([{"k": k} for k in ks]).to_table(pa.schema({"k": pa.int64()}))
            ...     for ks in ((1, 1, 2, 3), (1, 1, 3))
            ... )
            >>> sorted(row["k"] for row in some.intersect(others, uid="a").collect())
            [1, 3]
            >>> sorted(row["k"] for row in some.intersect_all(others, uid="b").collect())
            [1, 1, 3]
            >>> [row["k"] for row in some.subtract(others, uid="c").collect()]
            [2]
        """
        return self._counted("intersect", "intersect", other, uid, ttl)

    def intersect_all(self, other: Self, *, ttl: str | int | None = None, uid: str | None = None) -> Self:
        """Return the rows that are in both tables, each as often as in the one where it is less often;
        arguments and errors are those of :meth:`intersect`.
        """
        return self._counted("intersect_all", "intersect_all", other, uid, ttl)

    intersectAll = intersect_all  # noqa: N815  # PySpark's name

    def subtract(self, other: Self, *, ttl: str | int | None = None, uid: str | None = None) -> Self:
        """Return the different rows of this table that are not in the other one, as EXCEPT of SQL; arguments
        and errors are those of :meth:`intersect`.
        """
        return self._counted("subtract", "subtract", other, uid, ttl)

    def except_all(self, other: Self, *, ttl: str | int | None = None, uid: str | None = None) -> Self:
        """Return the rows of this table, each as many times as it is here more often than in the other one;
        arguments and errors are those of :meth:`intersect`.
        """
        return self._counted("except_all", "except_all", other, uid, ttl)

    exceptAll = except_all  # noqa: N815  # PySpark's name

    def _counted(
        self, verb: str, copies: Copies, other: Self | None, uid: str | None, ttl: str | int | None
    ) -> Self:
        if other is not None and getattr(other, "_environment", None) is not self._environment:
            raise PlanError(
                f"{verb}() ({user_site()}) got {other!r}; expected a table of the same Environment"
            )
        right = None if other is None else other._relation
        plan, given = set_operation(verb, copies, self._relation, right, uid, ttl)
        number = lowered_aggregation(self._environment, plan)
        return self._of(selected(verb, Scan(plan.schema, number, plan), list(given.items())))

    def _first(self, verb: str, subset: Sequence[str] | None, bounds: Bounds, uid: str | None) -> Self:
        plan = first_as_they_come(self._relation, subset, bounds, uid)
        number = lowered_deduplicate(self._environment, plan, f"{verb}() ({user_site()})")
        return self._of(Scan(plan.schema, number))

    def _in_order(
        self, subset: Sequence[str] | None, keep: Keep, order_by: OrderBy, bounds: Bounds, uid: str | None
    ) -> Self:
        plan = one_in_order(self._relation, subset, keep, order_by, bounds, uid)
        lower = lowered_anew if plan.child.schema.updating else lowered_rank
        number = lower(self._environment, plan, f"drop_duplicates() ({user_site()})")
        return self._of(selected("drop_duplicates", Scan(plan.schema, number), self._given()))

    def _last(self, subset: Sequence[str] | None, ttl: str | int | None, uid: str | None) -> Self:
        rows, keys = keyed("drop_duplicates", self._relation, subset)
        names = [Column(Reference(name)) for name, _ in keys.columns]
        grouped = GroupedTable(self._environment, rows, names, self._of)
        found = grouped.agg(*(last(name).alias(name) for name, _ in self._given()), uid=uid, ttl=ttl)
        return self._of(selected("drop_duplicates", found._relation, self._given()))

    def _given(self) -> list[tuple[str, Reference]]:
        return [(field.name, Reference(field.name)) for field in shown(self._relation.schema)]
