"""Calls of tables whose results depend on an order of rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Self

from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext
from headgate.api.tables.changelogs.duplicates import keyed
from headgate.api.tables.column import Column
from headgate.api.tables.firing_rules import time_to_live
from headgate.api.tables.grouped_table import named_call
from headgate.api.tables.lowering import lowered_anew, lowered_rank
from headgate.api.tables.ranking.ordering import Ordered
from headgate.api.tables.ranking.ranks import over, ranked
from headgate.api.tables.selecting import only
from headgate.relational.relations import Relation, Scan
from headgate.relational.schema import shown


class RankedTables:
    """Base class of tables: the first rows of each key, and aggregates over the rows before a row."""

    _environment: ProgramContext
    _relation: Relation

    @abstractmethod
    def _of(self, relation: Relation) -> Self:
        """Return a table of the same Environment for the plan `relation`."""

    def top_n(
        self,
        n: int,
        by: str | Sequence[str],
        order_by: Sequence[Ordered | Column | str] | Ordered | Column | str,
        rank: str | None = None,
        uid: str | None = None,
        ttl: str | int | None = None,
        null_keys: bool = False,
    ) -> Self:
        """Return the first `n` rows of each key; they are corrected as more rows come.

        Args:
            n: how many rows of a key there are at most.
            by: the key: names of columns.
            order_by: columns, as ``F.desc("price")``; of equal rows the one that came earlier is first, or of
                a table whose rows are corrected the one whose columns are less.
            rank: name of a column for the rows' places, from 1; None: there is none.
            uid: names the state for later versions of the program; needed when checkpoints are on.
            ttl: after so long without rows a key is forgotten, as "1h" or in ms: the result stays as it is,
                and rows that come for it later begin anew. None: never.
            null_keys: null, and NaN, are keys like others, as in SQL; False: a row with such a key fails the
                job.

        Raises:
            PlanError: a column does not exist, cannot be a key or has no order, or `ttl` is no duration.

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
        child, names = self._by("top_n", by, null_keys)
        plan = ranked("top_n", child, n, names, order_by, rank, uid, time_to_live("top_n", ttl))
        lower = lowered_anew if plan.child.schema.updating else lowered_rank
        number = lower(self._environment, plan, f"top_n() ({user_site()})")
        return self._of(only("top_n", Scan(plan.schema, number), plan.shown(self._names())))

    def over(
        self,
        *aggregates: Column,
        by: str | Sequence[str],
        order_by: Sequence[Ordered | Column | str] | Ordered | Column | str,
        preceding: int | None = None,
        uid: str | None = None,
        ttl: str | int | None = None,
        null_keys: bool = False,
    ) -> Self:
        """Return all rows, each with aggregates over itself and rows of its key before it; they are
        corrected as more rows come. All rows are kept, and those of a key are computed anew when one of them
        changes.

        Args:
            aggregates: such as ``F.avg("price").alias("mean")``.
            by: the key: names of columns.
            order_by: columns, as ``F.desc("price")``; of equal rows the one whose columns are less is first.
            preceding: over how many rows before a row; None: over all.
            uid: names the state for later versions of the program; needed when checkpoints are on.
            ttl: after so long without rows a key is forgotten, as "1h" or in ms: the result stays as it is,
                and rows that come for it later begin anew. None: never.
            null_keys: null, and NaN, are keys like others, as in SQL; False: a row with such a key fails the
                job.

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
        child, names = self._by("over", by, null_keys)
        plan = over(child, names, order_by, preceding, calls, uid, time_to_live("over", ttl))
        number = lowered_anew(self._environment, plan, where)
        results = [each.name for each in plan.aggregates]
        return self._of(only("over", Scan(plan.schema, number), [*self._names(), *results]))

    def _by(self, verb: str, by: str | Sequence[str], null_keys: bool) -> tuple[Relation, list[str]]:
        """Return the rows and their keys' names, which are columns of their own where keys may be null."""
        names = [by] if isinstance(by, str) else list(by)
        if not null_keys or not names:
            return self._relation, names
        rows, keys = keyed(verb, self._relation, names)
        return rows, [name for name, _ in keys.columns]

    def _names(self) -> list[str]:
        return [field.name for field in shown(self._relation.schema)]
