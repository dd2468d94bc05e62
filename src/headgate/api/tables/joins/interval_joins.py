"""Joins of tables whose rows are close in event time: checks them, and makes their plan."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headgate.api.site import user_site
from headgate.api.tables.checked_columns import resolved
from headgate.api.tables.column import Column
from headgate.api.tables.joins.kinds_and_bounds import Within, bounds_of, kind_of
from headgate.api.tables.joins.sides import Sides
from headgate.common.errors import PlanError
from headgate.relational.joins.timed_joins import IntervalJoin
from headgate.relational.relations import Filter, JoinKind, Relation
from headgate.relational.resolved import PythonApply, Typed, parts_of
from headgate.relational.schema import Schema
from headgate.relational.spark_types import text_of


def interval_join(
    left: Relation,
    right: Relation,
    on: Sequence[str],
    how: str,
    within: Within,
    condition: Column | None,
    uid: str | None,
) -> IntervalJoin:
    """Return the plan of a join by the equal columns `on` and the interval `within`, for :meth:`Table.join`.

    `condition` is of the columns of both sides; None: there is none. PlanError: a column, `how`, the interval
    or the condition is wrong, a table has no event time, or two other columns share a name.
    """
    sides = Sides("join", left, right, on)
    kind = kind_of(sides.where, how)
    lower, upper = bounds_of(sides.where, within)
    # A semi join may share names with the other table, unless a condition has to tell them apart.
    pairs = sides.schema("inner" if kind not in ("semi", "anti") or condition is not None else kind)
    residual = None if condition is None else _residual(sides.where, pairs, condition)
    inputs = sides.inputs(kind)
    return IntervalJoin(sides.schema(kind), *inputs, sides.keys, kind, uid, lower, upper, pairs, residual)


def _residual(where: str, pairs: Schema, condition: Column) -> Typed:
    found = _condition(where, Relation(pairs), condition)
    if any(isinstance(part, PythonApply) for part in parts_of(found)):
        raise PlanError(
            f"{where}: where= calls a function of the program; compute its result as a column of one of the "
            "tables before the join, or, after an inner join, filter by it"
        )
    return found


def _condition(where: str, rows: Relation, condition: Column) -> Typed:
    if not isinstance(condition, Column):
        raise PlanError(f"{where} got where={condition!r:.80}; expected a condition, as in F.col('n') > 3")
    found = resolved(rows, "join", condition.expression)
    if found.type != pa.bool_():
        raise PlanError(f"{where}: where= is {found}, which is {text_of(found.type)}; expected a condition")
    return found


def filtered(joined: Relation, condition: Column) -> Filter:
    """Return the pairs of an inner join for which `condition` is true; PlanError: it is none."""
    return Filter(joined.schema, joined, _condition(f"join() ({user_site()})", joined, condition))


def check_residual(kind: JoinKind, condition: Column | None) -> None:
    """Raise PlanError if a join of this kind without an interval has a condition besides equal columns."""
    if condition is not None and kind != "inner":
        raise PlanError(
            f"join() ({user_site()}): where= of a join of kind {kind!r} needs within=, an interval of event "
            "time; filter the tables before the join, or make it an inner join"
        )
