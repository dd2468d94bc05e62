"""Joins of tables whose rows are close in event time: checks them, and makes their plan."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.api.tables.column import Column
from headgate.api.tables.joins.conditions import residual_of
from headgate.api.tables.joins.kinds_and_bounds import Within, bounds_of, kind_of
from headgate.api.tables.joins.sides import Sides
from headgate.relational.joins.timed_joins import IntervalJoin
from headgate.relational.relations import Relation


def interval_join(
    tables: Sequence[Relation],
    on: Sequence[str],
    how: str,
    within: Within,
    condition: Column | None,
    uid: str | None,
) -> IntervalJoin:
    """Return the plan of a join of two tables by the equal columns `on` and the interval `within`, for
    :meth:`Table.join`.

    `condition` is of the columns of both sides; None: there is none. PlanError: a column, `how`, the interval
    or the condition is wrong, a table has no event time, or two other columns share a name.
    """
    left, right = tables
    sides = Sides("join", left, right, on)
    kind = kind_of(sides.where, how)
    lower, upper = bounds_of(sides.where, within)
    # A semi join may share names with the other table, unless a condition has to tell them apart.
    pairs = sides.schema("inner" if kind not in ("semi", "anti") or condition is not None else kind)
    residual = None if condition is None else residual_of(sides.where, pairs, condition)
    inputs = sides.inputs(kind)
    return IntervalJoin(sides.schema(kind), *inputs, sides.keys, kind, uid, lower, upper, pairs, residual)
