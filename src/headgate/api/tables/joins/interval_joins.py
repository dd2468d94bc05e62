"""Joins of tables whose rows are close in event time: checks them, and makes their plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from headgate.api.site import user_site
from headgate.api.tables.checked_columns import resolved
from headgate.api.tables.column import Column
from headgate.api.tables.joins.sides import Sides
from headgate.api.tables.joins.window_joins import kind_of
from headgate.common.errors import PlanError
from headgate.common.time import duration_ms
from headgate.relational.joins.timed_joins import IntervalJoin
from headgate.relational.relations import Filter, JoinKind, Relation
from headgate.relational.resolved import PythonApply, Typed, parts_of
from headgate.relational.schema import Schema
from headgate.relational.spark_types import text_of

Within: TypeAlias = "str | int | tuple[str | int, str | int]"
"""An interval of event time: its bounds, or only the upper one, with 0 as the lower."""


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


def bounds_of(where: str, within: Within) -> tuple[int, int]:
    """Return the bounds of an interval in ms; PlanError, after `where`, if it is none.

    Example:
        >>> bounds_of("join()", ("-5s", "1min")), bounds_of("join()", "5s")
        ((-5000, 60000), (0, 5000))
    """
    both = within if isinstance(within, tuple) else (0, within)
    if len(both) != 2:
        raise PlanError(f"{where} got within={within!r}; expected an upper bound, or (lower, upper)")
    try:
        lower, upper = (_signed_ms(each) for each in both)
    except (TypeError, ValueError) as error:
        raise PlanError(f"{where}: {error}") from None
    if lower > upper:
        raise PlanError(f"{where} got within={within!r}, an interval without times; expected (lower, upper)")
    return lower, upper


def _signed_ms(bound: str | int) -> int:
    if isinstance(bound, str) and bound.lstrip().startswith("-"):
        return -duration_ms(bound.lstrip()[1:], "a bound of within")
    if isinstance(bound, int) and bound < 0:
        return bound
    return duration_ms(bound, "a bound of within")


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
