"""The call of tables that finds patterns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Self

from headgate.api.patterns.table_patterns import matched
from headgate.api.site import user_site
from headgate.api.streams.steps import ProgramContext
from headgate.api.tables.changelogs.duplicates import keyed
from headgate.api.tables.column import Column
from headgate.api.tables.lowering import lowered_match
from headgate.api.tables.ranking.ordering import Ordered
from headgate.api.tables.selecting import selected
from headgate.relational.expressions import Reference
from headgate.relational.relations import Relation, Scan


class MatchedTables:
    """Base class of tables: matches of patterns among the rows of a key."""

    _environment: ProgramContext
    _relation: Relation

    @abstractmethod
    def _of(self, relation: Relation) -> Self:
        """Return a table of the same Environment for the plan `relation`."""

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
        null_keys: bool = False,
    ) -> Self:
        """Return a row for each match of a pattern among the rows of a key, as SQL's MATCH_RECOGNIZE.

        Rows of a key are matched in the order of event time, once the watermark has passed it; of rows that
        are equal in that the one that came earlier is first. Late rows are counted and dropped. A match
        begins at the first row that it can begin at, and follows the pattern in the order of preference. Its
        row is emitted when no preferred way is left, at the event time of the row, or of the end of
        `within`, by which that is known.

        In `define` a plain column is of the row in question; in `measures`, of the match's last row.
        ``F.col("A.price")`` is of the last row of A so far, ``F.first("A.price")`` of its first row,
        ``F.avg("A.price")`` and other aggregates are of all its rows so far; see also
        :mod:`headgate.patterns`.

        Args:
            by: names of the columns that all rows of a match have in common.
            pattern: variables in sequence, such as ``"A B* (C | D){2,} E+?"``, with ``? * + {n} {n,m}``, each
                as often as possible, or with another ``?`` as rarely as possible, ``|`` and parentheses.
            define: variable -> the condition of its rows; any row will do for one that is left out.
            measures: name -> value, the columns of the result after those of `by`.
            within: the last row comes less than so long after the first one; "5s", or ms. None: at any time.
                It bounds how long rows are kept.
            skip: where the search goes on after a match: "past last row", "to next row" (that after the
                match's first), or "to first A", "to last A" with a variable.
            order_by: columns that order the rows of one time, as ``F.desc("price")``, before their order of
                coming.
            uid: names the state for later versions of the program; needed when checkpoints are on.
            null_keys: null, and NaN, are keys like others, as in SQL; False: a row with such a key fails the
                job.

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
            >>> before = F.when(F.count("DOWN.v") > 1, P.last("DOWN.v", 1)).otherwise(F.col("TOP.v"))
            >>> shown = {"lowest": F.min("DOWN.v"), "end": F.col("UP.v")}
            >>> table.match("k", "TOP DOWN+ UP", {"DOWN": F.col("v") < before}, shown).collect()
            [{'k': 'a', 'lowest': 4, 'end': 6}]
        """
        names = [by] if isinstance(by, str) else list(by)
        rows, keys = keyed("match", self._relation, names) if null_keys else (self._relation, None)
        by = names if keys is None else [name for name, _ in keys.columns]
        plan = matched(rows, by, order_by, pattern, define, measures, within, skip, uid)
        number = lowered_match(self._environment, plan, f"match() ({user_site()})")
        found = Scan(plan.schema, number)
        if keys is None:
            return self._of(found)
        results = [(name, Reference(name)) for name in plan.schema.names[len(by) :]]
        return self._of(selected("match", found, [*keys.given.items(), *results]))
